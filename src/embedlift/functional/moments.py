"""Mergeable first and second moments of a stream of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Moments:
    r"""Count, mean and scatter of vectors in D dimensions, in float64.

    Two sets of vectors merge exactly, whatever their sizes, so one implementation serves an array, a
    stream and a cluster, and memory does not grow with the number of vectors:

    .. math:: S = S_a + S_b + \frac{n_a n_b}{n_a + n_b} (\mu_b - \mu_a)(\mu_b - \mu_a)^\top

    Attributes:
        count: Number of vectors, n.
        mean: Their mean, shape (D,).
        scatter: Sum of outer products of the centred vectors, shape (D, D).

    References:
        Chan, Golub, LeVeque (1979), Updating formulae and a pairwise algorithm for computing sample
        variances, equation 1.5.
    """

    count: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: NDArray[np.floating]) -> Moments:
        """Return the moments of ``vectors``, shape (N, D), N >= 1."""
        mean = vectors.mean(axis=0, dtype=np.float64)
        centred = vectors - mean
        return cls(len(vectors), mean, centred.T @ centred)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of vectors together."""
        count = self.count + other.count
        shift = other.mean - self.mean
        mean = self.mean + shift * (other.count / count)
        scatter = self.scatter + other.scatter + np.outer(shift, shift) * (self.count * other.count / count)
        return Moments(count, mean, scatter)

    def covariance(self) -> NDArray[np.float64]:
        """Return the unbiased covariance, shape (D, D); needs at least two vectors."""
        return self.scatter / (self.count - 1)
