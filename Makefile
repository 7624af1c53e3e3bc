# hlo-lens: `make` prints the targets. Each target sets up what it needs in .venv.

# The first Python in which possessive patterns of `re` are right (3.11.5, gh-106052).
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11, 5))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c '$(NEW_ENOUGH)' 2>/dev/null && echo $(name))) python3)
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := sample_dumps/tpu/tp_mlp
RUN := $(BIN)/hlo-lens

ROOM_CODE = $(firstword $(wildcard hlo_lens/questions/$(ROOM) hlo_lens/$(ROOM)))
ROOM_TESTS = $(wildcard $(ROOM_CODE:hlo_lens/%=tests/%))

.DEFAULT_GOAL := help
.PHONY: help install room fmt lint type imports unit test thorough golden docs pictures oracle estimates what-if-table samples fuzz bench jax-versions wheel-test check-check report clean

help: ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { $(PYTHON) -V; \
	echo 'hlo-lens needs Python 3.11.5 or newer; run make PYTHON=PATH_OF_ONE' >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m compileall -q hlo_lens
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --editable '.[jax]' --group dev
	touch $@

install: $(VENV)/.dev ## make .venv with the tool and everything for its development

report: $(VENV)/.core ## the main job: report on a sample dump
	$(RUN) report $(SAMPLE)

room: $(VENV)/.dev ## style, types and tests of one room: make room ROOM=memory
	@test -n "$(ROOM)" -a -n "$(ROOM_CODE)" || { echo 'name a room of hlo_lens: make room ROOM=memory' >&2; exit 2; }
	$(BIN)/ruff format --check $(ROOM_CODE) $(ROOM_TESTS)
	$(BIN)/ruff check $(ROOM_CODE) $(ROOM_TESTS)
	$(BIN)/mypy $(ROOM_CODE) $(ROOM_TESTS)
	$(BIN)/python -m pytest -q -n 2 $(ROOM_CODE) $(ROOM_TESTS)

fmt: $(VENV)/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

lint: $(VENV)/.dev ## style: ruff
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: $(VENV)/.dev ## types: mypy --strict
	$(BIN)/mypy

imports: $(VENV)/.dev ## layers: import-linter
	$(BIN)/lint-imports

unit: $(VENV)/.dev ## the tests only
	$(BIN)/python -m pytest -q -n 2

BESIDE := lint type imports jax-versions wheel-test

test: $(VENV)/.dev ## all checks, as CI runs them; each runs, whatever the others give
	@failed=; \
	$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=line $(BESIDE) || failed=" of $(BESIDE)"; \
	$(MAKE) --no-print-directory unit || failed="$$failed unit"; \
	test -z "$$failed" || { echo "failed:$$failed; make names each above" >&2; exit 1; }

thorough: $(VENV)/.dev ## the tests over the whole corpus too, and the long ones
	$(BIN)/python -m pytest -q -n 2 -m 'thorough or not thorough'

golden: $(VENV)/.dev ## rewrite the expected texts in tests/golden; read each hunk
	HLO_LENS_GOLDEN=write $(BIN)/python -m pytest -q tests/golden

docs: $(VENV)/.dev ## rewrite the outputs in README and handbook; read each hunk
	HLO_LENS_GOLDEN=write $(BIN)/python -m pytest -q tests/docs tests/load/jax/test_manual.py

pictures: $(VENV)/.dev ## remake the screenshots of the handbook from samples (needs chromium)
	$(BIN)/python -m tests.pictures

oracle: $(VENV)/.dev ## the tests against XLA's own parser and the whole corpus
	$(BIN)/python -m pytest -q -n 2 -m 'thorough or not thorough' tests/oracle

estimates: $(VENV)/.dev ## compare estimates of memory with the corpus; rewrite their error table
	$(BIN)/python -m tests.estimate_table --write

what-if-table: $(VENV)/.dev ## compile the corpus again; rewrite the table in the handbook
	$(BIN)/python -m tests.what_if_table --write

samples: $(VENV)/.dev ## remake sample_dumps (see sample_dumps/README.md for what it needs)
	$(BIN)/python sample_dumps/make.py --backend all --out sample_dumps

fuzz: $(VENV)/.dev ## 500,000 mutated inputs through every reader and pass; about 20 minutes
	nice $(BIN)/python -m tests.fuzz

bench: $(VENV)/.dev ## time and memory, next to XLA's own parser
	$(BIN)/python -m tests.bench

jax-versions: $(VENV)/.dev ## tests of the JAX bridge in the oldest, a middle and the newest jax
	$(BIN)/python -m tests.jax_versions

wheel-test: $(VENV)/.dev ## build sdist and wheel, install the wheel only, read a sample
	$(BIN)/python -m tests.wheel_test

check-check: $(VENV)/.dev ## plant a type error and a layer breach; the checks must fail
	$(BIN)/python -m tests.check_check

clean: ## remove .venv and caches
	rm -rf $(VENV) .venv-jax-* dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .bench
