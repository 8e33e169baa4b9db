"""How far a covariance estimated from few vectors should be drawn towards a sphere."""

from __future__ import annotations


def oas_weight(trace: float, squared: float, dimension: int, count: int) -> float:
    r"""Return the weight of the sphere :math:`\operatorname{tr}(\Sigma) I / D` that is best for Gaussian data.

    Args:
        trace: Of the covariance, the sum of its eigenvalues.
        squared: Sum of the squares of its eigenvalues, which is that of its entries.
        dimension: D.
        count: Number of vectors that it was estimated from.

    References:
        Chen, Wiesel, Eldar, Hero (2010), Shrinkage Algorithms for MMSE Covariance Estimation, arXiv:0907.4698,
        equation 23.
    """
    numerator = (1 - 2 / dimension) * squared + trace**2
    denominator = (count + 1 - 2 / dimension) * (squared - trace**2 / dimension)
    return 1.0 if denominator <= 0 else min(1.0, float(numerator / denominator))
