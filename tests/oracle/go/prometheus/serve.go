package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/route"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/features"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

// nothing is what a Prometheus without targets, rules and alertmanagers retrieves.
type nothing struct{}

func (nothing) ScrapePools() []string                                 { return []string{} }
func (nothing) TargetsActive() map[string][]*scrape.Target            { return nil }
func (nothing) TargetsDropped() map[string][]*scrape.Target           { return nil }
func (nothing) TargetsDroppedCounts() map[string]int                  { return map[string]int{} }
func (nothing) ScrapePoolConfig(string) (*config.ScrapeConfig, error) { return nil, nil }
func (nothing) RuleGroups() []*rules.Group                            { return nil }
func (nothing) AlertingRules() []*rules.AlertingRule                  { return nil }
func (nothing) Alertmanagers() []*url.URL                             { return nil }
func (nothing) DroppedAlertmanagers() []*url.URL                      { return nil }

// described is the database with what Prometheus's own main adds to it.
type described struct{ *tsdb.DB }

func (d described) Stats(label string, limit int) (*tsdb.Stats, error) {
	return d.Head().Stats(label, limit), nil
}
func (d described) WALReplayStatus() (tsdb.WALReplayStatus, error) { return tsdb.WALReplayStatus{}, nil }
func (d described) BlockMetas() ([]tsdb.BlockMeta, error)          { return d.DB.BlockMetas(), nil }

func serveHTTP(engine *promql.Engine, db *tsdb.DB, queryParser parser.Parser) {
	ready := func(f http.HandlerFunc) http.HandlerFunc { return f }
	api := v1.NewAPI(
		engine, db, nil, nil, db,
		func(context.Context) v1.ScrapePoolsRetriever { return nothing{} },
		func(context.Context) v1.TargetRetriever { return nothing{} },
		func(context.Context) v1.AlertmanagerRetriever { return nothing{} },
		func() config.Config { return config.Config{} },
		map[string]string{}, v1.GlobalURLOptions{}, ready, described{db}, "", false, false, 0,
		slog.New(slog.NewTextHandler(os.Stderr, nil)),
		func(context.Context) v1.RulesRetriever { return nothing{} },
		0, 0, 0, false, regexp.MustCompile(".*"),
		func() (v1.RuntimeInfo, error) { return v1.RuntimeInfo{}, nil }, &v1.PrometheusVersion{}, nil, nil,
		prometheus.NewRegistry(), prometheus.NewRegistry(), nil, false, nil, false, false, false, false, 0, false,
		false, nil, features.NewRegistry(), v1.OpenAPIOptions{}, queryParser,
	)
	router := route.New()
	api.Register(router.WithPrefix("/api/v1"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr())
	check(http.Serve(listener, router))
}
