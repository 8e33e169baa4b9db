"""Semantic textual similarity: does the cosine of two vectors follow the judgement of people?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import spearmanr

from embedlift.errors import InputError
from embedlift.evaluation.bootstrap import interval, spearman_resamples
from embedlift.evaluation.results import Score
from embedlift.functional.similarity import paired_cosine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation.results import Encodes

Aggregation = Literal["all", "mean", "wmean"]
AGGREGATIONS: tuple[Aggregation, ...] = ("all", "mean", "wmean")

#: Task -> its files under the data folder; ``{split}`` stands for train, dev or test.
TASKS = {
    **{f"STS{year}": f"sts/STS{year}/*.tsv" for year in (12, 13, 14, 15, 16)},
    "STS-B": "stsb/stsb_{split}.tsv",
    "SICK-R": "sick/sickr_{split}.tsv",
}
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
    """A task: its name, its split, and its subsets."""

    name: str
    split: str
    subsets: list[Pairs]


def load_task(data: Path, name: str) -> Task:
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
    return Task(base, split, [read_pairs(file) for file in files])


def read_pairs(path: Path) -> Pairs:
    """Read ``score<TAB>sentence<TAB>sentence``, without header or quoting.

    Raises:
        InputError: Naming file and line.
    """
    left, right, gold = [], [], []
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error})") from None
    for number, line in enumerate(lines, start=1):
        columns = line.split("\t")
        if len(columns) != 3:
            raise InputError(f"{path}:{number}: {len(columns)} columns where score, sentence, sentence were expected")
        try:
            gold.append(float(columns[0]))
        except ValueError:
            raise InputError(f"{path}:{number}: the score {columns[0]!r} is not a number") from None
        left.append(columns[1])
        right.append(columns[2])
    return Pairs(path.stem, left, right, np.array(gold))


def evaluate(
    encoder: Encodes,
    model: str,
    tasks: Sequence[Task],
    *,
    aggregation: Aggregation = "all",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Score]:
    """Score a model on ``tasks``: Spearman's correlation of cosine with the gold similarities.

    Each distinct sentence is encoded once, however many tasks share it.

    Args:
        encoder: Gives the vectors.
        model: Name for the records.
        tasks: From :func:`load_task`.
        aggregation: How the subsets of a year become one score: ``all`` pools their pairs (SimCSE, mteb),
            ``mean`` averages their scores, ``wmean`` weights that average by size (BERT-flow, SentEval). The same
            model differs by several points between them.
        seed: Of the bootstrap.
        progress: Passed to the encoder.
    """
    sentences: dict[str, int] = {}
    for task in tasks:
        for pairs in task.subsets:
            for sentence in (*pairs.left, *pairs.right):
                sentences.setdefault(sentence, len(sentences))
    vectors = encoder.encode(list(sentences), progress=progress)

    def cosines(pairs: Pairs) -> NDArray[np.floating]:
        left, right = (vectors[[sentences[text] for text in side]] for side in (pairs.left, pairs.right))
        return paired_cosine(left, right)

    scores = []
    for task in tasks:
        systems = [cosines(pairs) for pairs in task.subsets]
        scores.extend(_score_task(model, task, systems, aggregation, seed))
    return scores


def _score_task(
    model: str, task: Task, systems: list[NDArray[np.floating]], aggregation: Aggregation, seed: int
) -> list[Score]:
    golds = [pairs.gold for pairs in task.subsets]
    parts = [_spearman(system, gold, seed) for system, gold in zip(systems, golds, strict=True)]
    sizes = np.array([len(gold) for gold in golds])
    if aggregation == "all" and len(golds) > 1:
        whole = _spearman(np.concatenate(systems), np.concatenate(golds), seed)
    else:
        weights = sizes / sizes.sum() if aggregation == "wmean" else np.full(len(sizes), 1 / len(sizes))
        whole = (
            sum(w * part[0] for w, part in zip(weights, parts, strict=True)),
            np.sum([w * part[1] for w, part in zip(weights, parts, strict=True)], axis=0),
        )

    def record(subset: str | None, result: tuple[float, NDArray[np.float64]], n: int) -> Score:
        value, draws = result
        defined = bool(np.isfinite(value))
        return Score(
            model=model,
            task=task.name,
            split=task.split,
            subset=subset,
            metric="cosine_spearman",
            aggregation=aggregation if subset is None else None,
            score=float(value) if defined else None,
            n=n,
            interval=interval(draws) if defined else None,
            note=None if defined else "undefined: collapsed (all similarities or all gold scores are equal)",
        )

    subsets = [record(pairs.name, part, len(pairs.gold)) for pairs, part in zip(task.subsets, parts, strict=True)]
    return [*(subsets if len(subsets) > 1 else []), record(None, whole, int(sizes.sum()))]


def _spearman(system: NDArray[np.floating], gold: NDArray[np.float64], seed: int) -> tuple[float, NDArray[np.float64]]:
    if np.ptp(system) == 0 or np.ptp(gold) == 0:
        return float("nan"), np.full(1, np.nan)
    return float(spearmanr(system, gold).statistic), spearman_resamples(system, gold, seed=seed)


def check_aggregation(name: str) -> Aggregation:
    """Return ``name`` if it is an aggregation.

    Raises:
        InputError: If it is none.
    """
    for known in AGGREGATIONS:
        if known == name:
            return known
    raise InputError(f"unknown aggregation {name!r}: choose one of {', '.join(AGGREGATIONS)}")
