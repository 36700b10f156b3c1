# make run    a demonstration on this machine
# make test   what CI runs; installs bubblewrap if it is missing
# make help   the rest

export CGO_ENABLED = 0
GO      ?= go
BIN     := bin
ENGINES := native bwrap landlock seatbelt noop docker
PROGRAMS := ./cmd/sbxhost ./cmd/sbx ./cmd/sbxhost-mcp ./cmd/sbxhost-init ./integrations/nomad/nomad-driver-sbxhost \
	$(foreach e,$(ENGINES),./plugins/$(e)/sbxhost-engine-$(e))
# All is built in one way, so that each package is compiled once: for programs and for tests,
# by root and, from a copy of the cache and in another directory, by an ordinary user. gRPC
# leaves out its tracing by the tag, and with it net/http and html/template. Without
# DWARF, linking takes half the time.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath -tags=grpcnotrace -ldflags=-w
MODULE  := github.com/sbxhost/sbxhost
# Modules of their own that require this one. go.work has them and the examples.
MODULES := cmd/sbxhost-mcp integrations/nomad plugins/docker
EXAMPLES := examples/engine-firejail
# The tools' modules are not in go.work: what the tools require must not choose
# versions for what is built here.
TOOL    = $(shell cd tools && GOWORK=off $(GO) tool -n $(1))

.PHONY: help run build test test-all probes unit race-engines user-unit programs check cross vet typecheck staticcheck fmt-check tidy tidy-check generate generate-check lines bench vm fuzz deps dist clean

help: ## what there is to make
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 18

run: build ## build, then show what a sandboxed command sees and does not see
	@test/demo.sh $(BIN)/sbxhost

build: ## the command, the lean engines, the init and the driver for Nomad, into bin/
	@mkdir -p $(BIN)
	$(GO) build -ldflags '-s -w' -o $(BIN)/ $(PROGRAMS)

test: deps check unit ## checks, unit and end-to-end tests: what CI runs as root

# Which tests a short run leaves out, and why, is in test/suites.txt; what it has a shorter
# form of says testing.Short(): rounds of storms and of hostile names, versions of Landlock but the
# first and the last, the kit's probes in sessions and across the wire. It has the race detector for
# some packages, and builds nothing for other systems.
test-all: ## all of that and what it leaves out, as whoever calls it: full rounds, each engine's probes in each way, cross builds, fuzzing; an hour
	$(MAKE) --no-print-directory test race-engines cross fuzz SHORT=

SHORT   ?= -short
TESTING  = $(GO) test $(SHORT) -vet=off -timeout $(if $(SHORT),15m,90m) -p 3 -parallel 4 # more than processors: most wait for other processes
# A short run leaves packages that have no test in it to typecheck.
PACKAGES = $(filter-out $(foreach p,$(call NAMED,all),$(p) $(p)/%),$(shell $(GO) list work))
# The race detector is for packages of this module that import sync. Those of engines run
# without it: in the tests of host, engines are processes that have it. It needs cgo; without
# a C compiler all run without. A short run has it for those that need neither gRPC nor
# net/http: to compile these once more takes longer than their tests.
SYNC     = $(filter-out $(addprefix $(MODULE)/,plugins/% shared/enginetest shared/enginetest/% test/%),$(shell $(GO) list -f '{{range .Imports}}{{if eq . "sync"}}{{$$.ImportPath}}{{end}}{{end}}' ./...))
RACED    = $(if $(shell command -v $${CC:-cc}),$(if $(SHORT),$(addprefix $(MODULE)/,internal/review internal/scan internal/engine/holder internal/stubs workspace),$(SYNC)))
RACING   = CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(TESTING) -race
# What memory is taken in one goroutine is measured without the detector, which takes ten times
# the processor for it, and memory of its own.
UNRACED  = '^TestHeld$$' ./workspace

# Tests start programs that are built once, apart from bin/: an engine takes the init that
# stands beside it.
export SBXHOST_TEST_BIN := $(CURDIR)/$(BIN)/test
programs:
	@mkdir -p $(SBXHOST_TEST_BIN)
	$(GO) build -o $(SBXHOST_TEST_BIN)/ $(if $(SHORT),$(filter-out ./integrations/%,$(PROGRAMS)),$(PROGRAMS)) ./shared/enginetest/testdata/probe $(wildcard ./docs/examples/*)

# What a short run as root, or as an ordinary user, leaves out: tests, and packages.
ROOT     := $(filter 0,$(shell id -u))
suite     = $(if $(SHORT),$(shell awk '$$1 ~ /^($(1))$$/ && $$2 $(2) /^\^/ { print $$2 }' test/suites.txt))
empty    :=
SKIP      = -skip '$(subst $(empty) ,|,$(call suite,$(1),~))'
NAMED     = $(addprefix $(MODULE)/,$(call suite,$(1),!~))
MINE     := all$(if $(ROOT),|user)

probes: programs ## writes the table of all probes and what is found here, to bin/probes.md
	$(GO) test -vet=off -count=1 -timeout 30m ./shared/enginetest -run TableOfProbes -table $(CURDIR)/$(BIN)/probes.md

unit: programs ## the tests alone; what fails does not keep the rest from running
	@failed=; \
	$(if $(RACED),$(RACING) -skip $(firstword $(UNRACED)) $(RACED) || failed=1; $(TESTING) -run $(UNRACED) || failed=1;) \
	$(TESTING) $(call SKIP,$(MINE)) ./test ./shared/enginetest ./plugins/docker ./plugins/native ./host $(filter-out $(RACED) $(call NAMED,$(MINE)),$(PACKAGES)) || failed=1; : the longest first; \
	(cd tools && GOWORK=off $(TESTING) ./...) || failed=1; \
	test -z "$$failed"

# The kit starts the test program itself in hundreds of sandboxes, and tests of limits look at
# the init's own process: with the detector in it the one takes too long and the other is untrue.
race-engines: ## the tests of engines with the race detector, but for the kit and limits
	$(RACING) -skip 'Conformance|TableOfProbes|BrokenEngine|NothingIsHeld|Python|Limits|ManySmallProcesses' ./plugins/native ./plugins/bwrap ./shared/enginetest

user-unit: programs ## of the tests, those of what differs for an ordinary user: what CI runs as one
	$(TESTING) $(call SKIP,all|root) $(call NAMED,both)

# A limit on memory in the place of collection saves a quarter of what typecheck computes.
check: export GOGC = off
check: export GOMEMLIMIT = 3GiB
check: fmt-check vet typecheck staticcheck tidy-check generate-check ## gofmt, vet, types for other systems, staticcheck, drift of go.mod and of generated code

fmt-check:
	@out=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); test -z "$$out" || { echo "gofmt these:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet $(PACKAGES)
	cd tools && GOWORK=off $(GO) vet ./...

# To read all that is imported takes seconds for each system, to compile it a minute.
typecheck: CHECK = $(call TOOL,typecheck)
typecheck: ## whether everything would compile for the other systems
	GOOS=darwin GOARCH=arm64 $(CHECK) work
	GOOS=linux GOARCH=arm64 $(CHECK) work
	GOOS=windows GOARCH=amd64 $(CHECK) ./internal/glob ./internal/paths ./shared/seccomp ./internal/wire
	GOOS=windows GOARCH=amd64 $(CHECK) -tests=false ./config ./host

cross: ## vets and links everything for the other systems
	GOOS=darwin GOARCH=arm64 $(GO) vet work
	GOOS=linux GOARCH=arm64 $(GO) vet work
	GOOS=linux GOARCH=arm64 $(GO) build work
	GOOS=darwin GOARCH=arm64 $(GO) build work
	GOOS=darwin GOARCH=amd64 $(GO) build work
	GOOS=windows GOARCH=amd64 $(GO) build ./config ./host
	GOOS=windows GOARCH=amd64 $(GO) vet ./internal/glob ./internal/paths ./shared/seccomp ./internal/wire

staticcheck:
	$(call TOOL,staticcheck) $(PACKAGES)

# A module that requires this one has no replace line, since go install refuses
# those, and its version of this one may not be published yet. So tidy works on a
# copy of its go.mod and go.sum, in which this module is the one that lies here.
define TIDY_COPY
dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
cp go.mod go.sum "$$dir" && \
$(GO) mod edit -replace "github.com/sbxhost/sbxhost=$(CURDIR)" "$$dir/go.mod" && \
GOWORK=off $(GO) mod tidy -modfile "$$dir/go.mod"
endef

tidy: ## go mod tidy of every module
	GOWORK=off $(GO) mod tidy
	cd tools && GOWORK=off $(GO) mod tidy
	@for module in $(EXAMPLES); do (cd $$module && GOWORK=off $(GO) mod tidy) || exit 1; done
	@for module in $(MODULES); do (cd $$module && $(TIDY_COPY) && \
		$(GO) mod edit -dropreplace github.com/sbxhost/sbxhost "$$dir/go.mod" && cp "$$dir/go.mod" "$$dir/go.sum" .) || exit 1; done

tidy-check:
	GOWORK=off $(GO) mod tidy -diff
	cd tools && GOWORK=off $(GO) mod tidy -diff
	@for module in $(EXAMPLES); do (cd $$module && GOWORK=off $(GO) mod tidy -diff) || exit 1; done
	@for module in $(MODULES); do (cd $$module && $(TIDY_COPY) -diff) || exit 1; done

generate: ## the protocol's Go code, from shared/enginepb/engine.proto
	cd tools && GOWORK=off $(GO) run ./genproto ../shared/enginepb engine.proto

generate-check:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp shared/enginepb/engine.proto "$$dir" && \
	(cd tools && GOWORK=off $(GO) run ./genproto "$$dir" engine.proto) && \
	for f in engine.pb.go engine_grpc.pb.go; do diff -u "shared/enginepb/$$f" "$$dir/$$f" || { echo "run make generate"; exit 1; }; done

lines: ## lines of Go code without tests, generated code, comments and blank lines
	@cd tools && GOWORK=off $(GO) run ./lines ..

bench: build ## what a command costs, next to a plain line of bubblewrap
	$(GO) run ./test/bench -bin $(BIN)

# Packages and minutes are needed: see test/vm/README.md.
vm: ## limits, refusals and the kit in virtual machines (VM_FLAGS="-a arm64" CHECKS=arch)
	test/vm/vm.sh $(VM_FLAGS) $(or $(CHECKS),limits:service limits:desktop limits:login limits:delegated limits:none userns kernel:2 arch kit:login kit:service)

fuzz: ## each fuzz target for a short while (FUZZTIME=30s)
	@$(GO) list work | { status=0; while read -r pkg; do \
		for f in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz'); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $${FUZZTIME:-30s} "$$pkg" || status=1; \
		done; \
	done; exit $$status; }

deps:
	@test/deps.sh

dist: ## what a release consists of, into dist/ (VERSION=0.1.0): tarballs, .deb, .rpm, checksums
	tools/dist/dist $(VERSION)

clean: ## remove bin/ and dist/
	rm -rf $(BIN) dist
