# A bare `make` lists what there is. Everything that a target needs beyond Go it installs itself, see
# tools/need.sh; everything it makes is in bin/ and .cache/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Go modules of this repository that hold code: the product's, and those of tools with dependencies
# that the product shall not have. That of tools/kube is only built: to vet it is to compile Kubernetes once more.
MODULES = $(shell find . -name .cache -prune -o -path ./tools/kube -prune -o -name go.mod -printf '%h\n' | sort | while read -r dir; do \
	[ -z "$$(find "$$dir" -name '*.go' -print -quit)" ] || echo "$$dir"; done)

# Where goroutines meet, and a data race could be.
RACE = ./render ./runner/qmp/... ./runner/cluster/... ./runner/endpoint/... ./runner/serial ./runner/consoleserver ./runner/guestagent ./runner/vmopagent ./cmd/cuvee-runner ./controller/templateset

# What the programs say they are: the newest tag and the commit.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Further arguments for go test, for instance `make test TESTFLAGS=-v`.
TESTFLAGS ?=

, := ,

# Where tests find a Kubernetes. If it is set already, none is built.
ifndef KUBEBUILDER_ASSETS
export KUBEBUILDER_ASSETS := $(CURDIR)/.cache/kube/bin
KUBE = kube
endif

# Runs a command in each of the modules.
each = for module in $(MODULES); do (cd "$$module" && echo "== $$module: $(1)" && $(1)); done

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: ## Boot examples/hello.yaml in QEMU, with its console in this terminal
	@tools/need.sh demo
	@tools/demo.sh

.PHONY: test
test: $(KUBE) ## Run all tests, then those with concurrency again under the race detector
	@tools/need.sh test
	@$(call each,$(strip go test $(TESTFLAGS)) ./...)
	@echo "== race: go test -race $(RACE)"
	@go test -race $(TESTFLAGS) $(RACE)

.PHONY: kube
kube: ## Build the Kubernetes that tests run on (a quarter of an hour, once); prints where it is
	@tools/kube/build.sh

.PHONY: smoke
smoke: RUN = sample|console|stop-start
smoke: e2e ## The first few of the scripts of e2e

# Before Kubernetes is built for nothing.
.PHONY: can-cluster
can-cluster:
	@tools/cluster/cluster.sh check

.PHONY: e2e
e2e: $(if $(filter skip,$(CUVEE_E2E)),,can-cluster $(KUBE)) ## Run VMs on a cluster of real nodes, as a user: the scripts of tools/e2e/testdata, or those of RUN=name; takes root and minutes
	@QUICKSTART=$(if $(filter-out quickstart,$(RUN)),no,yes) tools/e2e/e2e.sh '-test.run=TestScripts/^($(or $(RUN),.*))$$'

.PHONY: cluster
cluster: can-cluster $(KUBE) ## Start a cluster of real nodes (NODES=1 to 3) with Cuvee's images, which stays up; takes root
	@tools/cluster/cluster.sh up

.PHONY: cluster-down
cluster-down: ## End it
	@tools/cluster/cluster.sh down

.PHONY: images
images: ## Build the images of the manager and the runner with docker, podman or buildah
	@tools/images/build.sh

.PHONY: load-kind
load-kind: ## Build bin/cuvee and the images of the quick start in the README, and load them into the cluster of kind on this machine
	@tools/need.sh demo
	@tools/images/load.sh kind

.PHONY: load-k3s
load-k3s: ## The same for k3s
	@tools/need.sh demo
	@tools/images/load.sh k3s

.PHONY: images-offline
images-offline: ## Build the same without a registry, into archives whose names it prints; takes root
	@tools/need.sh images-offline
	@tools/images/offline.sh

.PHONY: test-long
test-long: $(KUBE) ## Start, change and stop VMs again and again, storm their consoles, look for leaks, kill the manager at work, and nodes; takes root and long
	@tools/need.sh test
	@go test -tags long -count=1 -timeout 60m -v $(TESTFLAGS) ./runner ./runner/content ./cmd/cuvee-runner ./cmd/cuvee-manager -run '^TestLong'
	@tools/cluster/test.sh
	@tools/e2e/e2e.sh '-test.run=TestLong|TestScripts/^shutdown' -shutdowns=10 -patience=15m -test.parallel=1

.PHONY: test-guest
test-guest: ## Boot a whole Debian, which it builds, and look at it from inside and outside; takes root and minutes
	@tools/need.sh test test-guest
	@tools/debian-guest/build.sh
	@go test -tags guest -count=1 -timeout 30m $(TESTFLAGS) ./cmd/cuvee -run '^TestGuest'

.PHONY: bench-render
bench-render: ## Measure rendering; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test
	@./bench/render.sh

.PHONY: bench-runner
bench-runner: ## Measure the runner and what it runs; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test
	@./bench/runner.sh

.PHONY: bench-controller
bench-controller: $(KUBE) ## Measure the controller on a real API server, with 10,000 VMs; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test
	@./bench/controller.sh

.PHONY: bench-plan
bench-plan: $(KUBE) ## Measure "cuvee plan" on a real API server, with 10,000 VMs; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test
	@./bench/plan.sh

.PHONY: bench-manager
bench-manager: $(KUBE) ## Measure the start of the manager on a real API server; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test
	@./bench/manager.sh

.PHONY: bench-machine
bench-machine: $(KUBE) ## Measure Machines on a real API server, with 1,000 of them; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test
	@./bench/machine.sh

.PHONY: bench-cluster
bench-cluster: $(KUBE) ## Measure VMs on a real node, from kubectl apply to a guest; takes root and minutes; prints lines of "figure NAME VALUE UNIT"
	@./bench/cluster.sh

.PHONY: bench-guest
bench-guest: ## Measure the boot of a whole Debian; takes root and minutes; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test test-guest
	@./bench/guest.sh

.PHONY: bench-console
bench-console: ## Measure consoles over websockets; prints lines of "figure NAME VALUE UNIT"
	@./bench/console.sh

.PHONY: bench-import
bench-import: ## Measure how a disk is filled with an image; prints lines of "figure NAME VALUE UNIT"
	@tools/need.sh test
	@./bench/import.sh

.PHONY: bench-libvirt
bench-libvirt: ## Measure the start of a VM against libvirt, which it installs; takes root
	@tools/need.sh test
	@./bench/libvirt.sh

.PHONY: build
build: ## Build bin/cuvee, bin/cuvee-runner and bin/cuvee-manager
	@go build -ldflags "-X main.version=$(VERSION)" -o bin/cuvee ./cmd/cuvee
	@CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/cuvee-runner ./cmd/cuvee-runner
	@CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/cuvee-manager ./cmd/cuvee-manager

.PHONY: generate
generate: ## Make the generated files anew (CRDs, documents)
	@go generate ./...

.PHONY: fmt
fmt: ## Format the Go and CUE files
	@$(call each,$(CURDIR)/tools/lint/golangci-lint fmt)
	@go tool cue fmt --files .

.PHONY: check
check: vet lint formats generated tidy ## Everything that is checked beside the tests (the five below)

.PHONY: vet
vet: ## go vet, and cue vet over the schema and the templates
	@$(call each,go vet -tags long$(,)guest$(,)e2e ./...)
# A site's files, such as those of tools/e2e, are no package without the templates that they are laid over.
	@go tool cue vet -c=false ./schema/... ./templates/... ./kustomize/...

.PHONY: lint
lint: ## golangci-lint over the Go files, shellcheck over the scripts
	@tools/need.sh check
	@shellcheck $$(git grep --untracked -lIE '^#!.*\b(ba)?sh$$' -- .ci tools bench ':!*.txtar')
	@$(call each,$(CURDIR)/tools/lint/golangci-lint run)

.PHONY: formats
formats: ## Are the CUE files formatted, and the Go files that lint does not look at?
	@go tool cue fmt --check --files .
	@test -z "$$(gofmt -l tools/kube)" || { echo "not formatted: $$(gofmt -l tools/kube)"; exit 1; }

.PHONY: generated
generated: ## Are the generated files current?
	@tools/need.sh check
	@tools/generated.sh

.PHONY: tidy
tidy: ## Is every go.mod tidy?
	@$(call each,go mod tidy -diff)
	@cd tools/kube && go mod tidy -diff

.PHONY: clean
clean: ## Remove what was built and cached here
	@rm -rf bin .cache
