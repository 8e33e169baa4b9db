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

import zlib
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
#: Of counts made at a time. Larger arrays cost more than they save: the system hands each one out afresh.
_BLOCK_BYTES = 2**17
_ROUNDING = 1e-12


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


def own_seed(seed: int, name: str) -> list[int]:
    """Return the seed of the resamples of what bears ``name``: two tasks that are equally long share no draws."""
    return [seed, zlib.crc32(name.encode())]


def resample_counts(
    n: int, resamples: int = RESAMPLES, seed: int | Sequence[int] = 0, clusters: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return how often each of ``n`` items is drawn in each resample: (resamples, n).

    Args:
        n: Number of items.
        resamples: Number of resamples, R.
        seed: Of the draw.
        clusters: None: every item for itself. Shape (n,): the cluster of each item, from 0 to G - 1 without gaps; G
            clusters are drawn with replacement, all items of a cluster together, so that the number of items in a
            resample varies. Shape (n, 2): the two units of each item, say the sentences of a pair; the units are drawn
            with replacement, and a pair counts as often as the product of its two sentences' counts (once for a
            sentence beside itself).
    """
    return np.concatenate(list(_blocks(n, resamples, seed, clusters)))


def _blocks(
    n: int, resamples: int, seed: int | Sequence[int], clusters: NDArray[np.int64] | None
) -> Iterator[NDArray[np.float64]]:
    units = n if clusters is None else int(clusters.max()) + 1  # max of both columns, if there are two
    rows = max(1, _BLOCK_BYTES // (8 * n))
    rng = np.random.default_rng(seed)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = rng.integers(0, units, (size, units)) + units * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)
        yield counts if clusters is None else _of_items(counts, clusters)


def _of_items(counts: NDArray[np.float64], clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    if clusters.ndim == 1:
        return np.take(counts, clusters, axis=1)
    first, second = clusters.T
    return np.take(counts, first, axis=1) * np.where(first == second, 1, np.take(counts, second, axis=1))


def sentence_clusters(left: Sequence[str], right: Sequence[str], largest: float = 2 / 3) -> NDArray[np.int64]:
    """Return what to resample where pairs share sentences, for the argument ``clusters`` of this module.

    Scores of pairs that share a sentence move together, so that single pairs would give intervals that are too narrow.
    Pairs that are connected, directly or through others, are one cluster: shape (n,). Where one cluster would hold
    more than the share ``largest`` of all pairs, as in a table of all pairs of a few sentences, the sentences are
    resampled instead: shape (n, 2). That is safe but nearly twice too wide where few pairs share a sentence, so it is
    not the rule. No STS file needs it: the largest share is 57 % (STS16's plagiarism), in SICK-R's test split 7 %.
    ``benchmarks/intervals.py`` has measured all this.

    Args:
        left: First sentences, n.
        right: Second sentences, n.
        largest: Share of all pairs that a cluster may hold.

    References:
        Owen, The pigeonhole bootstrap, Annals of Applied Statistics (2007). Davezies, D'Haultfoeuille & Guyonvarch,
        Empirical process results for exchangeable arrays, Annals of Statistics (2021).
    """
    number: dict[str, int] = {}
    a = np.array([number.setdefault(text, len(number)) for text in left])
    b = np.array([number.setdefault(text, len(number)) for text in right])
    graph = coo_array((np.ones(len(a)), (a, b)), shape=(len(number), len(number)))
    component: NDArray[np.int64] = connected_components(graph, directed=False)[1]
    clusters: NDArray[np.int64] = np.unique(component[a], return_inverse=True)[1]
    if np.bincount(clusters).max() > largest * len(clusters):
        return np.stack([a, b], axis=1)
    return clusters


def mean(values: NDArray[np.floating]) -> Statistic:
    """Return the mean of ``values``, shape (n,), as a statistic."""
    return lambda counts: _ratio(counts @ values, counts.sum(axis=1))


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> Statistic:
    """Return Pearson's correlation of x and y, shape (n,), as a statistic."""
    x, y = _standardised(x), _standardised(y)
    columns = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        n, *sums = (counts @ columns).T
        mx, my, xx, yy, xy = (_ratio(total, n) for total in sums)
        vx, vy = xx - mx**2, yy - my**2
        # The whole sample has variance 1: what is left of a constant side is rounding.
        defined = (vx > _ROUNDING) & (vy > _ROUNDING)
        return np.where(defined, (xy - mx * my) / np.sqrt(np.where(defined, vx * vy, 1)), np.nan)

    return statistic


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
        ordered = np.take(counts, self.order, axis=1)  # unlike counts[:, order], it keeps rows together in memory
        return ordered if self.none else np.add.reduceat(ordered, self.starts, axis=1)

    def ranks(self, counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return twice the centred average rank of each item, (R, n), and the sum of its squares, (R,).

        Twice, because average ranks are whole or half: all sums are then exact integers, and a constant side has a
        sum of squares of exactly 0.
        """
        size = self.sums(counts)
        upto = np.cumsum(size, axis=1)
        doubled = 2 * upto - size - upto[:, -1:]
        return np.take(doubled, self.group, axis=1), np.einsum("rg,rg->r", size * doubled, doubled)


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
        return _ratio(best + counts @ ~positive, counts.sum(axis=1))

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
