# Every target sets itself up: a machine with Python 3.11 and make is enough.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.hotlap-installed
WORKERS ?= 2

# More than one thread per process is slower on small machines; override as you like.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup test quick check format research bench docs clean

help:  ## say what can be made
	@$(PYTHON) -c 'import re; [print(f"make {t:10}{d}") for t, d in re.findall(r"^(\w+):.*?## (.*)", open("Makefile").read(), re.M)]'

setup: $(STAMP)  ## make .venv with the command hotlap in it (nothing to do when up to date)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hotlap needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make setup PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

test: setup  ## the whole test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

quick: setup  ## the tests that take about a minute
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow'

check: setup  ## format, lint, types, and who imports whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

format: setup  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

research: setup  ## the main job: a short study on donkey, from the camera, with its champion
	$(BIN)/hotlap research donkey --study quick --agent ppo --min-timesteps 60000 \
		--max-timesteps 140000 --trials 20 --hours 0.125 --test-runs 1

bench: setup  ## how fast simulator and learners are on this machine
	$(BIN)/hotlap bench sim
	$(BIN)/hotlap bench train
	$(BIN)/hotlap bench first-lap
	$(BIN)/hotlap bench research --workers $(WORKERS)

docs: setup  ## pictures of every track, under docs/tracks
	$(BIN)/hotlap tracks --draw docs/tracks

clean:  ## remove what was built; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
