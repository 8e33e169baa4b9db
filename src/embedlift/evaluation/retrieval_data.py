"""Queries, documents and relevance judgements from files: BEIR's layout, and tables with or without a header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from embedlift.errors import InputError
from embedlift.evaluation.retrieval import Retrieval
from embedlift.evaluation.tables import SUFFIXES, Record, read_table, text_of, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


#: A field of a row -> the usual names of its column, in small letters and digits alone; in the order of columns in a
#: file without a header.
_Fields = Mapping[str, tuple[str, ...]]
_OPTIONAL = ("title", "grade")
_TEXT = ("text", "contents", "content", "body", "abstract", "passage", "document", "query", "question", "claim")
_CORPUS = {
    "id": ("id", "docid", "documentid", "corpusid", "pid", "did"),
    "title": ("title",),
    "text": _TEXT,
}
_QUERIES = {"id": ("id", "qid", "queryid"), "text": _TEXT}
_QRELS = {
    "query": ("queryid", "qid", "query"),
    "document": ("corpusid", "docid", "documentid", "pid", "document", "doc"),
    "grade": ("score", "relevance", "rel", "grade", "label"),
}


def read_collection(folder: Path, name: str | None = None, split: str = "test") -> Retrieval:
    """Return the retrieval task in ``folder``.

    Its files, each .csv, .tsv, .jsonl or .parquet: ``corpus`` (id, title, text; several parts ``corpus_*`` are read as
    one), ``queries`` or ``queries_SPLIT`` (id, text), and ``qrels/SPLIT``, ``qrels_SPLIT`` or ``qrels`` (query id,
    document id, grade; without grades every judgement counts 1). Columns are known by their names; a .tsv or .csv file
    whose first line does not name the ids has no header, and its columns are in this order. This takes in BEIR's own
    layout.

    Args:
        folder: Of the files.
        name: Of the task; that of the folder by default.
        split: Of queries and judgements.

    Raises:
        InputError: If a file is missing, or naming file and line of a bad row.
    """
    corpus = _find(folder, ["corpus", "corpus_*"])
    queries = _find(folder, [f"queries_{split}", "queries"])[:1]
    qrels = _find(folder, [f"qrels/{split}", f"qrels_{split}", "qrels"])[:1]
    missing = [what for what, found in (("corpus", corpus), ("queries", queries), ("qrels", qrels)) if not found]
    if missing:
        there = ", ".join(sorted(path.name for path in folder.glob("*"))) if folder.is_dir() else "no such folder"
        wanted = f"corpus.*, queries.* (or queries_{split}.*), qrels/{split}.* (or qrels_{split}.*, qrels.*)"
        raise InputError(
            f"{folder}: no file for {', '.join(missing)} (there: {there or 'nothing'}); a retrieval set has {wanted}, "
            f"each as {', '.join(SUFFIXES)}"
        )
    return Retrieval(
        name or folder.name, split, _texts(queries, _QUERIES), _texts(corpus, _CORPUS), _relevance(qrels[0])
    )


def _find(folder: Path, stems: Sequence[str]) -> list[Path]:
    """Return the files of the first of ``stems`` that has any."""
    for stem in stems:
        found = sorted(path for path in folder.glob(f"{stem}.*") if path.suffix.lower() in SUFFIXES)
        if found:
            return found
    return []


def _texts(paths: list[Path], fields: _Fields) -> dict[str, str]:
    """Return id -> text; a title stands before its text, as in BEIR."""
    texts: dict[str, str] = {}
    for path in paths:
        for record, columns in _records(path, fields):
            key = _identifier(record, columns["id"])
            if key in texts:
                raise InputError(f"{record.where}: the id {key!r} came before")
            if "title" in columns:
                parts = [record.values.get(columns[name]) or "" for name in ("title", "text")]
                texts[key] = " ".join(part for part in map(str, parts) if part.strip())
            else:
                texts[key] = text_of(record, columns["text"])
    if not texts:
        raise InputError(f"{paths[0]}: nothing in it")
    return texts


def _relevance(path: Path) -> dict[str, dict[str, int]]:
    relevance: dict[str, dict[str, int]] = {}
    for record, columns in _records(path, _QRELS):
        query, document = (_identifier(record, columns[name]) for name in ("query", "document"))
        grade = value_of(record, columns["grade"]) if "grade" in columns else 1
        try:
            relevance.setdefault(query, {})[document] = int(grade)
        except (TypeError, ValueError):
            raise InputError(f"{record.where}: the grade {grade!r:.40} is not a whole number") from None
    return relevance


def _identifier(record: Record, column: str) -> str:
    value = value_of(record, column)
    if value is None or not str(value).strip():
        raise InputError(f"{record.where}: {column!r} is empty: every row needs an id")
    return str(value)


def _records(path: Path, fields: _Fields) -> Iterator[tuple[Record, dict[str, str]]]:
    """Yield the rows of a file, each with the columns that hold its fields."""
    names: list[str] = []
    columns: dict[str, str] = {}
    identifier = next(iter(fields))
    for record in read_table(path, lambda first: identifier in _columns(first, fields)):
        if list(record.values) != names:  # the first row, or another kind of row in a .jsonl file
            names = list(record.values)
            columns = _columns(names, fields) or _by_place(names, fields)
            lacking = [field for field in fields if field not in (*columns, *_OPTIONAL)]
            if lacking:
                raise InputError(
                    f"{record.where}: no column for {', '.join(lacking)}: there are {', '.join(names) or 'none'} "
                    f"(wanted: {', '.join(fields)})"
                )
        yield record, columns


def _columns(names: Sequence[str], fields: _Fields) -> dict[str, str]:
    """Return field -> the column whose name stands first among the field's usual ones."""
    by_key = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in names}
    usual = {field: [by_key[key] for key in keys if key in by_key] for field, keys in fields.items()}
    return {field: found[0] for field, found in usual.items() if found}


def _by_place(names: Sequence[str], fields: _Fields) -> dict[str, str]:
    """Return field -> column for a file without a header, where a title or grade may be left out."""
    if names != [str(place) for place, _ in enumerate(names, start=1)]:
        return {}
    for wanted in (list(fields), [field for field in fields if field not in _OPTIONAL]):
        if len(wanted) == len(names):
            return dict(zip(wanted, names, strict=True))
    return {}
