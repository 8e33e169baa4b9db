"""Rows of an array or a memory map: checked, read in pieces, and drawn in random batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

#: Of a piece in float64. The C library gives pieces above 32 MiB back at once, and the next one must be cleared again.
_CHUNK_BYTES = 16 * 2**20
_BLOCK_ROWS = 64
_SHUFFLED_ROWS = 8192
_MOST_HELD_OUT_ROWS = 8192
_SAMPLE_ROWS = 1024


def checked_rows(estimator: Any, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
    """Return ``X`` as a numeric array, shape (N, D), that fits the estimator; memory maps stay on disk.

    ``reset`` makes D, and the names of the columns, those that the estimator expects from now on.
    """
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu" and X.size:
        validate_data(estimator, X[:1], ensure_all_finite=False, reset=reset)
        return X
    checked: NDArray[Any] = validate_data(
        estimator, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=reset
    )
    return checked


def finite_chunks(rows: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield (first row, copy of a piece) in float32 if the rows are, otherwise in float64.

    Raises:
        InputError: If a vector holds NaN or infinity; its row is named.
    """
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    size = max(1, _CHUNK_BYTES // (8 * rows.shape[1]))
    for start in range(0, len(rows), size):
        chunk: NDArray[np.floating] = np.array(rows[start : start + size], dtype=dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            surely_finite = np.isfinite(chunk.sum())  # three times faster than looking at every number
        if not surely_finite:
            _refuse_non_finite(chunk, start)
        yield start, chunk


def _refuse_non_finite(chunk: NDArray[np.floating], start: int) -> None:
    finite = np.isfinite(chunk).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        what = "NaN" if np.isnan(chunk[row]).any() else "infinity"
        raise InputError(f"Input X contains {what} in row {start + row}: remove or repair that vector")


class RandomBatches:
    """Batches of rows in random order, and rows held out, in memory that does not grow with their number.

    Rows are drawn in blocks of neighbours: some blocks are held out; in each epoch the others come in
    random order, and rows are shuffled within the next 128 blocks or so. An array and a memory map give
    the same batches. Neighbours are often of one document, so held-out blocks are also the stricter test.

    Args:
        rows: Shape (N, D).
        held_out_fraction: Share of the rows to hold out, at most 8192 rows.
        seed: Seed of the draws.

    Attributes:
        held_out: Shape (H, D), float32.
        sample: Some of the others, shape (S, D), S at most 1024, float32.
        count: Number of the rows not held out.
    """

    def __init__(self, rows: NDArray[Any], held_out_fraction: float, seed: list[int]) -> None:
        self._rows = rows
        self._random = np.random.default_rng(seed)
        self._block = min(_BLOCK_ROWS, max(1, len(rows) // 256))
        blocks = self._random.permutation(-(-len(rows) // self._block))
        held_out = min(round(held_out_fraction * len(blocks)), _MOST_HELD_OUT_ROWS // self._block)
        self.held_out = self._read(self._rows_of(blocks[:held_out]))
        self._blocks = blocks[held_out:]
        self.count = len(rows) - len(self.held_out)
        order = self._random.permutation(self._blocks)[: -(-_SAMPLE_ROWS // self._block)]
        self.sample = self._read(self._random.permutation(self._rows_of(order))[:_SAMPLE_ROWS])

    def epoch(self, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield batches of ``size`` rows, float32; what is left over at the end is not used."""
        waiting = np.empty(0, dtype=np.int64)
        together = _SHUFFLED_ROWS // self._block
        order = self._random.permutation(self._blocks)
        for first in range(0, len(order), together):
            rows = self._random.permutation(self._rows_of(order[first : first + together]))
            waiting = np.concatenate([waiting, rows])
            while len(waiting) >= size:
                yield self._read(waiting[:size])
                waiting = waiting[size:]

    def _rows_of(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = (blocks[:, None] * self._block + np.arange(self._block)).ravel()
        return rows[rows < len(self._rows)]

    def _read(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self._rows[rows], dtype=np.float32)
