# Every target works on a fresh machine with only Go, unless it says what more it needs.
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS = -X mqctl/cli.version=$(VERSION)
DATA ?= data
FUZZTIME ?= 60s
BENCHCOUNT ?= 5
SEEDS ?= 100000
CATCHUP ?= 3500000
DURATION ?= 30m
RATE ?= 400
COMPAT_JAVA = $(CURDIR)/testdata/compat/java/target

.PHONY: all build run test race lint fmt layers systems check fuzz sim bench bench-load benchcmp cover compat compat-java compat-java-files compat-names scenarios scenarios-short soak clean

all: build

build: ## the binary ./mqctl, for every Linux of its kind: no C library, and without what makes urfave/cli start slower
	CGO_ENABLED=0 $(GO) build -trimpath -tags urfave_cli_no_docs -ldflags '$(LDFLAGS)' -o mqctl ./cli/mqctl

run: build ## a working broker with an embedded nameserver on 127.0.0.1; its data in ./data
	./mqctl broker start --store $(DATA)

test: ## all tests of the main module
	$(GO) test ./...

race:
	GORACE=atexit_sleep_ms=0 $(GO) test -race -timeout 20m ./...

fmt: ## formats everything
	gofmt -w broker cli replication store subgroup testdata/compat .ci

layers: ## do the imports keep to the picture in broker/ARCHITECTURE.md, and the sources to the house rules?
	$(GO) run .ci/layers.go

lint: layers systems ## needs .ci/bin/golangci-lint: .ci/tools installs it
	$(GO) vet ./...
	cd testdata/compat && for tags in none java scenarios scenarios,java soak; do $(GO) vet -tags $$tags . || exit 1; done
	.ci/bin/golangci-lint run --config .ci/golangci.yml ./...

systems: ## does it build for the other systems that it is meant for?
	@for os in darwin freebsd; do echo "build for $$os"; GOOS=$$os $(GO) build -o /dev/null ./cli/mqctl || exit 1; done

check: build lint test race compat ## what CI runs, but for what needs Java

fuzz: ## each fuzz target for FUZZTIME
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$p; done; done

sim: ## crashes of the store and of the topic table, and progress of replicas in virtual time: SEEDS runs of each; a failure says how to repeat it
	$(GO) test ./store ./subgroup ./broker/topic -count=1 -run 'Sim$$' -sim.seeds=$(SEEDS) -timeout 120m

bench: ## Go benchmarks, then a broker of its own process under load; the original beside it where java and mvn are there
	$(GO) test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) ./...
	$(MAKE) bench-load

bench-load: ## brokers and pairs of brokers under load; commands; then the copy of a log of CATCHUP messages to an empty slave: 4 GiB, for which 15 GB of disk are needed
	@if command -v java >/dev/null && command -v mvn >/dev/null && $(MAKE) -s compat-java-files; then \
	  export MQCTL_COMPAT_JARS=$(COMPAT_JAVA)/lib MQCTL_COMPAT_CLASSES=$(COMPAT_JAVA)/classes; tags=java; \
	else \
	  echo "without the original beside it: that needs java, javac and mvn"; tags=; \
	fi; \
	cd testdata/compat && \
	$(GO) test -tags "$$tags" -run '^$$' -bench 'Load(Send|Pull|PairSync|PairAsync)' -benchtime 300000x -timeout 60m . && \
	$(GO) test -tags "$$tags" -run '^$$' -bench Command -benchtime 10x -timeout 60m . && \
	$(GO) test -tags "$$tags" -run '^$$' -bench LoadPairCatchUp -benchtime $(CATCHUP)x -timeout 60m .

benchcmp: ## benchmarks of this tree against a commit: make benchcmp OLD=ref
	.ci/benchcmp $(OLD)

cover:
	$(GO) test -coverprofile cover.out ./... && $(GO) tool cover -func cover.out | tail -1

compat: ## the official Go client against a broker of its own (fetches the client's module)
	cd testdata/compat && $(GO) test -count=1 -timeout 20m .

compat-java-files:
	mvn -B -q -f testdata/compat/java/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(COMPAT_JAVA)/lib
	javac -nowarn -cp '$(COMPAT_JAVA)/lib/*' -d $(COMPAT_JAVA)/classes testdata/compat/java/Compat.java

compat-java: compat-java-files ## the original's client, mqadmin, nameserver and broker against ours; needs Java 17 or later and Maven
	cd testdata/compat && MQCTL_COMPAT_JARS=$(COMPAT_JAVA)/lib MQCTL_COMPAT_CLASSES=$(COMPAT_JAVA)/classes \
	  $(GO) test -count=1 -timeout 25m -tags java -run 'Java|Mqadmin$$|Apache|Across' .

compat-names: compat-java-files ## the 93 names of mqadmin on both sides: writes testdata/compat/README.md (three minutes; eight beside other work)
	cd testdata/compat && MQCTL_COMPAT_JARS=$(COMPAT_JAVA)/lib MQCTL_COMPAT_CLASSES=$(COMPAT_JAVA)/classes \
	  $(GO) test -count=1 -timeout 25m -tags java -run 'MqadminNamesOnBoth' .

scenarios: ## what a pair of brokers must survive: kills, returns, freezes; with Java and Maven also the original's client and broker (half an hour)
	@if command -v java >/dev/null && command -v mvn >/dev/null && $(MAKE) -s compat-java-files; then \
	  cd testdata/compat && MQCTL_COMPAT_JARS=$(COMPAT_JAVA)/lib MQCTL_COMPAT_CLASSES=$(COMPAT_JAVA)/classes \
	    $(GO) test -count=1 -timeout 90m -tags scenarios,java -v -run '$(SCENARIO_TESTS)' . ; \
	else \
	  cd testdata/compat && $(GO) test -count=1 -timeout 90m -tags scenarios -v -run '$(SCENARIO_TESTS)' . ; \
	fi

SCENARIO_TESTS = ^Test(SlaveAlone|SlaveKilled|SlaveBack|Master|BothKilled|Reset|OtherConsumers|Flapping|Promote|Upgrade|ManyTopics|ApacheMaster|OurMaster|ProgressWith|Secrets)

scenarios-short: ## those that CI runs
	cd testdata/compat && $(GO) test -count=1 -timeout 15m -tags scenarios \
	  -run '^Test(SlaveKilled|MasterKilled|ResetWhileSlaveDown|SlaveBack|Flapping|Promote|PromoteByForce|SecretsAgree)$$' . -scenario.bytes 67108864 -scenario.flaps 5

soak: ## sends, pulls, topics deleted and made again, files that expire and three kills for DURATION, RATE messages a second; then nothing may be missing
	cd testdata/compat && $(GO) test -count=1 -timeout 0 -tags soak -v -run '^TestSoak$$' . -soak.duration $(DURATION) -soak.rate $(RATE)

clean:
	rm -rf mqctl cover.out .ci/bin $(COMPAT_JAVA)
