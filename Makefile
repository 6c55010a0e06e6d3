# A fresh machine needs Python 3.11 or later, nothing else.
PYTHON ?= python3
# Where PyTorch publishes builds without GPU libraries; TORCH_INDEX= takes the usual index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
BIN := .venv/bin

.PHONY: demo help test test-long test-lowest docs-check test-tools test-slow fuzz bench bench-smoke results lint kenlm wheel wheel-test plugin-test torch python \
	site dist clean

demo: .venv/installed .venv/ngram  ## the main job on the demo lists
	$(BIN)/rescore data/test.json --lm tta --dev data/dev.json

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1@\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F@ '{printf "%-18s %s\n", $$1, $$2}'

test: .venv/installed-dev .venv/ngram  ## all quick tests, or some: make test TESTS=tests/metrics
	$(BIN)/pytest --numprocesses auto --dist loadfile $(TESTS)

test-long: .venv/installed-dev .venv/ngram  ## tests that train, wait, or start Ray; they take seconds each
	$(BIN)/pytest --numprocesses auto --dist loadfile -m "long and not slow"

docs-check: .venv/installed-dev .venv/ngram  ## every command of every page runs, and prints what the page shows
	$(BIN)/pytest --numprocesses auto --dist loadscope -m docs

test-tools: .venv/installed-dev .venv/ngram kenlm  ## the tests against the programs of KenLM and NIST
	$(BIN)/pytest -m "tools and not slow"

test-slow: .venv/installed-dev kenlm  ## the long ones, some against other tools
	$(BIN)/pip install --quiet "minicons>=0.3.39,<0.4"
	$(BIN)/pytest -m slow

FUZZ ?= 100000
N ?= 2000
fuzz: .venv/installed-dev  ## mutated inputs, and random command lines: make fuzz FUZZ=20000 N=500
	$(BIN)/python -m tests.reliability.fuzz --number $(FUZZ)
	$(BIN)/python -m tests.reliability.values --number $(FUZZ)
	$(BIN)/python -m tests.laws.fuzz --number $(N)

LISTS ?= data/test.json
bench: .venv/installed-dev kenlm  ## against other tools: make bench LISTS=test.json BENCH_OPTIONS="--ngram lm.binary"
	$(BIN)/pip install --quiet "minicons>=0.3.39,<0.4"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/compare.py $(LISTS) $(BENCH_OPTIONS)

bench-smoke: .venv/installed-dev  ## each script of benchmarks/ on a tiny input: make bench-smoke SCRIPTS=compare.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/smoke.py $(SCRIPTS)

RESULTS ?= ../data
results: .venv/installed-dev .venv/ngram  ## the figures of docs/results, by the commands of its pages: make results RESULTS=DIR PAGE=asr
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/results.py --data $(RESULTS) $(addprefix --page ,$(PAGE))

lint: .venv/installed-dev  ## formatting, style and types
	$(BIN)/ruff format --check rescore tests data benchmarks examples/plugin
	$(BIN)/ruff check rescore tests data benchmarks examples/plugin
	$(BIN)/mypy

# KenLM's own programs, for n-grams of more than 20 million words; building them takes a C++ compiler, cmake and Boost.
KENLM := 0.3.0
kenlm: $(BIN)/lmplz  ## KenLM's programs lmplz, build_binary and query, built from source
$(BIN)/lmplz: .venv/torch
	rm -rf .venv/kenlm && mkdir .venv/kenlm
	$(BIN)/pip download --quiet --no-deps --no-binary kenlm --dest .venv/kenlm kenlm==$(KENLM)
	tar xzf .venv/kenlm/kenlm-$(KENLM).tar.gz -C .venv/kenlm
	@command -v cmake > /dev/null && command -v c++ > /dev/null && find /usr/include /usr/local/include /opt -name program_options.hpp 2> /dev/null | grep -q . || { \
		echo "KenLM's programs need a C++ compiler, cmake, zlib and Boost; on Debian and Ubuntu:" >&2; \
		echo "  apt-get install g++ cmake zlib1g-dev libbz2-dev liblzma-dev libboost-program-options-dev libboost-system-dev libboost-thread-dev libboost-test-dev" >&2; \
		exit 2; }
	cmake -S .venv/kenlm/kenlm-$(KENLM) -B .venv/kenlm/build -DCMAKE_BUILD_TYPE=Release > .venv/kenlm/log
	cmake --build .venv/kenlm/build -j 2 --target lmplz build_binary query >> .venv/kenlm/log
	cp .venv/kenlm/build/bin/build_binary .venv/kenlm/build/bin/query .venv/kenlm/build/bin/lmplz $(BIN)
	rm -rf .venv/kenlm

wheel: .venv/installed-dev  ## the wheel, in dist/
	rm -rf dist && $(BIN)/python -m build --wheel > /dev/null

dist: .venv/installed-dev  ## the source archive and the wheel built from it, in dist/
	rm -rf dist && $(BIN)/python -m build > /dev/null

# Bytes of a wheel, at most: the Python package index takes files below 100 MB.
MOST_BYTES := 95000000
wheel-test: wheel  ## what is in the wheel is enough: the demo, outside the tree
	$(BIN)/python -c "import pathlib; [wheel] = pathlib.Path('dist').glob('*.whl'); size = wheel.stat().st_size; print(f'{wheel}: {size:,} bytes'); assert size < $(MOST_BYTES), 'too large for the index'"
	rm -rf .venv/wheel && $(BIN)/pip install --quiet --no-deps --target .venv/wheel dist/*.whl
	cp data/dev.json data/test.json data/golden.json .venv/wheel/
	cd .venv/wheel && PYTHONPATH=. ../bin/python -P -c "import rescore, sys; assert rescore.__file__.startswith(sys.argv[1]), rescore.__file__" "$(CURDIR)/.venv/wheel"
	cd .venv/wheel && PYTHONPATH=. ../bin/python -P -m rescore test.json --lm tta --dev dev.json --report results.json
	cd .venv/wheel && PYTHONPATH=. ../bin/python -P -m rescore check results.json --golden golden.json

PLUGIN := .venv/plugin
plugin-test: .venv/installed  ## examples/plugin: installed from its wheel, the commands of its README, removed
	rm -rf $(PLUGIN) && $(PYTHON) -m venv $(PLUGIN) && mkdir $(PLUGIN)/run
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > $$(echo $(PLUGIN)/lib/python*/site-packages)/packages.pth
	echo "$(CURDIR)" >> $$(echo $(PLUGIN)/lib/python*/site-packages)/packages.pth
	$(PLUGIN)/bin/pip wheel --quiet --no-deps --wheel-dir $(PLUGIN)/wheel examples/plugin
	$(PLUGIN)/bin/pip install --quiet --no-deps $(PLUGIN)/wheel/*.whl
	printf '#!/bin/sh\nexec %s -m rescore "$$@"\n' "$(CURDIR)/$(PLUGIN)/bin/python" > $(PLUGIN)/bin/rescore && chmod +x $(PLUGIN)/bin/rescore
	sed -n '/^The parts/,$$p' examples/plugin/README.md | sed -n 's/^    //p' > $(PLUGIN)/commands
	cd $(PLUGIN)/run && PATH="$(CURDIR)/$(PLUGIN)/bin:$$PATH" bash -ex ../commands
	$(PLUGIN)/bin/pip uninstall --quiet --yes rescore-example
	! $(PLUGIN)/bin/rescore words $(PLUGIN)/run/lists.txt

# The lowest versions that pyproject.toml allows, without KenLM. PyTorch's index has its lowest release without GPU
# libraries; where only PyPI can be reached: make test-lowest LOWEST_TORCH=2.13.0
LOWEST := .venv/lowest
LOWEST_TORCH ?= 2.4.0
LOWEST_TESTS ?= tests/laws/test_engines.py tests/large tests/service tests/lms/test_cache.py tests/test_examples.py
test-lowest:  ## the main job and the tests near libraries, with the lowest versions that pyproject.toml allows
	rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet uv
	$(LOWEST)/bin/pip install --quiet --retries 0 $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==$(LOWEST_TORCH)
	$(LOWEST)/bin/pip freeze | grep "^torch==" > $(LOWEST)/torch
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --override $(LOWEST)/torch --editable ".[dev]"
	$(LOWEST)/bin/uv pip list --quiet --python $(LOWEST)/bin/python
	$(LOWEST)/bin/rescore data/test.json --lm tta --dev data/dev.json --report $(LOWEST)/results.json
	$(LOWEST)/bin/rescore check $(LOWEST)/results.json --golden data/golden.json
	$(LOWEST)/bin/rescore train --lm tta --init tta --text data/sentences.txt --steps 2 --out $(LOWEST)/adapted
	$(LOWEST)/bin/rescore score data/two.json --lm tta:$(LOWEST)/adapted -o $(LOWEST)/here.json
	$(LOWEST)/bin/rescore data/test.json --lm tta --dev data/dev.json --engine ray --workers 2 --report $(LOWEST)/ray.json
	$(LOWEST)/bin/rescore check $(LOWEST)/ray.json --golden data/golden.json
	$(LOWEST)/bin/pytest --numprocesses auto --dist loadfile -m "not slow and not docs and not tools" $(LOWEST_TESTS)

TORCH ?= 2.4.1
torch:  ## the demo with another release of PyTorch, in an environment of its own: make torch TORCH=2.4.1
	$(PYTHON) -m venv .venv/torch-$(TORCH)
	.venv/torch-$(TORCH)/bin/pip install --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==$(TORCH) .
	.venv/torch-$(TORCH)/bin/rescore data/test.json --lm tta --dev data/dev.json --report .venv/torch-$(TORCH)/results.json
	.venv/torch-$(TORCH)/bin/rescore check .venv/torch-$(TORCH)/results.json --golden data/golden.json

python:  ## the demo with another Python, in an environment of its own: make python PYTHON=python3.14
	rm -rf .venv/python && $(PYTHON) -m venv .venv/python
	.venv/python/bin/pip install --quiet --retries 0 $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch .
	.venv/python/bin/rescore data/test.json --lm tta --dev data/dev.json --report .venv/python/results.json
	.venv/python/bin/rescore check .venv/python/results.json --golden data/golden.json

# Files beside docs/ that pages link to.
SITE_FILES := CHANGELOG.md examples models/tta-small/README.md
site: .venv/installed-dev  ## docs/ as a web site, in site/
	$(BIN)/pip install --quiet "mkdocs-material>=9.5,<10"
	$(BIN)/mkdocs build --strict
	tar cf - $(SITE_FILES) | tar xf - -C site

clean:  ## remove all that was built, with the environment
	rm -rf .venv dist site

# Torch first, by itself: of all dependencies only it has builds of several gigabytes that a CPU cannot use.
.venv/torch:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --retries 0 $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==2.13.0
	touch $@

.venv/installed: .venv/torch pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

# KenLM's Python module is compiled, where that is possible; without it ARPA files are read in NumPy.
.venv/ngram: .venv/installed
	@$(BIN)/python -c "import kenlm" 2> /dev/null || { command -v c++ > /dev/null && \
		$(BIN)/python -c "import pathlib, sys, sysconfig as s; sys.exit(not (sys.version_info < (3, 13) and pathlib.Path(s.get_path('include'), 'Python.h').is_file()))" && \
		$(BIN)/pip install --quiet "kenlm>=0.3,<0.4" > .venv/ngram.log 2>&1; } || \
		echo "KenLM's module is not installed (it takes c++, Python.h, and Python before 3.13): ngram:lm.arpa is read in NumPy, slower"
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@
