# Each target's comment behind ## is what "make help" prints.

GO       ?= go
TOOL     := $(GO) tool -modfile=tools.mod
FUZZTIME ?= 60s
BENCH    ?=

.DEFAULT_GOAL := help
.PHONY: help servers test lint format bench fuzz lab-docs

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

servers: ## install the programs that tests start, or say how to
	@scripts/servers

test: servers ## run every test with the race detector
	$(GO) test -race -shuffle=on ./...
	$(GO) -C bench vet ./...
	$(GO) -C bench test ./...

lint: ## check formatting, modern Go, vet and staticcheck
	scripts/empty "files that gofumpt would change" $(TOOL) gofumpt -l .
	scripts/empty "changes that go fix would make" $(GO) fix -diff ./...
	scripts/empty "changes that go fix would make in bench" $(GO) -C bench fix -diff ./...
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	cd bench && $(GO) tool -modfile=../tools.mod staticcheck ./...

format: ## write every file as gofumpt would
	$(TOOL) gofumpt -w .

bench: ## print the table of benchmarks; BENCH=REGEX picks rows
	$(GO) -C bench run . -run '$(BENCH)'

fuzz: ## run each fuzz target for FUZZTIME (60s)
	scripts/fuzz $(FUZZTIME)

lab-docs: servers ## measure the lab again and write its figures and plots into docs/lab
	$(GO) run ./cmd/sluice lab all -docs docs/lab
