"""The seven STS sets: this package against sentence-transformers' evaluator, task after task, in turn.

Goal: at most 1/1.8 of the wall time, with metrics (intervals included) below 5 % of it. Both run the same model in
float32 on the same threads, from sentences to scores, without any cache; loading the model is not counted. The
evaluator is called once per task with all pairs of the task, at its default batch size.

Usage: python benchmarks/evaluate_speed.py MODEL --data DIR [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from machine import describe
from published import SEVEN
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer


class Stopwatch:
    """An encoder that remembers how long it took."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.seconds = 0.0

    def encode(
        self, texts: Sequence[str], *, progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """Return the vectors of ``texts``."""
        start = time.perf_counter()
        vectors = self._encoder.encode(texts, progress=progress)
        self.seconds += time.perf_counter() - start
        return vectors


def by_evaluator(model: SentenceTransformer, tasks: Sequence[sts.Task]) -> list[float]:
    """Return the scores of sentence-transformers' evaluator."""
    found = []
    for task in tasks:
        left = [text for pairs in task.subsets for text in pairs.left]
        right = [text for pairs in task.subsets for text in pairs.right]
        gold = np.concatenate([pairs.gold for pairs in task.subsets])
        evaluator = EmbeddingSimilarityEvaluator(left, right, list(gold / gold.max()), main_similarity="cosine")
        found.append(float(evaluator(model)[evaluator.primary_metric]))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    tasks = [sts.load_task(given.data, name) for name in SEVEN]
    texts = [text for task in tasks for text in task.texts()]
    print(f"{describe()}; {len(texts)} sentences, {len(set(texts))} distinct; medians of {given.rounds}, in turn")
    encoder = Encoder(given.model)
    encoder.encode(texts[:64])
    product, metrics, plain = [], [], []
    for _ in range(given.rounds):
        watch, start = Stopwatch(encoder), time.perf_counter()
        found = evaluate(watch, given.model, tasks)
        product.append(time.perf_counter() - start)
        metrics.append(product[-1] - watch.seconds)
        start = time.perf_counter()
        theirs = by_evaluator(encoder.model, tasks)
        plain.append(time.perf_counter() - start)
    ours = [score.score or 0.0 for score in found if score.subset is None]
    whole, rest, slow = map(statistics.median, (product, metrics, plain))
    print(f"product {whole:.1f} s, evaluator {slow:.1f} s: {slow / whole:.2f} times faster (goal 1.8)")
    print(f"metrics and intervals: {rest:.1f} s, {100 * rest / whole:.1f} % of the product's time (goal 5 %)")
    print(f"largest difference between the scores: {max(abs(a - b) for a, b in zip(ours, theirs, strict=True)):.1e}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
