"""Is a trained model worth keeping? Without labels: has it collapsed? With labels, if there are some: their score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.evaluation import sts
from embedlift.evaluation.tasks import evaluate
from embedlift.functional import isotropy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation.tasks import Encodes

#: A trained model is taken for collapsed if its vectors use less than this share of the dimensions in use before.
RANK_KEPT = 0.5
#: ... or if they became less even than before and random pairs are as close as this uniformity says.
ALL_ALIKE = -0.02


def figures(vectors: NDArray[np.float32], seed: int) -> dict[str, float]:
    """Return the label-free figures of ``vectors``, shape (N, D); none of fewer than two, or of what is no number."""
    if len(vectors) < 2 or not np.isfinite(vectors).all():
        return {}
    return isotropy.summary(vectors, seed)


def collapse(before: dict[str, float], after: dict[str, float]) -> str | None:
    """Say how the space of a fixed sample of texts collapsed in training, or None if it did not.

    Args:
        before: Figures of the sample from :func:`figures`, with the start model.
        after: The same with the trained model.
    """
    if not before:
        return None
    if not after:
        return "its vectors are not numbers"
    if after["effective_rank"] < RANK_KEPT * before["effective_rank"]:
        return f"its effective rank fell from {before['effective_rank']:.3g} to {after['effective_rank']:.3g}"
    if after["uniformity"] > max(ALL_ALIKE, before["uniformity"]):
        return f"all of its vectors became alike (uniformity {before['uniformity']:.3g}, now {after['uniformity']:.3g})"
    return None


def dev_score(encoder: Encodes, file: Path) -> Callable[[], float]:
    """Return a function that scores the encoder, as it is then, on labelled pairs: Spearman's correlation.

    Args:
        encoder: The encoder.
        file: Lines of ``score<TAB>sentence<TAB>sentence``.

    Raises:
        InputError: If the file cannot be read.
    """
    task = sts.Task(file.stem, "dev", [sts.read_pairs(file)])

    def score() -> float:
        [result] = evaluate(encoder, "", [task])
        return -1.0 if result.score is None else result.score  # undefined: collapsed

    return score
