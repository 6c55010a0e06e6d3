# A fresh machine needs Python 3.11 or later, nothing else.
PYTHON ?= python3
# Where PyTorch publishes builds without GPU libraries; TORCH_INDEX= takes the usual index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
BIN := .venv/bin

.PHONY: demo test test-slow lint wheel clean

demo: .venv/installed  ## the main job on the demo lists
	$(BIN)/rescore data/test.json --lm tta --dev data/dev.json

test: .venv/installed-dev  ## all quick tests
	$(BIN)/pytest

test-slow: .venv/installed-dev  ## the long ones
	$(BIN)/pytest -m slow

lint: .venv/installed-dev
	$(BIN)/ruff format --check rescore tests data
	$(BIN)/ruff check rescore tests data
	$(BIN)/mypy

wheel: .venv/installed-dev
	$(BIN)/python -m build --wheel

clean:
	rm -rf .venv dist

# Torch first, by itself: of all dependencies only it has builds of several gigabytes that a CPU cannot use.
.venv/torch:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --retries 0 $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==2.13.0
	touch $@

.venv/installed: .venv/torch pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@
