"""Does the similarity of two vectors follow gold scores? Four similarities, two correlations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import pearsonr, spearmanr

from embedlift.errors import InputError
from embedlift.evaluation import bootstrap
from embedlift.functional.similarity import paired_cosine, paired_dot, paired_euclidean, paired_manhattan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

SIMILARITIES = {
    "cosine": paired_cosine,
    "dot": paired_dot,
    "euclidean": paired_euclidean,
    "manhattan": paired_manhattan,
}
#: Name -> its value, and the same in resamples.
CORRELATIONS: dict[str, tuple[Callable[..., object], Callable[..., bootstrap.Statistic]]] = {
    "spearman": (lambda x, y: spearmanr(x, y).statistic, bootstrap.spearman),
    "pearson": (lambda x, y: pearsonr(x, y).statistic, bootstrap.pearson),
}
#: Named as mteb does. Distances are negative, so that a good model has a positive correlation.
METRICS = tuple(f"{similarity}_{correlation}" for similarity in SIMILARITIES for correlation in CORRELATIONS)

#: Similarities in float32 that differ by less, relative to the largest possible one, hold nothing but rounding errors.
_ROUNDING = 1e-6


def check_metrics(names: Iterable[str]) -> tuple[str, ...]:
    """Return ``names`` if they are metrics.

    Raises:
        InputError: If one is none.
    """
    names = tuple(names)
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise InputError(f"unknown metric {', '.join(map(repr, unknown))}: choose from {', '.join(METRICS)}")
    return names


@dataclass(frozen=True)
class Similarities:
    """Similarities of the pairs of one file.

    Attributes:
        values: Name -> similarities, shape (n,).
        scales: Name -> the largest size that a similarity of these vectors could have.
    """

    values: dict[str, NDArray[np.floating]]
    scales: dict[str, float]

    @classmethod
    def of(cls, left: NDArray[np.floating], right: NDArray[np.floating], metrics: Iterable[str]) -> Similarities:
        """Return the similarities that ``metrics`` need: left and right, shape (n, D)."""
        names = dict.fromkeys(metric.partition("_")[0] for metric in metrics)
        values = {name: SIMILARITIES[name](left, right) for name in names}
        # No similarity is further from 0 than that of a vector and its opposite.
        return cls(values, {name: float(np.abs(SIMILARITIES[name](left, -left)).max()) for name in names})

    @classmethod
    def pooled(cls, parts: Sequence[Similarities]) -> Similarities:
        """Return the similarities of several files as if they were one."""
        names = parts[0].values
        return cls(
            {name: np.concatenate([part.values[name] for part in parts]) for name in names},
            {name: max(part.scales[name] for part in parts) for name in names},
        )


@dataclass(frozen=True)
class Correlation:
    """A correlation of similarities with gold scores.

    Attributes:
        value: NaN where it is undefined.
        draws: Its value in each resample, shape (R,).
        note: Why it is undefined.
    """

    value: float
    draws: NDArray[np.float64]
    note: str | None = None


def correlate(
    similarities: Similarities,
    gold: NDArray[np.float64],
    metrics: Sequence[str],
    *,
    seed: Sequence[int],
    clusters: NDArray[np.int64],
) -> list[Correlation]:
    """Return the correlation for each metric; they share their resamples, so their differences are paired too.

    Args:
        similarities: Of n pairs.
        gold: Shape (n,).
        metrics: Some of ``METRICS``.
        seed: Of the bootstrap.
        clusters: From :func:`~embedlift.evaluation.bootstrap.sentence_clusters`.
    """
    notes = [_undefined(similarities, gold, metric.partition("_")[0]) for metric in metrics]
    kinds = [metric.split("_") for metric, note in zip(metrics, notes, strict=True) if note is None]
    values = [float(CORRELATIONS[kind][0](similarities.values[name], gold)) for name, kind in kinds]  # type: ignore[arg-type]
    statistics = [CORRELATIONS[kind][1](similarities.values[name], gold) for name, kind in kinds]
    draws = iter(bootstrap.draws(statistics, len(gold), seed=seed, clusters=clusters) if statistics else ())
    defined = iter(zip(values, draws, strict=True))
    missing = np.full(bootstrap.RESAMPLES, np.nan)
    return [Correlation(*next(defined)) if note is None else Correlation(np.nan, missing, note) for note in notes]


def _undefined(similarities: Similarities, gold: NDArray[np.float64], name: str) -> str | None:
    values = similarities.values[name]
    if not np.isfinite(values).all():
        return "undefined: NaN or infinity in the vectors"
    if np.ptp(values) <= _ROUNDING * similarities.scales[name] or np.ptp(gold) == 0:
        return "undefined: collapsed (all similarities or all gold scores are equal)"
    return None
