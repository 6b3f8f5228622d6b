# `make help` lists the targets. The tag leaves a codec out of gin that nothing here uses.
TAGS    := -tags nomsgpack
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo none)
LDFLAGS := -ldflags "-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)"
SCALAR  := @scalar/api-reference@1.76.0

.DEFAULT_GOAL := help
.PHONY: help build run dev demo test test-short lint fmt fuzz bench load assets docs chart-test image image-test chart-install-test

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/fetcher
	go build $(TAGS) $(LDFLAGS) -o bin/fetcher ./cmd/fetcher

run: build ## run manager and worker with the environment's configuration
	bin/fetcher serve

dev: build postgres ## run everything on an embedded Postgres, on 127.0.0.1:4006
	bin/fetcher dev

demo: postgres ## the main job end to end, leaving nothing behind
	@go run $(TAGS) ./cmd/fetcher demo --fresh

test: postgres servers page ## all tests, with the race detector
	go test -race $(TAGS) -timeout 40m ./...
	go test -C tools/observe ./...
	@bin=$$(tools/postgres18.sh) && { [ -z "$$bin" ] || (set -x; TEST_POSTGRES_BIN=$$bin go test -race $(TAGS) ./source/postgres); }

test-short: postgres ## the quick tests
	go test -short $(TAGS) ./...

lint: ## every linter
	go tool -modfile=tools/go.mod golangci-lint run --allow-parallel-runners --timeout 20m ./...

fmt: ## format the code
	go tool -modfile=tools/go.mod golangci-lint fmt ./...

fuzz: ## fuzz what parses callers' input, FUZZTIME (60s) for each target
	@tools/fuzz.sh

bench: postgres servers ## measure side by side with the references into docs/performance.md: BENCH a regexp of sections, BENCH_SCALE (1) of the size
	BENCH_INTO=$(CURDIR)/docs/performance.md go test $(TAGS) -count=1 -v -run '^TestMeasurements$$' -timeout 60m ./bench

load: postgres servers ## the tests that grow with load, at full size: minutes, and some GB of disk
	FETCHER_LOAD=1 go test $(TAGS) -timeout 90m -v -run 'ConstantEviction|MigrateMany|Isolation' ./tenant ./e2e

docs: ## write the generated parts of the README
	go run $(TAGS) ./cmd/fetcher config docs --into README.md

assets: ## build the script of the documentation page in
	cd handlers/assets && npm pack --silent $(SCALAR) && tar -xzf scalar-api-reference-*.tgz package/dist/browser/standalone.js --strip-components=3 && rm scalar-api-reference-*.tgz

image: ## build the image fetcher:dev with Docker
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t fetcher:dev .

image-test: ## read Dockerfile and compose.yaml with their makers' parsers, build the image's binary and start it alone in its root
	go test -C tools/deploy -timeout 40m ./...

chart-test: ## lint and render the Helm chart
	go test $(TAGS) ./charts/...

chart-install-test: ## install the chart on a real API server with simulated nodes; builds for 15 minutes once
	@bin=$$(tools/kube/build.sh) && cd tools/kube && KUBE_BIN=$$bin go test -count=1 -v -timeout 30m ./...

.PHONY: postgres servers page
postgres:
	@tools/postgres.sh
servers:
	@tools/servers.sh
page:
	@tools/page.sh
