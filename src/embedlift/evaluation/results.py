"""Scores as frozen records, and their JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embedlift.files import written_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Score:
    """One figure of one model.

    Attributes:
        model: Name of the model.
        task: Such as ``STS12``.
        split: Such as ``test``.
        subset: Part of the task, or None for the whole.
        metric: Such as ``cosine_spearman``.
        aggregation: How subsets became the whole (``all``, ``mean``, ``wmean``), or None within a subset.
        score: A fraction in [-1, 1], or None where it is undefined (see ``note``).
        n: Number of items: of pairs or queries, whatever ``unit`` says.
        interval: 95 % bootstrap interval, or None where the score is undefined.
        note: What a reader must know, such as why a score is undefined.
        draws: The score in each bootstrap resample, shape (R,), or None; not written to files. Two models' draws of
            the same task and seed belong to the same resamples.
        unit: What ``n`` counts, in the plural.
    """

    model: str
    task: str
    split: str
    subset: str | None
    metric: str
    aggregation: str | None
    score: float | None
    n: int
    interval: tuple[float, float] | None
    note: str | None = None
    draws: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    unit: str = "pairs"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are written to files."""
        return {name: value for name, value in vars(self).items() if name != "draws"}


def write_json(
    path: Path,
    scores: Sequence[Score],
    settings: dict[str, Any],
    versions: dict[str, str],
    more: dict[str, Any] | None = None,
) -> None:
    """Write scores with the settings and versions that they depend on, and what else is said about them."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "settings": settings,
        "versions": versions,
        "results": [score.as_dict() for score in scores],
        **(more or {}),
    }
    with written_whole(path) as beside:
        beside.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
