"""How evenly a cloud of vectors uses its space: figures that need no labels.

They describe a space; they do not rank methods. Whitening maximises all of them by construction, and a
fine-tuned model can lose quality while they rise (arXiv:2305.19358, arXiv:2407.12886).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.functional.moments import Moments
from embedlift.functional.similarity import unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _random_pairs(count: int, pairs: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    left = rng.integers(0, count, size=pairs)
    right = (left + rng.integers(1, count, size=pairs)) % count  # never a vector with itself
    return left, right


def random_pair_cosine(vectors: NDArray[np.floating], pairs: int = 20_000, seed: int = 0) -> float:
    r"""Mean cosine of random pairs of different vectors: 0 in an isotropic cloud, near 1 in a narrow cone.

    .. math:: E_{i \neq j} \left[ \frac{x_i^\top x_j}{\|x_i\| \|x_j\|} \right]

    Args:
        vectors: Shape (N, D), N >= 2.
        pairs: Number of pairs drawn.
        seed: Seed of the draw.

    References:
        Ethayarajh (2019), How Contextual are Contextualized Word Representations?, section 3.4.
    """
    unit = unit_rows(vectors)
    left, right = _random_pairs(len(unit), pairs, seed)
    return float(np.einsum("nd,nd->n", unit[left], unit[right]).mean())


def uniformity(vectors: NDArray[np.floating], pairs: int = 20_000, seed: int = 0) -> float:
    r"""Log of the mean Gaussian potential of random pairs on the unit sphere; lower is more even.

    .. math:: \log E_{i \neq j} \left[ e^{-2 \|u_i - u_j\|^2} \right], \qquad u = x / \|x\|

    It is 0 when all directions agree and near -4 for isotropic vectors in many dimensions.

    Args:
        vectors: Shape (N, D), N >= 2.
        pairs: Number of pairs drawn.
        seed: Seed of the draw.

    References:
        Wang, Isola (2020), Understanding Contrastive Representation Learning through Alignment and
        Uniformity on the Hypersphere, equation 2 with t = 2.
    """
    unit = unit_rows(vectors)
    left, right = _random_pairs(len(unit), pairs, seed)
    squared = 2.0 - 2.0 * np.einsum("nd,nd->n", unit[left], unit[right])
    return float(np.log(np.exp(-2.0 * squared).mean()))


def effective_rank(eigenvalues: NDArray[np.floating]) -> float:
    r"""Exponential of the entropy of a normalised spectrum: the number of dimensions in real use.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \qquad p_k = \lambda_k / \sum_j \lambda_j

    Args:
        eigenvalues: Of a covariance matrix, shape (D,); small negative ones from rounding count as 0.

    References:
        Roy, Vetterli (2007), The effective rank: a measure of effective dimensionality, definition 1,
        here of the covariance's eigenvalues.
    """
    positive = eigenvalues[eigenvalues > 0]
    if not len(positive):
        return 0.0
    p = positive / positive.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def summary(vectors: NDArray[np.floating], seed: int = 0) -> dict[str, float]:
    """Return the label-free figures of ``vectors``, shape (N, D), N >= 2, by name."""
    return {
        "random_pair_cosine": random_pair_cosine(vectors, seed=seed),
        "uniformity": uniformity(vectors, seed=seed),
        "effective_rank": effective_rank(np.linalg.eigvalsh(Moments.of(vectors).covariance())),
        "dimension": vectors.shape[1],
    }
