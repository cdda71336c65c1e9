# Homeward. `make help` lists the targets.
GO ?= go

.DEFAULT_GOAL := help
.PHONY: help demo cluster geodns drill stories sdk test test-postgres test-cockroach test-cloud check fuzz pages pictures storm e2e bench bench-store bench-webhooks bench-sql bench-scale bench-report sizing deploy-tools deploy-check image release release-check generate clean

help: ## List the targets.
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Built and not "go run", whose exit code is 1 whatever became of the command. On a
# terminal the command gets the foreground for itself, so that Ctrl-C is for it alone
# and its end for make, which would take the signal for a failure.
FOREGROUND = case "$$(ps -o stat= -p $$$$ 2>/dev/null)" in *+*) set -m;; esac
# A first build is silent for minutes.
RUN = { [ -x bin/homeward ] || echo "building bin/homeward; with empty caches this takes some minutes" >&2; } && $(GO) build -o bin/homeward ./cmd/homeward && { $(FOREGROUND); bin/homeward

# As releases are built: without cgo, whose memory is not the Go runtime's to bound.
demo cluster geodns drill bench bench-store bench-webhooks bench-sql bench-scale bench-report: export CGO_ENABLED ?= 0

demo: ## Run three regions and the provider simulator on this machine (ARGS="--data DIR" keeps the data).
	@$(RUN) demo $(ARGS); }

cluster: ## Run three regions of two nodes, each a process, on CockroachDB or PostgreSQL, whichever is found (ARGS="--data DIR").
	@$(RUN) cluster $(ARGS); }

geodns: ## Put PowerDNS in front of a running cluster, which answers with the nearest ready region; prints dig commands to try (ARGS="-cluster DIR").
	@$(GO) build -o bin/geodns ./e2e/geodns && { $(FOREGROUND); bin/geodns $(ARGS); }

drill: ## Break one part of a running cluster under load, repair it, and print a verdict (ARGS="region-loss --cluster DIR --region us-east1").
	@$(RUN) drill $(ARGS); }

# On both stores, unless HOMEWARD_TEST_STORE names one.
stories: export HOMEWARD_TEST_KIND := $(or $(HOMEWARD_TEST_KIND),postgresql)
stories: ## Run incidents of payment systems end to end, on both stores, and print the books of each.
	$(GO) test ./e2e -run '^TestStories$$' -count 1 -v -timeout 10m

sdk: ## Build and test the TypeScript client, also against a cluster, and lint the OpenAPI document; needs Node.js.
	npm ci --no-audit --no-fund --prefix sdk/typescript
	$(GO) test ./e2e -run 'TypeScript|TestTheDocumentIsLinted' -count 1 -v

# Tests that need a database find one by themselves, see internal/lab/localdb, and are
# skipped where there is none. PostgreSQL unless somebody says otherwise: it starts
# in a second.
# Prometheus' engine is not ours to race, and takes eight times as long under the detector.
UNRACED = $(addprefix github.com/homeward-io/homeward/,e2e/alerts monitoring)

test: export HOMEWARD_TEST_KIND := $(or $(HOMEWARD_TEST_KIND),postgresql)
test: ## Run every test, with the race detector; tests on a database only if PostgreSQL is installed.
	CGO_ENABLED=1 $(GO) vet -race ./...
	CGO_ENABLED=1 $(GO) test -race -timeout 30m $$($(GO) list ./... | grep -vxF $(patsubst %,-e %,$(UNRACED)))
	$(GO) test -timeout 20m $(UNRACED)
	@$(if $(or $(findstring required,$(HOMEWARD_TEST_DATABASE)),$(wildcard /usr/lib/postgresql/*/bin/postgres),$(shell command -v postgres)),:,echo "no PostgreSQL was found: tests on a database were skipped; apt-get install postgresql")
	@$(if $(shell PATH="$$PATH:/usr/sbin" command -v pdns_server),:,echo "no PowerDNS was found: the test of geo-DNS was skipped; apt-get install pdns-server pdns-backend-geoip")
	@$(if $(wildcard e2e/stripenode/node_modules/stripe),:,echo "stripe-node was not found: its test was skipped; npm ci --prefix e2e/stripenode")
	@$(if $(wildcard sdk/typescript/node_modules/typescript),:,echo "what the TypeScript client is built with was not found: its tests were skipped; npm ci --prefix sdk/typescript")

# What touches the SQL store, but for the end-to-end tests, which `make test` has raced on
# the embedded store. Go does not run again what it has just run in the same environment,
# as `make test` did for most of these.
SQL_TESTS = ./internal/cockroach/... ./internal/lab/localdb/... ./internal/deployment ./internal/node ./internal/cli

test-postgres test-cockroach: export HOMEWARD_TEST_STORE := sql
test-postgres test-cockroach: export HOMEWARD_TEST_DATABASE := required
test-postgres: export HOMEWARD_TEST_KIND := postgresql
test-postgres: ## Run the tests of the SQL store, and the end-to-end tests on it, on PostgreSQL.
	CGO_ENABLED=1 $(GO) test -race -timeout 30m $(SQL_TESTS)
	$(GO) test -timeout 30m ./e2e

test-cloud: ## Run the tests of buckets and keys in a build with the drivers of AWS, Google Cloud, Azure and Vault, against an S3 server on this machine.
	$(GO) test -tags aws,gcp,azure,hashivault ./internal/node ./internal/cli -run 'Blob|Bucket|Audit|Driver|Seal' -count 1 -timeout 10m

# One package at a time: each starts a cluster of three nodes.
test-cockroach: export HOMEWARD_TEST_KIND := cockroachdb
test-cockroach: ## Run the same tests on a three-region CockroachDB, from COCKROACH_BINARY or PATH; slow.
	@command -v "$${COCKROACH_BINARY:-cockroach}" >/dev/null || { echo "no CockroachDB was found: put cockroach on PATH or set COCKROACH_BINARY" >&2; exit 1; }
	CGO_ENABLED=1 $(GO) test -race -p 1 -timeout 60m $(SQL_TESTS) ./e2e

# The linters are a tool of a module of their own, so that the go.mod of the service
# stays free of theirs. They are built once and kept in Go's cache.
LINT = $(GO) tool -modfile=internal/tools/go.mod golangci-lint

check: ## Check formatting, linters with vet, import directions, the docs, go.mod and generated code.
	@test -z "$$(gofmt -l .)" || { echo "run gofmt on:"; gofmt -l .; exit 1; }
	$(GO) mod tidy -diff
	@sum() { find internal/gen internal/build/libraries.json docs/METRICS.md docs/ERRORS.md -type f -exec cksum {} + | sort; }; before=$$(sum); \
	$(GO) generate ./... && [ "$$before" = "$$(sum)" ] || { echo "internal/gen, internal/build/libraries.json, docs/METRICS.md or docs/ERRORS.md was not what internal/proto, go.mod, meter or internal/problem says, and is now: commit it" >&2; exit 1; }
	$(GO) test ./internal/archtest ./internal/proto
	$(LINT) run

FUZZTIME ?= 30s
fuzz: ## Fuzz each target: keys, stamps, canonical JSON, bodies, notices, statements (FUZZTIME=30s each).
	@grep -rH --include='*_test.go' '^func Fuzz' . | sed -E 's|/[^/]*:func (\w+).*| \1|' | while read -r room target; do \
		echo "$$room $$target"; \
		$(GO) test "$$room" -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) </dev/null || exit 1; \
	done

pictures: export HOMEWARD_TEST_BROWSER := required
pictures: ## Make the pictures in docs/images: the console's in a browser (needs Chromium), and drawings from their sources.
	for d in docs/images/*.d2; do $(GO) tool -modfile=internal/tools/pictures/go.mod d2 --theme 0 --pad 20 $$d $${d%.d2}.svg || exit 1; done
	HOMEWARD_PICTURES=$(CURDIR)/docs/images $(GO) test ./e2e/console -count 1 -v

pages: export HOMEWARD_TEST_PAGES := all
pages: ## Run the commands of the README and docs/DEMO.md, and check the answers against their tables; two minutes.
	$(GO) test ./internal/cli -run '^TestThe(Readmes|Demos)(Lines|Events)$$' -count 1 -v -timeout 10m

storm: export HOMEWARD_TEST_STORE := $(or $(STORE),embedded)
storm: ## Run 200 clients with 10,000 keys through faults and two SIGKILLs, and print the figures (STORE=sql: on a database).
	HOMEWARD_STORM=long HOMEWARD_TEST_DATABASE=required $(GO) test ./e2e -run '^TestStorm$$' -count 1 -v -timeout 30m

e2e: export HOMEWARD_DOCKER := 1
e2e: ## Break a cluster in Docker in eleven ways under load, and judge (SCENARIO=region-killed runs one).
	e2e/docker.sh $(GO) test ./e2e/docker -count 1 -v -timeout 30m -run '$(if $(SCENARIO),^TestScenarios$$/^$(SCENARIO)$$,.)'

bench: ## Measure Homeward and its floor in turns, and print rates, latencies and ratios (ARGS="-quick").
	$(GO) run ./e2e/bench $(ARGS)

bench-store: ## Measure the SQL store against its bare statements, and on a million claims, on CockroachDB or PostgreSQL, whichever is installed (ARGS="-quick").
	$(GO) run ./e2e/bench -store $(ARGS)

bench-webhooks: ## Measure charges with and without a flood of 2,000 webhooks a second, on the embedded store and on an installed database (ARGS="-quick").
	$(GO) run ./e2e/bench -webhooks $(ARGS)

bench-sql: ## Measure nodes against a handler with two bare statements, HTTP to HTTP, on an installed database (ARGS="-quick").
	$(GO) run ./e2e/bench -sql $(ARGS)

bench-scale: ## Measure 1, 2, 4 and 8 nodes on one installed database: the cost of a charge, and the load of idle nodes (ARGS="-quick").
	$(GO) run ./e2e/bench -scale $(ARGS)

bench-report: ## Run all benchmarks, write docs/BENCHMARKS.md, the only page with measured figures, and compute docs/SIZING.md from it (ARGS="-quick").
	$(GO) run ./e2e/bench -report docs/BENCHMARKS.md $(ARGS)
	$(GO) run ./e2e/sizing -write docs/SIZING.md

sizing: ## Compute nodes, database cores, storage and money from docs/BENCHMARKS.md; writes docs/SIZING.md, or prints another load (ARGS="-rates 7000").
	$(GO) run ./e2e/sizing $(or $(ARGS),-write docs/SIZING.md)

# What deploy-check needs is built once, from modules of its own, and kept in bin/tools.
TOOLS = $(CURDIR)/bin/tools

deploy-tools: ## Build helm, its linters, a Kubernetes control plane and OpenTofu into bin/tools; some minutes the first time.
	GOBIN=$(TOOLS) $(GO) -C internal/tools/deploy install tool ./threeway
	CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/kube install -trimpath \
		-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36' tool
	ln -sf server $(TOOLS)/etcd
	CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/tofu install -trimpath -ldflags '-s -w' tool
	CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/terraform install -trimpath -ldflags '-s -w' tool ./standin

deploy-check: deploy-tools ## Test the chart (lint, units, a real control plane with simulated machines, an upgrade of its pods' processes under load) and Terraform against the providers' schemas.
	PATH="$(TOOLS):$$PATH" DEPLOY_TOOLS=required $(GO) test -count 1 -timeout 20m ./e2e/deploy

generate: ## Generate the Connect and protobuf code from internal/proto, docs/METRICS.md and docs/ERRORS.md from their catalogues, and the list of licences.
	$(GO) generate ./internal/proto ./meter ./internal/problem ./internal/build

# With an engine that has buildx, else without any: internal/tools/release/image reads the
# Dockerfile. Each gives the same digest each time, and not the other's: they pack differently.
IMAGE_DATE = $(shell git show --no-patch --format=%ct HEAD)
image: ## Build the images homeward and homeward-cloud for linux/amd64 and linux/arm64 into bin/images, with Docker if it runs (ENGINE=none: without; ARGS="-push REGISTRY/NAMESPACE").
	@if [ "$(ENGINE)" != none ] && [ -z "$(ARGS)" ] && docker info >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1; then \
		mkdir -p bin/images; docker buildx inspect homeward >/dev/null 2>&1 || docker buildx create --name homeward --driver docker-container >/dev/null || exit 1; \
		for v in homeward homeward-cloud; do SOURCE_DATE_EPOCH=$(IMAGE_DATE) docker buildx build --builder homeward --platform linux/amd64,linux/arm64 --provenance=false \
			--build-arg VARIANT=$$v --build-arg VERSION=$$(git describe --tags --always --dirty --match 'v*') --build-arg COMMIT=$$(git rev-parse HEAD) \
			--build-arg DATE=$$(TZ=UTC0 git show --no-patch --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD) --build-arg SOURCE_DATE_EPOCH=$(IMAGE_DATE) \
			--output type=oci,dest=bin/images/$$v.tar,rewrite-timestamp=true . || exit 1; done; \
	else $(GO) run -C internal/tools/release ./image -o bin/images $(ARGS); fi

release: ## Release the tag at HEAD, see CONTRIBUTING.md (ARGS=--dry-run publishes nothing).
	.ci/release $(ARGS)

release-check: ## Test the release: images are reproducible, an artefact of this platform verifies, a changed one does not; some minutes the first time.
	CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/goreleaser install -trimpath -ldflags '-s -w' tool
	cd internal/tools/release && $(GO) vet ./... && GORELEASER=$(TOOLS)/goreleaser $(GO) test -count 1 -timeout 20m ./...

clean: ## Remove what builds and tests leave behind.
	rm -rf bin dist
