"""What unlabelled text says about vectors: three figures, two of them from shortened copies of sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from embedlift.evaluation.retrieval import known_item_ranks
from embedlift.functional.isotropy import uniformity
from embedlift.functional.similarity import paired_cosine

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Random pairs for uniformity: its error is then far below what tells candidates apart.
_PAIRS = 5000


@dataclass(frozen=True)
class Evidence:
    """The evidence for one candidate, sentence by sentence, so that it can be resampled.

    Attributes:
        recovery: How well a sentence and its shortened copy find each other: minus the mean log rank, shape (n,).
        cosines: Of each sentence with its shortened copy, then with another sentence, shape (2n,).
        deletion: Share of words that the copy lacks; 1 for the other sentence, shape (2n,).
        uniformity: Log of the mean Gaussian potential; lower is more even.
    """

    recovery: NDArray[np.float64]
    cosines: NDArray[np.float64]
    deletion: NDArray[np.float64]
    uniformity: float

    def grading(self, rows: NDArray[np.int64] | None = None) -> float:
        """Return Spearman's correlation of cosine with the share of words kept, for some of the sentences."""
        n = len(self.recovery)
        rows = np.arange(n) if rows is None else rows
        both = np.concatenate([rows, rows + n])
        cosines, kept = rankdata(self.cosines[both]), rankdata(-self.deletion[both])
        if np.ptp(cosines) == 0:
            return 0.0  # collapsed
        return float(np.corrcoef(cosines, kept)[0, 1])

    def summary(self) -> dict[str, float]:
        """Return the figures, averaged."""
        return {
            "grading": self.grading(),
            "recovery": float(self.recovery.mean()),
            "uniformity": self.uniformity,
        }


def gather(
    sentences: NDArray[np.floating],
    shortened: NDArray[np.floating],
    deletion: NDArray[np.float64],
    seed: int,
) -> Evidence:
    """Return the evidence for vectors.

    Args:
        sentences: Of the sentences, shape (n, D), n >= 2.
        shortened: Of their shortened copies, shape (n, D).
        deletion: Share of words that each shortened copy lacks, shape (n,).
        seed: Of the choice of other sentences.
    """
    n = len(sentences)
    others = (np.arange(n) + np.random.default_rng(seed).integers(1, n, size=n)) % n
    cosines = [paired_cosine(sentences, shortened), paired_cosine(sentences, sentences[others])]
    return Evidence(
        recovery=recovery(sentences, shortened),
        cosines=np.concatenate(cosines).astype(np.float64),
        deletion=np.concatenate([deletion, np.ones(n)]),
        uniformity=uniformity(sentences, pairs=_PAIRS, seed=seed),
    )


def recovery(sentences: NDArray[np.floating], shortened: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return how well each sentence and its shortened copy find each other among all: minus the mean log rank, (n,).

    Args:
        sentences: Shape (n, D).
        shortened: Of their copies, shape (n, D).
    """
    own = np.arange(len(sentences))
    found = [known_item_ranks(shortened, sentences, own), known_item_ranks(sentences, shortened, own)]
    return -np.mean([np.log(ranks) for ranks in found], axis=0)
