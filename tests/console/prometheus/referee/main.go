// Answers PromQL with Prometheus' own engine: samples and queries as JSON on standard input, one JSON answer a line.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

type input struct {
	Series []struct {
		Labels  map[string]string `json:"labels"`
		Samples [][2]string       `json:"samples"` // milliseconds and a value
		Stale   []int64           `json:"stale"`   // milliseconds of stale markers
	} `json:"series"`
	Queries []struct {
		Query            string `json:"query"`
		Start, End, Step int64  // milliseconds
	} `json:"queries"`
}

type line struct {
	Labels map[string]string `json:"labels"`
	Values [][2]string       `json:"values"`
}

type answer struct {
	Error  string `json:"error,omitempty"`
	Result []line `json:"result"`
}

func main() {
	var given input
	check(json.NewDecoder(os.Stdin).Decode(&given))
	folder, err := os.MkdirTemp("", "referee")
	check(err)
	defer os.RemoveAll(folder)
	options := tsdb.DefaultOptions()
	options.OutOfOrderTimeWindow = 1 << 40
	db, err := tsdb.Open(folder, slog.New(slog.DiscardHandler), nil, options, nil)
	check(err)
	for _, one := range given.Series {
		appender := db.Appender(context.Background())
		named := labels.FromMap(one.Labels)
		for _, sample := range one.Samples {
			at, err := strconv.ParseInt(sample[0], 10, 64)
			check(err)
			held, err := strconv.ParseFloat(sample[1], 64)
			check(err)
			_, err = appender.Append(0, named, at, held)
			check(err)
		}
		for _, at := range one.Stale {
			_, err = appender.Append(0, named, at, math.Float64frombits(value.StaleNaN))
			check(err)
		}
		check(appender.Commit())
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableNegativeOffset: true,
	})
	for _, asked := range given.Queries {
		check(json.NewEncoder(os.Stdout).Encode(run(engine, db, asked.Query, asked.Start, asked.End, asked.Step)))
	}
}

func run(engine *promql.Engine, db *tsdb.DB, text string, start, end, step int64) answer {
	query, err := engine.NewRangeQuery(context.Background(), db, nil, text, time.UnixMilli(start), time.UnixMilli(end), time.Duration(step)*time.Millisecond)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer query.Close()
	done := query.Exec(context.Background())
	if done.Err != nil {
		return answer{Error: done.Err.Error()}
	}
	found := answer{Result: []line{}}
	for _, series := range done.Value.(promql.Matrix) {
		shown := line{Labels: series.Metric.Map()}
		for _, point := range series.Floats {
			shown.Values = append(shown.Values, [2]string{strconv.FormatInt(point.T, 10), strconv.FormatFloat(point.F, 'g', -1, 64)})
		}
		found.Result = append(found.Result, shown)
	}
	return found
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
