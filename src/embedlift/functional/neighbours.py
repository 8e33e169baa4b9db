"""Every pair of a sample, block by block: who is whose neighbour, and which vectors all but coincide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class AllPairs:
    """What a pass over all pairs of a sample finds.

    Attributes:
        occurrence: How often each vector is among the k nearest of the others, shape (N,); its mean is k.
        close: Number of pairs whose cosine is above the threshold.
        closest: Rows and cosine of the closest of those, falling.
    """

    occurrence: NDArray[np.int64]
    close: int
    closest: list[tuple[int, int, float]]


def scan_all_pairs(unit: NDArray[np.floating], k: int, threshold: float, keep: int = 10) -> AllPairs:
    """Count k-occurrences and close pairs by cosine, at a memory that does not grow with the square of N.

    Args:
        unit: Vectors of length 1, shape (N, D).
        k: Number of nearest neighbours, 1 <= k < N; among equal cosines any may be taken.
        threshold: Cosine above which a pair is close.
        keep: How many of the closest pairs are returned.

    References:
        Radovanovic, Nanopoulos, Ivanovic (2010), Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data,
        JMLR 11, section 2 (k-occurrences).
    """
    count = len(unit)
    size = max(1, _BLOCK_BYTES // (unit.itemsize * count))
    occurrence = np.zeros(count, dtype=np.int64)
    close, closest = 0, []
    for start in range(0, count, size):
        scores = unit[start : start + size] @ unit.T
        rows = start + np.arange(len(scores))
        scores[np.arange(len(scores)), rows] = -np.inf  # no vector is its own neighbour
        nearest = np.argpartition(scores, count - k, axis=1)[:, count - k :]
        occurrence += np.bincount(nearest.ravel(), minlength=count)
        scores[np.arange(count) < rows[:, None]] = -np.inf  # from here on each pair once
        found = int((scores > threshold).sum())
        close += found
        if found:
            best = np.argpartition(scores, scores.size - min(keep, found), axis=None)[-min(keep, found) :]
            places = zip(*np.unravel_index(best, scores.shape), scores.ravel()[best], strict=True)
            closest += [(start + int(row), int(column), float(cosine)) for row, column, cosine in places]
            closest = sorted(closest, key=lambda pair: (-pair[2], pair[:2]))[:keep]
    return AllPairs(occurrence, close, closest)


def skewness(values: NDArray[np.number]) -> float:
    r"""Return the third standardised moment, :math:`E[(x - \mu)^3] / \sigma^3`, of values that are not all equal.

    Of k-occurrences it is the hubness of Radovanovic et al. (2010): if neighbours were chosen at random,
    k-occurrences would be Poisson and it would be :math:`1 / \sqrt{k}`.
    """
    centred = values - values.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)
