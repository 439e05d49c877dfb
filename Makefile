# The menu: make help. Everything works from a fresh clone on a machine with Rust, Go, and the usual Unix tools.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

DATA_DIR ?= .ballast

.PHONY: help up build test check fmt lint unit conformance conformance-promql e2e faults tools bench deny fuzz

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

up: build ## build Ballast and start it on its embedded Kubernetes (Ctrl-C stops it)
	target/quick/ballast up --data-dir $(DATA_DIR)

build: ## the program, in target/quick/ballast (a fast build; cargo build --profile dist for a fast program)
	cargo build --profile quick --locked --package ballast

test: check tools ## everything: format, lints, unit, conformance, end to end on both APIs, faults
	cargo test --locked --workspace

check: fmt lint ## format and lints

fmt:
	cargo fmt --all --check

lint:
	cargo clippy --locked --workspace --all-targets -- -D warnings

unit: ## only what needs no Kubernetes: the crates themselves
	cargo test --locked --workspace --exclude ballast --exclude cluster --exclude conformance --exclude e2e --exclude faults

conformance: tools ## the same requests to the embedded API and to a real kube-apiserver
	cargo test --locked --package conformance -- --nocapture

conformance-promql: tools ## Prometheus's own test files, and random queries against its engine
	cargo test --locked --package promql --test conformance --test differential -- --nocapture

e2e: tools ## end to end, on the embedded API and on a real one
	cargo test --locked --package e2e
	cargo test --locked --package ballast --test functions

faults: tools ## controllers under crashes, stale reads, lost events and errors
	cargo test --locked --package faults

tools: ## build the real Kubernetes, etcd, NATS and metrics-server for the tests (minutes, once), and fetch what tests read
	tools/build kubernetes etcd nats metrics-server >/dev/null
	cd tools/kubernetes && go mod download k8s.io/kubernetes k8s.io/apimachinery sigs.k8s.io/structured-merge-diff/v6
	cd tools/prometheus && go mod download github.com/prometheus/prometheus

bench: tools ## side by side with the peers; see bench/README.md
	bench/run

FUZZ_SECONDS ?= 60
fuzz: ## what comes from outside, thrown at what reads it (needs cargo-fuzz; FUZZ_SECONDS for each target)
	for target in text query snapshot patch api annotations; do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096; \
	done

deny: ## licences, advisories and duplicate dependencies (needs cargo-deny)
	cargo deny check
