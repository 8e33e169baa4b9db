"""Vectors as files: ``.npy`` or Parquet, in float32, float16 or int8, written in parts that are joined afterwards."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Numbers in which vectors are stored.
OUTPUT_DTYPES = ("float32", "float16", "int8")


def rounded(vectors: NDArray[np.float32], dtype: str) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """Return ``vectors`` in another number type, and for int8 the scale of each: vector = scale * numbers.

    The scale of a vector is its largest absolute number / 127. It depends on no other vector, and cosines need none.

    Args:
        vectors: Shape (N, D).
        dtype: One of ``OUTPUT_DTYPES``.

    Raises:
        InputError: If a number is too large for float16.
    """
    if dtype == "int8":
        scales = (np.abs(vectors).max(axis=1, initial=0) / 127).astype(np.float32)
        numbers = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None])
        return numbers.astype(np.int8), scales
    if dtype == "float16" and np.abs(vectors).max(initial=0) > np.finfo(np.float16).max:
        raise InputError("a vector is too large for float16: use --output-dtype float32 or int8")
    return vectors.astype(np.dtype(dtype).newbyteorder("<"), copy=False), None


class NpyFiles:
    """``STEM.npy``, shape (N, D), for memory maps; for int8 also ``STEM.scale.npy``, float32, shape (N,).

    Args:
        dimension: Of the vectors.
        dtype: One of ``OUTPUT_DTYPES``.
    """

    suffix = ".npy"

    def __init__(self, dimension: int, dtype: str) -> None:
        self.dimension, self.dtype = dimension, dtype

    def files(self, stem: Path) -> list[Path]:
        """Return the files of a part; the one with the vectors last."""
        vectors = stem.with_name(f"{stem.name}.npy")
        return [scale_file(vectors), vectors] if self.dtype == "int8" else [vectors]

    def write(self, stem: Path, first_row: int, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write a part."""
        del first_row, texts
        numbers, scales = rounded(vectors, self.dtype)
        arrays = [numbers] if scales is None else [scales, numbers]
        for path, array in zip(self.files(stem), arrays, strict=True):
            np.save(path, np.ascontiguousarray(array))

    def join(self, parts: Sequence[Path], stem: Path) -> None:
        """Write the rows of ``parts`` one after another."""
        for number, path in enumerate(self.files(stem)):
            _join_npy([self.files(part)[number] for part in parts], path)

    def count(self, stem: Path, first_row: int) -> int:
        """Return the number of rows of a part."""
        del first_row
        counts = {len(np.load(path, mmap_mode="r")) for path in self.files(stem)}
        return counts.pop() if len(counts) == 1 else -1


class ParquetFiles:
    """``STEM.parquet``: id (row number from 0), text, vector (list of fixed size), for int8 also scale.

    A part becomes a row group.

    Args:
        dimension: Of the vectors.
        dtype: One of ``OUTPUT_DTYPES``.
    """

    suffix = ".parquet"

    def __init__(self, dimension: int, dtype: str) -> None:
        import pyarrow as pa

        self.dimension, self.dtype = dimension, dtype
        numbers = {"float32": pa.float32(), "float16": pa.float16(), "int8": pa.int8()}[dtype]
        columns = [("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(numbers, dimension))]
        if dtype == "int8":
            columns.append(("scale", pa.float32()))
        self._schema = pa.schema(columns)

    def files(self, stem: Path) -> list[Path]:
        """Return the file of a part."""
        return [stem.with_name(f"{stem.name}.parquet")]

    def write(self, stem: Path, first_row: int, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write a part."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        numbers, scales = rounded(vectors, self.dtype)
        flat = pa.array(numbers.ravel(), self._schema.field("vector").type.value_type)
        vector = pa.FixedSizeListArray.from_arrays(flat, self.dimension)
        ids = pa.array(np.arange(first_row, first_row + len(texts)), pa.int64())
        columns = [ids, pa.array(texts, pa.string()), vector]
        if scales is not None:
            columns.append(pa.array(scales))
        pq.write_table(pa.table(columns, schema=self._schema), self.files(stem)[0])

    def join(self, parts: Sequence[Path], stem: Path) -> None:
        """Write the rows of ``parts`` one after another."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(self.files(stem)[0], self._schema) as writer:
            for part in parts:
                writer.write_table(pq.read_table(self.files(part)[0], partitioning=None))

    def count(self, stem: Path, first_row: int) -> int:
        """Return the number of rows of a part; -1 if their ids are not those from ``first_row`` on."""
        import pyarrow.parquet as pq

        ids = pq.read_table(self.files(stem)[0], columns=["id"], partitioning=None)["id"].to_numpy()
        return len(ids) if np.array_equal(ids, np.arange(first_row, first_row + len(ids))) else -1


def vector_files(target: Path, dimension: int, dtype: str) -> NpyFiles | ParquetFiles:
    """Return the kind of files that the name of ``target`` asks for.

    Raises:
        InputError: If the kind or the dtype is unknown.
    """
    kinds: dict[str, Any] = {kind.suffix: kind for kind in (NpyFiles, ParquetFiles)}
    if target.suffix not in kinds:
        raise InputError(f"{target}: unknown kind of file: use {' or '.join(kinds)}")
    if dtype not in OUTPUT_DTYPES:
        raise InputError(f"unknown --output-dtype {dtype!r}: use one of {', '.join(OUTPUT_DTYPES)}")
    files: NpyFiles | ParquetFiles = kinds[target.suffix](dimension, dtype)
    return files


def scale_file(vectors: Path) -> Path:
    """Return where the scales of an int8 ``.npy`` file lie."""
    return vectors.with_suffix(".scale.npy")


def _join_npy(parts: Sequence[Path], target: Path) -> None:
    first = np.load(parts[0], mmap_mode="r")
    rows = sum(len(np.load(part, mmap_mode="r")) for part in parts)
    header = np.lib.format.header_data_from_array_1_0(first) | {"shape": (rows, *first.shape[1:])}
    with target.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            with part.open("rb") as source:
                np.lib.format.read_magic(source)
                np.lib.format.read_array_header_1_0(source)
                shutil.copyfileobj(source, file, 2**20)
