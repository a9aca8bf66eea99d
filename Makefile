# Two commands do everything on a fresh machine: `make demo` and `make test`.
# They need Python 3.11+, make and access to PyPI; the environment is made in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
UNIT := tests/unit tests/replay -n 2 --dist worksteal -q

# Compiled modules are kept, whatever the caller's shell says: without them every process that a test
# starts compiles all of ours again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv demo test check lint types quick unit spark archive chaos coverage bench docs clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: $(STAMP)  ## make the environment in .venv from pinned versions

$(STAMP): requirements.txt requirements-dev.txt pyproject.toml scripts/make_venv.py
	$(PYTHON) scripts/make_venv.py $(VENV)
	@touch $(STAMP)

demo: venv  ## profile, plan, run, break and check the word count: under 3 minutes
	$(BIN)/holdfast demo

check: venv  ## lint, types and quick unit tests side by side: under a minute on two cores
	@$(MAKE) --no-print-directory -j3 --output-sync=target lint types quick

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

quick: venv
	$(PYTEST) -m "unit and not full and not slow" $(UNIT) --hypothesis-profile=check

unit: venv
	$(PYTEST) -m "unit and not full" $(UNIT)

spark: venv archive  ## tests on real Spark
	$(PYTEST) -m "spark and not full" -q

archive: venv
	$(BIN)/python -m holdfast.runtime.spark.start.prepare

chaos: venv archive  ## everything in full: all plans, crash points, schedules and properties
	$(PYTEST) -m unit $(UNIT) --hypothesis-profile=chaos
	$(PYTEST) -m "(spark or chaos or full) and not unit" -q

test: venv lint types unit archive  ## the whole suite: about 20 minutes on two cores
	$(PYTEST) -m "not unit and not full" -q

coverage: venv archive  ## the whole suite again, slower, with the lines it did not reach
	$(PYTEST) -m "unit and not full" $(UNIT) --cov --cov-report=
	$(PYTEST) -m "not unit and not full" -q --cov --cov-append --cov-report=term

bench: venv  ## all benchmarks in full
	$(BIN)/python -m benchmarks

docs: venv build/docs-venv/.installed  ## build the site into build/site, strict
	$(BIN)/python scripts/cli_reference.py --check
	build/docs-venv/bin/mkdocs build --strict --quiet

build/docs-venv/.installed: requirements-docs.txt
	$(PYTHON) -m venv build/docs-venv
	build/docs-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

clean:  ## remove everything the targets made
	rm -rf $(VENV) build dist out runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
