"""How far exported vectors are from those of the model that was exported, on a few texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedlift.corpus import read_corpus
from embedlift.functional.sampling import sample_places

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Short and long, other scripts, numbers, capitals, a single character.
OWN_TEXTS = (
    "The ferry leaves at noon if the wind allows it.",
    "Nobody knew who had watered the plants.",
    "a",
    "Yes.",
    "42",
    "THE SHOP IS CLOSED ON MONDAYS",
    "The committee read the report twice, found three errors in its tables, and sent it back to the authors.",
    "Bread, butter, two lemons and a bag of flour.",
    "She moved the ladder so that the roof could be mended before the rain came.",
    "How long does a letter take from here to the coast?",
    "Der Zug nach Norden hat heute zwanzig Minuten Verspätung.",
    "Où est la clé de la cave ?",
    "この道は川の方へ続いています。",
    "Поезд остановился в поле.",
    "e = m c ** 2; print(e)",
    "A pump moves water from the lower basin to the upper one at night, when power is cheap. " * 12,
)


class Parity(NamedTuple):
    """Differences between expected and found vectors.

    Attributes:
        texts: Number of texts compared.
        largest_difference: Largest distance of a vector from the expected one, relative to that one's length.
        mean_cosine: Mean cosine of expected and found vectors.
        least_cosine: Smallest one.
    """

    texts: int
    largest_difference: float
    mean_cosine: float
    least_cosine: float

    @classmethod
    def of(cls, expected: NDArray[np.float32], found: NDArray[np.float32]) -> Parity:
        """Compare row by row, shapes (N, D); NaN in either makes every figure NaN."""
        a, b = expected.astype(np.float64), found.astype(np.float64)
        length = np.linalg.norm(a, axis=1)
        tiny = np.finfo(np.float32).tiny
        distance = np.linalg.norm(a - b, axis=1) / np.maximum(length, tiny)
        cosine = (a * b).sum(axis=1) / np.maximum(length * np.linalg.norm(b, axis=1), tiny)
        return cls(len(a), float(distance.max()), float(cosine.mean()), float(cosine.min()))


def sample_texts(corpus: Sequence[Path], column: str | None, count: int, seed: int = 0) -> list[str]:
    """Return ``count`` random texts of ``corpus``, or all; this package's own ones if no file is given."""
    if not corpus:
        return list(OWN_TEXTS)
    texts = read_corpus(corpus, column).texts
    return [texts[place] for place in sample_places(len(texts), count, seed)]
