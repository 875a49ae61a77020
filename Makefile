# Bulkhead's ways in. `make help` lists them; every target may be interrupted and run again.
# Stamps are written last, so that an interrupted step is repeated and a finished one is not.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
# Four processes of pytest read 450 modules each: without bytecode that is eight seconds of CPU for each of them.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
STAMPS ?= build/stamps
PYTHON ?= python3
BIN := $(VENV)/bin
PY := $(BIN)/python
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
PYTEST_ARGS ?=
# A test that fails runs once more, alone (docs/decisions/0042-the-gate.md); without this plugin nothing is forgiven.
PYTEST := $(PY) -u -m pytest -p ci.flakes
# `make test` runs this many files of tests at a time: they wait as much as they compute. Each process has two API servers of its own
# while its tests share them; `make test` says at its end how much memory all held.
TEST_PROCESSES ?= 4
# `make test LAYER=…`: tests that take long, have servers of their own and show a part that few changes touch. `make test` leaves them
# out; .ci/run runs those that a change touches (ci/suites.yaml). Each is a marker in pyproject.toml.
LAYER ?=
LAYERS := auditing chaosrun charts client commands crashes figures gate helm kueue ledgers otelcol planes reconcile signin stores
NOT_IN_TEST := host simulation outage ways browser $(LAYERS)
any = $(subst $() $(), or ,$(strip $(1)))

# `make e2e SUITE=…`: a folder of e2e/scenarios. UP is what its host wants before the first fixture: it shows its progress here.
# Scenarios of the core suite wait for planes, pods and kubelets far more than they compute, so several run at a time. Each process
# has up to seven planes at once, of which one requests 350 MiB: one process for each 3 GiB of memory, from two to five.
SUITE ?= core
SCENARIO_PROCESSES ?= $(shell awk -v most=$$(($$(nproc) + 1)) '/^MemTotal/ {n = int($$2 / 3145728); print (n < 2 ? 2 : n > most ? most : n)}' /proc/meminfo)
SUITES := core slurm nodes install upgrade devices registry durable
UP.core := host up
UP.slurm := host up --slurm
PROCESSES.core := -n $(SCENARIO_PROCESSES)
# QUICK=1: what the fixed part of .ci/run has time for, one way through each part of the platform.
QUICK.core := newcomer nodes quota ledger flavors oidc controller_rights
# PART=…: a part of the core suite, which .ci/run runs by itself where a change touches nothing else. Each file is in one of them.
PART ?=
PARTS := gpus people planes
PART.gpus := dedicated drains flavors kueue large_pods ledger newcomer nodes own_scheduler podgroups quota slinky_worker tasks theft
PART.people := access alerts audit audit_webhook console dashboards doctor exposure first_hour login metrics oidc preflight \
	python_client tokens
PART.planes := autoscaling bad_input canaries chaos_command confinement controller_rights deletion deletion_with_work edits egress \
	isolation lost_data mirror node_ports plane_processes policies power_cut repair shared_volumes shares storage store_full
LISTED = $(if $(QUICK),$(QUICK.$(SUITE)),$(PART.$(PART)))
CHOSEN = $(if $(QUICK)$(PART),$(foreach each,$(LISTED),e2e/scenarios/$(SUITE)/test_$(each).py),e2e/scenarios/$(SUITE))

# `make bench NAME=…`: what it needs, what is fetched or run first, and the program.
NAME ?=
BENCHES := provision slurm sync frontdoor cotenancy ledger fragmentation client store placed console gpumetrics durable
BENCH_ARGS ?=
NEEDS.provision := setup
NEEDS.slurm := setup
NEEDS.sync := setup
NEEDS.frontdoor := setup binaries-for-tests
NEEDS.cotenancy := setup
NEEDS.ledger := binaries-for-tests
NEEDS.fragmentation := binaries-for-tests
NEEDS.client := venv
NEEDS.store := binaries-for-tests
NEEDS.placed := binaries-for-tests
NEEDS.console := binaries-for-tests
NEEDS.gpumetrics := venv
NEEDS.durable := setup
FIRST.frontdoor = $(MAKE) --no-print-directory e2e SUITE=install
FIRST.ledger = $(PY) -u -m workstation.hostcluster.binaries kwok
RUN.provision := e2e.performance
RUN.slurm := e2e.performance.slurm
RUN.sync := e2e.performance.sync
RUN.frontdoor := e2e.performance.frontdoor
RUN.cotenancy := e2e.performance.cotenancy
RUN.ledger := e2e.performance.ledger
RUN.fragmentation := e2e.performance.fragmentation
RUN.client := e2e.performance.client_stack
RUN.store := e2e.performance.store
RUN.placed := e2e.performance.placed
RUN.console := e2e.performance.console
RUN.gpumetrics := e2e.performance.gpumetrics
RUN.durable := e2e.performance.durable

# `make conformance SPECS=…`.
SPECS ?= parallel
ALL_SPECS := parallel serial network-policy
CONFORMANCE_ARGS ?=
RUN.parallel := e2e.conformance
RUN.serial := e2e.conformance --serial --processes 1 --focus '\[Serial\].*\[Conformance\]'
RUN.network-policy := e2e.conformance.network_policy

# The embedded host's needs: CNI plugins, packet filter, socket tools, image building, and a C compiler for runc's seccomp.
DEBIAN_PACKAGES := busybox-static ca-certificates conntrack containernetworking-plugins gcc iproute2 ipset iptables \
	kmod libc6-dev libfaketime libseccomp-dev mmdebstrap nftables pkg-config procps socat strace util-linux

# The tests of the console, and its pictures, want a real browser.
BROWSER_PACKAGES := chromium chromium-driver

VENV_STAMP := $(VENV)/.bulkhead-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)
PACKAGES_STAMP := $(STAMPS)/packages-$(shell echo '$(DEBIAN_PACKAGES)' | sha256sum | cut -c1-16)
BROWSER_STAMP := $(STAMPS)/packages-$(shell echo '$(BROWSER_PACKAGES)' | sha256sum | cut -c1-16)

.PHONY: focus-validator help setup packages venv demo down test binaries-for-tests host-up simulation hunt adversarial mutants slowest outages ways console e2e chaos \
	bench conformance all check fmt crds docs picture dist clean

help:
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {group = substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "%-12s %-12s %s\n", group, $$1, $$2; group = ""}' Makefile

##@ to try it

demo: setup ## from an empty machine to two tenants with GPU work; SLURM=1 adds one in Slurm mode (root)
	@$(PY) -u -m e2e.demo

down: venv ## stop the embedded host; leaves no process, mount, device, rule, cgroup or namespace (root)
	@$(BIN)/bulkhead host down

##@ set-up

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

$(PACKAGES_STAMP): WANTED := $(DEBIAN_PACKAGES)
$(BROWSER_STAMP): WANTED := $(BROWSER_PACKAGES)
$(PACKAGES_STAMP) $(BROWSER_STAMP):
	@missing=""; for package in $(WANTED); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'install ok installed' || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then \
		echo "==> Debian packages:$$missing"; \
		$(SUDO) apt-get update -qq; \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi
	@mkdir -p $(STAMPS); touch $@

binaries-for-tests: venv
	@echo "==> etcd and kube-apiserver for the tests"
	@$(PY) -u -m workstation.hostcluster.binaries etcd kubernetes $(addprefix kubernetes-,$(BULKHEAD_TEST_HOST_KUBERNETES))

host-up: setup ## the embedded host with nothing on it (root)
	@$(BIN)/bulkhead host up

##@ each change

check: venv ## linters, types, import contracts, dead code, generated files, the map of suites, plain words
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict
	@$(BIN)/mypy --strict examples/python/*.py
	@$(BIN)/lint-imports
	@$(BIN)/vulture
	@$(PY) -m bulkhead.api.generate --check
	@$(PY) -m workstation.hostcluster.gpu.regenerate --check
	@$(PY) -m tests.behaviours --check
	@$(PY) -m tests.adversarial --check
	@$(PY) -m tests.observing --check
	@$(PY) -m e2e.chaos.listing --check
	@$(PY) -m ci check
	@$(PY) -m ci words

fmt: venv ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: crds ## all generated files: crds/, API reference, the syncer, hostile tenants, metrics, chaos
	@$(PY) -m tests.behaviours
	@$(PY) -m tests.adversarial
	@$(PY) -m tests.observing
	@$(PY) -m e2e.chaos.listing

crds: venv
	@$(PY) -m bulkhead.api.generate

test: binaries-for-tests ## needs no root; LAYER= one or more of its layers, which it names; LAG=1
	@$(if $(filter-out $(LAYERS),$(LAYER)),$(error make test LAYER=$(LAYER): no such layer; there are $(LAYERS)))
	@$(if $(LAYER),,echo "==> without the layers: make test LAYER=\"$(LAYERS)\"")
	@BULKHEAD_TEST_RECORD=build/results/$(subst $() $(),-,$(strip tests $(LAYER))) $(if $(LAG),BULKHEAD_TEST_LAG=$(LAG)) $(PYTEST) \
		-m "$(if $(LAYER),$(call any,$(LAYER)),not ($(call any,$(NOT_IN_TEST))))" -n $(TEST_PROCESSES) --dist loadfile \
		$(if $(LAYER),$$(grep -rlE "mark\.($(subst $() $(),|,$(strip $(LAYER))))\b" tests --include='test_*.py')) $(PYTEST_ARGS)

slowest: venv ## seconds by test, fixture and file of the last `make test`; OF=tests-stores: of that layer; OF=e2e-core
	@$(PY) -m tests.slowest $(if $(OF),--folder build/results/$(OF))

##@ some changes

# One hash seed, so that the order of sets, and with it every run, follows from SIMULATION_SEED alone: a run repeats until the code
# changes. `hunt` tries new histories.
simulation: venv ## syncer and ledger under crashes, faults, histories and seeded bugs; QUICK=1: the bugs alone
	@PYTHONHASHSEED=0 $(PYTEST) $(if $(QUICK),tests/simulation/test_seeded.py -k test_each_is_found,tests/simulation tests/ledger/test_machine.py) \
		-n 2 $(PYTEST_ARGS)

hunt: SIMULATION_SEED ?= $(shell date +%s)
hunt: binaries-for-tests ## new storms and histories by the time of day or SIMULATION_SEED, and 200 tenants that ask at once
	@echo "SIMULATION_SEED=$(SIMULATION_SEED)"
	@SIMULATION_SEED=$(SIMULATION_SEED) SIMULATION_STORMS=$${SIMULATION_STORMS:-1000} SIMULATION_EXAMPLES=$${SIMULATION_EXAMPLES:-1000} \
		LEDGER_ROUNDS=$${LEDGER_ROUNDS:-20} PYTHONHASHSEED=0 \
		$(PY) -m pytest tests/simulation tests/ledger/test_machine.py tests/apiserver/test_ledger_admissions.py \
		-k "test_many_storms or test_many_histories or test_whatever_else_happens or test_of_ten_at_once" $(PYTEST_ARGS)

# All of it is part of `make test`; alone it says by row who refused what.
adversarial: binaries-for-tests ## what a hostile tenant tries, by row: build/adversarial.json; `make test` runs all of it too
	@$(PYTEST) -p tests.adversarial.record $$($(PY) -m tests.adversarial --tests) -n $(TEST_PROCESSES) --dist loadfile $(PYTEST_ARGS)

mutants: binaries-for-tests ## which test turns red for which rule that is taken away; MUTANTS_ARGS chooses
	@$(PY) -u -m tests.mutants $(MUTANTS_ARGS)

outages: binaries-for-tests ## minutes without an API, twenty syncers, chaos runs that die (half an hour, 8 GiB)
	@$(PYTEST) -m outage tests/apiserver/test_outages.py tests/apiserver/test_sync_moved.py tests/chaosrun/test_deaths.py $(PYTEST_ARGS)

ways: binaries-for-tests ## MetalLB and Contour beside real API servers; builds them first
	@$(PY) -u -m workstation.hostcluster.binaries metallb contour
	@$(PYTEST) tests/ways -p no:cacheprovider $(PYTEST_ARGS)

console: binaries-for-tests $(BROWSER_STAMP) ## the console in Debian's Chromium over a real API server; leaves pictures in build/results/console
	@$(PYTEST) tests/console -m browser -p no:cacheprovider $(PYTEST_ARGS)

e2e: setup ## scenarios; SUITE= core (QUICK=1, PART=), slurm, nodes, install, upgrade, devices, durable … (root)
	@$(if $(filter $(SUITE),$(SUITES)),,$(error make e2e SUITE=$(SUITE): no such suite; there are $(SUITES)))
	@$(if $(PART),$(if $(filter $(PART),$(PARTS)),,$(error make e2e PART=$(PART): no such part; there are $(PARTS))))
	@$(if $(filter-out core,$(if $(PART),$(SUITE))),$(error make e2e SUITE=$(SUITE) PART=$(PART): only the core suite has parts))
	@$(if $(UP.$(SUITE)),$(BIN)/bulkhead $(UP.$(SUITE)))
	@BULKHEAD_TEST_RECORD=build/results/e2e-$(SUITE)$(addprefix -,$(PART)) $(PYTEST) $(CHOSEN) -m host -p no:cacheprovider $(PROCESSES.$(SUITE)) $(PYTEST_ARGS)

focus-validator: # a venv of its own for the validator of FOCUS, which tests/metering/test_focus.py asks
	@test -x build/focus-validator/bin/focus-validator || { $(PYTHON) -m venv build/focus-validator && \
		build/focus-validator/bin/pip --quiet install focus-validator==1.0.0 'multimethod<2'; }

picture: setup $(BROWSER_STAMP) ## docs/pictures: `bulkhead top` in the demo while a tenant borrows, and the console's page (root)
	@$(PY) -u -m tests.console.pictures
	@$(PY) -u -m e2e.demo.picture

chaos: host-up ## break tenants, measure the others; SHORT=1, TENANTS=, EXPERIMENTS="a b" or all, MIX=1h, SEED= (root)
	@$(PY) -u -m e2e.chaos $(if $(SHORT),--short) $(if $(TENANTS),--tenants $(TENANTS)) $(if $(MIX),--mix $(MIX)) \
		$(if $(SEED),--seed $(SEED)) $(EXPERIMENTS)

##@ figures

bench: $(NEEDS.$(NAME)) ## NAME= provision, slurm, sync, frontdoor, cotenancy, durable (root), ledger, fragmentation, client …
	@$(if $(filter $(NAME),$(BENCHES)),,$(error make bench NAME=$(NAME): no such benchmark; there are $(BENCHES)))
	@$(FIRST.$(NAME))
	@$(PY) -u -m $(RUN.$(NAME)) $(BENCH_ARGS)

conformance: setup ## upstream specs, an hour each; SPECS= parallel, serial, network-policy (root)
	@$(if $(filter $(SPECS),$(ALL_SPECS)),,$(error make conformance SPECS=$(SPECS): there are $(ALL_SPECS)))
	@$(PY) -u -m $(RUN.$(SPECS)) $(CONFORMANCE_ARGS)

##@ a release

all: venv ## every suite, what passed on this commit left out (AGAIN=1: not), and one table (root, a day)
	@$(PY) -u -m ci all $(if $(AGAIN),--again)

dist: venv ## wheel, chart, images with SBOMs, sums in build/dist; WITHOUT="slurm mariadb" or all
	@$(PY) -u -m workstation.images.dist $(foreach image,$(WITHOUT),--without $(image)) $(foreach each,$(ARCHITECTURES),--architecture $(each))

clean: ## remove results and stamps (binaries and the host's data stay)
	rm -rf build
