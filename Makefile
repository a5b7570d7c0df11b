# `make system` installs what only Debian has (as root); `make test` works without it and skips
# with the probe's own reason.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SYSTEM := python3-venv pocl-opencl-icd

.PHONY: system lint types unit test clean

$(VENV)/.installed: pyproject.toml gpumap/version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,opencl]'
	touch $@

system:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SYSTEM)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

unit: $(VENV)/.installed
	$(BIN)/pytest

test: lint types unit

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
