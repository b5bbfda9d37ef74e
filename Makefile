# Every step of this project, by one name each. `make` alone prints the list.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SEEDS ?= 200
START ?= 0
SEED ?= 1
SECONDS ?= 600
RATE ?= 20
SCENARIO ?= random
TASKS ?= 2000
EVERY ?= 20
TREES ?=
PRODUCTS ?= 5000
TIMES ?= 3
BASE ?= main
ALL ?=
TESTS ?= tests/processes

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## Build .venv with everything for work on the code (PYTHON=python3.12 chooses another Python)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

.PHONY: system
system: ## Check, and where allowed install, what only the operating system can give
	@PYTHON='$(PYTHON)' scripts/system.sh

.PHONY: test
test: system setup lint types ## Everything that must hold before a change is taken
	@$(MAKE) --no-print-directory simulate SEEDS=200 START=0
	scripts/test.sh $(BIN)/python

.PHONY: check
check: setup ## The quick check: style, types, and unit and property tests of what changed (BASE=main; ALL=1 for all of them)
	BASE='$(BASE)' ALL='$(ALL)' scripts/check.sh $(BIN)

.PHONY: test-steady
test-steady: system setup ## Run tests many times: as it is, with busy cores, with pages at once and in 50 ms (TIMES=3 TESTS=tests/processes)
	$(BIN)/python scripts/steady_runs.py --times $(TIMES) $(TESTS)

.PHONY: lint
lint: setup ## Style, formatting, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

.PHONY: fmt
fmt: setup ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: setup ## Check the types (mypy, strict)
	$(BIN)/mypy src testkit tests bench scripts

.PHONY: ratchets
ratchets: setup ## Print how plain the words of the source are, and lower the limits in tests/rules/ to it
	$(BIN)/python -m scripts.ratchets --lower

.PHONY: simulate
simulate: setup ## Run the simulated installation under faults (SEEDS=200 START=0)
	$(BIN)/python -m testkit.simulation --seeds $(SEEDS) --start $(START)

.PHONY: chaos
chaos: setup ## Run a real cluster under faults (SEED=1 SECONDS=600 RATE=20; SCENARIO=rolling TASKS=2000 EVERY=20)
	$(BIN)/python -m testkit.chaos --seed $(SEED) --seconds $(SECONDS) --rate $(RATE) \
	  --scenario $(SCENARIO) --tasks $(TASKS) --every $(EVERY)

.PHONY: prove-crawl
prove-crawl: setup ## Crawl a shop of 5,000 products whole: on one node, on four, with nodes, master and processes lost
	PROVE_PRODUCTS=$(PRODUCTS) $(BIN)/python -m pytest -s tests/processes/test_complete_crawl.py

.PHONY: demo
demo: system setup ## A cluster, a shop, one crawl of it over all nodes, and a worker killed on purpose
	$(BIN)/crawlfleet demo

.PHONY: tour
tour: setup ## A cluster of six nodes, and everything it decides: shown, and compared with what is documented
	$(BIN)/python examples/tour

.PHONY: crawl-trees
crawl-trees: setup ## Crawl Debian's documentation of Python and PostgreSQL, and compare with wget (TREES="git-doc sqlite3-doc")
	$(BIN)/python -m tests.trees $(TREES)

.PHONY: bench
bench: setup ## Measure on this machine: the store beside its raw limit, the queue beside Huey and Celery
	BENCH=true scripts/system.sh
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m bench.store
	$(BIN)/python -m bench.queue

.PHONY: gates
gates: setup ## Measure the quality gates on both stores, and write the table into docs/performance.md (about five minutes)
	$(BIN)/python -m bench.gates --write

.PHONY: bench-cluster
bench-cluster: setup ## Measure many masters on PostgreSQL and Redis, beside one (about ten minutes)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m bench.masters

.PHONY: bench-scheduler
bench-scheduler: setup ## Measure how fast the leader decides, 10 to 10,000 nodes, beside the naive loop
	$(BIN)/python -m bench.scheduler

.PHONY: bench-crawl
bench-crawl: setup ## Measure the crawl engine beside Scrapy, Crawlee and a bare loop, then memory over 100,000 pages (about ten minutes)
	BENCH=true scripts/system.sh
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m bench.crawl
	$(BIN)/python -m bench.crawl --pages 100000

.PHONY: generate
generate: setup ## Write what is generated from the code: the client's models, the references in docs/
	$(BIN)/python scripts/generate_client.py
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/generate_api_docs.py

.PHONY: docs
docs: setup ## Build the documentation into build/site
	$(BIN)/mkdocs build --strict --site-dir build/site

.PHONY: clean
clean: ## Remove everything that was built, .venv included
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
