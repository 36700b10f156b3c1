# make run    a demonstration on this machine
# make test   everything that can be tested here; installs bubblewrap if it is missing
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
# The tools' module is not in go.work: what the tools require must not choose
# versions for what is built here.
TOOL    = $(shell cd tools && GOWORK=off $(GO) tool -n $(1))

.PHONY: help run build test unit check cross vet staticcheck fmt-check tidy tidy-check generate generate-check lines man bench vm fuzz deps clean

help: ## what there is to make
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 18

run: build ## build, then show what a sandboxed command sees and does not see
	@test/demo.sh $(BIN)/sbxhost

build: ## the command, the lean engines and the init, into bin/
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/sbxhost ./cmd/sbxhost-telemetry ./shared/sandboxinit/sbxhost-init $(foreach e,$(ENGINES),./plugins/$(e)/sbxhost-engine-$(e))

test: deps check unit ## checks, unit and end-to-end tests, with the race detector where there is a C compiler

# The race detector needs cgo; without a C compiler the same tests run plain. The
# conformance kit runs plain in any case: it starts the test program itself in
# hundreds of sandboxes, and with the detector in it that takes a quarter of an hour.
# So do the tests that look at the init's own process, which is then that program.
unit:
	@if command -v $${CC:-cc} >/dev/null 2>&1; then \
		echo "go test -race work, but for the kit" && CGO_ENABLED=1 $(GO) test -race -skip '$(KIT)' -timeout 30m work && \
		echo "go test, the kit" && $(GO) test -run '$(KIT)' -timeout 30m ./plugins/... ./plugins/docker ./shared/enginetest ./docs/examples/... $(addprefix ./,$(EXAMPLES)); \
	else \
		echo "no C compiler: go test work without the race detector"; $(GO) test -timeout 30m work; \
	fi
	cd tools && GOWORK=off $(GO) test ./...

check: fmt-check vet cross staticcheck tidy-check generate-check ## gofmt, vet, cross builds, staticcheck, drift of go.mod and of generated code

fmt-check:
	@out=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); test -z "$$out" || { echo "gofmt these:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet work
	cd tools && GOWORK=off $(GO) vet ./...
	GOOS=darwin GOARCH=amd64 $(GO) vet work

cross:
	GOOS=linux GOARCH=arm64 $(GO) build work
	GOOS=darwin GOARCH=arm64 $(GO) build work
	GOOS=darwin GOARCH=amd64 $(GO) build work

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

clean: ## remove bin/
	rm -rf $(BIN)
