"""Known-item retrieval: does a query find the one document that belongs to it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.functional.similarity import unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def known_item_ranks(
    queries: NDArray[np.floating], documents: NDArray[np.floating], relevant: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the rank, from 1, of each query's document by cosine.

    Args:
        queries: Shape (Q, D).
        documents: Shape (N, D).
        relevant: Row of each query's document, shape (Q,).
    """
    return ranks_from_scores(unit_rows(queries) @ unit_rows(documents).T, relevant)


def ranks_from_scores(scores: NDArray[np.floating], relevant: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank, from 1, of each query's document: scores (Q, N), relevant (Q,) -> (Q,).

    Ties count against the query, so a collapsed model cannot look good.
    """
    own = scores[np.arange(len(scores)), relevant]
    return (scores >= own[:, None]).sum(axis=1)


def reciprocal_ranks(ranks: NDArray[np.int64], cutoff: int = 10) -> NDArray[np.float64]:
    """Return 1 / rank, or 0 beyond the cutoff; the mean over queries is MRR@cutoff."""
    return np.where(ranks <= cutoff, 1.0 / ranks, 0.0)
