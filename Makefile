# In a fresh clone, `make demo` and `make test` are all it takes.
#   PYTHON   the interpreter that .venv is made with, when there is none yet
#   WORKERS  how many processes run the tests
#   ARGS     extra arguments for the demo, the tests or the benchmark

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

BIN     := .venv/bin
STAMP   := .venv/.installed
PIP     := $(BIN)/python -m pip --disable-pip-version-check

# Several test processes share the cores, so each gets one BLAS thread.
PYTEST  := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format test-slow peers test-peers bench report lock dist-check clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(STAMP)  ## make .venv and install modeseek with its dependencies, whose hashes pip checks

$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "error: '$(PYTHON)' was not found; name a Python 3.11, 3.12 or 3.13: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	    echo "error: modeseek needs Python 3.11, 3.12 or 3.13, but '$(PYTHON)' is" \
	         "$$($(PYTHON) --version 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# All but torch is checked against the hashes in the lock. torch has many builds under one version (for CPUs, for each
# CUDA, each with companions of its own), from places that differ from machine to machine: it is pinned by version.
# The package itself is built by the locked hatchling, not by one that pip would fetch.
$(STAMP): pyproject.toml constraints.txt requirements-dev.lock | $(BIN)/pip
	@$(BIN)/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	    echo "error: modeseek needs Python 3.11, 3.12 or 3.13, but .venv has" \
	         "$$($(BIN)/python --version 2>&1); remove .venv and run make again" >&2; exit 1; }
	$(PIP) install --quiet --require-hashes --no-deps -r requirements-dev.lock
	$(PIP) install --quiet -c constraints.txt torch
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	$(PIP) check
	@touch $@

demo: $(STAMP)  ## optimize Branin's function and draw what is known of its minimum
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

test-slow: $(STAMP)  ## the slow tests: whole runs, their regret against Sobol search and BoTorch's LogEI
	$(PYTEST) -m slow --timeout 3600 $(ARGS)

# An environment of their own: they need versions that modeseek's other extras do not.
PEERS := .venv-peers

peers: $(PEERS)/.installed  ## make .venv-peers with the other optimizers of the scoreboard (Python 3.11)

$(PEERS)/.installed: requirements-peers.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	    echo "error: the peers' versions are for Python 3.11; name one: make PYTHON=python3.11 peers" >&2; exit 1; }
	test -e $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt torch
	$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r requirements-peers.txt
	$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -e .
	@touch $@

test-peers: peers  ## a few evaluations of every peer, in their environment
	OMP_NUM_THREADS=1 $(PEERS)/bin/python -m pytest tests/bench/methods/test_peers.py $(ARGS)

bench: $(STAMP)  ## seconds per stage and per suggestion, beside floors, BoTorch's LogEI, Optuna's samplers and busy cores
	$(BIN)/python -m benchmarks.iteration $(ARGS)
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.threads

report: $(STAMP)  ## docs/results from the records in results/, and the tables of README.md and docs/reproduction.md from it
	$(BIN)/modeseek report results/ --out docs/results
	$(BIN)/python docs/readme_table.py
	$(BIN)/python docs/reproduction_table.py

lock: $(STAMP)  ## write requirements-dev.lock anew, after constraints.txt has changed
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-deps \
	    --generate-hashes --no-annotate --no-emit-package torch constraints.txt --output-file requirements-dev.lock

dist-check: $(STAMP)  ## build the wheel and the sdist, install each into a fresh environment and use it there
	rm -rf dist build/dist-check
	$(BIN)/python -m build --no-isolation --outdir dist
	@for file in dist/*.whl dist/*.tar.gz; do \
	    place=build/dist-check/$${file##*.}; echo "$$file:"; \
	    $(PYTHON) -m venv $$place && \
	    PIP_CONSTRAINT=constraints.txt $$place/bin/pip --disable-pip-version-check install --quiet "$$file" && \
	    $$place/bin/pip --disable-pip-version-check check && \
	    (cd $$place && bin/modeseek --help >/dev/null && bin/python -c "$$USE") || exit 1; \
	done

define USE
import importlib.metadata, pathlib, modeseek as ms
assert ms.__version__ == importlib.metadata.version("modeseek")
assert (pathlib.Path(ms.__file__).parent / "py.typed").exists() and "site-packages" in ms.__file__
result = ms.minimize(lambda x: float(x @ x), ms.Space.box([-1, -1], [1, 1]), 7, n_initial=5, seed=0, progress=False)
print("modeseek", ms.__version__, "works: best value", result.best.value)
endef
export USE

clean:  ## remove caches and build outputs; .venv stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
	find src tests benchmarks examples -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
