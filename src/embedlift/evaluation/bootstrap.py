"""Bootstrap intervals: how far a score would move with another draw of the same size.

A resample is a count for each item: how often it was drawn. The scores are sorted once, and the counts are summed in
that order: this is what makes it cheap to recompute the ranks in every resample. A statistic is a function from counts,
shape (R, n), to its value in each of the R resamples, shape (R,); NaN where it is undefined, such as the correlation
with a constant side. ::

    found = draws([spearman(x, y), pearson(x, y)], len(x), seed=0, clusters=sentence_clusters(left, right))
    low, high = interval(found[0])

References:
    Efron & Tibshirani, An Introduction to the Bootstrap (1993): 13.3 (percentile interval), 8.5 (more general data).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    #: From counts (R, n) to a value for each resample (R,).
    Statistic: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]

RESAMPLES = 1000
#: Of counts made at a time: few enough to stay in a processor's cache.
_BLOCK_BYTES = 2**20


def draws(
    statistics: Sequence[Statistic],
    n: int,
    *,
    resamples: int = RESAMPLES,
    seed: int | Sequence[int] = 0,
    clusters: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return each statistic in each bootstrap resample of ``n`` items: (len(statistics), resamples).

    The resamples depend on ``n``, ``seed`` and ``clusters`` alone, so two models' draws belong to the same resamples.

    Args:
        statistics: Such as ``[spearman(x, y), pearson(x, y)]``.
        n: Number of items.
        resamples: Number of resamples, R.
        seed: Of the draw.
        clusters: As in :func:`resample_counts`.
    """
    blocks = _blocks(n, resamples, seed, clusters)
    return np.concatenate([np.stack([statistic(counts) for statistic in statistics]) for counts in blocks], axis=1)


def resample_counts(
    n: int, resamples: int = RESAMPLES, seed: int | Sequence[int] = 0, clusters: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return how often each of ``n`` items is drawn in each resample: (resamples, n).

    Args:
        n: Number of items.
        resamples: Number of resamples, R.
        seed: Of the draw.
        clusters: Cluster of each item, from 0 to G - 1 without gaps, shape (n,). G clusters are then drawn with
            replacement, all items of a cluster together: the number of items in a resample varies. None: every item
            for itself.
    """
    return np.concatenate(list(_blocks(n, resamples, seed, clusters)))


def _blocks(
    n: int, resamples: int, seed: int | Sequence[int], clusters: NDArray[np.int64] | None
) -> Iterator[NDArray[np.float64]]:
    units = n if clusters is None else int(clusters.max()) + 1
    rows = max(1, _BLOCK_BYTES // (8 * n))
    rng = np.random.default_rng(seed)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = rng.integers(0, units, (size, units)) + units * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)
        yield counts if clusters is None else counts[:, clusters]


def sentence_clusters(left: Sequence[str], right: Sequence[str]) -> NDArray[np.int64]:
    """Return the cluster of each pair, shape (n,): pairs that share a sentence, directly or through others, are one.

    Args:
        left: First sentences, n.
        right: Second sentences, n.
    """
    number: dict[str, int] = {}
    a = np.array([number.setdefault(text, len(number)) for text in left])
    b = np.array([number.setdefault(text, len(number)) for text in right])
    graph = coo_array((np.ones(len(a)), (a, b)), shape=(len(number), len(number)))
    component: NDArray[np.int64] = connected_components(graph, directed=False)[1]
    return np.unique(component[a], return_inverse=True)[1]


def mean(values: NDArray[np.floating]) -> Statistic:
    """Return the mean of ``values``, shape (n,), as a statistic."""
    return lambda counts: counts @ values / counts.sum(axis=1)


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> Statistic:
    """Return Pearson's correlation of x and y, shape (n,), as a statistic."""
    x, y = _standardised(x), _standardised(y)
    columns = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        n, *sums = (counts @ columns).T
        mx, my, xx, yy, xy = (total / n for total in sums)
        vx, vy = xx - mx**2, yy - my**2
        # The whole sample has variance 1: what is left of a constant side is rounding.
        defined = (vx > _ROUNDING) & (vy > _ROUNDING)
        return np.where(defined, (xy - mx * my) / np.sqrt(np.where(defined, vx * vy, 1)), np.nan)

    return statistic


_ROUNDING = 1e-12


def _standardised(values: NDArray[np.floating]) -> NDArray[np.float64]:
    centred = np.asarray(values, np.float64) - np.mean(values, dtype=np.float64)
    scale = centred.std()
    return centred / scale if scale > 0 else np.zeros_like(centred)


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> Statistic:
    """Return Spearman's correlation of x and y, shape (n,), as a statistic; ranks are recomputed in each resample."""
    of_x, of_y = _Ties(x), _Ties(y)

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        (x_ranks, vx), (y_ranks, vy) = of_x.ranks(counts), of_y.ranks(counts)
        covariance = np.einsum("rn,rn->r", counts * x_ranks, y_ranks)
        defined = (vx > 0) & (vy > 0)
        return np.where(defined, covariance / np.sqrt(np.where(defined, vx * vy, 1)), np.nan)

    return statistic


class _Ties:
    """Items in groups of equal value, in rising order of the value: what ranks and thresholds need."""

    def __init__(self, values: NDArray[np.floating]) -> None:
        self.group = np.unique(values, return_inverse=True)[1]
        self.order = np.argsort(self.group, kind="stable")
        self.starts = np.flatnonzero(np.diff(self.group[self.order], prepend=-1))
        self.none = len(self.starts) == len(values)

    def sums(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of counts in each group: (R, n) -> (R, groups)."""
        ordered = counts[:, self.order]
        return ordered if self.none else np.add.reduceat(ordered, self.starts, axis=1)

    def ranks(self, counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return twice the centred average rank of each item, (R, n), and the sum of its squares, (R,).

        Twice, because average ranks are whole or half: all sums are then exact integers, and a constant side has a
        sum of squares of exactly 0.
        """
        size = self.sums(counts)
        upto = np.cumsum(size, axis=1)
        doubled = 2 * upto - size - upto[:, -1:]
        return doubled[:, self.group], np.einsum("rg,rg->r", size * doubled, doubled)


def roc_auc(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> Statistic:
    """Return the area under the ROC curve as a statistic: scores and positive, shape (n,)."""
    ties = _Ties(scores)

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        hits = ties.sums(counts * positive)
        misses = ties.sums(counts) - hits
        below = np.cumsum(misses, axis=1)
        wins = np.einsum("rg,rg->r", hits, below - misses / 2)  # a tie counts half
        return _ratio(wins, hits.sum(axis=1) * below[:, -1])

    return statistic


def average_precision(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> Statistic:
    """Return average precision, the sum of precision times the rise of recall, as a statistic (scikit-learn's)."""
    ties = _Ties(-np.asarray(scores))

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        hits, all_of = ties.sums(counts * positive), ties.sums(counts)
        precision = _ratio(np.cumsum(hits, axis=1), np.cumsum(all_of, axis=1))
        total = np.nansum(hits * precision, axis=1)  # NaN: nothing was drawn so far, and no hit either
        return _ratio(total, hits.sum(axis=1))

    return statistic


def best_accuracy(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> Statistic:
    """Return accuracy at the best threshold, found anew in each resample, as a statistic."""
    ties = _Ties(-np.asarray(scores))

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        gain = np.cumsum(ties.sums(counts * np.where(positive, 1, -1)), axis=1)
        best = np.maximum(gain.max(axis=1), 0)  # 0: nothing is called positive
        return (best + counts @ ~positive) / counts.sum(axis=1)

    return statistic


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)


def interval(draws: NDArray[np.float64], level: float = 0.95) -> tuple[float, float] | None:
    """Return the central part of bootstrap draws (percentile interval), or None if none of them is defined."""
    defined = draws[np.isfinite(draws)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
