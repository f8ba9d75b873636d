# Two commands do everything on a fresh machine: `make quickstart` and `make test`.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# uv from PATH if it runs, else one installed into a private folder of the checkout.
UV := $(shell if uv --version >/dev/null 2>&1; then echo uv; else echo .uv/bin/uv; fi)
ARGS ?=
JOBS ?= 3

.PHONY: help venv lock quickstart test test-all check format bench torture docs clean

help: ## what each target does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.uv/bin/uv:
	@$(PYTHON) -m venv .uv >&2
	.uv/bin/python -m pip install --quiet uv >&2

venv: .venv/installed ## make .venv from pyproject.toml and requirements.lock

.venv/installed: pyproject.toml requirements.lock $(filter .uv/bin/uv,$(UV))
	@$(UV) venv --quiet --allow-existing --python "$$(cat .python-version)" .venv >&2 \
	  || $(UV) venv --quiet --allow-existing --python ">=3.12" .venv >&2
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock >&2
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable . >&2
	touch $@

lock: $(filter .uv/bin/uv,$(UV)) ## write requirements.lock anew from pyproject.toml
	@$(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --no-emit-find-links --python-version 3.12 --group dev --extra postgres --extra parquet pyproject.toml -o requirements.lock

quickstart: venv ## run the main job on embedded defaults; ARGS="--exit --json" passes arguments on
	@exec $(BIN)/gitsync quickstart $(ARGS)

test: venv ## the everyday tests on SQLite, some minutes
	@$(BIN)/pytest -q -n $(JOBS) -m "not slow and not postgres" $(ARGS)

test-all: venv ## all tests, the slow ones too
	@$(BIN)/pytest -q -n $(JOBS) $(ARGS)

format: venv ## rewrite the code in the house format
	@$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: venv ## what CI runs: format, lint, types, architecture, tests
	@$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(MAKE) --no-print-directory test-all

bench: venv ## measure, as ratios against baselines of the same run; JSON in benchmarks/results
	@$(BIN)/python -m benchmarks $(ARGS)

torture: venv ## the full counts: 200 kills, 50,000 programs, big repositories; writes a dated report
	@$(BIN)/python -m tests.torture $(ARGS)

clean: ## remove environments and caches
	@rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
