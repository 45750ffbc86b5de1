# Every target does its own set-up: Python packages from requirements.lock into .venv, a browser where it is needed.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Some machines set it; here a dozen processes start from the same modules, which are compiled once instead.
unexport PYTHONDONTWRITEBYTECODE

# The first Python 3.11 or newer that really runs. Choose another with `make PYTHON=/path/to/python3.12 …`.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$name && break; done)
BIN := .venv/bin
READY := .venv/.installed-from-lock
CODE := platform_core agent sdk webapp tests tools benchmarks examples

.PHONY: help demo run test test-frameworks check format docs lock proto wheel release-snapshot browser mlflow-peer clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## the whole product at work on this machine; ONCE=1 stops after the journey
	@$(BIN)/trainmaster demo $(if $(ONCE),--once)

run: $(READY)  ## the platform without the demo journey, state kept in var/
	@$(BIN)/trainmaster up

test: $(READY) browser mlflow-peer  ## every test; ARGS="tests/core -k quota" for some
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder -m "not frameworks" $(ARGS)

test-frameworks: $(READY)  ## the examples of Hugging Face, Lightning, DeepSpeed, TensorFlow, JAX, and ONNX Runtime, in an environment of their own
	@$(BIN)/python -m tools.frameworks_venv >/dev/null
	@$(BIN)/python -m pytest -n 2 -m frameworks tests/frameworks $(ARGS)

docs: $(READY)  ## makes the reference pages anew: states, errors, commands
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.mlflow_reference

check: $(READY)  ## what a developer runs all day: style, types, architecture, the pure core
	@$(BIN)/ruff check $(wildcard $(CODE))
	@$(BIN)/ruff format --check --quiet $(wildcard $(CODE)) || { echo "Run: make format"; exit 1; }
	@$(BIN)/lint-imports --no-logo | tail -n 4
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q -n 2 -m "not slow" tests/architecture tests/core

format: $(READY)  ## orders imports, formats
	@$(BIN)/ruff check --quiet --fix-only $(wildcard $(CODE))
	@$(BIN)/ruff format --quiet $(wildcard $(CODE))

lock: $(READY)  ## resolves new dependencies into requirements.lock; UPGRADE=1 for the newest of all
	@$(BIN)/python -m tools.lock $(if $(UPGRADE),--upgrade)

proto: $(READY)  ## regenerates proto/trainmaster_wire from its .proto files
	@$(BIN)/python -m tools.proto

wheel: $(READY)  ## the package as one file in dist/, to install elsewhere, and its source as another
	@$(BIN)/python -c 'from setuptools import build_meta; build_meta.build_sdist("dist")' >/dev/null
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .
	@rm -rf build trainmaster.egg-info

release-snapshot: $(READY)  ## records migrations and a database of the version that is being released
	@$(BIN)/python -m tools.release_snapshot

clean:  ## removes what make and the platform made: .venv, var, caches
	@for file in var/up.pid var/demo/up.pid; do \
		if [ -s $$file ] && kill -0 "$$(cat $$file)" 2>/dev/null; then \
			echo "The platform in $$(dirname $$file) is running (pid $$(cat $$file)). Stop it first."; exit 1; fi; done
	rm -rf .venv var build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip says a lot that nobody needs: it goes to a log, and its end is shown when it fails. Modules are compiled when they are
# first imported, which saves half a minute; torch here already, because the ranks of a first job would do it all at once.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Trainmaster needs Python 3.11 or newer, and none was found. Install one, or pass PYTHON=…"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "$(PYTHON) cannot make a virtual environment. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "Installing the packages of requirements.lock into .venv (some minutes the first time; log: .venv/install.log)"
	@{ $(BIN)/python -m pip install --disable-pip-version-check --no-input --no-compile -r requirements.lock \
		&& $(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps --editable . ; \
	} > .venv/install.log 2>&1 || { tail -n 20 .venv/install.log; exit 1; }
	@$(BIN)/python -c 'import torch.distributed.run'
	@touch $@

# The real MLflow, client and server, in an environment of its own: the tests drive one and compare with the other.
mlflow-peer: $(READY)
	@$(BIN)/python -m tools.mlflow_venv >/dev/null

# Chromium for the end-to-end tests: on the PATH, else from Debian as root, else Playwright's own.
browser: $(READY)
	@command -v chromium chromium-browser google-chrome >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing Chromium with apt-get (log: .venv/browser.log)"; \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } \
			> .venv/browser.log 2>&1 || { tail -n 20 .venv/browser.log; exit 1; }; \
	else \
		$(BIN)/playwright install chromium > .venv/browser.log 2>&1 || { tail -n 20 .venv/browser.log; exit 1; }; \
	fi
