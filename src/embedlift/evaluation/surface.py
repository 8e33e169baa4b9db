"""What the score of a pair owes to the surface of its texts: their length, and how common their words are."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# A word is a run of letters and digits; of scripts that put no spaces between words, each character.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


@dataclass(frozen=True)
class SurfaceCorrelations:
    r"""Spearman's correlation of the cosine of random pairs with what their texts look like.

    With :math:`a_i` the length of text i in characters, or its mean log word frequency,

    .. math:: \rho(\cos(x_i, x_j), |a_i - a_j|) \quad\text{and}\quad \rho(\cos(x_i, x_j), a_i + a_j)

    Meaning has little to do with either, so all four should be near 0. The frequency of a word is its share of all
    words in the texts given. None where a quantity is the same for all pairs.

    Attributes:
        length_difference: Negative if texts of like length score higher.
        length_sum: Positive if long texts score higher.
        frequency_difference: Negative if texts of like commonness score higher.
        frequency_sum: Positive if texts of common words score higher.

    References:
        Li et al. (2020), On the Sentence Embeddings from Pre-trained Language Models, arXiv:2011.05864, section 2
        (word frequency biases the space).
    """

    length_difference: float | None
    length_sum: float | None
    frequency_difference: float | None
    frequency_sum: float | None


def surface_correlations(
    cosines: NDArray[np.floating], texts: Sequence[str], left: NDArray[np.int64], right: NDArray[np.int64]
) -> SurfaceCorrelations:
    """Correlate the cosines of pairs with length and word frequency of their texts.

    Args:
        cosines: Shape (pairs,).
        texts: The N texts.
        left: Of each pair the place of one text, shape (pairs,).
        right: Of each pair the place of the other text, shape (pairs,).
    """
    length = np.array([len(text) for text in texts], dtype=np.float64)
    frequency = mean_log_frequency(texts)
    return SurfaceCorrelations(
        length_difference=_spearman(cosines, np.abs(length[left] - length[right])),
        length_sum=_spearman(cosines, length[left] + length[right]),
        frequency_difference=_spearman(cosines, np.abs(frequency[left] - frequency[right])),
        frequency_sum=_spearman(cosines, frequency[left] + frequency[right]),
    )


def mean_log_frequency(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the mean natural log of the frequency of each text's words, shape (N,); NaN for a text without words."""
    words = [_WORD.findall(text.lower()) for text in texts]
    counts = Counter(word for found in words for word in found)
    total = counts.total()
    return np.array([np.mean([math.log(counts[word] / total) for word in w]) if w else np.nan for w in words])


def _spearman(cosines: NDArray[np.floating], quantity: NDArray[np.float64]) -> float | None:
    known = np.isfinite(quantity)
    if known.sum() < 2 or np.ptp(cosines[known]) == 0 or np.ptp(quantity[known]) == 0:
        return None
    return float(spearmanr(cosines[known], quantity[known]).statistic)
