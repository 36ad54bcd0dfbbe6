// Prints OTLP spans, an ExportTraceServiceRequest on standard input, as Jaeger's own code shows them: one JSON trace a line.
package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/jaegertracing/jaeger/model"
	convert "github.com/jaegertracing/jaeger/model/converter/json"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/translator/jaeger"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

func main() {
	data, err := io.ReadAll(os.Stdin)
	check(err)
	request := ptraceotlp.NewExportRequest()
	check(request.UnmarshalProto(data))
	traces := map[model.TraceID]*model.Trace{}
	for _, batch := range jaeger.ProtoFromTraces(request.Traces()) {
		for _, span := range batch.Spans {
			if span.Process == nil {
				span.Process = batch.Process
			}
			if traces[span.TraceID] == nil {
				traces[span.TraceID] = &model.Trace{}
			}
			traces[span.TraceID].Spans = append(traces[span.TraceID].Spans, span)
		}
	}
	for _, trace := range traces {
		check(json.NewEncoder(os.Stdout).Encode(convert.FromDomain(trace)))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
