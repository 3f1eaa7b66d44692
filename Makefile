# Moldau. `make help` lists the targets.
SHELL := /bin/bash
export CGO_ENABLED := 0
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
BIN      := bin
# A test that hangs is a failure: every package has a deadline.
TIMEOUT  ?= 10m
SEEDS    ?= 100
SEED     ?= 1
ROUNDS   ?= 50
REF      ?= HEAD~1

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/moldau and bin/bench
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

.PHONY: test
test: build ## vet, import rules, unit, data-driven, simulator seeds, end-to-end tests over processes
	$(GO) vet ./...
	E2E_BIN=$(CURDIR)/$(BIN) $(GO) test -timeout $(TIMEOUT) -p 2 ./...
	$(GO) test -tags planted -timeout $(TIMEOUT) -p 2 -run '$(PLANTED)' $(FINDERS)
	cd test/compat && $(GO) vet . ./kit && E2E_BIN=$(CURDIR)/$(BIN) $(GO) test -timeout $(TIMEOUT) ./...

.PHONY: short
short: ## the tests without processes
	$(GO) test -short -timeout $(TIMEOUT) ./...

.PHONY: race
race: ## the concurrent packages under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) ./segment/... ./partition/... ./replication/... ./peer/... ./controller/... ./consumergroup/... ./broker/... ./grpcapi/... ./kafka/... ./client/... ./internal/...

# The packages that find planted bugs, and their tests about them.
FINDERS := ./internal/planted/... ./segment ./replication ./replication/session ./partition ./controller/state ./controller/driver ./consumergroup/group ./consumergroup/coordinator ./sim ./cmd/sim
PLANTED := Planted|Bug|TagLeavesItsMark|Finder|TestKind
BUGSEEDS ?= 2000

.PHONY: bugs
bugs: ## look anew for every planted bug with the random searches that docs/bugs.md names, within BUGSEEDS seeds, and write the page; fails if one is not found
	@exec 4>&1; status=$$( { { BUGS_SEEDS=$(BUGSEEDS) $(GO) test -tags planted -timeout 60m -count 1 -p 1 -v -run TestPlantedBugsAreFound $(FINDERS); echo $$? >&3; } \
		| grep -v '^=== ' >&4; } 3>&1 ); sed -n '/^| Bug/,/^$$/p' docs/bugs.md; exit $$status

.PHONY: demo
demo: build ## three brokers, a topic, produce with acks=isr, a group, the leader killed in the middle: nothing is missing
	@test/demo.sh $(CURDIR)/$(BIN)

.PHONY: verify
verify: fmt-check ## what CI checks about the tree: formatting, tidy modules, generated files, import rules
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) run ./cmd/moldau docs config | diff -u docs/configuration.md -
	$(GO) test ./internal/lint/...

.PHONY: fmt
fmt: ## format the tree
	gofmt -w $$(git ls-files '*.go')

.PHONY: fmt-check
fmt-check:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt wants: $$out"; exit 1; fi

.PHONY: lint
lint: ## vet, staticcheck (pinned in tools/go.mod) and the rules over the tree
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) test ./internal/lint/...

.PHONY: generate
generate: ## regenerate protobuf code and docs/configuration.md
	@mkdir -p $(BIN)/tools
	GOBIN=$(CURDIR)/$(BIN)/tools $(GO) install -modfile=tools/go.mod github.com/bufbuild/buf/cmd/buf google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	cd proto && PATH="$(CURDIR)/$(BIN)/tools:$$PATH" buf generate
	$(GO) run ./cmd/moldau docs config > docs/configuration.md

.PHONY: sim
sim: ## simulator seeds: SEED=n for one, SEEDS=n for many
	$(GO) run ./cmd/sim --seed $(SEED) --seeds $(SEEDS)

.PHONY: bench
bench: ## micro-benchmarks, ten runs each; compare with benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count 10 ./record/... ./segment/... ./replication/... ./partition/... ./controller/... ./grpcapi/... | tee bench.txt

.PHONY: bench-failover
bench-failover: build ## ten kills of a leader, a follower, the controller: how long until the next acknowledgement
	E2E_BIN=$(CURDIR)/$(BIN) $(GO) test -run "^$$" -bench Failover -benchtime 10x -timeout 30m ./test/e2e

.PHONY: bench-restart
bench-restart: build ## a start with 10,000 partitions and a million committed offsets, in its parts and as a whole: after an orderly stop and after kill -9
	$(GO) test -run "^$$" -bench Case126 -benchtime 3x -timeout 30m ./partition ./controller
	E2E_BIN=$(CURDIR)/$(BIN) $(GO) test -run "^$$" -bench Case126 -benchtime 3x -timeout 30m ./test/e2e

.PHONY: bench-compare
bench-compare: ## benchmarks of the work tree against REF
	@test/bench-compare.sh $(REF)

.PHONY: bench-kafka
bench-kafka: build ## Apache Kafka and Moldau in turn through Kafka's protocol (needs Java and Maven)
	@test/bench-kafka.sh $(CURDIR)/$(BIN)

.PHONY: differential
differential: build ## the same requests to Apache Kafka and to Moldau, answers field by field (needs Java and Maven); ONLY=part of a script's name
	$(GO) build -trimpath -o $(BIN)/ ./test/differential
	@test/differential.sh $(CURDIR)/$(BIN)

.PHONY: soak
soak: build ## brokers on networks and disks of their own, under faults for DURATION=1m, drawn from SEED=1; then everything is checked (needs root): docs/testing.md; FAULTS=
	@$(GO) build -trimpath -o $(BIN)/ ./test/soak
	@$(BIN)/soak -bin $(BIN) -duration $(or $(DURATION),1m) -seed $(SEED) -faults "$(FAULTS)" $(SOAK_FLAGS)

.PHONY: rounds
rounds: build ## fifty rounds of kill -9 on random brokers under load, then every replica compared; ROUNDS=, SEED=
	E2E_BIN=$(CURDIR)/$(BIN) E2E_ROUNDS=$(ROUNDS) E2E_SEED=$(SEED) $(GO) test -count 1 -v -timeout 60m -run Rounds ./test/e2e

.PHONY: no-quorum
no-quorum: build ## a minute without a majority of the voters: acks=isr goes on, nobody answers what only a sure leader may; SECONDS_GONE=
	E2E_BIN=$(CURDIR)/$(BIN) E2E_NO_QUORUM=$(or $(SECONDS_GONE),60) $(GO) test -count 1 -v -timeout 30m -run Case145 ./test/e2e

.PHONY: compat
compat: build ## real clients against three brokers: a table client x capability; CLIENTS="kcat sarama" for some rows, KEEP=1 keeps the logs
	cd test/compat && E2E_BIN=$(CURDIR)/$(BIN) $(GO) run . -out $(CURDIR)/$(BIN)/compat.md

.PHONY: suites
suites: build ## test suites of other Kafka clients against brokers of this tree: SUITES="kgo sarama"; docs/compatibility-suites.md has the figures
	@failed=; for suite in $(or $(SUITES),kadm kgo segmentio sarama confluent librdkafka); do test/suites.sh $$suite $(CURDIR)/$(BIN) || failed=1; done; [ -z "$$failed" ]

.PHONY: fuzz
fuzz: ## every fuzz target for a while: FUZZTIME=30s
	@test/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) bench.txt
