# The front door of the repository. `make` alone lists what there is.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

VENV := .venv
STAMP := $(VENV)/.stamp
BIN := $(VENV)/bin
PY := $(BIN)/python
UV := $(BIN)/uv

# Each is tried by running it: a version manager may put a python3.13 in PATH that refuses to start.
PYTHONS := python3.13 python3.12 python3.11 python3.14 python3 python
PYTHON ?= $(shell for python in $(PYTHONS); do \
	"$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$python"; break; }; done)

# Compile each module once, not in each of the many processes that the tests start.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache
unexport PYTHONDONTWRITEBYTECODE

CODE = $(wildcard src tests tools bench examples)
COVERAGE_JSON := .coverage.json
PYTEST_ARGS ?=
# Each process has servers of its own. Also on two cores: while one waits for a cluster to recover, others compute.
WHOLE := -n 4 --dist worksteal
COVERED := --cov --cov-report=term --cov-report=json:$(COVERAGE_JSON)

.PHONY: help
help: ## List the targets
	@echo "Rota: make <target>"
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | \
		while IFS=$$'\t' read -r target text; do printf '  %-10s %s\n' "$$target" "$$text"; done

.PHONY: setup
setup: $(STAMP) ## Make .venv with the locked tools and Rota itself (needs Python 3.11 or newer)
	@:

PROTOS := $(shell find proto -name '*.proto')

# The editable install also makes the code of proto/, by hatch_build.py.
$(STAMP): requirements/uv.txt requirements/dev.txt pyproject.toml hatch_build.py $(PROTOS)
	@if [ -z "$(PYTHON)" ]; then \
		echo "make setup: found no Python 3.11 or newer with venv (tried $(PYTHONS))." >&2; \
		echo "try: apt-get install python3 python3-venv, or make setup PYTHON=<path of one>" >&2; \
		exit 1; \
	fi
	@echo "==> setup: $(VENV) by $(PYTHON)"
	@$(PY) -c '' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(UV) pip sync --quiet --python $(PY) --require-hashes requirements/dev.txt
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: proto
proto: setup ## Make the code of proto/ anew (setup does it whenever a file there changes)
	@$(PY) hatch_build.py proto

CONSOLE_STAMP := $(VENV)/.console-stamp
CONSOLE_TOOLS := $(VENV)/console-tools
CONSOLE_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*')

.PHONY: console
console: setup $(CONSOLE_STAMP) ## Build the console from web/ (what `make dev`, `make up` and the browser tests need)
	@:

# Where no package of npm can be had, all but the console works.
.PHONY: try-console
try-console: setup
	@$(MAKE) console || echo "make console failed: going on without the console" >&2

# Apart from setup: node has 200 MB, and most work needs no console. In a folder of its own, which `uv pip sync` leaves alone.
$(CONSOLE_STAMP): requirements/console.txt hatch_build.py $(CONSOLE_SOURCES)
	@echo "==> console: web/ to src/rota/_console"
	@$(UV) pip install --quiet --python $(PY) --target $(CONSOLE_TOOLS) --require-hashes -r requirements/console.txt
	@PYTHONPATH=$(CONSOLE_TOOLS) $(PY) hatch_build.py console
	@touch $@

.PHONY: dev
dev: setup try-console ## See Rota at work: API, scheduler, worker and SQLite in one process, with sample tasks
	@$(BIN)/rota dev

.PHONY: up
up: setup try-console servers ## A cluster of three pods to try on this machine (TOPOLOGY=redis+mysql, redis, sentinel, cluster, postgres, etcd, sqlite)
	@$(PY) -m tools.try_cluster up $(if $(TOPOLOGY),--topology $(TOPOLOGY))

.PHONY: down
down: setup ## End the cluster of `make up`
	@$(PY) -m tools.try_cluster down

DEPLOY_STAMP := $(VENV)/.deploy-stamp
DEPLOY_TOOLS := $(VENV)/deploy-tools

# What judges deploy/: helm and the like, which nothing else needs. Without them the rest of it is checked all the same.
.PHONY: deploy-tools
deploy-tools: setup $(DEPLOY_STAMP)
	@:

$(DEPLOY_STAMP): requirements/deploy.txt
	@echo "==> deploy-tools"
	@$(UV) pip install --quiet --python $(PY) --target $(DEPLOY_TOOLS) --require-hashes -r requirements/deploy.txt \
		&& touch $@ || echo "the tools that judge deploy/ cannot be had: going on without them" >&2

.PHONY: check
check: setup deploy-tools ## Format, lint, types, layers, sizes, generated files; runs all, fails if one does
	@failed=; step() { echo "==> check: $$1"; name=$$1; shift; "$$@" || failed="$$failed $$name"; }; \
	step format $(BIN)/ruff format --check $(CODE); \
	step lint $(BIN)/ruff check $(CODE); \
	step types $(BIN)/mypy $(CODE); \
	step layers $(BIN)/lint-imports --no-logo; \
	step sizes $(PY) tools/check_sizes.py $(CODE); \
	step diagram $(PY) tools/state_diagram.py --check; \
	step settings $(PY) -m tools.settings_reference --check; \
	step metrics $(PY) -m tools.metrics_reference --check; \
	step picture $(PY) tools/architecture_picture.py --check; \
	step http $(PY) -m tools.http_reference --check; \
	step events $(PY) -m tools.events_reference --check; \
	step grpc $(PY) -m tools.grpc_reference --check; \
	step commands $(PY) -m tools.cli_reference --check; \
	step speed $(PY) -m tools.speed_tables --check; \
	step deploy $(PY) -m tools.check_deploy; \
	if [ -n "$$failed" ]; then echo "check failed:$$failed" >&2; exit 1; fi

.PHONY: fmt
fmt: setup ## Format the code and fix what the linter can fix
	@$(BIN)/ruff check --fix-only --quiet $(CODE)
	@$(BIN)/ruff format $(CODE)

.PHONY: servers
servers: setup
	@echo "==> servers"
	@$(PY) -m tests.support.servers.install

# The console is built while the checks run: neither keeps more than a core busy. And the tests are read once, so that
# the processes that will run them find them compiled, which each of them would do by itself and for all.
.PHONY: checked
checked: setup servers
	@$(MAKE) try-console & console=$$!; \
	$(if $(PYTEST_ARGS),:,$(BIN)/pytest --collect-only -qq >/dev/null 2>&1) & tests=$$!; \
	$(MAKE) check; wait $$console; wait $$tests || true

.PHONY: test
test: checked ## Everything a change must pass (PYTEST_ARGS="-k name" narrows the tests)
	@echo "==> tests"
	@$(BIN)/pytest $(if $(PYTEST_ARGS),$(PYTEST_ARGS),$(WHOLE))

.PHONY: test-all
test-all: checked ## The same with the slow tests, and the coverage judged (takes three times as long)
	@echo "==> tests"
	@$(BIN)/pytest -m "" $(WHOLE) $(COVERED)
	@$(PY) tools/check_coverage.py $(COVERAGE_JSON)

.PHONY: screenshots
screenshots: setup servers console ## Pictures of every page of the console, in both languages and themes, in screenshots/
	@$(PY) -m tools.screenshots

SEEDS ?= 1000
.PHONY: sim
sim: setup ## Simulate clusters with faults drawn from seeds (SEEDS=1000; SEED=7 shows one and its timeline; SHARED=1: all pods dispatch)
	@$(PY) -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(SHARED),--shared)

MINUTES ?= 10
.PHONY: chaos
chaos: setup servers ## Hurt real clusters for MINUTES=10 each, and judge them (TERRAIN=redis+mariadb PARTS="faults crowds kill"; FAULT="worker: kill -9" just that one, LIST=1 names them)
	@$(PY) -m tests.chaos $(PARTS) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(TERRAIN),--terrain $(TERRAIN)) \
		$(if $(FAULT),--fault "$(FAULT)") $(if $(LIST),--list)

.PHONY: bench
bench: setup servers ## Measure everything on this machine, beside a floor and other task queues (QUICK=1: in a few minutes)
	@$(PY) bench/suite.py $(if $(QUICK),--quick)

.PHONY: docs
docs: setup ## Regenerate the documentation that is made from code
	@$(PY) tools/state_diagram.py
	@$(PY) -m tools.settings_reference
	@$(PY) -m tools.metrics_reference
	@$(PY) tools/architecture_picture.py
	@$(PY) -m tools.http_reference
	@$(PY) -m tools.events_reference
	@$(PY) -m tools.grpc_reference
	@$(PY) -m tools.cli_reference
	@$(PY) -m tools.speed_tables
	@$(MAKE) deploy-tools
	@$(PY) -m tools.check_deploy --write

.PHONY: lock
lock: ## Regenerate requirements/*.txt from pyproject.toml (UPGRADE=1 takes newer versions)
	@$(PY) -c '' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV)
	@[ -x $(UV) ] || $(PY) -m pip install --quiet --disable-pip-version-check uv
	@echo uv | $(COMPILE) --output-file requirements/uv.txt -
	@sed -nE 's/^NODE = "(.*)".*/\1/p' hatch_build.py | $(COMPILE) --output-file requirements/console.txt -
	@$(COMPILE) --all-extras --group dev --constraints requirements/uv.txt --output-file requirements/dev.txt pyproject.toml
	@$(COMPILE) --extra all --constraints requirements/dev.txt --output-file requirements/runtime.txt pyproject.toml
	@$(COMPILE) --group deploy --constraints requirements/dev.txt --output-file requirements/deploy.txt

# No annotations, no index: the files say what is installed, not where they were made.
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
