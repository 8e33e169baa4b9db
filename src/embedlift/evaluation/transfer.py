"""SentEval's transfer tasks: how much a logistic regression learns from vectors that stay as they are.

Source: Conneau, Kiela (2018), SentEval, arXiv:1803.05449.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedlift.errors import InputError
from embedlift.evaluation import logistic_regression
from embedlift.evaluation.bootstrap import mean
from embedlift.evaluation.labelled_lines import read_labelled
from embedlift.evaluation.scoring import scored, undefined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation.bootstrap import Statistic
    from embedlift.evaluation.logistic_regression import Mode, Outcome, Part
    from embedlift.evaluation.results import Score
    from embedlift.evaluation.tasks import Vectors

#: Vectors in float32 that differ by less, relative to their entries, hold nothing but rounding errors.
_ROUNDING = 1e-6
_TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


class Files(NamedTuple):
    """Files of a task below ``transfer/``, and its classes in the order of SentEval's class numbers."""

    train: str
    dev: str | None = None
    test: str | None = None
    classes: tuple[str, ...] = ("0", "1")


TASKS = {
    "MR": Files("MR.tsv"),
    "CR": Files("CR.tsv"),
    "SUBJ": Files("SUBJ.tsv", classes=("1", "0")),  # objective sentences, 0 in the file, have number 1 in SentEval
    "MPQA": Files("MPQA.tsv"),
    "SST-2": Files("SST2_train.tsv", "SST2_dev.tsv", "SST2_test.tsv"),  # trained on phrases, as in SentEval
    "SST-2-sentences": Files("SST2_train_sentences.tsv", "SST2_dev.tsv", "SST2_test.tsv"),
    "TREC": Files("TREC_train.tsv", None, "TREC_test.tsv", _TREC_CLASSES),
    "MRPC": Files("MRPC_train.tsv", None, "MRPC_test.tsv"),
}


@dataclass(frozen=True)
class Examples:
    """Sentences, or pairs of sentences, with classes.

    Attributes:
        sides: One list of sentences, or two of equal length.
        labels: SentEval's number of the class of each example, shape (n,).
    """

    sides: tuple[list[str], ...]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class TransferTask:
    """A task of SentEval; which parts are there decides how the penalty is chosen and the accuracy taken.

    Train alone: nested cross-validation (MR, CR, SUBJ, MPQA). Train and test: cross-validation on train (TREC, MRPC).
    Train, dev and test: the penalty that is best on dev (SST-2).

    Attributes:
        name: Such as ``MR``.
        train: What the regression is fitted on.
        dev: What the penalty is chosen on, or None.
        test: What the accuracy is taken on, or None.
        mode: See :data:`embedlift.evaluation.logistic_regression.Mode`.
    """

    name: str
    train: Examples
    dev: Examples | None = None
    test: Examples | None = None
    mode: Mode = "converged"

    @property
    def split(self) -> str:
        """``test``: in nested cross-validation too, where each example is tested once."""
        return "test"

    def texts(self) -> Iterator[str]:
        """Return the sentences of every part."""
        for part in (self.train, self.dev, self.test):
            for side in part.sides if part is not None else ():
                yield from side

    def scores(self, vectors: Vectors, model: str, seed: int) -> list[Score]:
        """Return the accuracy, and F1 for pairs (MRPC); the bootstrap draws test examples, not training ones."""
        train = _in_order(self.train, vectors)
        dev, test = (None if part is None else _in_order(part, vectors) for part in (self.dev, self.test))
        parts = [part for part in (train, dev, test) if part is not None]
        metrics = [self._metric(name) for name in ("accuracy", "f1")[: len(self.train.sides)]]
        if not all(np.isfinite(part.x).all() for part in parts):
            return undefined(self, model, len(parts[-1].y), metrics, "NaN or infinity in the vectors", unit="examples")
        if test is None:
            outcome = logistic_regression.nested(train, self.mode)
        elif dev is None:
            outcome = logistic_regression.k_fold(train, test, self.mode)
        else:
            outcome = logistic_regression.split(train, dev, test, self.mode)
        n = len(outcome.y)
        right = outcome.predicted == outcome.y
        statistics = dict(zip(metrics, [mean(right * outcome.weights * n), _f1(outcome)], strict=False))
        note = _note(outcome, train.x)
        return scored(self, model, n, statistics, seed=seed, unit="examples", notes=dict.fromkeys(metrics, note))

    def _metric(self, name: str) -> str:
        return name if self.mode == "converged" else f"{name}_{self.mode.replace('-', '_')}"


def _in_order(part: Examples, vectors: Vectors) -> Part:
    """Return features and classes in SentEval's order: stably by (number of tokens of each side, class)."""
    sides = [vectors.of(side).astype(np.float32) for side in part.sides]  # the dtype moves fits that don't converge
    x = sides[0] if len(sides) == 1 else np.hstack([np.abs(sides[0] - sides[1]), sides[0] * sides[1]])
    tokens = [[len(text.split()) for text in side] for side in part.sides]
    order = np.lexsort(np.array([part.labels, *reversed(tokens)]))
    return logistic_regression.Part(x, part.labels).rows(order)


def _f1(outcome: Outcome) -> Statistic:
    """Return F1 of class 1, 0 where nothing is of that class or called so."""
    hits = (outcome.predicted == 1) & (outcome.y == 1)
    sizes = (outcome.predicted == 1).astype(np.float64) + (outcome.y == 1)
    return lambda counts: 2 * (counts @ hits) / np.maximum(counts @ sizes, 1)


def _note(outcome: Outcome, x: NDArray[np.float32]) -> str:
    notes = [outcome.note, f"largest class {100 * np.bincount(outcome.y).max() / len(outcome.y):.1f} %"]
    if np.ptp(x, axis=0).max() <= _ROUNDING * np.abs(x).max():
        notes.append("collapsed: all vectors are equal")
    elif len(np.unique(outcome.predicted)) == 1:
        notes.append("every example gets the same class")
    return "; ".join(notes)


def load_task(data: Path, name: str, mode: Mode = "converged") -> TransferTask:
    """Read a task of ``TASKS`` from the folder ``data``.

    Raises:
        InputError: If a file is missing, or a line is not ``label, sentence`` or ``label, sentence, sentence``.
    """
    files = TASKS[name]
    sides = 2 if name == "MRPC" else 1
    wanted = [data / "transfer" / file for file in (files.train, files.dev, files.test) if file is not None]
    missing = [str(file) for file in wanted if not file.is_file()]
    if missing:
        there = [str(file) for file in wanted if file.is_file()]
        raise InputError(f"{name}: no file {', '.join(missing)} (there: {', '.join(there) or 'none'})")
    train, *others = (read_examples(file, files.classes, sides) for file in wanted)
    dev, test = {0: (None, None), 1: (None, *others), 2: tuple(others)}[len(others)]
    return TransferTask(name, train, dev, test, mode)


def read_examples(path: Path, classes: tuple[str, ...], sides: int) -> Examples:
    """Read ``label<TAB>sentence`` or, with two sides, ``label<TAB>sentence<TAB>sentence``, without header or quoting.

    Raises:
        InputError: Naming file and line.
    """
    labels, columns = [], []
    for label, texts, where in read_labelled(path, sides):
        if label not in classes:
            raise InputError(f"{where}: the label {label!r} is none of {', '.join(classes)}")
        labels.append(classes.index(label))
        columns.append(texts)
    if len(set(labels)) < 2:
        raise InputError(f"{path}: {len(labels)} examples of {len(set(labels))} classes: at least two are needed")
    return Examples(tuple(list(side) for side in zip(*columns, strict=True)), np.array(labels))
