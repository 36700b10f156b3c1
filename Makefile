# make run    a demonstration on this machine
# make test   what CI runs; installs bubblewrap if it is missing
# make help   the rest

export CGO_ENABLED = 0
GO      ?= go
BIN     := bin
ENGINES := native bwrap seatbelt noop docker
LDFLAGS := -s -w
# gRPC then leaves out its tracing, and with it net/http and html/template.
TAGS    := grpcnotrace
KIT     := Conformance|TestSecurityTable|TestBrokenEnginesAreCaught|TestNothingIsHeld|TestPython|TestLimitsHeld|TestTooSmallLimits|TestManySmallProcesses|TestPodman$$
# Modules of their own that require this one. go.work has them and the examples.
MODULES := cmd/sbxhost-telemetry plugins/docker
EXAMPLES := examples/embed examples/engine-firejail
# The tools' modules are not in go.work: what the tools require must not choose
# versions for what is built here.
TOOL    = $(shell cd tools && GOWORK=off $(GO) tool -n $(1))

.PHONY: help run build test test-all unit user-build user-unit check cross vet staticcheck fmt-check tidy tidy-check generate generate-check lines man bench vm fuzz deps dist clean

help: ## what there is to make
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 18

run: build ## build, then show what a sandboxed command sees and does not see
	@test/demo.sh $(BIN)/sbxhost

build: ## the command, the lean engines and the init, into bin/
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/sbxhost ./cmd/sbx ./cmd/sbxhost-telemetry ./shared/sandboxinit/sbxhost-init $(foreach e,$(ENGINES),./plugins/$(e)/sbxhost-engine-$(e))

test: deps check unit ## checks, unit and end-to-end tests: what CI runs, as root and, of unit, user-unit as a user

# What a short run leaves out: the probes of the kit in sessions and across the wire, the
# comparison of the table of probes in docs/security.md, most scripts without the engines
# beside sbxhost, most tests with Podman and with daemons without root, and most rounds of
# storms, of full disks and of names that are hostile.
test-all: ## all of that and what it leaves out: full rounds, each engine's probes in each way, cross builds, fuzzing; an hour
	$(MAKE) --no-print-directory test cross fuzz SHORT= PLAIN='docs/examples/% examples/% plugins/seatbelt% test test/%'

SHORT   ?= -short
TESTING  = $(SHORT) -vet=off -timeout 30m
MODULE  := github.com/sbxhost/sbxhost
# Tests that run without the race detector: nothing runs at once there, they start
# programs that were built without it, or what they link takes a minute to build with it.
PLAIN   ?= cmd/sbxhost-telemetry config docs/% egress examples/% glob hostpath host/view paths plugins/docker% plugins/seatbelt% policy shared/mountplan shared/seccomp test test/%
PACKAGES = $(shell $(GO) list work)
# The longest start first: one that starts last has a core idle beside it for minutes.
LONGEST  = $(addprefix $(MODULE)/,test plugins/docker docs/examples/sbxhost-engine-podman)
PLAINLY  = $(filter $(addprefix $(MODULE)/,$(PLAIN)),$(PACKAGES))
WITHOUT  = $(filter $(PLAINLY),$(LONGEST)) $(filter-out $(LONGEST),$(PLAINLY))
WITHKIT  = $(filter-out $(WITHOUT),$(addprefix $(MODULE)/,plugins/native plugins/bwrap plugins/noop plugins/docker shared/enginetest))
# Most tests of these wait for another process more than they compute.
WAITING  = -parallel 6

# The race detector needs cgo; without a C compiler the same tests run plain. The
# conformance kit runs plain in any case: it starts the test program itself in
# hundreds of sandboxes, and with the detector in it that takes a quarter of an hour.
# So do the tests that look at the init's own process, which is then that program.
unit: ## the tests alone; what fails does not keep the rest from running
	@failed=; \
	if command -v $${CC:-cc} >/dev/null 2>&1; then \
		echo "go test -race, but for the kit"; CGO_ENABLED=1 $(GO) test -race $(TESTING) -skip '$(KIT)' $(filter-out $(WITHOUT),$(PACKAGES)) || failed=1; \
		echo "go test, the kit"; $(GO) test $(TESTING) $(WAITING) -run '$(KIT)' $(WITHKIT) || failed=1; \
		echo "go test, the rest"; $(GO) test $(TESTING) $(WAITING) $(WITHOUT) || failed=1; \
	else \
		echo "no C compiler: go test without the race detector"; $(GO) test $(TESTING) $(PACKAGES) || failed=1; \
	fi; \
	(cd tools && GOWORK=off $(GO) test $(TESTING) ./...) || failed=1; \
	test -z "$$failed"

# What differs for a user, by programs that this user has built: USER_BIN has them.
USER_TESTS   := test plugins/docker host plugins/native plugins/bwrap egress/gate docs/examples/sbxhost-engine-podman shared/holder review examples/engine-firejail shared/sandboxinit # longest first
USER_PROGRAMS = $(MODULE)/cmd/sbxhost $(MODULE)/cmd/sbx $(MODULE)/cmd/sbxhost-telemetry $(foreach e,$(ENGINES),$(MODULE)/plugins/$(e)/sbxhost-engine-$(e)) \
	$(addprefix $(MODULE)/,shared/sandboxinit/sbxhost-init shared/enginetest/testdata/probe docs/examples/sbxhost-engine-podman)
# Of package test, what is about the documents and the source, and not about who runs it.
USER_SKIP    := ^Test(Docs.*|ConfigurationIsDocumented|ProtocolIsDocumented|ImportRules.*|NoMethodsAreLookedUp|RootModuleLeavesVersionsAlone|GoInstall|SDK.*|UndocumentedNamesAreFound)$$
USER_BIN     ?= bin/user

user-build: ## builds what user-unit runs, into USER_BIN
	@mkdir -p $(USER_BIN)/tests $(USER_BIN)/programs # apart: an engine takes the init that stands beside it
	$(GO) test -c -vet=off -o $(USER_BIN)/tests/ $(addprefix ./,$(USER_TESTS))
	$(GO) build -tags $(TAGS) -o $(USER_BIN)/programs/ $(USER_PROGRAMS)

user-unit: ## the tests of what differs for a user, as that user, by what user-build has built
	$(MAKE) --no-print-directory -j2 --output-sync=target $(addprefix user-unit/,$(USER_TESTS))

user-unit/%:
	@echo "$*" && cd $* && SBXHOST_TEST_BIN=$(abspath $(USER_BIN))/programs $(abspath $(USER_BIN))/tests/$(notdir $*).test -test.timeout 20m $(if $(SHORT),-test.short) -test.parallel 4 -test.skip '$(USER_SKIP)'

check: fmt-check vet staticcheck tidy-check generate-check ## gofmt, vet here and for macOS and arm64, staticcheck, drift of go.mod and of generated code

fmt-check:
	@out=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); test -z "$$out" || { echo "gofmt these:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet work
	cd tools && GOWORK=off $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet work
	GOOS=linux GOARCH=arm64 $(GO) vet ./plugins/native/... ./plugins/bwrap/... ./shared/... ./hostpath ./scan ./sessiondir ./stubs ./workspace

cross: ## links everything for the other systems
	GOOS=linux GOARCH=arm64 $(GO) build work
	GOOS=darwin GOARCH=arm64 $(GO) build work
	GOOS=darwin GOARCH=amd64 $(GO) build work
	GOOS=freebsd GOARCH=amd64 $(GO) build ./cmd/sbxhost ./config ./host ./shared/...
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/sbxhost
	GOOS=windows GOARCH=amd64 $(GO) vet ./glob ./paths ./shared/seccomp ./shared/wire ./telemetry

staticcheck:
	$(call TOOL,staticcheck) work

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

man: ## the manual page, from the help texts
	$(GO) run ./docs/man cmd/sbxhost/help docs/man/sbxhost.1

bench: build ## what a command costs, next to a plain line of bubblewrap
	$(GO) run ./test/bench -bin $(BIN)

# Packages and minutes are needed: see test/vm/README.md.
vm: ## limits, refusals and the kit in virtual machines (VM_FLAGS="-a arm64" CHECKS=arch)
	test/vm/vm.sh $(VM_FLAGS) $(or $(CHECKS),limits:service limits:desktop limits:login limits:delegated limits:none userns kernel:2 arch kit:login kit:service)

fuzz: ## each fuzz target for a short while (FUZZTIME=30s)
	@$(GO) list work | while read -r pkg; do \
		for f in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz'); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $${FUZZTIME:-30s} "$$pkg" || exit 1; \
		done; \
	done

deps:
	@test/deps.sh

dist: ## what a release consists of, into dist/ (VERSION=0.1.0): tarballs, .deb, .rpm, checksums
	tools/dist/dist $(VERSION)

clean: ## remove bin/ and dist/
	rm -rf $(BIN) dist
