// The OpenTelemetry SDK of Node: spans to a collector of Moulin. The endpoint and token come from the environment:
//   OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
//   OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer ing_..."
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "checkout-node" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register(); // spans know the span that is active around them
const tracer = provider.getTracer("recipe");

tracer.startActiveSpan("order", (order) => {
  order.setAttribute("order.id", 42);
  tracer.startActiveSpan("pay", (pay) => pay.end());
  order.end();
});

await provider.shutdown(); // sends what waits
