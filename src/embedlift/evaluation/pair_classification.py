"""Pairs with labels: does cosine tell duplicates, paraphrases or entailed sentences from other pairs?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedlift.errors import InputError
from embedlift.evaluation.bootstrap import average_precision, best_accuracy, roc_auc, sentence_clusters
from embedlift.evaluation.labelled_lines import read_labelled
from embedlift.evaluation.scoring import scored, undefined
from embedlift.functional.similarity import paired_cosine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation.bootstrap import Statistic
    from embedlift.evaluation.results import Score
    from embedlift.evaluation.tasks import Vectors

#: Cosines in float32 that differ by less hold nothing but rounding errors.
_ROUNDING = 1e-6


class File(NamedTuple):
    """A file of labelled pairs below the data folder, its split, and the labels of each kind."""

    path: str
    split: str
    positive: tuple[str, ...] = ("1",)
    negative: tuple[str, ...] = ("0",)


TASKS = {
    "QNLI": File("qnli/qnli_dev.tsv", "dev"),
    "MRPC-pairs": File("transfer/MRPC_test.tsv", "test"),
    "SICK-E": File("sick/sicke_test.tsv", "test", ("ENTAILMENT",), ("NEUTRAL", "CONTRADICTION")),
}


@dataclass(frozen=True)
class PairClassification:
    """A task: two kinds of pairs are told apart by cosine alone, nothing is trained.

    Attributes:
        name: Such as ``QNLI``.
        split: Such as ``dev``.
        left: First sentences.
        right: Second sentences.
        positive: Which pairs should have the higher cosine, shape (n,).
    """

    name: str
    split: str
    left: list[str]
    right: list[str]
    positive: NDArray[np.bool_]

    def texts(self) -> Iterator[str]:
        """Return both sentences of every pair."""
        yield from self.left
        yield from self.right

    def scores(self, vectors: Vectors, model: str, seed: int) -> list[Score]:
        """Return average precision, the area under the ROC curve, and accuracy and F1 at their best thresholds.

        A best threshold is found on these very labels, so the last two flatter every model a little; the intervals
        come from thresholds found anew in each resample. Pairs that share a sentence are drawn together.
        """
        cosines = paired_cosine(vectors.of(self.left), vectors.of(self.right))
        aside = vectors.zeros_note([*self.left, *self.right])
        why = self._undefined(cosines)
        if why is not None:
            return undefined(
                self, model, len(cosines), _STATISTICS, "; ".join(filter(None, [why, aside])), unit="pairs"
            )
        statistics = {metric: make(cosines, self.positive) for metric, make in _STATISTICS.items()}
        notes = {
            metric: "; ".join(filter(None, [_threshold_note(metric, cosines, self.positive), aside])) or None
            for metric in statistics
        }
        clusters = sentence_clusters(self.left, self.right)
        return scored(self, model, len(cosines), statistics, seed=seed, unit="pairs", notes=notes, clusters=clusters)

    def _undefined(self, cosines: NDArray[np.floating]) -> str | None:
        if not np.isfinite(cosines).all():
            return "NaN or infinity in the vectors"
        if np.ptp(cosines) < _ROUNDING:
            return "collapsed (all cosines are equal)"
        if self.positive.all() or not self.positive.any():
            return "all pairs have the same label"
        return None


def best_f1(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> Statistic:
    """Return F1 at the best threshold, found anew in each resample, as a statistic: scores and positive, shape (n,)."""
    order, ends = _falling(scores)

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        ordered = counts[:, order]
        called = np.cumsum(ordered, axis=1)[:, ends]
        hits = np.cumsum(ordered * positive[order], axis=1)[:, ends]
        f1 = 2 * hits / np.maximum(called + hits[:, -1:], 1)
        return np.where(hits[:, -1] > 0, f1.max(axis=1), np.nan)

    return statistic


_STATISTICS = {
    "cosine_ap": average_precision,
    "cosine_roc_auc": roc_auc,
    "cosine_accuracy": best_accuracy,
    "cosine_f1": best_f1,
}


def best_threshold(scores: NDArray[np.floating], positive: NDArray[np.bool_], metric: str) -> float:
    """Return the threshold, from which on a pair is called positive, of the best ``accuracy`` or ``f1``.

    It lies half-way between two scores; where several are equally good, the highest of them is taken.
    """
    order, ends = _falling(scores)
    called = ends + 1
    hits = np.cumsum(positive[order])[ends]
    right = 2 * hits - called if metric == "accuracy" else 2 * hits / (called + hits[-1])
    if metric == "accuracy" and right.max() < 0:  # better to call nothing positive
        return float(np.nextafter(scores.max(), np.inf))
    best = int(np.argmax(right))
    values = np.asarray(scores, np.float64)[order[ends]]
    return float(values[best] if best + 1 == len(ends) else (values[best] + values[best + 1]) / 2)


def _falling(scores: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of falling scores, and the last place of each group of equal ones."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    ordered = scores[order]
    return order, np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))


def _threshold_note(metric: str, cosines: NDArray[np.floating], positive: NDArray[np.bool_]) -> str | None:
    name = metric.removeprefix("cosine_")
    if name not in ("accuracy", "f1"):
        return None
    threshold, rate = best_threshold(cosines, positive, name), float(positive.mean())
    if name == "accuracy":
        calling, base = "the larger class throughout", max(rate, 1 - rate)
    else:
        calling, base = "every pair positive", 2 * rate / (1 + rate)
    return f"at threshold {threshold:.4f}, chosen on these labels; calling {calling} gives {100 * base:.1f}"


def load_task(data: Path, name: str) -> PairClassification:
    """Read a task of ``TASKS`` from the folder ``data``.

    Raises:
        InputError: If the file is missing, or a line is not ``label, sentence, sentence``.
    """
    file = TASKS[name]
    path = data / file.path
    if not path.is_file():
        raise InputError(f"{name}: no file {path}")
    left, right, positive = [], [], []
    for label, (one, other), where in read_labelled(path, 2):
        if label not in file.positive + file.negative:
            raise InputError(f"{where}: the label {label!r} is none of {', '.join(file.positive + file.negative)}")
        positive.append(label in file.positive)
        left.append(one)
        right.append(other)
    if not left:
        raise InputError(f"{path}: no pairs: the file is empty")
    return PairClassification(name, file.split, left, right, np.array(positive))
