# Homeward. `make help` lists the targets.
GO ?= go

.DEFAULT_GOAL := help
.PHONY: help demo test check fuzz storm bench generate clean

help: ## List the targets.
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Run three regions and the provider simulator on this machine (ARGS="--data DIR" keeps the data).
	$(GO) run ./cmd/homeward demo $(ARGS)

test: ## Run every test with the race detector.
	CGO_ENABLED=1 $(GO) vet -race ./...
	CGO_ENABLED=1 $(GO) test -race -timeout 10m ./...

check: ## Formatting, vet, linters (when golangci-lint is installed) and generated code.
	@test -z "$$(gofmt -l .)" || { echo "run gofmt on:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) test ./internal/archtest ./internal/proto
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: linters skipped"; fi

FUZZTIME ?= 30s
fuzz: ## Fuzz the canonicaliser, the key parser, stamped keys and bodies (FUZZTIME=30s each).
	$(GO) test ./claim -run '^$$' -fuzz FuzzParseKey -fuzztime $(FUZZTIME)
	$(GO) test ./claim -run '^$$' -fuzz FuzzReadStamp -fuzztime $(FUZZTIME)
	$(GO) test ./claim -run '^$$' -fuzz FuzzCanonical -fuzztime $(FUZZTIME)
	$(GO) test ./payment -run '^$$' -fuzz FuzzParse -fuzztime $(FUZZTIME)

storm: ## 200 clients, 10,000 keys, faults and two SIGKILLs; prints its figures.
	HOMEWARD_STORM=long $(GO) test ./e2e -run '^TestStorm$$' -count 1 -v -timeout 30m

bench: ## Homeward against its floor, alternating; prints rates, latencies and ratios (ARGS="-quick").
	$(GO) run ./e2e/bench $(ARGS)

generate: ## Generate the Connect and protobuf code from internal/proto.
	$(GO) generate ./internal/proto

clean: ## Remove what builds and tests leave behind.
	rm -rf bin dist
