"""Which sentences of a task the fit has seen: its scores are then transductive, and a reader must know.

A fitted model carries fingerprints of its text, 8 bytes for each distinct sentence, so that this can be told later,
on another machine and without the text.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation.results import Score
    from embedlift.evaluation.tasks import Task

_NOT_ALPHANUMERIC = re.compile("[^a-z0-9]+")

#: Beside the model card.
FILE = "embedlift_corpus.npy"


@dataclass(frozen=True)
class Contamination:
    """How much of a task a fit has seen.

    Attributes:
        task: Name of the task.
        split: Its split.
        seen: Distinct texts of the task that were in the fitting text.
        texts: Distinct texts of the task.
    """

    task: str
    split: str
    seen: int
    texts: int

    @property
    def note(self) -> str | None:
        """Return what must stand beside a score, or None if nothing was seen."""
        if not self.seen:
            return None
        return f"transductive: {self.seen:,} of {self.texts:,} texts were in the fitting text (without labels)"


def normalised(text: str) -> str:
    """Return the letters and digits of ``text`` in compatibility form (NFKC) and case-folded: nothing else counts.

    So tokenised and detokenised versions of a sentence are the same. A text without letters and digits stays itself,
    without white space.
    """
    if text.isascii():  # the same, fast
        return _NOT_ALPHANUMERIC.sub("", text.lower()) or "".join(text.split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(letter for letter in folded if letter.isalnum() or unicodedata.category(letter)[0] == "M")
    return kept or "".join(folded.split())


def fingerprints(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return the distinct 64-bit hashes (BLAKE2b) of the normalised texts, sorted: shape (n,).

    Among a million texts and a million others, two different ones agree with a probability of 5e-8.
    """
    digests = b"".join(
        hashlib.blake2b(normalised(text).encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts
    )
    return np.unique(np.frombuffer(digests, dtype="<u8")).astype(np.uint64)


def write(folder: Path, texts: Iterable[str]) -> None:
    """Write the fingerprints of ``texts`` into a model's folder."""
    np.save(folder / FILE, fingerprints(texts))


def read(folder: Path) -> NDArray[np.uint64] | None:
    """Return the fingerprints of what a model was fitted on, or None where a folder has none.

    Raises:
        InputError: If the file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        found: NDArray[np.uint64] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}): remove it, or adapt the model again") from None
    if found.dtype != np.uint64 or found.ndim != 1:
        raise InputError(f"{path} is damaged (no list of 64-bit numbers): remove it, or adapt the model again")
    return found


def examine(task: Task, fitted_on: NDArray[np.uint64]) -> Contamination:
    """Count the texts of ``task`` that are among those with the fingerprints ``fitted_on``.

    A retrieval task must come without prompts: no fitting text has them.
    """
    own = fingerprints(task.texts())
    seen = int(np.isin(own, fitted_on).sum())
    return Contamination(task.name, task.split, seen, len(own))


def labelled(scores: Sequence[Score], found: Sequence[Contamination]) -> list[Score]:
    """Return ``scores`` with a note wherever their task was seen in fitting."""
    notes = {(one.task, one.split): one.note for one in found}
    return [
        replace(score, note="; ".join(filter(None, [score.note, notes.get((score.task, score.split))])) or None)
        for score in scores
    ]
