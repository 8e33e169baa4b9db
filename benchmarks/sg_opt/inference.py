"""What a trained [CLS] costs at inference, beside vectors that need a flow or whitening: one batch, in turn.

SG-OPT leaves the model as it was, so its time must be that of the start model; the flow and whitening follow the mean
of the first and last layer, as their papers have it.

Usage: PYTHONPATH=benchmarks:examples python benchmarks/sg_opt/inference.py MODEL TRAINED [--batches 16 64]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
from machine import describe
from stdlib_docstrings import read_docstrings

from embedlift.adaptation import run
from embedlift.encoder import Encoder


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("trained", help="folder of a model that was adapted with sg-opt")
    parser.add_argument("--batches", nargs="+", type=int, default=[16, 64])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sentences = read_docstrings().sentences
    models = {
        method: run(
            given.model,
            sentences[:2000],
            method=method,
            pooling="first-last-avg",
            method_settings={"epochs": 1} if method == "flow" else None,
        ).model
        for method in ("whitening", "flow")
    }
    encoders = {
        "start, [CLS]": Encoder(given.model, pooling="cls"),
        "SG-OPT, [CLS]": Encoder(given.trained),
        "start, first-last-avg": Encoder(given.model, pooling="first-last-avg"),
        **{name: Encoder(model) for name, model in models.items()},
    }
    print(f"{describe()}; docstrings of Python's library, at most 64 tokens; medians of {given.rounds}, in turn")
    for size in given.batches:
        places = np.random.default_rng(0).choice(len(sentences), size, replace=False)
        texts = [" ".join(sentences[place].split()[:40]) for place in places]
        taken: dict[str, list[float]] = {name: [] for name in encoders}
        for _ in range(given.rounds + 1):
            for name, encoder in encoders.items():
                start = time.perf_counter()
                encoder.encode(texts)
                taken[name].append(time.perf_counter() - start)
        medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
        base = medians["start, [CLS]"]
        for name, seconds in medians.items():
            print(f"B = {size}: {name}: {1000 * seconds:.1f} ms, {seconds / base:.3f} of the start's [CLS]")


if __name__ == "__main__":
    main()
