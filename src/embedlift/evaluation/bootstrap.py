"""Bootstrap intervals: how far a score would move with another draw of the same size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 1000
_BLOCK_BYTES = 64 * 2**20


def spearman_resamples(
    x: NDArray[np.floating], y: NDArray[np.floating], resamples: int = RESAMPLES, seed: int | list[int] = 0
) -> NDArray[np.float64]:
    """Return Spearman's correlation in each bootstrap resample of the pairs (x, y), ranks recomputed: (resamples,).

    A resample is a count for each pair, so one sort serves all of them: the average rank of a tied group is the
    number of items before it and half of those in it. Resamples in which a side is constant give NaN.

    Args:
        x: Shape (n,).
        y: Shape (n,).
        resamples: Number of resamples.
        seed: Of the draw.
    """
    n = len(x)
    block = max(1, _BLOCK_BYTES // (8 * n))
    groups = [np.unique(values, return_inverse=True)[1] for values in (x, y)]
    rng = np.random.default_rng(seed)
    out = []
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        ranks = [_ranks(counts, group) for group in groups]
        out.append(_weighted_pearson(ranks[0], ranks[1], counts))
    return np.concatenate(out)


def _ranks(counts: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average rank of each item within each resample: counts (R, n), group (n,) -> (R, n)."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    size = np.add.reduceat(counts[:, order], starts, axis=1)
    before = np.cumsum(size, axis=1) - size
    return (before + (size + 1) / 2)[:, group]


def _weighted_pearson(
    x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    n = weights.sum(axis=1, keepdims=True)
    dx = x - (weights * x).sum(axis=1, keepdims=True) / n
    dy = y - (weights * y).sum(axis=1, keepdims=True) / n
    covariance = (weights * dx * dy).sum(axis=1)
    scale = np.sqrt((weights * dx * dx).sum(axis=1) * (weights * dy * dy).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale > 0, covariance / scale, np.nan)


def mean_resamples(values: NDArray[np.floating], resamples: int = RESAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Return the mean of ``values``, shape (n,), in each bootstrap resample: (resamples,)."""
    rng = np.random.default_rng(seed)
    return np.array([values[rng.integers(0, len(values), len(values))].mean() for _ in range(resamples)])


def interval(draws: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the central 95 % of bootstrap draws, or None if none of them is defined."""
    defined = draws[np.isfinite(draws)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)
