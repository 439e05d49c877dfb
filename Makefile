# The menu: make help. Everything works from a fresh clone on a machine with Rust, Go, Node, Python, and the usual Unix tools.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

DATA_DIR ?= .ballast

.PHONY: help up build install test check fmt lint unit conformance conformance-promql e2e faults tools bench deny fuzz manifests image rootfs web web-if-node web-tools web-unit web-test web-browser

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

up: web-if-node build ## build Ballast and start it on its embedded Kubernetes (Ctrl-C stops it)
	target/quick/ballast up --data-dir $(DATA_DIR)

build: ## the program, in target/quick/ballast (a fast build; cargo build --profile dist for a fast program)
	cargo build --profile quick --locked --package ballast

PREFIX ?= /usr/local
BUILT ?= target/quick/ballast
install: ## BUILT into PREFIX: ballast, kubectl ballast, manual pages, completions
	install -Dm755 $(BUILT) $(DESTDIR)$(PREFIX)/bin/ballast
	ln -sf ballast $(DESTDIR)$(PREFIX)/bin/kubectl-ballast
	$(BUILT) man $(DESTDIR)$(PREFIX)/share/man/man1
	mkdir -p $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	$(BUILT) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ballast
	$(BUILT) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ballast
	$(BUILT) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/ballast.fish

test: web-unit check deny tools ## everything but the dashboard in a browser (make web-test): format, lints, licences, unit, conformance, end to end on both APIs, faults
	cargo test --locked --workspace

# npm ci only when what it installs has changed.
web/node_modules/.package-lock.json: web/package-lock.json
	@command -v npm >/dev/null || { echo "npm is not there: install Node.js 20 or newer" >&2; exit 1; }
	cd web && npm ci --no-audit --no-fund
	@touch $@

# What has not changed keeps its time, so that cargo does not build again what carries it.
WEB_SOURCES := $(shell find web/src web/public -type f) web/index.html web/package.json web/tsconfig.json web/vite.config.ts
web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	cd web && npm run build

web: web/dist/index.html ## the dashboard, in web/dist; the next build of Ballast carries it

web-if-node:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web; \
	else echo "Node.js is not there: Ballast is built without its dashboard"; fi

web-unit: web
	cd web && npm test

web-test: web web-tools ## the dashboard in a browser, against Ballast
	cargo build --locked --package ballast
	$(MAKE) web-browser

# On the Ballast that is there.
web-browser:
	cd web && CHROMIUM=$(CHROMIUM) npm run test-browser

# Debian's browser, for the tests of the dashboard.
CHROMIUM ?= /usr/bin/chromium
web-tools:
	@if [ -x $(CHROMIUM) ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	else \
	  echo "$(CHROMIUM) is not there: install chromium (apt-get install chromium), or name another: make CHROMIUM=PATH" >&2; exit 1; \
	fi

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

IMAGE ?= ballast:$(shell sed -n 's/^appVersion: //p' deploy/chart/Chart.yaml)
image: ## the image, by docker (or another: DOCKER=podman), called IMAGE
	$(or $(DOCKER),docker) build --tag $(IMAGE) .

# The device is what every container runtime brings along.
rootfs: ## what is in the image, in target/rootfs, with BUILT; tried there by chroot (as root)
	rm -rf target/rootfs
	deploy/rootfs $(BUILT) target/rootfs
	mkdir target/rootfs/dev && mknod -m 666 target/rootfs/dev/null c 1 3
	for command in "ballast --version" "git --version" "ssh -V"; do \
	  chroot --userspec=65532:65532 target/rootfs $$command; \
	done
	rm -r target/rootfs/dev

manifests: ## deploy/*.yaml, made from the Helm chart in deploy/chart
	deploy/render --all

tools: ## build the real Kubernetes, etcd, NATS, metrics-server, Helm and VPA recommender for the tests (minutes, once), and fetch what tests read
	tools/build kubernetes etcd nats metrics-server helm pynumaflow >/dev/null
	cd tools/kubernetes && go mod download k8s.io/kubernetes k8s.io/apimachinery sigs.k8s.io/structured-merge-diff/v6
	cd tools/prometheus && go mod download github.com/prometheus/prometheus
	cd tools/vpa && go build -o /dev/null ../../tests/oracle/go/vpa/*.go

bench: tools ## side by side with the peers; see bench/README.md
	bench/run

FUZZ_SECONDS ?= 60
fuzz: ## what comes from outside, thrown at what reads it (needs cargo-fuzz; FUZZ_SECONDS for each target)
	for target in text query snapshot patch api annotations; do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096; \
	done

DENY_VERSION := 0.20.2
DENY_DIR := $(or $(BALLAST_TOOLS_DIR),$(HOME)/.cache/ballast/tools)/cargo-deny-$(DENY_VERSION)
# Without optimization it is built in a third of the time, and still reads our graph in seconds.
$(DENY_DIR)/bin/cargo-deny:
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	  cargo install --locked --version $(DENY_VERSION) --root $(DENY_DIR) cargo-deny

deny: $(DENY_DIR)/bin/cargo-deny ## licences, sources and bans of dependencies; advisories where their database can be reached
	$(DENY_DIR)/bin/cargo-deny --locked check licenses bans sources
	@if $(DENY_DIR)/bin/cargo-deny --locked fetch db >/dev/null 2>&1; then \
	  $(DENY_DIR)/bin/cargo-deny --locked check --disable-fetch advisories; \
	else \
	  echo "advisories: NOT checked, https://github.com/rustsec/advisory-db cannot be reached from here"; \
	fi
