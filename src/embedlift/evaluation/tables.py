"""Files with several columns, .csv, .tsv, .jsonl or .parquet, read row by row with the place of each row."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from embedlift.corpus import read_lines
from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")


class Record(NamedTuple):
    """The values of a row by column, and its place, such as ``pairs.csv:17``."""

    values: dict[str, Any]
    where: str


def read_table(path: Path, is_header: Callable[[Sequence[str]], bool] | None = None) -> Iterator[Record]:
    """Yield the rows of a file; values are what the file holds, text in .csv and .tsv.

    Args:
        path: Of a file with one of ``SUFFIXES``. A .tsv file has no quoting.
        is_header: Tells from the first line of a .csv or .tsv file whether it names the columns; if it does not, they
            are called ``1``, ``2`` and so on. None: it always does.

    Raises:
        InputError: Naming file and line.
    """
    readers = dict(zip(SUFFIXES, (_read_csv, _read_csv, _read_jsonl, _read_parquet), strict=True))
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: unknown kind of file: use one of {', '.join(readers)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return readers[path.suffix.lower()](path, is_header or bool)


def text_of(record: Record, column: str) -> str:
    """Return the text in ``column``.

    Raises:
        InputError: If it is missing, not a text, or blank.
    """
    value = value_of(record, column)
    if not isinstance(value, str):
        raise InputError(f"{record.where}: {column!r} is {value!r:.40} ({type(value).__name__}), not a text")
    if not value.strip():
        raise InputError(f"{record.where}: {column!r} is empty: remove the row")
    return value


def value_of(record: Record, column: str) -> Any:
    """Return the value in ``column``.

    Raises:
        InputError: If the row has no such column.
    """
    if column not in record.values:
        raise InputError(f"{record.where}: no column {column!r}: there are {', '.join(record.values) or 'none'}")
    return record.values[column]


def _read_csv(path: Path, is_header: Callable[[Sequence[str]], bool]) -> Iterator[Record]:
    csv.field_size_limit(sys.maxsize)  # its default, 131,072 characters, is below what a text may hold
    tab = path.suffix.lower() == ".tsv"
    lines = (line + "\n" for _, line in read_lines(path))
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tab else {"strict": True}
    reader = csv.reader(lines, **dialect)
    names: list[str] | None = None
    try:
        for values in filter(None, reader):
            where = f"{path}:{reader.line_num}"
            if names is None:
                headed = is_header(values)
                names = _distinct(values, where) if headed else [str(place + 1) for place in range(len(values))]
                if headed:
                    continue
            if len(values) != len(names):
                raise InputError(f"{where}: {len(values)} columns where the first line has {len(names)}")
            yield Record(dict(zip(names, values, strict=True)), where)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from None


def _distinct(names: list[str], where: str) -> list[str]:
    names = [name.strip() for name in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{where}: several columns are called {', '.join(map(repr, repeated))}: rename them")
    return names


def _read_jsonl(path: Path, is_header: Callable[[Sequence[str]], bool]) -> Iterator[Record]:
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}: not JSON ({error})") from None
        if not isinstance(values, dict):
            raise InputError(f"{where}: a line must be a JSON object, got {type(values).__name__}")
        yield Record(values, where)


def _read_parquet(path: Path, is_header: Callable[[Sequence[str]], bool]) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        for batch in pq.ParquetFile(path).iter_batches():
            for values in batch.to_pylist():
                number += 1
                yield Record(values, f"{path}: row {number}")
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from None
