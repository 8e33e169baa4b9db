"""Bootstrap intervals: how long they take, and how often they hold the truth where pairs share sentences.

``speed``: 1,000 resamples of 5,000 pairs, one thread (goal: below 2 s for a statistic). Wall seconds, median of five,
for single pairs and for clusters.

``coverage``: real files give which pair has which sentences, and nothing else. Gold scores and similarities are drawn
from a Gaussian with a known Spearman correlation, a share of whose variance belongs to the sentences, so that pairs
with a common sentence move together. Three ways to resample are compared: single pairs, clusters of connected pairs
(the product's), and sentences (the product's where one cluster would hold nearly all pairs). Each cell is the share of
95 % intervals that hold the true correlation, and the mean standard deviation of the draws divided by the true one of
the score, which should be 1.

Usage: python benchmarks/intervals.py speed
       python benchmarks/intervals.py coverage DATA [--files F ...] [--samples 300] [--seed 0]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import machine
import numpy as np

from embedlift.evaluation import bootstrap, sts

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILES = (
    "sts/STS12/OnWN.tsv",
    "sts/STS12/MSRvid.tsv",
    "sts/STS12/SMTeuroparl.tsv",
    "sts/STS13/OnWN.tsv",
    "sts/STS15/answers-students.tsv",
    "sts/STS16/plagiarism.tsv",
    "stsb/stsb_test.tsv",
    "sick/sickr_test.tsv",
)
RESAMPLES = 200
PEARSON = 0.8
TRUTH = 6 / np.pi * np.arcsin(PEARSON / 2)


def speed(rounds: int = 5) -> None:
    """Print seconds for each statistic."""
    print("| statistic | single pairs, s | clusters, s |\n|---|---|---|")
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    gold = np.round(x + rng.normal(size=5000), 1)
    clusters = np.unique(rng.integers(0, 3000, 5000), return_inverse=True)[1]
    for name, statistic in {
        "spearman": bootstrap.spearman(x, gold),
        "pearson": bootstrap.pearson(x, gold),
        "mean": bootstrap.mean(x),
        "roc_auc": bootstrap.roc_auc(x, gold > 0),
        "average_precision": bootstrap.average_precision(x, gold > 0),
        "best_accuracy": bootstrap.best_accuracy(x, gold > 0),
    }.items():
        cells = []
        for units in (None, clusters):
            taken = []
            for _ in range(rounds):
                start = time.perf_counter()
                bootstrap.draws([statistic], 5000, clusters=units)
                taken.append(time.perf_counter() - start)
            cells.append(f"{statistics.median(taken):.2f}")
        print(f"| {name} | {' | '.join(cells)} |")


def sentences_of(path: Path) -> NDArray[np.int64]:
    """Return the numbers of the sentences of each pair, shape (n, 2)."""
    pairs = sts.read_pairs(path)
    return np.unique(pairs.left + pairs.right, return_inverse=True)[1].reshape(2, -1).T


def all_against_all(sentences: int) -> NDArray[np.int64]:
    """Return every pair of ``sentences`` sentences."""
    return np.array([[i, j] for i in range(sentences) for j in range(i)])


def effects(pairs: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return standard normal values of pairs; ``share`` of their variance belongs to their sentences."""
    of_sentence = rng.normal(size=pairs.max() + 1)[pairs]
    same = pairs[:, 0] == pairs[:, 1]
    shared = np.where(same, of_sentence[:, 0], of_sentence.sum(axis=1) / 2**0.5)
    return share**0.5 * shared + (1 - share) ** 0.5 * rng.normal(size=len(pairs))


def connected(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cluster of each pair, however large the largest is."""
    left, right = (list(map(str, side)) for side in pairs.T)
    return bootstrap.sentence_clusters(left, right, largest=1.0)


def coverage_of(pairs: NDArray[np.int64], share: float, samples: int, seed: int) -> list[str]:
    """Return a cell for single pairs, clusters and sentences."""
    n = len(pairs)
    ways = {"pairs": None, "clusters": connected(pairs), "sentences": pairs}
    rng = np.random.default_rng(seed)
    held: dict[str, list[bool]] = {way: [] for way in ways}
    spread: dict[str, list[float]] = {way: [] for way in ways}
    scores = []
    for sample in range(samples):
        gold = effects(pairs, share, rng)
        statistic = bootstrap.spearman(PEARSON * gold + (1 - PEARSON**2) ** 0.5 * effects(pairs, share, rng), gold)
        scores.append(statistic(np.ones((1, n)))[0])
        for way, units in ways.items():
            (draws,) = bootstrap.draws([statistic], n, resamples=RESAMPLES, seed=[seed, sample], clusters=units)
            low, high = bootstrap.interval(draws) or (np.nan, np.nan)
            held[way].append(low <= TRUTH <= high)
            spread[way].append(float(np.nanstd(draws)))
    return [f"{np.mean(held[way]):.2f} (x {np.mean(spread[way]) / np.std(scores):.2f})" for way in ways]


def coverage(data: Path, files: list[str], samples: int, seed: int) -> None:
    """Print a row for each file and share."""
    shapes = {file: sentences_of(data / file) for file in files} | {"20 sentences, all pairs": all_against_all(20)}
    print("| pairs from | pairs | clusters | largest | share | single pairs | clusters | sentences |")
    print("|---|---|---|---|---|---|---|---|")
    for name, pairs in shapes.items():
        clusters = connected(pairs)
        largest = np.bincount(clusters).max() / len(pairs)
        for share in (0.0, 0.5):
            cells = coverage_of(pairs, share, samples, seed)
            head = f"| {name} | {len(pairs)} | {clusters.max() + 1} | {largest:.0%} | {share:.0%} |"
            print(head, " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("speed")
    covering = commands.add_parser("coverage")
    covering.add_argument("data", type=Path)
    covering.add_argument("--files", nargs="+", default=list(FILES))
    covering.add_argument("--samples", type=int, default=300)
    covering.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(machine.describe(), flush=True)
    if given.command == "speed":
        speed()
    else:
        coverage(given.data, given.files, given.samples, given.seed)
