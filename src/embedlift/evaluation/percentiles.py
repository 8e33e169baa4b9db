"""Scores as percentiles among random pairs: what a threshold should be set on, instead of a cosine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.errors import InputError
from embedlift.files import written_whole
from embedlift.functional.isotropy import cosines_of_pairs, random_pairs
from embedlift.functional.similarity import unit_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

PAIRS = 200_000

#: Fewer pairs than this above a level, and its score is mostly chance.
_PAIRS_IN_A_TAIL = 10

# A step of one percent, and finer ones at both ends: thresholds lie where few pairs are.
_TAIL = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, *np.arange(1, 10) / 10])
_LEVELS = np.concatenate([[0.0], _TAIL, np.arange(1.0, 100.0), 100 - _TAIL[::-1], [100.0]])


@dataclass(frozen=True)
class ScorePercentiles:
    """The scale from the scores of one model to percentiles among random pairs of texts.

    A cosine of 0.9 may be a near-duplicate in one model and below the average of unrelated texts in another. Its
    percentile among random pairs means the same everywhere: at the 99.9th percentile, one unrelated pair in a
    thousand scores higher. The order of scores stays as it is, so rankings neither gain nor lose.

    The scale belongs to the model and the kind of text that it was made from. Random pairs stand for unrelated ones:
    where many texts say nearly the same, the highest percentiles are of related pairs. Take texts that no transform
    was fitted on: whitening fitted on few texts makes those very texts more even than others, and thresholds too low.

    Attributes:
        levels: Percentiles, rising from 0 to 100.
        scores: Score at each level, rising.
        pairs: Number of random pairs that the scale was made of.

    Examples:
        >>> scale = ScorePercentiles.from_scores([0.80, 0.82, 0.84, 0.86, 0.88])
        >>> scale.percentiles([0.7, 0.84, 0.9]).tolist()
        [0.0, 50.0, 100.0]
        >>> scale.score_at(75)
        0.86
    """

    levels: tuple[float, ...]
    scores: tuple[float, ...]
    pairs: int

    @classmethod
    def fit(cls, vectors: NDArray[np.floating], pairs: int = PAIRS, seed: int = 0) -> ScorePercentiles:
        """Make the scale from the cosines of random pairs of ``vectors``, shape (N, D).

        Args:
            vectors: Of texts of the kind that will be compared; no zero vectors among them.
            pairs: Number of pairs drawn.
            seed: Of the draw.

        Raises:
            InputError: If there are fewer than two vectors.
        """
        if len(vectors) < 2:
            raise InputError(f"percentiles of random pairs need at least 2 vectors, got {len(vectors)}")
        return cls.from_scores(cosines_of_pairs(unit_rows(vectors), *random_pairs(len(vectors), pairs, seed)))

    @classmethod
    def from_scores(cls, scores: ArrayLike) -> ScorePercentiles:
        """Make the scale from scores of random pairs, however they were made: cosine, dot product, negative distance.

        Raises:
            InputError: If there are none, or one is NaN or infinite.
        """
        drawn = np.asarray(scores, dtype=np.float64)
        if drawn.ndim != 1 or not len(drawn) or not np.isfinite(drawn).all():
            raise InputError(f"scores of random pairs must be finite numbers of shape (n,), got shape {drawn.shape}")
        values = np.percentile(drawn, _LEVELS)
        distinct, first, count = np.unique(values, return_index=True, return_counts=True)
        levels = (_LEVELS[first] + _LEVELS[first + count - 1]) / 2  # equal scores lie in the middle of theirs
        return cls(tuple(levels.tolist()), tuple(distinct.tolist()), len(drawn))

    def percentiles(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the percentile of each score, in [0, 100] and of the same shape.

        0 and 100 stand for scores beyond all random pairs that were drawn.
        """
        given = np.asarray(scores, dtype=np.float64)
        return np.where(np.isnan(given), np.nan, np.interp(given, self.scores, self.levels, left=0.0, right=100.0))

    def score_at(self, percentile: float) -> float:
        """Return the score that ``percentile`` of the random pairs do not reach.

        Raises:
            InputError: If the percentile is not between 0 and 100.
        """
        if not 0 <= percentile <= 100:
            raise InputError(f"a percentile is between 0 and 100, got {percentile}")
        return float(np.interp(percentile, self.levels, self.scores))

    def is_measured(self, percentile: float) -> bool:
        """Whether enough pairs lie above ``percentile`` (at least 10) for its score to mean anything."""
        return self.pairs * (100 - percentile) / 100 >= _PAIRS_IN_A_TAIL

    def save(self, path: str | Path) -> None:
        """Write the scale as JSON."""
        with written_whole(Path(path)) as beside:
            beside.write_text(json.dumps({"percentiles": asdict(self)}) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> ScorePercentiles:
        """Read a scale from JSON: from :meth:`save`, or from ``embedlift diagnose --json``.

        Raises:
            InputError: If the file holds none.
        """
        try:
            found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))["percentiles"]
            scale = cls(tuple(map(float, found["levels"])), tuple(map(float, found["scores"])), int(found["pairs"]))
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} holds no percentiles of scores ({error!r})") from None
        rising = all((np.diff(values) > 0).all() for values in (scale.levels, scale.scores))
        if not scale.levels or len(scale.levels) != len(scale.scores) or not rising:
            raise InputError(f"{path} is damaged: levels and scores must rise together")
        return scale
