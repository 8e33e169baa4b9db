"""How evenly a cloud of vectors uses its space: figures that need no labels.

They describe a space; they do not rank methods. Whitening maximises all of them by construction, and a
fine-tuned model can lose quality while they rise (arXiv:2305.19358, arXiv:2407.12886).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.functional.moments import Moments
from embedlift.functional.shrinkage import oas_weight
from embedlift.functional.similarity import unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAIRS_AT_ONCE = 16_384


def random_pairs(count: int, pairs: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw pairs of different rows out of ``count`` >= 2, with replacement: two arrays of shape (pairs,)."""
    rng = np.random.default_rng(seed)
    left = rng.integers(0, count, size=pairs)
    right = (left + rng.integers(1, count, size=pairs)) % count  # never a vector with itself
    return left, right


def cosines_of_pairs(
    unit: NDArray[np.floating], left: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows, shape (pairs,), at a memory that does not grow with their number.

    Args:
        unit: Vectors of length 1, shape (N, D).
        left: Rows, shape (pairs,).
        right: Rows, shape (pairs,).
    """
    cosines = np.empty(len(left))
    for start in range(0, len(left), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        cosines[part] = np.einsum("nd,nd->n", unit[left[part]], unit[right[part]])
    return cosines


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
    return float(cosines_of_pairs(unit_rows(vectors), *random_pairs(len(vectors), pairs, seed)).mean())


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
    return uniformity_of_pairs(cosines_of_pairs(unit_rows(vectors), *random_pairs(len(vectors), pairs, seed)))


def uniformity_of_pairs(cosines: NDArray[np.floating]) -> float:
    """Return :func:`uniformity` from the cosines of random pairs, shape (pairs,)."""
    return float(np.log(np.exp(4.0 * cosines - 4.0).mean()))  # |u - v|^2 = 2 - 2 cos


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


def isoscore(eigenvalues: NDArray[np.floating]) -> float:
    r"""Evenness of a spectrum between 0 (all variance in one direction) and 1 (the same in all).

    The paper's four steps (normalised spectrum, isotropy defect, two rescalings) reduce to

    .. math:: \iota = \frac{P - 1}{D - 1}, \qquad P = \frac{(\sum_k \lambda_k)^2}{\sum_k \lambda_k^2}

    where P, the participation ratio, is the number of directions in even use: k equal eigenvalues and
    D - k zeros give (k - 1) / (D - 1). The mean of the vectors plays no part.

    Args:
        eigenvalues: Of the covariance matrix, shape (D,), D >= 2, not all zero.

    References:
        Rudman, Gillman, Rayne, Eickhoff (2022), IsoScore: Measuring the Uniformity of Embedding Space
        Utilization, arXiv:2108.07344, algorithm 1.
    """
    positive = np.maximum(eigenvalues, 0) / eigenvalues.max()  # so that squares neither overflow nor vanish
    participation = positive.sum() ** 2 / (positive**2).sum()
    return float((participation - 1) / (len(eigenvalues) - 1))


def isoscore_star(eigenvalues: NDArray[np.floating], count: int, weight: float | None = None) -> float:
    r"""IsoScore of a covariance that is shrunk towards a sphere: the figure for few vectors per dimension.

    .. math:: \Sigma_\zeta = (1 - \zeta) \Sigma + \zeta \frac{\operatorname{tr} \Sigma}{D} I

    N vectors of an even cloud have an IsoScore near 1 / (1 + D / N), not 1, because a sample's spectrum is
    steeper than the truth. Shrinkage takes this back. The paper leaves the target and :math:`\zeta` to the user
    (the covariance of a larger sample; the identity in the released code). Here the target is the sphere of equal
    variance, so that the figure does not depend on the vectors' scale, and :math:`\zeta` follows from the data.

    Args:
        eigenvalues: Of the unbiased covariance matrix, shape (D,), D >= 2, not all zero.
        count: Number of vectors, N.
        weight: :math:`\zeta` between 0 and 1; by default the one of :func:`oas_weight`.

    References:
        Rudman, Eickhoff (2023), Stable Anisotropic Regularization, arXiv:2305.19358 (IsoScore*).
    """
    if weight is None:
        weight = oas_weight(eigenvalues.sum(), (eigenvalues**2).sum(), len(eigenvalues), count)
    return isoscore((1 - weight) * eigenvalues + weight * eigenvalues.mean())


def rankme(eigenvalues: NDArray[np.floating], epsilon: float = 1e-7) -> float:
    r"""Exponential of the entropy of the singular values of the vectors, not centred.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \qquad p_k = \frac{\sigma_k}{\sum_j \sigma_j} + \epsilon

    Unlike :func:`effective_rank` it takes singular values, the roots of eigenvalues, so faint directions count
    for more, and the mean counts as a direction.

    Args:
        eigenvalues: Of the second moment (or any multiple of it), shape (D,), not all zero.
        epsilon: The paper's guard against the logarithm of 0.

    References:
        Garrido, Balestriero, Najman, LeCun (2023), RankMe: Assessing the Downstream Performance of Pretrained
        Self-Supervised Representations by Their Rank, arXiv:2210.02885. Roy, Vetterli (2007), definition 1.
    """
    singular = np.sqrt(np.maximum(eigenvalues, 0))
    p = singular / singular.sum() + epsilon
    return float(np.exp(-(p * np.log(p)).sum()))


def summary(vectors: NDArray[np.floating], seed: int = 0) -> dict[str, float]:
    """Return the label-free figures of ``vectors``, shape (N, D), N >= 2, by name."""
    return {
        "random_pair_cosine": random_pair_cosine(vectors, seed=seed),
        "uniformity": uniformity(vectors, seed=seed),
        "effective_rank": effective_rank(np.linalg.eigvalsh(Moments.of(vectors).covariance())),
        "dimension": vectors.shape[1],
    }
