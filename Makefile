# In a fresh clone, `make demo` and `make test` are all it takes.
#   PYTHON   the interpreter that .venv is made with, when there is none yet
#   WORKERS  how many processes run the tests
#   ARGS     extra arguments for the demo, the tests or the benchmark

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

BIN     := .venv/bin
STAMP   := .venv/.installed

# Several test processes share the cores, so each gets one BLAS thread.
PYTEST  := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format test-slow bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(STAMP)  ## make .venv and install modeseek with its pinned dependencies

$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "error: '$(PYTHON)' was not found; name a Python 3.11, 3.12 or 3.13: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	    echo "error: modeseek needs Python 3.11, 3.12 or 3.13, but '$(PYTHON)' is" \
	         "$$($(PYTHON) --version 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv

$(STAMP): pyproject.toml constraints.txt | $(BIN)/pip
	@$(BIN)/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	    echo "error: modeseek needs Python 3.11, 3.12 or 3.13, but .venv has" \
	         "$$($(BIN)/python --version 2>&1); remove .venv and run make again" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(STAMP)  ## optimize Styblinski-Tang in two dimensions and draw what happened
	$(BIN)/modeseek demo $(ARGS)

test: lint  ## lint, then every test but the slow ones
	$(PYTEST) $(ARGS)

lint: $(STAMP)  ## ruff check, ruff format --check, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## rewrite the code the way lint wants it
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

test-slow: $(STAMP)  ## the slow tests: regret against Sobol search and BoTorch's LogEI
	$(PYTEST) -m slow --timeout 3600 $(ARGS)

bench: $(STAMP)  ## seconds a stage and a suggestion, beside floors, BoTorch's LogEI and Optuna's samplers
	$(BIN)/python -m benchmarks.iteration $(ARGS)
	$(BIN)/python -m benchmarks.samplers

clean:  ## remove caches and build outputs; .venv stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
	find src tests benchmarks examples -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
