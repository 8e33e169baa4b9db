"""Pairs of texts that say the same: files of two columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from embedlift.corpus import read_lines, read_rows
from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence


class TextPairs(NamedTuple):
    """Texts of equal length, row by row each other's paraphrase, and how many rows were left out."""

    first: list[str]
    second: list[str]
    blank: int


def read_text_pairs(paths: Sequence[Path], columns: str | None = None) -> TextPairs:
    """Return the pairs in files of two columns; rows with a blank side are left out.

    Args:
        paths: ``.tsv`` or ``.csv`` files without a header, ``.jsonl`` or ``.parquet`` files.
        columns: ``NAME,NAME``, also where a ``.tsv`` or ``.csv`` file has a header; not needed if there are two.

    Raises:
        InputError: Naming file and line.
    """
    if not all(isinstance(path, Path) for path in paths):
        raise InputError("bt reads paraphrase pairs from files: give Path objects")
    found = TextPairs([], [], 0)
    blank = 0
    for path in paths:
        first, second = _names(path, columns)
        for one, other in zip(read_rows(path, first), read_rows(path, second), strict=True):
            if one.text.strip() and other.text.strip():
                found.first.append(one.text)
                found.second.append(other.text)
            else:
                blank += 1
    return found._replace(blank=blank)


def _names(path: Path, columns: str | None) -> tuple[str, str]:
    names = columns.split(",") if columns is not None else _all_names(path)
    if len(names) != 2:
        raise InputError(
            f"{path}: bt needs two columns of paraphrases, got {', '.join(names) or 'none'}: "
            "say which with --column A,B"
        )
    return names[0], names[1]


def _all_names(path: Path) -> list[str]:
    kind = path.suffix.lower()
    if kind not in (".tsv", ".csv", ".jsonl", ".parquet"):
        raise InputError(f"{path}: bt needs a file of two columns: .tsv, .csv, .jsonl or .parquet")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if kind == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: cannot be read as Parquet ({error})") from None
    if kind == ".jsonl":
        _, line = next(read_lines(path), (1, ""))
        try:
            return list(dict(json.loads(line or "{}")))
        except (ValueError, TypeError):
            raise InputError(f"{path}:1: a line must be a JSON object with two texts") from None
    return ["1", "2"]
