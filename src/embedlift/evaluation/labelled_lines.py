"""Lines of ``label<TAB>sentence`` or ``label<TAB>sentence<TAB>sentence``, as the public tasks have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from embedlift.corpus import read_lines
from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class LabelledLine(NamedTuple):
    """What stands in the first column, the sentences, and the place of the line, such as ``MR.tsv:17``."""

    label: str
    sentences: list[str]
    where: str


def read_labelled(path: Path, sentences: int, label: str = "label") -> Iterator[LabelledLine]:
    """Yield the lines of a file without header or quoting.

    Args:
        path: File.
        sentences: Number of sentences in a line.
        label: What the first column holds, for the message.

    Raises:
        InputError: If a line has another number of columns or an empty sentence, with file and line.
    """
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        first, *texts = line.split("\t")
        if len(texts) != sentences:
            expected = ", ".join([label, *["sentence"] * sentences])
            raise InputError(f"{where}: {1 + len(texts)} columns where {expected} were expected")
        if not all(text.strip() for text in texts):
            raise InputError(f"{where}: an empty sentence: remove the line")
        yield LabelledLine(first, texts, where)
