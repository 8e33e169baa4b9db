"""What a cloud of vectors looks like, without labels: the figures as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from embedlift.evaluation.percentiles import ScorePercentiles
    from embedlift.evaluation.surface import SurfaceCorrelations


@dataclass(frozen=True)
class DimensionShare:
    """A dimension and what it adds to the mean cosine of all pairs."""

    dimension: int
    contribution: float


@dataclass(frozen=True)
class Hubness:
    r"""How unevenly vectors turn up among the nearest neighbours of others (cosine, within the sample).

    Attributes:
        neighbours: k.
        skewness: Of the k-occurrences; :math:`1 / \sqrt{k}` if neighbours were chosen at random.
        antihubs: Share of vectors that are nobody's neighbour; :math:`e^{-k}` at random.
        largest: Most lists of neighbours that one vector is on; the mean is k.
    """

    neighbours: int
    skewness: float
    antihubs: float
    largest: int


@dataclass(frozen=True)
class NearDuplicates:
    r"""Pairs of the sample with a cosine above a threshold.

    Attributes:
        threshold: The cosine t. By default :math:`1 - t` is a twentieth of that of the median random pair.
        pairs: Their number.
        share: Their share of all pairs of the sample.
        examples: The closest of them: where the two rows came from, and their cosine.
    """

    threshold: float
    pairs: int
    share: float
    examples: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True)
class SpectralFigures:
    """How evenly all rows use the directions of their space, by the functions of these names in ``functional``.

    The first three are of the covariance, and None where all vectors are the same; the others are of the vectors
    themselves, their mean included.
    """

    isoscore: float | None
    isoscore_star: float | None
    effective_rank: float | None
    rankme: float
    log_partition_isotropy: float

    @property
    def partition_isotropy(self) -> float:
        """I(W) of Mu and Viswanath, in [0, 1]; 0 where it is too small for a float."""
        return float(np.exp(self.log_partition_isotropy))


@dataclass(frozen=True)
class PairFigures:
    """What the cosines of a sample look like.

    Attributes:
        percentiles: Scale of the cosines of random pairs.
        uniformity: Of the same pairs (:func:`isotropy.uniformity`).
        hubness: None for samples of at most 2 k vectors.
    """

    percentiles: ScorePercentiles
    uniformity: float
    hubness: Hubness | None


@dataclass(frozen=True)
class Diagnosis:
    """Label-free figures of vectors.

    They describe a space; none of them says that one model is better than another. ``docs/diagnostics.md`` and the
    functions named here have the formula, the source and the reading of each.

    Attributes:
        rows: Number of vectors.
        dimension: Length of a vector, D.
        zero_rows: Vectors that are all zero; they have no cosine and are left out of all figures of cosines.
        sample: Number of vectors that the figures of pairs are taken from.
        pairs: Number of random pairs.
        seed: Of the sample and of the pairs.
        random_pair_cosine: Mean cosine of all pairs of all rows (:class:`CosineSums`).
        dimensions: Those that add most to the mean cosine, falling.
        spectrum: Of all rows.
        cosines: Of the sample.
        centred: Of the sample after the mean vector is subtracted; None where all vectors are the same.
        surface: Correlations with length and word frequency; None where no texts were given.
        near_duplicates: Pairs that all but coincide.
    """

    rows: int
    dimension: int
    zero_rows: int
    sample: int
    pairs: int
    seed: int
    random_pair_cosine: float
    dimensions: tuple[DimensionShare, ...]
    spectrum: SpectralFigures
    cosines: PairFigures
    centred: PairFigures | None
    surface: SurfaceCorrelations | None
    near_duplicates: NearDuplicates
