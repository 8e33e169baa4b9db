"""Is a trained model worth keeping? Without labels: has it collapsed? With labels, if there are some: their score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.choosing.evidence import recovery
from embedlift.choosing.probes import make_probes
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import evaluate
from embedlift.functional import isotropy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation.tasks import Encodes

#: A trained model is taken for collapsed if its vectors use less than this share of the dimensions in use before.
RANK_KEPT = 0.5
#: ... or if they became less even than before and random pairs are as close as this uniformity says.
ALL_ALIKE = -0.02

#: Sentences of the sample whose shortened copies are looked for.
_PROBES = 200
#: A model has got worse if their typical rank is this many times what it was, and more so than chance explains ...
_TIMES, _ERRORS = 2.0, 3.0
#: ... and if there are enough of them to say so.
_FEWEST_PROBES = 20


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


class ShortenedCopies:
    """Whether a model still knows a sentence by what is left of it: some of its words.

    A collapse shows in the space; a model that trained on what its corpus repeats may keep the space and lose the
    sentences. A copy without some words should find its sentence among all.

    Args:
        texts: Distinct texts of the corpus; those with fewer than four words take no part.
        seed: Of the choice of sentences and of words.
    """

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        probes = make_probes(texts, _PROBES, seed)
        self.sentences = [texts[place] for place in probes.anchors]
        self.shortened = probes.shortened

    def recovery(self, encoder: Encodes) -> NDArray[np.float64]:
        """Return how well each sentence and its copy find each other, shape (n,): higher is better."""
        if len(self.sentences) < _FEWEST_PROBES:
            return np.empty(0)
        vectors = encoder.encode([*self.sentences, *self.shortened])
        return recovery(vectors[: len(self.sentences)], vectors[len(self.sentences) :])


def loss(before: NDArray[np.float64], after: NDArray[np.float64]) -> str | None:
    """Say by how much recovery fell in training, or None if it did not, or if there are too few sentences to say so.

    Args:
        before: From :meth:`ShortenedCopies.recovery`, with the start model, shape (n,).
        after: The same with the trained model.
    """
    fall = before - after
    if len(fall) < _FEWEST_PROBES:
        return None
    if fall.mean() <= max(np.log(_TIMES), _ERRORS * fall.std(ddof=1) / np.sqrt(len(fall))):
        return None
    ranks = np.exp(-before.mean()), np.exp(-after.mean())
    return (
        f"sentences and their shortened copies find each other less well (typical rank {ranks[0]:.1f} before, "
        f"{ranks[1]:.1f} now)"
    )


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
