# Homeward. `make help` lists the targets.
GO ?= go

.DEFAULT_GOAL := help
.PHONY: help demo cluster test test-all test-sql nemesis check fuzz e2e sdk bench generate deploy-check release-check release

help: ## List the targets.
	@awk '/^##@ /{print substr($$0, 5)} match($$0, /:.*## /) && /^[a-z0-9-]+:/{split($$0, t, ":"); printf "  make %-14s %s\n", t[1], substr($$0, RSTART + index(substr($$0, RSTART), "## ") + 2)}' $(MAKEFILE_LIST)

##@ Use
# The command is built: "go run" would exit with 1 after any failure. On a terminal the command
# alone is in the foreground. So Ctrl-C does not reach make, which would report a failure.
FOREGROUND = case "$$(ps -o stat= -p $$$$ 2>/dev/null)" in *+*) set -m;; esac
# A first build is silent for minutes.
RUN = { [ -x bin/homeward ] || echo "building bin/homeward; with empty caches this takes some minutes" >&2; } && $(GO) build -o bin/homeward ./cmd/homeward && { $(FOREGROUND); bin/homeward

# Without cgo, as releases are built: the Go runtime does not bound cgo's memory.
demo cluster bench: export CGO_ENABLED ?= 0

demo: ## Run three regions and the provider simulator on this machine (ARGS="--data DIR" keeps the data).
	@$(RUN) demo $(ARGS); }

cluster: ## Run three regions of two nodes, each a process, on CockroachDB or PostgreSQL, whichever is found (ARGS="--data DIR").
	@$(RUN) cluster $(ARGS); }

##@ Develop

# Tests on a database find one by themselves, see internal/lab/localdb, and are skipped without one.
# The default is PostgreSQL, which starts in a second.
test test-all: export HOMEWARD_TEST_KIND := $(or $(HOMEWARD_TEST_KIND),postgresql)

# These run Prometheus' engine, which takes eight times as long under the race detector.
UNRACED = $(addprefix github.com/homeward-io/homeward/,e2e/alerts monitoring)

# Tests wait for databases, leases and gossip more than they compute, so one package more runs than
# there are cores. With more of them gossip on two cores takes busy nodes for lost.
WIDE = -p $$((1 + $$(getconf _NPROCESSORS_ONLN)))

test: ## Test every promise, with the race detector: long tests are cut down or left out; tests on a database run only if PostgreSQL is installed.
	$(GO) test -short -timeout 20m $(UNRACED) & unraced=$$!; \
	CGO_ENABLED=1 $(GO) test -race -short $(WIDE) -timeout 30m $$($(GO) list ./... | grep -vxF $(patsubst %,-e %,$(UNRACED))); raced=$$?; \
	wait $$unraced && exit $$raced
	@$(if $(or $(findstring required,$(HOMEWARD_TEST_DATABASE)),$(wildcard /usr/lib/postgresql/*/bin/postgres),$(shell command -v postgres)),:,echo "no PostgreSQL was found: tests on a database were skipped; apt-get install postgresql")
	@$(if $(shell PATH="$$PATH:/usr/sbin" command -v pdns_server),:,echo "no PowerDNS was found: the test of geo-DNS was skipped; apt-get install pdns-server pdns-backend-geoip")
	@$(if $(wildcard e2e/stripenode/node_modules/stripe),:,echo "stripe-node was not found: its test was skipped; npm ci --prefix e2e/stripenode")
	@$(if $(wildcard sdk/typescript/node_modules/typescript),:,echo "the tools of the TypeScript client were not found: its tests were skipped; npm ci --prefix sdk/typescript")
	@for p in sdk/python/.venv/bin/python python3 /usr/bin/python3; do $$p -c 'import httpx' 2>/dev/null && exit; done; echo "no Python with httpx was found: the tests of the Python client were skipped; apt-get install python3-httpx mypy python3-setuptools python3-wheel"

# A long test calls testing.Short in its own body, or rapid, which calls it. LONG has the package
# and the name of each. test-all runs these again, in full and without the race detector: make test
# has run them cut down, and all others whole.
LONG = $(shell grep -rlE --include='*_test.go' --exclude-dir=node_modules --exclude-dir=tools 'testing\.Short|rapid\.Check' . | xargs awk \
	'FNR == 1 {room = FILENAME; sub("/[^/]*$$", "", room)} /^func / {name = match($$2, /^Test[A-Za-z0-9_]*/) ? substr($$2, 1, RLENGTH) : ""} name && /testing\.Short|rapid\.Check/ {print room ":" name}')
rooms = $(sort $(foreach t,$(LONG),$(firstword $(subst :, ,$(t)))))
named = $(subst $() ,|,$(sort $(foreach t,$(LONG),$(lastword $(subst :, ,$(t))))))

# test-all runs all of e2e on PostgreSQL beside the others: make test has run it on the embedded store. TestStories runs on both,
# and the clients' packages have no store.
test-all: $(if $(ONLY),,test) ## Run the long tests in full, too, without the race detector: storms, drills, crash tables, stories, the docs' commands, on both stores (ONLY=TestStorm: that one alone, and what it prints).
ifdef ONLY
	$(GO) test $(or $(patsubst %:$(ONLY),%,$(filter %:$(ONLY),$(LONG))),$(error there is no long test $(ONLY))) -run '^$(ONLY)$$' -count 1 -v -timeout 60m
else
	HOMEWARD_TEST_STORE=sql $(GO) test -timeout 60m ./e2e -skip '^(TestStories|Test(Python|TypeScript)Package)$$' & sql=$$!; \
	$(GO) test -timeout 60m $(rooms) -run '^($(named))$$'; rest=$$?; wait $$sql && exit $$rest
endif

# The packages that use the SQL store. Go takes most of their results from its cache, if make test
# has run in the same environment.
SQL_TESTS = ./internal/sqlstore/... ./internal/lab/localdb/... ./internal/deployment ./internal/node ./internal/cli

# STORE is the database of test-sql and nemesis.
STORE ?= postgresql
test-sql nemesis: export HOMEWARD_TEST_KIND = $(STORE)
test-sql nemesis: export HOMEWARD_TEST_DATABASE := required
test-sql: export HOMEWARD_TEST_STORE := sql
test-sql: ## Run the tests of the SQL store, and the end-to-end tests on it, on PostgreSQL (STORE=cockroachdb: on three regions of it, from COCKROACH_BINARY or PATH; slow).
ifeq ($(STORE),cockroachdb)
	@command -v "$${COCKROACH_BINARY:-cockroach}" >/dev/null || { echo "no CockroachDB was found: put cockroach on PATH or set COCKROACH_BINARY" >&2; exit 1; }
	@# Two packages at once, as they mostly wait: each starts a cluster of three nodes, of some 3 GB.
	CGO_ENABLED=1 $(GO) test -race -short -p 2 -timeout 60m $(SQL_TESTS) ./e2e
else
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m $(SQL_TESTS)
	$(GO) test -short -timeout 30m ./e2e
endif

nemesis: ## Do to nodes and a real database what seeds say, under load, and judge: on PostgreSQL, for an hour (STORE=cockroachdb or, in virtual time, simulated; HOURS=4; SEED=7 repeats one run's schedule).
	$(if $(filter simulated,$(STORE)),$(GO) test ./e2e/simulate -run '^TestSimulate$$' -count 1 -v -timeout 0 -simulate.hours=$(or $(HOURS),$(if $(SEED),0,1)) -simulate.seed=$(or $(SEED),0),\
	$(GO) test ./e2e -run '^TestNemesis$$' -count 1 -v -timeout 0 -nemesis.hours=$(or $(HOURS),$(if $(SEED),0,1)) -nemesis.seed=$(or $(SEED),0))

# The linters have a module of their own, so that the service's go.mod has none of their
# modules. They are built once, into Go's cache.
LINT = $(GO) tool -modfile=internal/tools/go.mod golangci-lint

check: ## Check formatting, linters with vet, import directions, the docs, go.mod and generated code.
	@test -z "$$(gofmt -l .)" || { echo "run gofmt on:"; gofmt -l .; exit 1; }
	$(GO) mod tidy -diff
	@sum() { find internal/gen internal/build/libraries.json docs/METRICS.md docs/ERRORS.md -type f -exec cksum {} + | sort; }; before=$$(sum); \
	$(GO) generate ./... && [ "$$before" = "$$(sum)" ] || { echo "internal/gen, internal/build/libraries.json, docs/METRICS.md or docs/ERRORS.md was older than internal/proto, go.mod, meter or internal/problem, and is now up to date: commit it" >&2; exit 1; }
	$(GO) test ./internal/archtest ./internal/proto
	$(GO) -C internal/tools test -count 1 ./mutants
	$(LINT) run

FUZZTIME ?= 30s
# Minimizing what finds new code would take most of the time, and fails if the time ends meanwhile.
# The binary of a package is built once for all its targets, and runs as go test would run it.
fuzz: ## Fuzz each target: all that comes from outside, and the stores against their models (FUZZTIME=30s each).
	@bin=$$(mktemp) && trap 'rm -f "$$bin"' EXIT && corpus=$$($(GO) env GOCACHE)/fuzz/$$($(GO) list -m) && built= && \
	grep -rH --include='*_test.go' '^func Fuzz' . | sed -E 's|/[^/]*:func (\w+).*| \1|' | sort | { while read -r room target; do \
		echo "$$room $$target"; \
		[ "$$room" = "$$built" ] || $(GO) test "$$room" -c -o "$$bin" -fuzz . </dev/null || exit 1; \
		built=$$room; \
		(cd "$$room" && "$$bin" -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 100x \
			-test.fuzzcachedir "$$corpus/$${room#./}" </dev/null) || exit 1; \
	done; }

e2e: export HOMEWARD_DOCKER := 1
e2e: ## Break a cluster in Docker in eleven ways under load, and judge (SCENARIO=region-killed runs one).
	e2e/docker.sh $(GO) test ./e2e/docker -count 1 -v -timeout 30m -run '$(if $(SCENARIO),^TestScenarios$$/^$(SCENARIO)$$,.)'

sdk: ## Try the clients in Go, TypeScript and Python through sdk/scenarios.json, check their types and packages, and say which language was not found.
	$(GO) test ./client ./sdk/... -count 1
	$(GO) test ./e2e -run '^(TestGoClient|TestTypeScript|TestPython|TestTheDocumentIsLinted)' -count 1 -v

bench: ## Measure each budget to its floor, and say whether it is kept (ARGS="-only postgresql/" some of them; SUITE=report: into docs/BENCHMARKS.md and docs/SIZING.md; SUITE=sizing: the latter from the former).
ifeq ($(SUITE),sizing)
	$(GO) run ./e2e/sizing $(or $(ARGS),-write docs/SIZING.md)
else ifeq ($(SUITE),report)
	$(GO) run ./e2e/bench -page docs/BENCHMARKS.md $(ARGS); kept=$$?; $(GO) run ./e2e/sizing -write docs/SIZING.md && exit $$kept
else
	$(GO) run ./e2e/bench $(ARGS)
endif

generate: ## Generate the Connect and protobuf code from internal/proto, docs/METRICS.md, docs/ERRORS.md and client/code.go from their catalogues, and the list of licences (PICTURES=1: docs/images instead, in Chromium and from their sources).
ifdef PICTURES
	for d in docs/images/*.d2; do $(GO) tool -modfile=internal/tools/pictures/go.mod d2 --theme 0 --pad 20 $$d $${d%.d2}.svg || exit 1; done
	HOMEWARD_TEST_BROWSER=required HOMEWARD_PICTURES=$(CURDIR)/docs/images $(GO) test ./e2e/console -count 1 -v
else
	$(GO) generate ./internal/proto ./internal/meter ./internal/problem ./internal/build
endif

##@ Release

# deploy-check builds its tools once, from modules of their own, into bin/tools.
TOOLS = $(CURDIR)/bin/tools

deploy-check: ## Test the chart (lint, units, a real control plane with simulated machines, an upgrade of its pods' processes under load) and Terraform against the providers' schemas; builds its tools into bin/tools, some minutes the first time.
	GOBIN=$(TOOLS) $(GO) -C internal/tools/deploy install tool ./threeway
	CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/kube install -trimpath \
		-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36' tool
	ln -sf server $(TOOLS)/etcd
	CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/tofu install -trimpath -ldflags '-s -w' tool
	CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/terraform install -trimpath -ldflags '-s -w' tool ./standin
	PATH="$(TOOLS):$$PATH" DEPLOY_TOOLS=required $(GO) test -count 1 -timeout 20m ./e2e/deploy

release-check: ## Test what is released: buckets and keys in the build with all drivers, images that are reproducible, an artefact that verifies and a changed one that does not; some minutes the first time.
	$(GO) test -tags aws,gcp,azure,hashivault ./internal/node ./internal/cli -run 'Blob|Bucket|Audit|Driver|Seal' -count 1 -timeout 10m
	for t in goreleaser cyclonedx; do CGO_ENABLED=0 GOBIN=$(TOOLS) $(GO) -C internal/tools/$$t install -trimpath -ldflags '-s -w' tool || exit 1; done
	cd internal/tools/release && $(GO) vet ./... && GORELEASER=$(TOOLS)/goreleaser $(GO) test -count 1 -timeout 20m ./...

release: ## Release the tag at HEAD, see CONTRIBUTING.md (ARGS=--dry-run publishes nothing; ONLY=image: build the images homeward and homeward-cloud for linux/amd64 and linux/arm64 into bin/images, without a container engine; ARGS="-push REGISTRY/NAMESPACE").
	$(if $(filter image,$(ONLY)),$(GO) run -C internal/tools/release ./image -o bin/images $(ARGS),.ci/release $(ARGS))
