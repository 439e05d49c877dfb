// The oracle: Prometheus's own engine over Prometheus's own storage, driven by JSON.
//
// Without arguments it reads series and queries from standard input and prints what Prometheus answers to each query.
// With -serve it reads series, prints an address and answers Prometheus's HTTP API there until it is killed.
// With -bench it fills its storage with the data of examples/engine_bench.rs and prints how long each shape takes on one core.
//
// Run from tools/prometheus, whose go.mod pins the version: go run ../../tests/oracle/go/prometheus/*.go
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

type input struct {
	Series  []series `json:"series"`
	Queries []query  `json:"queries"`
}

type series struct {
	Labels map[string]string `json:"labels"`
	Times  []int64           `json:"times"`
	// The bits of each value, since JSON has no NaN and no infinities.
	Bits []string `json:"bits"`
}

type query struct {
	Query string `json:"query"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	// Zero for an instant query at Start.
	Step int64 `json:"step"`
}

type answer struct {
	Error    string         `json:"error,omitempty"`
	Kind     string         `json:"kind,omitempty"`
	Series   []answerSeries `json:"series"`
	Warnings int            `json:"warnings"`
	Infos    int            `json:"infos"`
}

type answerSeries struct {
	Labels map[string]string `json:"labels"`
	Times  []int64           `json:"times"`
	Bits   []string          `json:"bits"`
}

func main() {
	log.SetFlags(0)
	bench := flag.Int("bench", 0, "time each shape this many times, in place of answering queries")
	serve := flag.Bool("serve", false, "answer over HTTP, in place of answering queries")
	flag.Parse()
	dir, err := os.MkdirTemp("", "oracle")
	check(err)
	defer os.RemoveAll(dir)
	options := tsdb.DefaultOptions()
	// One block holds everything, so that samples may come in any order of series.
	options.MinBlockDuration = int64(24 * time.Hour / time.Millisecond)
	options.MaxBlockDuration = options.MinBlockDuration
	options.RetentionDuration = 0
	db, err := tsdb.Open(dir, nil, nil, options, nil)
	check(err)
	defer db.Close()
	db.DisableCompactions()
	queryParser := parser.NewParser(parser.Options{
		EnableExperimentalFunctions: true,
		EnableBinopFillModifiers:    true,
	})
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples:               50_000_000,
		Timeout:                  time.Hour,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		EnableDelayedNameRemoval: true,
		Parser:                   queryParser,
	})
	if *bench > 0 {
		runBench(engine, db, *bench)
		return
	}
	var in input
	check(json.NewDecoder(os.Stdin).Decode(&in))
	app := db.Appender(context.Background())
	for _, s := range in.Series {
		l := labels.FromMap(s.Labels)
		for i, t := range s.Times {
			bits, err := strconv.ParseUint(s.Bits[i], 16, 64)
			check(err)
			_, err = app.Append(0, l, t, math.Float64frombits(bits))
			check(err)
		}
	}
	check(app.Commit())
	if *serve {
		serveHTTP(engine, db, queryParser)
		return
	}
	answers := make([]answer, 0, len(in.Queries))
	for _, q := range in.Queries {
		answers = append(answers, ask(engine, db, q))
	}
	check(json.NewEncoder(os.Stdout).Encode(answers))
}

func ask(engine *promql.Engine, q storage.Queryable, asked query) answer {
	result, err := exec(engine, q, asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	var out answer
	out.Warnings, out.Infos = result.Warnings.CountWarningsAndInfo()
	out.Kind = string(result.Value.Type())
	switch value := result.Value.(type) {
	case promql.Scalar:
		out.Series = []answerSeries{{Times: []int64{value.T}, Bits: []string{bits(value.V)}}}
	case promql.Vector:
		for _, s := range value {
			out.Series = append(out.Series, answerSeries{s.Metric.Map(), []int64{s.T}, []string{bits(s.F)}})
		}
	case promql.Matrix:
		for _, s := range value {
			one := answerSeries{Labels: s.Metric.Map()}
			for _, p := range s.Floats {
				one.Times = append(one.Times, p.T)
				one.Bits = append(one.Bits, bits(p.F))
			}
			out.Series = append(out.Series, one)
		}
	}
	return out
}

func exec(engine *promql.Engine, queryable storage.Queryable, asked query) (*promql.Result, error) {
	ctx := context.Background()
	var (
		q   promql.Query
		err error
	)
	if asked.Step == 0 {
		q, err = engine.NewInstantQuery(ctx, queryable, nil, asked.Query, time.UnixMilli(asked.Start))
	} else {
		step := time.Duration(asked.Step) * time.Millisecond
		q, err = engine.NewRangeQuery(ctx, queryable, nil, asked.Query, time.UnixMilli(asked.Start), time.UnixMilli(asked.End), step)
	}
	if err != nil {
		return nil, err
	}
	result := q.Exec(ctx)
	return result, result.Err
}

func bits(f float64) string {
	return strconv.FormatUint(math.Float64bits(f), 16)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
