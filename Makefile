# Bulkhead's ways in. `make help` lists them; every target may be interrupted and run again.
# Stamps are written last, so that an interrupted step is repeated and a finished one is not.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
STAMPS ?= build/stamps
PYTHON ?= python3
BIN := $(VENV)/bin
PY := $(BIN)/python
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
PYTEST_ARGS ?=
# `make test` runs this many test files at a time; each process has two API servers of its own (1 GiB).
TEST_PROCESSES ?= 2
IDLE_SECONDS ?= 300
SYNC_TENANTS ?= 1,5
CONFORMANCE_ARGS ?=

# The embedded host's needs: CNI plugins, packet filter, socket tools, image building, and a C compiler for runc's seccomp.
DEBIAN_PACKAGES := busybox-static ca-certificates conntrack containernetworking-plugins gcc iproute2 ipset iptables \
	kmod libc6-dev libseccomp-dev mmdebstrap nftables pkg-config procps socat util-linux

VENV_STAMP := $(VENV)/.bulkhead-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)
PACKAGES_STAMP := $(STAMPS)/packages-$(shell echo '$(DEBIAN_PACKAGES)' | sha256sum | cut -c1-16)

.PHONY: help setup packages venv demo down test binaries-for-tests host-up e2e install-readme scenarios simulation hunt outages chaos slurm devices gateway registry nodes upgrade bench-slurm bench-provision bench-sync bench-frontdoor bench-ledger bench-client bench-fragmentation conformance conformance-serial netpol-conformance check fmt crds docs dist clean

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-19s %s\n", $$1, $$2}' Makefile

setup: venv packages ## Python environment and Debian packages (root), each once

venv: $(VENV_STAMP)

# Debian's python3 may come without ensurepip (package python3-venv); an incomplete venv is recreated.
$(VENV_STAMP):
	@echo "==> Python environment in $(VENV), from requirements.lock"
	@if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "Python too old: $$($(PYTHON) -V); install Python 3.11 or newer, or give one: make PYTHON=python3.12"; exit 1; fi
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "    python3-venv is missing: installing it by apt"; \
		$(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; fi
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then $(PYTHON) -m venv --clear $(VENV); fi
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r requirements.lock \
		| { grep --line-buffered -E '^(Collecting|Installing|Successfully)' || true; } | cut -c1-120
	@$(PY) -m pip install --disable-pip-version-check -q --no-build-isolation --no-deps -e .
	@rm -f $(VENV)/.bulkhead-*; touch $@

packages: $(PACKAGES_STAMP)

$(PACKAGES_STAMP):
	@missing=""; for package in $(DEBIAN_PACKAGES); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'install ok installed' || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then \
		echo "==> Debian packages:$$missing"; \
		$(SUDO) apt-get update -qq; \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi
	@mkdir -p $(STAMPS); touch $@

demo: setup ## from an empty machine to two tenants with GPU work; SLURM=1 adds one in Slurm mode
	@$(PY) -u -m e2e.demo

down: venv ## stop the embedded host; leaves no process, mount, device, rule, cgroup or namespace
	@$(BIN)/bulkhead host down

binaries-for-tests: venv
	@echo "==> etcd and kube-apiserver for the tests"
	@$(PY) -u -m bulkhead.hostcluster.binaries etcd kubernetes $(addprefix kubernetes-,$(BULKHEAD_TEST_HOST_KUBERNETES))

# The tests would start the host themselves, but show none of its progress.
host-up: setup
	@$(BIN)/bulkhead host up

test: binaries-for-tests ## the tests that need no root
	@$(PY) -m pytest -m "not host and not simulation and not outage" -n $(TEST_PROCESSES) --dist loadfile $(PYTEST_ARGS)

# One hash seed, so that the order of sets, and with it every run, follows from SIMULATION_SEED alone: a run repeats until the code
# changes. `hunt` tries new histories.
simulation: venv ## syncer and ledger in simulation: every crash, thousands of faults and histories, seeded bugs (ten minutes)
	@PYTHONHASHSEED=0 $(PY) -m pytest tests/simulation tests/ledger/test_machine.py $(PYTEST_ARGS)

hunt: SIMULATION_SEED ?= $(shell date +%s)
hunt: venv ## new storms and histories, seeded by the time of day or SIMULATION_SEED (ten minutes)
	@echo "SIMULATION_SEED=$(SIMULATION_SEED)"
	@SIMULATION_SEED=$(SIMULATION_SEED) SIMULATION_STORMS=$${SIMULATION_STORMS:-1000} SIMULATION_EXAMPLES=$${SIMULATION_EXAMPLES:-1000} \
		PYTHONHASHSEED=0 $(PY) -m pytest tests/simulation tests/ledger/test_machine.py \
		-k "test_many_storms or test_many_histories or test_whatever_else_happens" $(PYTEST_ARGS)

outages: binaries-for-tests ## five minutes without an API, twenty syncers, older backups (half an hour, 8 GiB)
	@$(PY) -m pytest tests/apiserver/test_outages.py $(PYTEST_ARGS)

e2e: install-readme host-up ## the end-to-end tests and the chaos experiments, on the embedded host (root)
	@$(PY) -u -m pytest e2e/scenarios/core -m host -p no:cacheprovider $(PYTEST_ARGS)
	@$(PY) -u -m e2e.chaos

install-readme: setup ## the README's install section, word for word, on three nodes with a registry of their own (root)
	@$(PY) -u -m pytest e2e/scenarios/install -m host -p no:cacheprovider

scenarios: host-up ## the end-to-end tests alone
	@$(PY) -u -m pytest e2e/scenarios/core -m host -p no:cacheprovider $(PYTEST_ARGS)

chaos: host-up ## the six chaos experiments alone -> build/results/chaos.json
	@$(PY) -u -m e2e.chaos

slurm: setup ## the end-to-end tests of the Slurm mode; makes its images first (root)
	@$(BIN)/bulkhead host up --slurm
	@$(PY) -u -m pytest e2e/scenarios/slurm -m host -p no:cacheprovider $(PYTEST_ARGS)

devices: setup ## claims of tenants with the upstream test driver for dynamic resource allocation; builds it first (root)
	@$(PY) -u -m pytest e2e/scenarios/devices -m host -p no:cacheprovider $(PYTEST_ARGS)

gateway: binaries-for-tests ## ways into tenants by MetalLB and by Gateway API with Contour and Envoy, beside real API servers; builds them first (no root)
	@$(PY) -u -m bulkhead.hostcluster.binaries metallb contour
	@$(PY) -u -m pytest tests/ways -p no:cacheprovider $(PYTEST_ARGS)

registry: setup ## pulls from a registry with a password on a host without images: right, wrong, missing (root)
	@$(PY) -u -m pytest e2e/scenarios/registry -m host -p no:cacheprovider $(PYTEST_ARGS)

upgrade: setup ## an upgrade from an older chart and image with tenants at work on it, and its removal (five minutes, root)
	@$(PY) -u -m pytest e2e/scenarios/upgrade -m host -p no:cacheprovider $(PYTEST_ARGS)

nodes: setup ## three real nodes on one machine: traffic across them, one lost and regained; takes the host down before and after (root)
	@$(PY) -u -m pytest e2e/scenarios/nodes -m host -p no:cacheprovider $(PYTEST_ARGS)

bench-slurm: setup ## Slurm in a tenant beside the same daemons started plainly -> build/results/slurm.json
	@$(PY) -u -m e2e.performance.slurm

bench-provision: setup ## time to Ready and idle cost of planes -> build/results/provision.json
	@$(PY) -u -m e2e.performance --idle-seconds $(IDLE_SECONDS)

bench-sync: setup ## throughput, latency and cost of the mirror beside the host's own -> build/results/sync.json
	@$(PY) -u -m e2e.performance.sync --tenants $(SYNC_TENANTS)

bench-frontdoor: setup binaries-for-tests install-readme ## what the way in costs: from bare nodes to a tenant, login, proxy, a new name -> build/results/frontdoor.json
	@$(PY) -u -m e2e.performance.frontdoor

bench-ledger: binaries-for-tests ## gangs by the core alone; admissions, a gang of 512, a reclaim and a verdict at 500 simulated nodes, memory with 10,000 pods -> build/results/ledger.json
	@$(PY) -u -m bulkhead.hostcluster.binaries kwok
	@$(PY) -u -m e2e.performance.ledger

bench-fragmentation: binaries-for-tests ## one trace of pods and gangs with the ledger and with the stock scheduler alone -> build/results/fragmentation.json
	@$(PY) -u -m e2e.performance.fragmentation

bench-client: venv ## what codecs, loops and kinds of writes cost -> build/results/client-stack.json
	@$(PY) -u -m e2e.performance.client_stack

conformance: setup ## the upstream conformance specs on the host and in a tenant -> build/results/conformance.json (an hour)
	@$(PY) -u -m e2e.conformance $(CONFORMANCE_ARGS)

conformance-serial: setup ## the serial ones of them, one after the other, added to what the others found (an hour)
	@$(PY) -u -m e2e.conformance --serial --processes 1 --focus '\[Serial\].*\[Conformance\]' $(CONFORMANCE_ARGS)

netpol-conformance: setup ## the upstream NetworkPolicy specs against the running embedded host (root, half an hour)
	@$(PY) -u -m e2e.conformance.network_policy

check: venv ## linters, types, import contracts, dead code, generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict
	@$(BIN)/lint-imports
	@$(BIN)/vulture
	@$(PY) -m bulkhead.api.generate --check
	@$(PY) -m bulkhead.hostcluster.gpu.regenerate --check
	@$(PY) -m tests.behaviours --check

crds: venv ## write crds/ and the API reference from bulkhead/api
	@$(PY) -m bulkhead.api.generate

docs: crds ## all generated pages: the API reference and the behaviours of the syncer
	@$(PY) -m tests.behaviours

fmt: venv ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

dist: venv ## a release in build/dist: wheel, chart, images with SBOMs, changelog, sums; WITHOUT="slurm mariadb" or all leaves images out
	@$(PY) -u -m bulkhead.images.dist $(foreach image,$(WITHOUT),--without $(image)) $(foreach each,$(ARCHITECTURES),--architecture $(each))

clean: ## remove results and stamps (binaries and the host's data stay)
	rm -rf build
