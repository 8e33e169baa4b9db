"""Semantic textual similarity: does the cosine of two vectors follow the judgement of people?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import spearmanr

from embedlift.corpus import read_lines
from embedlift.errors import InputError
from embedlift.evaluation.bootstrap import RESAMPLES, draws, interval, spearman
from embedlift.evaluation.results import Score
from embedlift.functional.similarity import paired_cosine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation.tasks import Vectors

Aggregation = Literal["all", "mean", "wmean"]
AGGREGATIONS: tuple[Aggregation, ...] = ("all", "mean", "wmean")

#: Task -> its files under the data folder; ``{split}`` stands for train, dev or test.
TASKS = {
    **{f"STS{year}": f"sts/STS{year}/*.tsv" for year in (12, 13, 14, 15, 16)},
    "STS-B": "stsb/stsb_{split}.tsv",
    "SICK-R": "sick/sickr_{split}.tsv",
}
#: Cosines in float32 that differ by less hold nothing but rounding errors.
_ROUNDING = 1e-6

_SPLITS = {"dev": ("dev", "trial"), "train": ("train",), "test": ("test",)}


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs with gold similarities: one file of a task.

    Attributes:
        name: Name of the subset.
        left: First sentences.
        right: Second sentences.
        gold: Similarities, shape (n,).
    """

    name: str
    left: list[str]
    right: list[str]
    gold: NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A task: Spearman's correlation of cosine with the gold similarities.

    Attributes:
        name: Such as ``STS12``.
        split: Such as ``test``.
        subsets: Its files.
        aggregation: How the subsets become one score: ``all`` pools their pairs (SimCSE, mteb), ``mean`` averages
            their scores, ``wmean`` weights that average by size (BERT-flow, SentEval). The same model differs by
            several points between them.
    """

    name: str
    split: str
    subsets: list[Pairs]
    aggregation: Aggregation = "all"

    def texts(self) -> Iterator[str]:
        """Return both sentences of every pair."""
        for pairs in self.subsets:
            yield from pairs.left
            yield from pairs.right

    def scores(self, vectors: Vectors, model: str, seed: int) -> list[Score]:
        """Return a score for each subset, if there are several, and one for the whole."""
        parts = [
            _Subset(
                paired_cosine(vectors.of(pairs.left), vectors.of(pairs.right)),
                pairs.gold,
                vectors.zeros([*pairs.left, *pairs.right]),
                [seed, number],
            )
            for number, pairs in enumerate(self.subsets)
        ]
        return _score_task(model, self, parts)


def load_task(data: Path, name: str, aggregation: Aggregation = "all") -> Task:
    """Read a task such as ``STS12``, ``STS-B`` (its test split) or ``STS-B:dev`` from the folder ``data``.

    Raises:
        InputError: If the task or its files are missing, or a line is not ``score, sentence, sentence``.
    """
    base, _, split = name.partition(":")
    if base not in TASKS or (split and ("{split}" not in TASKS[base] or split not in _SPLITS)):
        known = ", ".join(TASKS)
        raise InputError(f"unknown task {name!r}: choose from {known} (STS-B and SICK-R also as STS-B:dev or :train)")
    split = split or "test"
    patterns = [TASKS[base].format(split=spelling) for spelling in _SPLITS[split]]
    files = sorted(file for pattern in patterns for file in data.glob(pattern))
    if not files:
        raise InputError(f"{name}: no file {' or '.join(str(data / pattern) for pattern in patterns)}")
    return Task(base, split, [read_pairs(file) for file in files], aggregation)


def read_pairs(path: Path) -> Pairs:
    """Read ``score<TAB>sentence<TAB>sentence``, without header or quoting.

    Raises:
        InputError: Naming file and line.
    """
    left, right, gold = [], [], []
    for number, line in read_lines(path):
        columns = line.split("\t")
        if len(columns) != 3:
            raise InputError(f"{path}:{number}: {len(columns)} columns where score, sentence, sentence were expected")
        gold.append(_read_score(columns[0], f"{path}:{number}"))
        left.append(columns[1])
        right.append(columns[2])
    if not gold:
        raise InputError(f"{path}: no pairs: the file is empty")
    return Pairs(path.stem, left, right, np.array(gold))


def _read_score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not np.isfinite(score):
        raise InputError(f"{where}: the score {text!r} is not a number")
    return score


@dataclass(frozen=True)
class _Subset:
    """Cosines and gold similarities of a subset, shape (n,), its sentences with a zero vector, its bootstrap seed."""

    system: NDArray[np.floating]
    gold: NDArray[np.float64]
    zeros: int
    seed: list[int]


def _score_task(model: str, task: Task, parts: list[_Subset]) -> list[Score]:
    pooled = _Subset(
        np.concatenate([part.system for part in parts]),
        np.concatenate([part.gold for part in parts]),
        sum(part.zeros for part in parts),
        parts[0].seed,
    )
    results = [_spearman(part) for part in parts]
    if task.aggregation == "all" and len(parts) > 1:
        whole = _spearman(pooled)
    else:
        sizes = np.array([len(part.gold) for part in parts])
        weights = sizes / sizes.sum() if task.aggregation == "wmean" else np.full(len(parts), 1 / len(parts))
        values, draws = zip(*results, strict=True)
        whole = (float(weights @ values), weights @ np.stack(draws))

    def record(subset: str | None, part: _Subset, value: float, draws: NDArray[np.float64]) -> Score:
        defined = bool(np.isfinite(value))
        return Score(
            model=model,
            task=task.name,
            split=task.split,
            subset=subset,
            metric="cosine_spearman",
            aggregation=task.aggregation if subset is None else None,
            score=float(value) if defined else None,
            n=len(part.gold),
            interval=interval(draws) if defined else None,
            note=_note(part, defined=defined),
            draws=draws,
        )

    subsets = [
        record(pairs.name, part, *result) for pairs, part, result in zip(task.subsets, parts, results, strict=True)
    ]
    return [*(subsets if len(subsets) > 1 else []), record(None, pooled, *whole)]


def _note(part: _Subset, *, defined: bool) -> str | None:
    notes = []
    if not np.isfinite(part.system).all():
        notes.append("undefined: NaN or infinity in the vectors")
    elif not defined:
        notes.append("undefined: collapsed (all similarities or all gold scores of a subset are equal)")
    if part.zeros:
        notes.append(f"{part.zeros} sentence{'s' * (part.zeros > 1)} with a zero vector, whose cosine counts as 0")
    return "; ".join(notes) or None


def _spearman(part: _Subset) -> tuple[float, NDArray[np.float64]]:
    collapsed = np.ptp(part.system) < _ROUNDING or np.ptp(part.gold) == 0
    if collapsed or not np.isfinite(part.system).all():
        return float("nan"), np.full(RESAMPLES, np.nan)
    found = draws([spearman(part.system, part.gold)], len(part.gold), seed=part.seed)[0]
    return float(spearmanr(part.system, part.gold).statistic), found


def check_aggregation(name: str) -> Aggregation:
    """Return ``name`` if it is an aggregation.

    Raises:
        InputError: If it is none.
    """
    for known in AGGREGATIONS:
        if known == name:
            return known
    raise InputError(f"unknown aggregation {name!r}: choose one of {', '.join(AGGREGATIONS)}")
