"""Logistic regression under SentEval's protocol: its folds, its grids of penalties, its rule for ties.

Source: Conneau, Kiela (2018), SentEval, arXiv:1803.05449; what the paper leaves out follows its released code,
commit 5d6dc117 (its path through scikit-learn).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

#: ``converged``: SentEval's problem, solved. ``as-released``: SentEval's own call, which stops after 100 iterations,
#: mostly unconverged. ``fast``: not SentEval's protocol, for a first look.
Mode = Literal["converged", "as-released", "fast"]

FOLDS, FAST_FOLDS = 10, 5
SEED = 1111  # fixed in SentEval's code: the folds, and with them the figures, depend on it
FAST_STRENGTH = 0.1

#: Inverse strengths C of the L2 penalty, by the way in which one of them is chosen.
GRIDS = {
    "nested": tuple(2.0**power for power in range(-2, 4)),
    "k-fold": tuple(2.0**power for power in range(-1, 6)),
    "split": tuple(2.0**power for power in range(-2, 4)),
}


class Part(NamedTuple):
    """Features (n, F), float32, and class numbers (n,)."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]

    def rows(self, rows: NDArray[np.int64]) -> Part:
        """Return some of the rows."""
        return Part(self.x[rows], self.y[rows])


class Outcome(NamedTuple):
    """Predictions for the test examples, and how they came about.

    Attributes:
        predicted: Class numbers, shape (n,).
        y: Those that were right, shape (n,).
        weights: Of sum 1, shape (n,): they make the accuracy an unweighted mean over the folds.
        chosen: The strength C of each (outer) fold.
        dev: Accuracy in % that it was chosen by, or None in mode ``fast``.
        note: All of this in words, and how the fits ended.
    """

    predicted: NDArray[np.int64]
    y: NDArray[np.int64]
    weights: NDArray[np.float64]
    chosen: list[float]
    dev: float | None
    note: str


def nested(part: Part, mode: Mode) -> Outcome:
    """Test every row once; the penalty is chosen anew within each training part (MR, CR, SUBJ, MPQA)."""
    fits = _Fits(mode)
    predicted, weights = np.empty_like(part.y), np.empty(len(part.y))
    chosen, dev = [], []
    count = FAST_FOLDS if mode == "fast" else FOLDS
    for kept, held in _folds(count, part):
        train = part.rows(kept)
        strength, accuracy = _cross_validated(fits, train, GRIDS["nested"])
        (predicted[held],) = fits.predict(train, part.x[held], [strength])
        weights[held] = 1 / (count * len(held))
        chosen.append(strength)
        dev.append(accuracy)
    known = [accuracy for accuracy in dev if accuracy is not None]
    mean = float(np.mean(known)) if known else None
    way = f"one {count}-fold cross-validation" if mode == "fast" else f"nested {count}-fold cross-validation over C"
    return Outcome(predicted, part.y, weights, chosen, mean, _note(way, fits, GRIDS["nested"], chosen, mean))


def k_fold(train: Part, test: Part, mode: Mode) -> Outcome:
    """Choose the penalty by cross-validation on ``train`` (TREC, MRPC)."""
    fits = _Fits(mode)
    strength, dev = _cross_validated(fits, train, GRIDS["k-fold"])
    return _tested(fits, train, test, strength, dev, f"{FOLDS}-fold cross-validation over C", GRIDS["k-fold"])


def split(train: Part, dev: Part, test: Part, mode: Mode) -> Outcome:
    """Choose the penalty on ``dev``, which takes no part in the last fit either (SST-2)."""
    fits, grid = _Fits(mode), GRIDS["split"]
    if mode == "fast":
        return _tested(fits, train, test, FAST_STRENGTH, None, "", grid)
    accuracies = [[(predicted == dev.y).mean() for predicted in fits.predict(train, dev.x, grid)]]
    return _tested(fits, train, test, *_best(accuracies, grid), "chosen on dev among C", grid)


def _tested(
    fits: _Fits, train: Part, test: Part, strength: float, dev: float | None, way: str, grid: Sequence[float]
) -> Outcome:
    (predicted,) = fits.predict(train, test.x, [strength])
    weights = np.full(len(test.y), 1 / len(test.y))
    way = "one fit" if fits.mode == "fast" else way
    return Outcome(predicted, test.y, weights, [strength], dev, _note(way, fits, grid, [strength], dev))


def _cross_validated(fits: _Fits, part: Part, grid: Sequence[float]) -> tuple[float, float | None]:
    if fits.mode == "fast":
        return FAST_STRENGTH, None
    accuracies = [
        [(predicted == part.y[held]).mean() for predicted in fits.predict(part.rows(kept), part.x[held], grid)]
        for kept, held in _folds(FOLDS, part)
    ]
    return _best(accuracies, grid)


def _best(accuracies: list[list[float]], grid: Sequence[float]) -> tuple[float, float]:
    """Return the best strength and its accuracy in %; accuracies: a row for each fold, one for each strength.

    SentEval rounds the means to two decimals, and the first of equal ones, the strongest penalty, wins.
    """
    means = [round(100 * float(mean), 2) for mean in np.mean(accuracies, axis=0)]
    return grid[int(np.argmax(means))], max(means)


def _folds(count: int, part: Part) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    splitter = StratifiedKFold(count, shuffle=True, random_state=SEED)
    folds: Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]] = splitter.split(part.x, part.y)
    return folds


class _Fits:
    """Fits logistic regressions, and counts those that did not converge.

    ``converged`` moves the mean of the training vectors to the origin first. As the intercept bears no penalty, the
    optimum stays where it was, but a solver gets there in a seventh of the iterations on raw BERT vectors, whose mean
    is long; and a Newton solver gets closer than lbfgs at the same tolerance.
    """

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.count = self.unconverged = 0
        self._options: dict[str, Any] = {
            "converged": {"solver": "newton-cg", "max_iter": 1000},
            "as-released": {"solver": "lbfgs", "max_iter": 100},
            "fast": {"solver": "lbfgs", "max_iter": 1000},
        }[mode]

    def __str__(self) -> str:
        scaling = {"converged": "centred", "as-released": "raw", "fast": "standardised"}[self.mode]
        return (
            f"LogisticRegression({self._options['solver']}, L2, max_iter {self._options['max_iter']}) of scikit-learn "
            f"{sklearn.__version__} on {scaling} vectors, {self.unconverged} of {self.count} fits not converged"
        )

    def predict(self, train: Part, x: NDArray[np.float32], strengths: Sequence[float]) -> list[NDArray[np.int64]]:
        """Return the classes of ``x``, each of shape (n,), after a fit on ``train`` with each strength."""
        inputs, asked = train.x, x
        if self.mode != "as-released":
            mean = inputs.mean(axis=0)
            inputs, asked = inputs - mean, asked - mean
        if self.mode == "fast":
            scale = inputs.std(axis=0)
            scale[scale == 0] = 1
            inputs, asked = inputs / scale, asked / scale
        return [self._fit(inputs, train.y, strength).predict(asked) for strength in strengths]

    def _fit(self, x: NDArray[np.float32], y: NDArray[np.int64], strength: float) -> LogisticRegression:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            regression = LogisticRegression(C=strength, random_state=SEED, **self._options).fit(x, y)
        self.count += 1
        self.unconverged += any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
        return regression


def _note(way: str, fits: _Fits, grid: Sequence[float], chosen: list[float], dev: float | None) -> str:
    strengths = ", ".join(f"{strength:g}" for strength in chosen)
    if fits.mode == "fast":
        return f"fast, not SentEval's protocol: {way}, C = {FAST_STRENGTH:g} throughout; {fits}"
    tried = ", ".join(f"{strength:g}" for strength in grid)
    return f"{way} in {{{tried}}}, C = {strengths}; {fits}; accuracy {dev:.2f} where C was chosen"
