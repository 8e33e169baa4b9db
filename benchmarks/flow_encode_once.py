"""The flow fitted on vectors that are encoded once, against the released way: the encoder inside every step.

The encoder is frozen, so both optimise the same objective. The released code pads every sentence to 64 tokens; the
milder baseline pads a batch to its longest sentence. The text is Python's own docstrings. Goal: at least 10 times
faster over 5 epochs.

Usage: python benchmarks/flow_encode_once.py --bert FOLDER [--sentences 1000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import machine
import numpy as np
import torch
import transformers

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from stdlib_docstrings import read_docstrings

from embedlift.encoder import Encoder
from embedlift.functional.flow_gradient import AutogradGradient
from embedlift.functional.glow import Glow
from embedlift.transforms import Flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentence_transformers import SentenceTransformer

EPOCHS, PAIRS, MAX_LENGTH = 5, 32, 64


def main() -> None:
    """Print the median seconds of each way, and their ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bert", required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    sentences = read_docstrings().sentences
    chosen = [sentences[i] for i in np.random.default_rng(0).permutation(len(sentences))[: arguments.sentences]]
    encoder = Encoder(arguments.bert, pooling="first-last-avg", max_length=MAX_LENGTH)
    ways: dict[str, Callable[[], None]] = {
        "encode once": lambda: encode_once(encoder, chosen),
        "encoder in every step, padded to its batch": lambda: in_every_step(encoder.model, chosen, padding=True),
        "encoder in every step, padded to 64 (as released)": lambda: in_every_step(
            encoder.model, chosen, padding="max_length"
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    print(machine.describe())
    print(f"{len(chosen)} sentences, {EPOCHS} epochs, medians of {arguments.rounds} rounds in turn")
    fastest = statistics.median(seconds["encode once"])
    for name, measured in seconds.items():
        median = statistics.median(measured)
        print(f"{name:50} {median:8.2f} s  {median / fastest:5.1f}x  ({min(measured):.2f} to {max(measured):.2f})")


def encode_once(encoder: Encoder, sentences: list[str]) -> None:
    """Encode, then fit."""
    Flow(epochs=EPOCHS, patience=EPOCHS).fit(encoder.encode(sentences))


def in_every_step(model: SentenceTransformer, sentences: list[str], *, padding: bool | str) -> None:
    """Encode the 64 sentences of 32 pairs at each step, and take the flow's step on them."""
    tokenizer = model.tokenizer
    glow = gradient = None
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(sentences))
        for start in range(0, len(order) - 2 * PAIRS + 1, 2 * PAIRS):
            batch = [sentences[i] for i in order[start : start + 2 * PAIRS]]
            features = tokenizer(batch, padding=padding, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
            with torch.no_grad():
                vectors = model({**features, "modality": "text"})["sentence_embedding"]
            if gradient is None:
                glow = Glow(vectors.shape[1])
                glow.initialise(vectors)
                gradient = AutogradGradient(glow)
            gradient.loss_and_gradient(vectors)
            gradient.parameters -= 1e-3 * gradient.gradient / gradient.gradient.norm().clamp(min=1.0)


if __name__ == "__main__":
    main()
