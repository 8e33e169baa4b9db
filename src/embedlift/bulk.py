"""Files in, files out: texts to vectors, vectors to transformed vectors, at constant memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.corpus import read_rows, repair_surrogates
from embedlift.errors import InputError
from embedlift.files import written_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.encoder import Encoder, Progress

_CHUNK = 16_384


def encode_file(
    encoder: Encoder,
    source: Path,
    target: Path,
    *,
    column: str | None = None,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Encode the texts of ``source`` into ``target``, a row for every row of the source, blank ones too.

    Args:
        encoder: Makes the vectors.
        source: See :func:`embedlift.corpus.read_rows`.
        target: ``.npy``: float32, shape (N, D). ``.parquet``: id (row number from 0), text, vector.
        column: Column of the text.
        progress: Called with (texts done, texts in all).

    Returns:
        Number of texts and dimension.

    Raises:
        InputError: If the source cannot be read or the kind of target is unknown.
    """
    if target.suffix not in (".npy", ".parquet"):
        raise InputError(f"{target}: unknown kind of file: use .npy or .parquet")
    texts = [repair_surrogates(row.text) for row in read_rows(source, column)]
    vectors = _encoded_chunks(encoder, texts, progress)
    with written_whole(target) as beside:
        if target.suffix == ".npy":
            _write_npy(beside, vectors, (len(texts), encoder.dimension))
        else:
            _write_parquet(beside, vectors, texts, encoder.dimension)
    return len(texts), encoder.dimension


def read_vectors(path: Path) -> NDArray[np.floating]:
    """Return the vectors of a ``.npy`` file as a memory map, shape (N, D).

    Raises:
        InputError: If it is missing, no such file, or no two-dimensional array of numbers.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is not a .npy file of numbers, or is damaged ({error})") from None
    numbers = isinstance(vectors, np.ndarray) and vectors.dtype.kind in "fiu"
    if not numbers or vectors.ndim != 2 or vectors.shape[1] == 0:
        shape = getattr(vectors, "shape", None)
        raise InputError(f"{path} must hold numbers of shape (N, D), got shape {shape}")
    return vectors


def transform_file(transform: Any, source: Path, target: Path) -> tuple[int, int]:
    """Map the vectors of ``source`` with a fitted transform into ``target``, piece by piece; return its shape."""
    if target.suffix != ".npy":
        raise InputError(f"{target}: unknown kind of file: use .npy")
    vectors = read_vectors(source)
    if vectors.shape[1] != transform.n_features_in_:
        raise InputError(
            f"{source} has vectors of {vectors.shape[1]} dimensions, "
            f"but the transform was fitted on {transform.n_features_in_}"
        )
    mapped = (transform.transform(chunk).astype(np.float32) for chunk in _finite_chunks(vectors, source))
    shape = (len(vectors), len(transform.get_feature_names_out()))
    with written_whole(target) as beside:
        _write_npy(beside, mapped, shape)
    return shape


def _finite_chunks(vectors: NDArray[np.floating], source: Path) -> Iterator[NDArray[np.floating]]:
    for start in range(0, len(vectors), _CHUNK):
        chunk = vectors[start : start + _CHUNK]
        finite = np.isfinite(chunk).all(axis=1)
        if not finite.all():
            raise InputError(
                f"{source}: row {start + int(np.argmin(finite))} holds NaN or infinity: remove or repair it"
            )
        yield chunk


def _encoded_chunks(encoder: Encoder, texts: list[str], progress: Progress | None) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(texts), _CHUNK):
        yield encoder.encode(texts[start : start + _CHUNK])
        if progress is not None:
            progress(min(start + _CHUNK, len(texts)), len(texts))


def _write_npy(path: Path, chunks: Iterator[NDArray[np.float32]], shape: tuple[int, int]) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, dtype="<f4").data)


def _write_parquet(path: Path, chunks: Iterator[NDArray[np.float32]], texts: list[str], dimension: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), dimension))])
    with pq.ParquetWriter(path, schema) as writer:
        start = 0
        for chunk in chunks:
            stop = start + len(chunk)
            vector = pa.FixedSizeListArray.from_arrays(pa.array(chunk.ravel()), dimension)
            columns = [pa.array(range(start, stop), pa.int64()), pa.array(texts[start:stop]), vector]
            writer.write_table(pa.table(columns, schema=schema))
            start = stop
