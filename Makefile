# The front door. Every target sets itself up; nothing is installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.ready-demo
READY := $(VENV)/.ready
DEMO_EXTRAS := serve,report
EXTRAS := $(DEMO_EXTRAS),ray,postgres,onnx,hub,tensorboard,parquet,search,wandb,vision,text,privacy,docs,bench,dev

.PHONY: install demo test lint audit bench docs clean

install: $(READY)

# What the demo needs: less than half of what the tests need.
$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crwn needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(DEMO_EXTRAS)]'
	touch $(DEMO)

$(READY): $(DEMO) scripts/install-avalanche scripts/install-flower
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	scripts/install-avalanche $(BIN)/python || echo "note: Avalanche could not be installed; its tests will be skipped"
	scripts/install-flower $(BIN)/python || echo "note: Flower could not be installed; its tests will be skipped"
	touch $(READY)

demo: $(DEMO)
	$(BIN)/crwn demo --out demo

# Two files at a time, one thread each: most tests wait for processes they start. N=0 runs one after another.
N ?= 2
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(N) --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Installed packages against the known vulnerabilities; part of `make test` too.
audit: $(READY)
	$(BIN)/python scripts/audit.py

bench: $(READY)
	$(BIN)/crwn bench

docs: $(READY)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) dist site build demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
