"""Vectors -> a diagnosis: sums over all rows, read in pieces, and pairs of a sample."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.errors import InputError
from embedlift.evaluation.diagnosis import (
    Diagnosis,
    DimensionShare,
    Hubness,
    NearDuplicates,
    PairFigures,
    SpectralFigures,
)
from embedlift.evaluation.percentiles import PAIRS, ScorePercentiles
from embedlift.evaluation.surface import surface_correlations
from embedlift.functional import isotropy
from embedlift.functional.cosine_sums import CosineSums
from embedlift.functional.moments import Moments
from embedlift.functional.neighbours import AllPairs, scan_all_pairs, skewness
from embedlift.functional.partition import log_partition, log_partition_isotropy
from embedlift.functional.sampling import sample_places
from embedlift.functional.similarity import unit_rows
from embedlift.transforms.rows import finite_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SAMPLE = 5000
NEIGHBOURS = 10

# A near-duplicate, unless a cosine is given: 20 times nearer (in squared distance) than half of the random pairs.
# The factor is a convention; a fixed cosine would be out of reach in one model and all pairs of another.
_NEARER = 20
_DIMENSIONS_SHOWN = 5
#: Relative spread below which vectors differ by the rounding of float32 alone.
_ROUNDING = 1e-6


def diagnose(
    vectors: NDArray[Any],
    texts: Sequence[str] | None = None,
    *,
    places: Sequence[str] | None = None,
    sample: int = SAMPLE,
    pairs: int = PAIRS,
    neighbours: int = NEIGHBOURS,
    duplicate_cosine: float | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Return label-free figures of ``vectors``.

    All rows take part in the figures that follow from sums over rows; they are read twice, in pieces, so a memory map
    stays on disk. Figures of pairs are taken from a seeded sample of rows.

    Args:
        vectors: Numbers of any kind, float16 too, shape (N, D), N >= 2, D >= 2.
        texts: The text of each row; of a text that comes again, the sample takes the first row only. Without texts
            there are no correlations with length and word frequency.
        places: Where each row came from, such as ``corpus.txt:17``, for examples; by default ``row 16``.
        sample: Rows in the sample, at most.
        pairs: Random pairs drawn from the sample; if it has no more pairs than that, all of them are taken.
        neighbours: k of the k-occurrences.
        duplicate_cosine: Cosine above which a pair is called a near-duplicate; see :class:`NearDuplicates`.
        seed: Of the draws.

    Raises:
        InputError: If the shape is another one, a row holds NaN or infinity, or fewer than two rows are not zero.
    """
    _check(vectors, texts, places, sample, duplicate_cosine)
    moments, sums = _scan(vectors)
    if sums.count < 2:
        raise InputError(f"{len(vectors) - sums.count} of {len(vectors)} vectors are all zero: they have no cosine")
    spectrum = _spectral_figures(vectors, moments)

    rows, drawn = _sample(vectors, texts, sample, seed)
    left, right = _pairs(len(rows), pairs, seed)
    k = min(neighbours, len(rows) - 1)
    unit = unit_rows(drawn).astype(np.float32)
    cosines = isotropy.cosines_of_pairs(unit, left, right)
    if duplicate_cosine is None:
        duplicate_cosine = min(1 - (1 - float(np.median(cosines))) / _NEARER, 1 - _ROUNDING)
    found = scan_all_pairs(unit, k, duplicate_cosine)
    centred = None
    if spectrum.isoscore is not None:
        unit = unit_rows(drawn - moments.mean).astype(np.float32)
        centred = _pair_figures(isotropy.cosines_of_pairs(unit, left, right), scan_all_pairs(unit, k, threshold=1.0), k)
    return Diagnosis(
        rows=len(vectors),
        dimension=vectors.shape[1],
        zero_rows=len(vectors) - sums.count,
        sample=len(rows),
        pairs=len(cosines),
        seed=seed,
        random_pair_cosine=sums.mean_cosine(),
        dimensions=_dominant(sums.contributions()),
        spectrum=spectrum,
        cosines=_pair_figures(cosines, found, k),
        centred=centred,
        surface=None if texts is None else surface_correlations(cosines, [texts[row] for row in rows], left, right),
        near_duplicates=_near_duplicates(found, duplicate_cosine, rows, places),
    )


def _check(
    vectors: NDArray[Any],
    texts: Sequence[str] | None,
    places: Sequence[str] | None,
    sample: int,
    duplicate_cosine: float | None,
) -> None:
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        raise InputError(f"vectors must be numbers of shape (N, D), got {vectors.dtype} of shape {vectors.shape}")
    count, dimension = vectors.shape
    if count < 2 or dimension < 2:
        raise InputError(f"a diagnosis needs at least 2 vectors of at least 2 dimensions, got shape {vectors.shape}")
    for name, given in (("texts", texts), ("places", places)):
        if given is not None and len(given) != count:
            raise InputError(f"{len(given)} {name} for {count} vectors: row i must be the vector of text i")
    if sample < 2:
        raise InputError(f"--sample must be at least 2, got {sample}")
    if duplicate_cosine is not None and not 0 < duplicate_cosine < 1:
        raise InputError(f"--duplicates-above must be between 0 and 1, got {duplicate_cosine}")


def _scan(vectors: NDArray[Any]) -> tuple[Moments, CosineSums]:
    """Return the sums of all rows, read in pieces."""
    pieces = ((Moments.of(chunk), CosineSums.of(chunk)) for _, chunk in finite_chunks(vectors))
    return reduce(lambda one, other: (one[0].merge(other[0]), one[1].merge(other[1])), pieces)


def _spectral_figures(vectors: NDArray[Any], moments: Moments) -> SpectralFigures:
    second_moment = moments.scatter / moments.count + np.outer(moments.mean, moments.mean)
    energies, directions = np.linalg.eigh(second_moment)
    variances = np.linalg.eigvalsh(moments.covariance())
    differ = variances[-1] > _ROUNDING**2 * (moments.mean**2).mean()
    logs = np.full((2, len(directions)), -np.inf)
    for _, chunk in finite_chunks(vectors):
        logs = np.logaddexp(logs, log_partition(chunk, directions.T))
    return SpectralFigures(
        isoscore=isotropy.isoscore(variances) if differ else None,
        isoscore_star=isotropy.isoscore_star(variances, moments.count) if differ else None,
        effective_rank=isotropy.effective_rank(variances) if differ else None,
        rankme=isotropy.rankme(energies),
        log_partition_isotropy=log_partition_isotropy(logs),
    )


def _sample(
    vectors: NDArray[Any], texts: Sequence[str] | None, size: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return rows, rising, whose vectors are not zero and whose texts, if known, are distinct; and the vectors."""
    rows = sample_places(len(vectors), size, seed)
    if texts is not None:
        rows = np.array(sorted({texts[row]: row for row in rows[::-1]}.values()))  # the first row of each text
    drawn = np.asarray(vectors[rows], dtype=np.float64)
    kept = drawn.any(axis=1)
    if kept.sum() < 2:
        raise InputError(
            f"a sample of {size} rows holds {kept.sum()} distinct texts with a vector that is not zero: "
            "raise --sample, or look at the vectors"
        )
    return rows[kept], drawn[kept]


def _pairs(count: int, pairs: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if count * (count - 1) // 2 <= pairs:
        left, right = np.triu_indices(count, 1)
        return left, right
    return isotropy.random_pairs(count, pairs, seed)


def _dominant(contributions: NDArray[np.float64]) -> tuple[DimensionShare, ...]:
    order = np.argsort(-contributions, kind="stable")[:_DIMENSIONS_SHOWN]
    return tuple(DimensionShare(int(place), float(contributions[place])) for place in order)


def _pair_figures(cosines: NDArray[np.float64], found: AllPairs, k: int) -> PairFigures:
    hubness = None
    if len(found.occurrence) > 2 * k and np.ptp(found.occurrence) > 0:
        antihubs = float((found.occurrence == 0).mean())
        hubness = Hubness(k, skewness(found.occurrence), antihubs, int(found.occurrence.max()))
    return PairFigures(ScorePercentiles.from_scores(cosines), isotropy.uniformity_of_pairs(cosines), hubness)


def _near_duplicates(
    found: AllPairs, threshold: float, rows: NDArray[np.int64], places: Sequence[str] | None
) -> NearDuplicates:
    names = [f"row {row}" if places is None else places[row] for row in rows]
    share = found.close / (len(rows) * (len(rows) - 1) / 2)
    examples = tuple((names[first], names[second], cosine) for first, second, cosine in found.closest)
    return NearDuplicates(threshold, found.close, share, examples)
