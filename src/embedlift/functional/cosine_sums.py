"""The expected cosine of a cloud, dimension by dimension, from sums over a stream of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from embedlift.functional.similarity import unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class CosineSums:
    r"""Sums of unit vectors and of their squares, from which the mean cosine of all pairs follows exactly.

    .. math::
        E_{i \neq j}[\cos(x_i, x_j)] = \sum_d C_d, \qquad
        C_d = \frac{(\sum_i u_{id})^2 - \sum_i u_{id}^2}{n (n - 1)}, \qquad u = x / \|x\|

    :math:`C_d` is the contribution of dimension d to the expected cosine. No pair is drawn: all of them count.

    Attributes:
        count: Number of vectors that are not zero, n; a zero vector has no cosine.
        total: Sum of the unit vectors, shape (D,).
        squared: Sum of their squares, shape (D,).

    References:
        Timkey, van Schijndel (2021), All Bark and No Bite: Rogue Dimensions in Transformer Language Models Obscure
        Representational Quality, arXiv:2109.04404, section 3 (contribution of a dimension to anisotropy).
    """

    count: int
    total: NDArray[np.float64]
    squared: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: NDArray[np.floating]) -> CosineSums:
        """Return the sums of ``vectors``, shape (N, D)."""
        unit = unit_rows(vectors.astype(np.float64))
        return cls(int(unit.any(axis=1).sum()), unit.sum(axis=0), (unit**2).sum(axis=0))

    def merge(self, other: CosineSums) -> CosineSums:
        """Return the sums of both sets of vectors together."""
        return CosineSums(self.count + other.count, self.total + other.total, self.squared + other.squared)

    def contributions(self) -> NDArray[np.float64]:
        """Return what each dimension adds to the mean cosine of all pairs, shape (D,); needs two vectors."""
        return (self.total**2 - self.squared) / (self.count * (self.count - 1))

    def mean_cosine(self) -> float:
        """Return the mean cosine of all pairs of different rows; needs two vectors."""
        return float(self.contributions().sum())
