"""Text in: readers that say where a bad line is, and the corpus that the methods are fitted on."""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Kinds of files that hold texts.
SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl", ".parquet")

#: Columns taken without being named, if the file has one of them.
_USUAL_COLUMNS = ("text", "sentence")


class Row(NamedTuple):
    """One text and the place it came from, such as ``corpus.txt:17``."""

    text: str
    where: str


@dataclass(frozen=True)
class Corpus:
    """Distinct, non-blank texts in their first order, and what was met on the way.

    Attributes:
        texts: The texts.
        rows: Rows read.
        blank: Rows left out because they hold no visible character.
        repeated: Rows left out because the same text came before.
        repaired: Texts in which lone surrogates were replaced by U+FFFD.
        digest: SHA-256 of the texts in order.
        sequence: Place in ``texts`` of every row that is not blank, in order: what tells repeats.
    """

    texts: list[str]
    rows: int
    blank: int
    repeated: int
    repaired: int
    digest: str
    sequence: array[int]


def read_corpus(source: Sequence[str | Path] | Iterable[str], column: str | None = None) -> Corpus:
    """Return the corpus in ``source``: paths of files (``Path`` objects), or the texts themselves.

    Raises:
        InputError: If a file or text cannot be used, or if nothing is left.
    """
    if isinstance(source, Path):
        source = [source]
    items = check_sequence(source, "corpus")
    if items and all(isinstance(item, Path) for item in items):
        rows = (row for path in items for row in read_rows(Path(path), column))
        corpus = _collect(rows)
    else:
        corpus = _collect(Row(text, f"corpus[{index}]") for index, text in enumerate(check_texts(items, "corpus")))
    if not corpus.texts:
        raise InputError(f"the corpus is empty: {corpus.rows} rows, {corpus.blank} of them blank")
    return corpus


def _collect(rows: Iterable[Row]) -> Corpus:
    texts: dict[str, int] = {}
    sequence = array("q")
    count = blank = repeated = repaired = 0
    digest = hashlib.sha256()
    for text, _ in rows:
        count += 1
        whole = repair_surrogates(text)
        repaired += whole != text
        if not whole.strip():
            blank += 1
            continue
        if whole in texts:
            repeated += 1
        else:
            texts[whole] = len(texts)
            encoded = whole.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        sequence.append(texts[whole])
    return Corpus(list(texts), count, blank, repeated, repaired, digest.hexdigest(), sequence)


def check_sequence(texts: Any, name: str) -> list[Any]:
    """Return the items of ``texts`` by position; a pandas Series with any index, an array or a generator will do."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"{name} must be a list of texts, got one {type(texts).__name__}: wrap it in a list")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # to iterate over those gives the names of columns
        raise InputError(f"{name} must be a list of texts, got {type(texts).__name__}: give one of its columns")
    try:
        return list(texts)
    except TypeError:
        raise InputError(f"{name} must be a list of texts, got {type(texts).__name__}") from None


def check_texts(texts: Any, name: str = "texts") -> list[str]:
    """Return ``texts`` as a list of str.

    Raises:
        InputError: Naming the first item that is not a str: None, NaN, numbers and bytes are never guessed at.
    """
    items = check_sequence(texts, name)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise InputError(f"{name}[{index}] is {_describe(item)}, not a str: remove, fill or convert it first")
    return items


def repair_surrogates(text: str) -> str:
    """Return ``text`` with lone surrogates replaced by U+FFFD; halves that belong together are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_rows(path: Path, column: str | None = None) -> Iterator[Row]:
    """Yield the texts of a file, blank ones too.

    Args:
        path: ``.txt`` (a text a line), ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``.
        column: Its name; or its number from 1 in a .csv or .tsv file without a header. May be left out if
            there is only one column, or one called ``text`` or ``sentence``.

    Raises:
        InputError: Naming file and line.
    """
    readers: tuple[Callable[[Path, str | None], Iterator[Row]], ...] = (
        _read_txt,
        _read_csv,
        _read_csv,
        _read_jsonl,
        _read_parquet,
    )
    kinds = dict(zip(SUFFIXES, readers, strict=True))
    if path.suffix.lower() not in kinds:
        raise InputError(f"{path}: unknown kind of file: use one of {', '.join(kinds)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return kinds[path.suffix.lower()](path, column)


def _read_txt(path: Path, column: str | None) -> Iterator[Row]:
    if column is not None:
        raise InputError(f"{path}: a .txt file has a text a line and no columns: leave --column out")
    for number, line in read_lines(path):
        yield Row(line, f"{path}:{number}")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line without its end) of a UTF-8 file.

    Raises:
        InputError: Naming file and line of what is not UTF-8 text.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError(f"{path}:1: the file is UTF-16: convert it to UTF-8 (iconv -f utf-16 -t utf-8)")
            if b"\x00" in line:
                raise InputError(f"{path}:{number}: NUL byte: this is not a UTF-8 text file")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                bad = line[error.start]
                raise InputError(
                    f"{path}:{number}: not UTF-8 (byte 0x{bad:02x} at {error.start + 1}): "
                    "convert the file, for example with iconv -f latin1 -t utf-8"
                ) from None
            yield number, text.rstrip("\r\n")


def _read_csv(path: Path, column: str | None) -> Iterator[Row]:
    csv.field_size_limit(sys.maxsize)  # its default, 131,072 characters, is below what a text may hold
    tab = path.suffix.lower() == ".tsv"
    lines = (line + "\n" for _, line in read_lines(path))
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tab else {"strict": True}
    reader = csv.reader(lines, **dialect)
    try:
        first = next(filter(None, reader), None)
        if first is None:
            return
        by_number = column is not None and column.isdecimal() and column not in first
        place = int(column) - 1 if by_number and column else _find_column(path, first, column)
        width = len(first)
        if by_number:
            if not 0 <= place < width:
                raise InputError(f"{path}:1: no column {column}: the line has {width}")
            yield Row(first[place], f"{path}:1")
        for values in reader:
            where = f"{path}:{reader.line_num}"
            if not values:  # a blank line: an empty text where there is but one column and no quoting, else no row
                if tab and width == 1:
                    yield Row("", where)
                continue
            if len(values) != width:
                raise InputError(f"{where}: {len(values)} columns where the first line has {width}")
            yield Row(values[place], where)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from None


def _read_jsonl(path: Path, column: str | None) -> Iterator[Row]:
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}: not JSON ({error})") from None
        if isinstance(record, str):
            record = {column or "text": record}
        if not isinstance(record, dict):
            raise InputError(f"{where}: a line must be a JSON object or string, got {_describe(record)}")
        name = column if column is not None else _find_name(where, list(record))
        if name not in record:
            raise InputError(f"{where}: no field {name!r}: it has {', '.join(record) or 'none'}")
        yield Row(_checked(record[name], where, name), where)


def _read_parquet(path: Path, column: str | None) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        name = column if column is not None else _find_name(str(path), file.schema_arrow.names)
        if name not in file.schema_arrow.names:
            raise InputError(f"{path}: no column {name!r}: it has {', '.join(file.schema_arrow.names)}")
        number = 0
        for batch in file.iter_batches(columns=[name]):
            for value in batch.column(0).to_pylist():
                number += 1
                where = f"{path}: row {number}"
                yield Row(_checked(value, where, name), where)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from None


def _find_column(path: Path, header: list[str], column: str | None) -> int:
    name = column if column is not None else _find_name(f"{path}:1", header)
    if name not in header:
        raise InputError(
            f"{path}:1: no column {name!r}: the header has {', '.join(header)} "
            "(in a file without a header, give the column's number)"
        )
    return header.index(name)


def _find_name(where: str, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    usual = [name for name in _USUAL_COLUMNS if name in names]
    if not usual:
        raise InputError(f"{where}: several columns ({', '.join(names)}): say which with --column")
    return usual[0]


def _checked(value: Any, where: str, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: {name!r} is {_describe(value)}, not a string: remove, fill or convert it first")
    if "\x00" in value:
        raise InputError(f"{where}: {name!r} holds a NUL character: remove it first")
    return value


def _describe(value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return shown if value is None else f"{shown} ({type(value).__name__})"
