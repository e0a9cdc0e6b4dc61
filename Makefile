SHELL := bash
.SHELLFLAGS := -e -u -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules --no-print-directory

# What a caller may set: make serve MODELS=/srv/models, make bench FILTER=Core COUNT=10, make fuzz FUZZTIME=1m,
# make serve ARGS='--devices cpu,cuda', make gpu-check ARGS='--device cpu'
MODELS ?= examples/models
FUZZTIME ?= 10s
EVERY ?=
FILTER ?= .
COUNT ?= 6
ARGS ?=
SEED ?= 1
BUGS ?= 200

# NVML's functions are bound when they are first called; a toolchain that binds all at the start (-z now) would break that.
LAZY := -ldflags=-extldflags=-Wl,-z,lazy
LINK := $(if $(filter Linux,$(shell uname -s)),$(LAZY))

# go test would vet a part of what `make quick` and `make lint` vet whole, and with each set of flags all dependencies again.
UNVETTED := -vet=off

# The race detector has each program wait for a second before it ends, and tests start many.
export GORACE := atexit_sleep_ms=10

TOOLS := $(CURDIR)/.weft/bin
BUF := tools/node_modules/.bin/buf

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Fetch the pinned ONNX Runtime library into .weft (a second run downloads nothing)
	@[[ -d .weft/onnxruntime ]] || echo 'setup: compiles what fetches ONNX Runtime, the first time in about half a minute'
	@go run -v ./scripts/setup

.PHONY: build
build: ## Build bin/weft
	@[[ -e bin/weft ]] || echo 'build: compiles the server and its libraries, the first time in a minute or two'
	go build -v $(LINK) -o bin/weft ./cmd/weft

.PHONY: serve
serve: setup build ## Serve the example models (MODELS=dir for your own, ARGS='--devices cpu,cuda' for flags)
	bin/weft serve $(ARGS) $(MODELS)

# Programs of the laboratory, a module of its own.
LAB := go build -C tools/lab -o $(CURDIR)/bin/

.PHONY: demo
demo: setup build ## See it work: a server, robots that ask it, and keys that cause a canary, a slow device and a flood (ARGS='--for 30s --press c@5s')
	$(LAB) ./demo
	bin/demo --weft bin/weft $(ARGS)

.PHONY: quick
quick: setup ## The inner loop, about a minute: vet, and the tests that take less than a second each
	go vet ./...
	go vet -C tools/lab ./...
	go test $(UNVETTED) -short ./...

.PHONY: test
test: setup ## Run every test
	go test $(UNVETTED) ./...

.PHONY: test-lab
test-lab: setup ## Vet the laboratory, run its quick tests, and see in simulation that the scheduler reaches its goals
	go vet -C tools/lab ./...
	go test -C tools/lab $(UNVETTED) -short ./...
	go test -C tools/lab $(UNVETTED) -run 'TestMusts|TestWorstAreNoWorse|TestColdModel' ./sim

.PHONY: planted
planted: setup ## Plant one-line bugs in the product, and say which tests catch them (hours; SEED=1 BUGS=200; goes on where it was interrupted)
	$(LAB) ./planted
	@mkdir -p .weft/planted
	[[ -e .weft/planted/bugs-$(SEED).json ]] || bin/planted draw --seed $(SEED) --count $(BUGS) > .weft/planted/bugs-$(SEED).json
	bin/planted run --out .weft/planted/found-$(SEED).json .weft/planted/bugs-$(SEED).json
	bin/planted report .weft/planted/found-$(SEED).json

.PHONY: lab
lab: setup build ## All of the laboratory, nightly and before a release: its tests, and then each of its programs in full (half a day, most of it for planted bugs; writes docs/sim and docs/bench)
	go test -C tools/lab $(UNVETTED) -timeout 30m ./...
	go test -C tools/lab $(UNVETTED) -race -timeout 30m ./...
	$(MAKE) race EVERY=1
	WEFT_LONG=1 WEFT_VERDICTS=1,60,200 WEFT_PLANTED=1,200 WEFT_STRUCTURE_SEARCH=1,2000 go test $(UNVETTED) -timeout 3h ./...
	WEFT_LONG=1 $(MAKE) test-clients
	$(MAKE) test-cloud
	$(MAKE) test-cluster
	$(MAKE) sim
	$(MAKE) fuzz-live
	$(MAKE) fuzz-live ARGS=--names
	$(MAKE) attack
	$(MAKE) bench-limits
	$(MAKE) replicas
	$(MAKE) planted
	$(MAKE) gpu-check $(if $(wildcard /dev/nvidia0),,ARGS='--device cpu')

.PHONY: test-cloud
test-cloud: ## Build bin/weft-cloud, which copies repositories from buckets and registries, and test that (the first time it compiles their libraries for minutes)
	go build -tags cloud $(LINK) -o bin/weft-cloud ./cmd/weft
	go vet -tags cloud ./internal/cloud ./cmd/weft
	go test $(UNVETTED) -tags cloud ./internal/cloud

.PHONY: race
race: setup ## Run the tests of `make quick` of packages that start goroutines under the race detector (EVERY=1: every test of all)
	go test $(UNVETTED) -race $(if $(EVERY),-timeout 1h ./...,-short $(shell scripts/concurrent.sh))

.PHONY: fuzz
fuzz: setup ## Run each fuzz target for FUZZTIME (10s), or every FUZZSHAREth
	scripts/fuzz.sh $(FUZZTIME) $(FUZZSHARE)

.PHONY: fuzz-live
fuzz-live: setup build ## Send a real server hostile messages of all protocols, headers and frames (ARGS='--executions 10000000 --seed 7')
	$(LAB) ./fuzzlive
	bin/fuzzlive $(ARGS)

.PHONY: bench
bench: setup $(TOOLS)/benchstat ## Run benchmarks matching FILTER, COUNT (6) times each; compares with the run before
	scripts/bench.sh '$(FILTER)' '$(COUNT)' $(TOOLS)/benchstat

.PHONY: bench-limits
bench-limits: setup build ## Compare the server with an echo, with ONNX Runtime alone and with itself overloaded; writes docs/bench/limits.md (ARGS=--quick: two minutes)
	$(LAB) ./limits
	bin/limits --weft bin/weft --out docs/bench/limits.md $(ARGS)

.PHONY: attack
attack: setup build ## Attack a server, and measure what that costs it and honest callers; writes docs/bench/attacks.md (ARGS=--quick: six minutes)
	$(LAB) ./attack
	bin/attack --weft bin/weft --out docs/bench/attacks.md $(ARGS)

.PHONY: replicas
replicas: setup build ## Run several servers behind gRPC's balancing, Envoy and HAProxy, replace and kill them, and judge what callers see; writes docs/bench/replicas.md (ARGS=--quick: two minutes, writes nothing; skips balancers that cannot be had; DEPLOY_REQUIRED=1 fails)
	$(LAB) ./replicas
	envoy=$$(scripts/deploy/envoy.sh) || [[ $$? == 3 ]]; haproxy=$$(scripts/deploy/haproxy.sh) || [[ $$? == 3 ]]; \
	bin/replicas --weft bin/weft --envoy "$$envoy" --haproxy "$$haproxy" --out docs/bench/replicas.md $(ARGS)

.PHONY: sim
sim: ## Compare the scheduler with others in simulation; writes docs/sim in four minutes (ARGS=--quick: prints, in half of one)
	$(LAB) ./simulate
	bin/simulate $(if $(ARGS),$(ARGS),--out docs/sim >/dev/null)

.PHONY: gpu-check
gpu-check: setup build ## Check a server on this machine's GPU: answers, speed, sharing, telemetry (ARGS='--device cpu': without one)
	$(LAB) ./gpucheck
	bin/gpucheck $(ARGS)

.PHONY: smoke
smoke: setup build $(TOOLS)/grpcurl ## Serve the example models and ask them through a real client
	scripts/smoke.sh bin/weft $(TOOLS)/grpcurl

CLIENTS := .weft/clients

.PHONY: wheel
wheel: setup build wheel-client ## Build the wheels of the server, for this machine, and of the Python client into bin (needs Python)
	scripts/packages/build.sh bin/weft bin

.PHONY: wheel-client
wheel-client: ## Build the wheel of the Python client into bin (needs Python)
	@mkdir -p bin
	CLIENTS_REQUIRED=1 scripts/clients/environment.sh $(CLIENTS) scripts/clients/requirements.txt
	scripts/clients/wheel.sh $(CLIENTS)/bin/python bin

.PHONY: test-clients
test-clients: setup build ## Test clients against a server: in Python ours, Triton's and TensorFlow Serving's, those in Go and JavaScript of the documents, and with WEFT_LONG=1 those in C++ and Java (skips where Node or packages cannot be had; CLIENTS_REQUIRED=1 fails)
	scripts/clients/run.sh bin/weft $(CLIENTS)

.PHONY: test-page
test-page: setup build ## Test the live page in a headless Chromium, against made-up data and servers; screenshots go to .weft/page (skips without Node or Chromium; PAGE_REQUIRED=1 fails)
	$(LAB) ./demo
	scripts/page/run.sh --all .weft/page

.PHONY: picture
picture: setup build ## Take the pictures of README anew, with the demo and a headless Chromium (docs/pictures)
	$(LAB) ./demo
	node scripts/page/picture.mjs

.PHONY: site
site: ## Build the site of docs/ into .weft/docs, and refuse links that lead nowhere (skips without Python or the packages; SITE_REQUIRED=1 fails)
	scripts/site/build.sh .weft/docs

.PHONY: generate
generate: $(BUF) $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## Regenerate proto/gen, and the pages of commands and settings
	$(BUF) generate
	go test ./cmd/weft ./internal/archtest -run 'TestPage$$|TestSettingsPage$$' -args -update

.PHONY: checkgenerate
checkgenerate: $(BUF) $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## Fail if proto/gen is not what `make generate` writes
	@rm -rf .weft/generated
	@$(BUF) generate --output .weft/generated
	@diff -r .weft/generated/proto/gen proto/gen || { echo 'proto/gen is stale: run `make generate` and commit the result' >&2; exit 1; }
	@rm -rf .weft/generated

.PHONY: lint
lint: lint-go lint-proto rooms words ## Run all linters

.PHONY: lint-go
lint-go: $(TOOLS)/golangci-lint $(TOOLS)/deadcode ## Lint the Go code: golangci-lint, formatting, dead code
	$(TOOLS)/golangci-lint run --allow-parallel-runners ./...
	cd tools/lab && $(TOOLS)/golangci-lint run --allow-parallel-runners ./...
	scripts/deadcode.sh $(TOOLS)/deadcode

.PHONY: lint-proto
lint-proto: $(BUF) ## Lint the protocol and refuse breaking changes against the main branch
	$(BUF) lint
	$(BUF) format --diff --exit-code --path proto/weft
	scripts/breaking.sh $(BUF)

.PHONY: rooms
rooms: ## Print the lines of Go by room; fail where a room is larger than scripts/rooms.txt allows
	scripts/rooms.sh

.PHONY: words
words: ## Refuse turns of phrase that make readers stop, and commit subjects that are not "pkg: verb object"
	scripts/words.sh

.PHONY: vulncheck
vulncheck: $(TOOLS)/govulncheck ## Look for known vulnerabilities that the code reaches (skips where the database cannot be reached; VULNCHECK_REQUIRED=1 fails)
	scripts/vulncheck.sh $(TOOLS)/govulncheck

.PHONY: sbom
sbom: setup build ## List what bin/weft is made of in bin/weft.cdx.json (CycloneDX)
	go run ./scripts/sbom

.PHONY: package
package: setup build $(TOOLS)/nfpm ## Pack bin/weft and ONNX Runtime for this machine: an archive, a .deb, a .rpm and a wheel in bin (Linux)
	rm -f bin/weft_* bin/weft-*
	scripts/packages/build.sh bin/weft bin $(TOOLS)/nfpm

.PHONY: test-packages
test-packages: package ## Install the packages into folders, and serve the example models with each (skips what needs tools that are not here)
	scripts/packages/test.sh bin $(TOOLS)/nfpm

.PHONY: test-image
test-image: ## Build the container image and serve with it; without docker or podman, run its build steps in a folder (two minutes)
	scripts/packages/image.sh "$$(mktemp --directory)"

.PHONY: test-fleet
test-fleet: ## Check the dashboard and the alerts in deploy/ against the metrics, and try the alerts (skips what needs promtool where it is not; FLEET_REQUIRED=1 fails)
	go test -C scripts/fleet $(UNVETTED) -count=1 -v .

.PHONY: test-deploy
test-deploy: setup build ## Check the files for Kubernetes, Envoy and HAProxy in deploy/, against schemas and by those programs, which are fetched (skips what cannot be had; DEPLOY_REQUIRED=1 fails)
	scripts/deploy/run.sh

.PHONY: test-cluster
test-cluster: ## Apply deploy/kubernetes to a real API server, and compare what KServe's controller makes of it with golden files (the first time it compiles both, for a quarter of an hour; skips what cannot be had; DEPLOY_REQUIRED=1 fails; ARGS=--update writes the files)
	tools/lab/cluster/run.sh $(ARGS)

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint $(BUF) ## Format the Go and protocol sources
	$(TOOLS)/golangci-lint fmt ./...
	$(BUF) format --write --path proto/weft

.PHONY: ci
ci: ## Everything a change must pass, two parts at a time; what each says comes when it has ended. What is measured runs by itself
	$(MAKE) --jobs=2 --output-sync=target FUZZTIME=2000x FUZZSHARE=4 race test test-lab lint checkgenerate vulncheck smoke test-clients test-packages test-image test-fleet test-deploy test-page site fuzz
	$(MAKE) replicas ARGS=--quick

.PHONY: clean
clean: ## Remove what was built (keeps the downloaded ONNX Runtime)
	rm -rf bin .weft/bin .weft/bench .weft/generated tools/node_modules

# Tools are built once per pinned version: a changed tools/go.mod is newer than the binaries.
tool = go build -C tools -o $(TOOLS)/ $(1) && touch $@

$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	$(call tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

$(TOOLS)/deadcode: tools/go.mod tools/go.sum
	$(call tool,golang.org/x/tools/cmd/deadcode)

$(TOOLS)/govulncheck: tools/go.mod tools/go.sum
	$(call tool,golang.org/x/vuln/cmd/govulncheck)

$(TOOLS)/benchstat: tools/go.mod tools/go.sum
	$(call tool,golang.org/x/perf/cmd/benchstat)

# In a module of its own: with nfpm, others of the tools above would be built of libraries that they were not tested with.
$(TOOLS)/nfpm: scripts/packages/nfpm/go.mod scripts/packages/nfpm/go.sum
	go build -C scripts/packages/nfpm -o $(TOOLS)/ github.com/goreleaser/nfpm/v2/cmd/nfpm && touch $@

$(TOOLS)/grpcurl: tools/go.mod tools/go.sum
	$(call tool,github.com/fullstorydev/grpcurl/cmd/grpcurl)

$(TOOLS)/protoc-gen-go: tools/go.mod tools/go.sum
	$(call tool,google.golang.org/protobuf/cmd/protoc-gen-go)

$(TOOLS)/protoc-gen-go-grpc: tools/go.mod tools/go.sum
	$(call tool,google.golang.org/grpc/cmd/protoc-gen-go-grpc)

$(BUF): tools/package.json tools/package-lock.json tools/.npmrc
	npm ci --prefix tools
	touch $@
