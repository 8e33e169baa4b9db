"""What a saved flow costs: size on disk and time of a batch of 64, beside the encoder that it follows.

Usage: PYTHONPATH=benchmarks:examples python -m bert_flow.chain [--bert FOLDER]
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TQDM_DISABLE", "1")  # the GGUF reader draws bars of its own

import machine
import numpy as np
import torch
import transformers
from stdlib_docstrings import read_docstrings

from bert_flow.similarity import SMOLLM2
from embedlift.encoder import Encoder
from embedlift.modules import as_modules
from embedlift.transforms import Flow

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH, ROUNDS = 64, 5
DIMENSIONS = (384, 576, 768)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bert")
    given = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(machine.describe())
    for dimension in DIMENSIONS:
        rows = np.random.default_rng(0).standard_normal((2000, dimension)).astype(np.float32)
        flow = Flow(epochs=1).fit(rows)
        chain = torch.nn.Sequential(*as_modules(flow, dimension))
        size = 4 * sum(part.numel() for part in chain.parameters()) / 1e6
        features = {"sentence_embedding": torch.from_numpy(rows[:BATCH])}
        native, batch = flow.to_module(), torch.from_numpy(rows[:BATCH])
        seconds = [median_seconds(chain, features), median_seconds(native, batch)]
        print(
            f"D = {dimension}: chain of {len(chain)} dense layers, {size:.0f} MB, {1000 * seconds[0]:.1f} ms for a "
            f"batch of {BATCH}; the flow itself {1000 * seconds[1]:.1f} ms"
        )
    sentences = read_docstrings().sentences
    texts = [sentences[place] for place in np.random.default_rng(0).choice(len(sentences), BATCH, replace=False)]
    for model in filter(None, (given.bert, SMOLLM2)):
        encoder = Encoder(model, pooling="first-last-avg", max_length=64)
        seconds = [median_seconds(encoder.encode, texts)]
        print(f"{model}: {1000 * seconds[0]:.0f} ms for {len(texts)} sentences of docstrings of at most 64 tokens")


def median_seconds(call: Callable[[Any], object], argument: Any) -> float:
    """Return the median of some calls, after one that does not count; each gets a shallow copy of the argument."""
    taken = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        with torch.inference_mode():
            call(copy.copy(argument))
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


if __name__ == "__main__":
    main()
