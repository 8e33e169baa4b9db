"""The partition function of a cloud of vectors: does it weigh the same in every direction?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def log_partition(vectors: NDArray[np.floating], directions: NDArray[np.floating]) -> NDArray[np.float64]:
    r"""Return the log of the partition function along each direction and its opposite.

    .. math:: Z(c) = \sum_i \exp(c^\top x_i)

    Exponents are shifted by the largest, so vectors of any length give finite numbers; two pieces of a cloud merge
    by ``numpy.logaddexp``.

    Args:
        vectors: Shape (N, D).
        directions: Of length 1, rows, shape (K, D).

    Returns:
        log Z(c), then log Z(-c): shape (2, K).
    """
    projected = vectors @ directions.T.astype(vectors.dtype)
    return np.stack([_log_sum_exp(projected), _log_sum_exp(-projected)])


def _log_sum_exp(values: NDArray[np.floating]) -> NDArray[np.float64]:
    largest = values.max(axis=0)
    return largest + np.log(np.exp(values - largest).sum(axis=0, dtype=np.float64))


def log_partition_isotropy(log_partitions: NDArray[np.float64]) -> float:
    r"""Return the log of the isotropy of Mu and Viswanath: 0 for an even cloud, very negative for a narrow one.

    .. math:: I = \frac{\min_{\|c\| = 1} Z(c)}{\max_{\|c\| = 1} Z(c)}

    The extremes are searched among the eigenvectors of the second moment, as in the paper, and their opposites:
    an eigenvector has no sign of its own, and the figure must not depend on the one that the solver gave it. The
    figure depends on the length of the vectors: compare it between vectors of equal length only.

    Args:
        log_partitions: From :func:`log_partition`, along the eigenvectors of :math:`\sum_i x_i x_i^\top`.

    References:
        Mu, Viswanath (2018), All-but-the-Top: Simple and Effective Postprocessing for Word Representations,
        arXiv:1702.01417, section 2; after Arora et al. (2016), arXiv:1502.03520.
    """
    return float(log_partitions.min() - log_partitions.max())
