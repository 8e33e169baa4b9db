"""Pairs of one's own, with scores or with labels: which columns hold what is found out, or asked for."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from embedlift.errors import InputError
from embedlift.evaluation import sts
from embedlift.evaluation.pair_classification import PairClassification
from embedlift.evaluation.tables import Record, read_table, text_of, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Usual names of the two texts, in small letters and digits alone.
_SIDES = (
    ("sentence1", "sentence2"),
    ("sentencea", "sentenceb"),
    ("text1", "text2"),
    ("texta", "textb"),
    ("question1", "question2"),
    ("string1", "string2"),
    ("1string", "2string"),
    ("sent1", "sent2"),
    ("s1", "s2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "document"),
    ("query", "passage"),
    ("left", "right"),
    ("a", "b"),
)
_SCORES = (
    *("score", "similarity", "similarityscore", "relatedness", "relatednessscore", "gold", "rating"),
    *("label", "labels", "goldlabel", "class", "isduplicate", "duplicate", "isparaphrase", "paraphrase", "quality"),
    *("entailment", "entailmentlabel", "entailmentjudgment", "match", "relevant"),
)
#: Words that stand for a pair that belongs together, and for one that doesn't.
_YES = {"true", "yes", "duplicate", "paraphrase", "similar", "same", "match", "positive", "entailment", "relevant"}
_NO = {"false", "no", "not", "negative", "different", "unrelated", "dissimilar", "mismatch", "irrelevant"} | {
    f"{negation}{word}" for negation in ("not", "non", "no") for word in _YES
}


class Columns(NamedTuple):
    """Names of the columns with the two texts and with their score or label."""

    left: str
    right: str
    score: str


def own_pairs(
    path: Path, columns: Sequence[str] | None = None, aggregation: sts.Aggregation = "all"
) -> sts.Task | PairClassification:
    """Return the task in a file of pairs: STS if they have scores, pair classification if they have labels.

    Labels are 0 and 1, true and false, or words such as ``duplicate`` and ``not_duplicate``; other numbers are scores.

    Args:
        path: ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` with a header.
        columns: Names of the columns with the two texts and the score or label; numbers from 1 for a .csv or .tsv file
            without a header. May be left out where the header or the content tells.
        aggregation: Passed to the STS task, which has one subset.

    Raises:
        InputError: Naming file and line of a bad row, or the columns where they cannot be told apart.
    """
    if columns is not None and len(columns) != 3:
        raise InputError(f"--columns must name three columns, text,text,score: got {','.join(columns)}")
    numbered = columns is not None and all(name.isdecimal() for name in columns)
    records = list(read_table(path, (lambda first: set(columns or ()) <= set(first)) if numbered else None))
    if not records:
        raise InputError(f"{path}: no pairs: the file is empty")
    chosen = Columns(*columns) if columns is not None else _detect(path, records)
    left = [text_of(record, chosen.left) for record in records]
    right = [text_of(record, chosen.right) for record in records]
    values = [value_of(record, chosen.score) for record in records]
    if all(_as_label(value) is not None for value in values):
        positive = np.array([_as_label(value) for value in values], dtype=bool)
        return PairClassification(path.stem, "own", left, right, positive)
    gold = [_as_number(value) for value in values]
    for record, value, number in zip(records, values, gold, strict=True):
        if number is None:
            raise InputError(f"{record.where}: {chosen.score!r} is {value!r:.40}, neither a number nor a known label")
    return sts.Task(path.stem, "own", [sts.Pairs(path.stem, left, right, np.array(gold, dtype=float))], aggregation)


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _detect(path: Path, records: list[Record]) -> Columns:
    """Choose by name; where no name is known, by content: two columns of texts, and one of numbers or labels."""
    names = list(dict.fromkeys(name for record in records[:100] for name in record.values))
    by_key = {_key(name): name for name in names}
    sides = [(by_key[a], by_key[b]) for a, b in _SIDES if a in by_key and b in by_key]
    scores = [by_key[key] for key in _SCORES if key in by_key and _kind(records, by_key[key]) == "score"]
    if not sides:
        texts = [name for name in names if _kind(records, name) == "text"]
        sides = [(texts[0], texts[1])] if len(texts) == 2 else []
    if not scores and sides:
        rest = [name for name in names if name not in sides[0] and _kind(records, name) == "score"]
        scores = [name for name in rest if not re.search(r"id$|^idx|^index|^$", _key(name))]
    if len(sides) == 1 and len(scores) == 1:
        return Columns(*sides[0], scores[0])
    unsure = "which columns hold the two texts" if len(sides) != 1 else "which column holds the score or label"
    raise InputError(
        f"{path}: cannot tell {unsure}: the columns are {', '.join(names)}. Name them: "
        "--columns TEXT,TEXT,SCORE (in a .csv or .tsv file without a header by number, such as 2,3,1)"
    )


def _kind(records: list[Record], name: str) -> str:
    """Return ``score`` (numbers, labels) or ``text``, whatever most rows have: bad ones are met later."""
    values = [record.values.get(name) for record in records]
    scores = sum(_as_number(value) is not None or _as_label(value) is not None for value in values)
    if 2 * scores > len(values):
        return "score"
    return "text" if 2 * sum(isinstance(value, str) for value in values) > len(values) else ""


def _as_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _as_label(value: Any) -> bool | None:
    number = _as_number(value)
    if number is not None:
        return bool(number) if number in (0, 1) else None
    word = re.sub(r"[^a-z]", "", str(value).lower())
    return True if word in _YES else False if word in _NO else None
