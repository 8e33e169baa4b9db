"""Similarities of vectors: the larger, the more alike. Cosine has a defined value for zero vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ``vectors``, shape (N, D), with rows of length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def paired_cosine(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the cosine of each row of ``left`` with the same row of ``right``: (N, D), (N, D) -> (N,).

    A pair with a zero vector has cosine 0, as in SentEval.
    """
    return np.einsum("nd,nd->n", unit_rows(left), unit_rows(right))


def paired_dot(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the dot product of each row of ``left`` with the same row of ``right``: (N, D), (N, D) -> (N,)."""
    return np.einsum("nd,nd->n", left, right)


def paired_euclidean(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the negative Euclidean distance of each row of ``left`` to the same row of ``right``: -> (N,)."""
    return -np.linalg.norm(left - right, axis=1)


def paired_manhattan(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the negative Manhattan distance of each row of ``left`` to the same row of ``right``: -> (N,)."""
    return -np.abs(left - right).sum(axis=1)
