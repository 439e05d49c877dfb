package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

const (
	pods     = 1000
	interval = 30_000
	lead     = 600_000
	hours2   = 7_200_000
)

func runBench(engine *promql.Engine, db *tsdb.DB, rounds int) {
	runtime.GOMAXPROCS(1)
	app := db.Appender(context.Background())
	counter := func(perSample float64, pairs ...string) {
		l := labels.FromStrings(pairs...)
		for i := int64(0); i*interval <= lead+hours2; i++ {
			_, err := app.Append(0, l, i*interval, float64(i)*perSample)
			check(err)
		}
	}
	for pod := range pods {
		name := fmt.Sprintf("app-%04d", pod)
		for _, container := range []string{"app", "proxy", "sidecar"} {
			for _, metric := range []string{"http_requests_total", "http_responses_total"} {
				counter(1+float64(pod)/100, "__name__", metric, "pod", name, "container", container)
			}
		}
		counter(0, "__name__", "pod_info", "pod", name, "node", fmt.Sprintf("node-%d", pod%20))
		for cpu := range 10 {
			counter(2, "__name__", "wide_total", "pod", name, "cpu", strconv.Itoa(cpu))
		}
	}
	bounds := []string{"0.005", "0.01", "0.05", "0.1", "0.5", "1", "2.5", "5", "10", "+Inf"}
	for pod := range 3 * pods / len(bounds) {
		for n, le := range bounds {
			counter(float64(n+1)*(1+float64(pod)/100), "__name__", "http_response_seconds_bucket", "pod", fmt.Sprintf("app-%04d", pod), "le", le)
		}
	}
	check(app.Commit())
	whole := func(q string) query { return query{q, lead, lead + hours2, 30_000} }
	shapes := []struct {
		name string
		query
	}{
		{"rate", whole("rate(http_requests_total[1m])")},
		{"sum by rate", whole("sum by (pod) (rate(http_requests_total[1m]))")},
		{"histogram_quantile", whole("histogram_quantile(0.9, rate(http_response_seconds_bucket[1m]))")},
		{"one to one join", whole("http_requests_total / on (pod, container) http_responses_total")},
		{"many to one join", whole("http_requests_total * on (pod) group_left (node) pod_info")},
		{"instant over 10,000 series", query{"sum by (pod) (rate(wide_total[1m]))", lead + hours2, 0, 0}},
	}
	for _, shape := range shapes {
		var total time.Duration
		for range rounds {
			runtime.GC()
			begin := processorTime()
			_, err := exec(engine, db, shape.query)
			check(err)
			total += processorTime() - begin
		}
		mean := float64(total) / float64(rounds)
		fmt.Printf("%-28s %10.3f\n", shape.name, mean/1e6)
	}
}

// processorTime is what the process has used of the processor, so that waiting for a busy one does not count.
func processorTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
