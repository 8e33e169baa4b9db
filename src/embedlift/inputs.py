"""Which files are the input, and what is in them: all rows are read once before work begins, and again for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from embedlift.corpus import SUFFIXES, read_rows, repair_surrogates
from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Input(NamedTuple):
    """A file that can be read: its rows, and the digest of their texts."""

    path: Path
    rows: int
    digest: str


@dataclass(frozen=True)
class Survey:
    """What a first reading found.

    Attributes:
        inputs: The files, in the order of their rows.
        column: Column of the texts.
        repaired: Texts in which lone surrogates were replaced by U+FFFD.
        skipped: Files that cannot be read, each with the reason.
    """

    inputs: list[Input]
    column: str | None
    repaired: int
    skipped: list[tuple[Path, str]]

    @property
    def rows(self) -> int:
        """Number of texts."""
        return sum(file.rows for file in self.inputs)

    @property
    def digest(self) -> str:
        """Digest of all texts in their order."""
        return hashlib.blake2b("".join(file.digest for file in self.inputs).encode(), digest_size=16).hexdigest()

    def texts(self) -> Iterator[str]:
        """Yield the texts.

        Raises:
            InputError: If a file is not what it was at the first reading.
        """
        for file in self.inputs:
            digest, rows = _Digest(), 0
            for text, _ in read_rows(file.path, self.column):
                whole = repair_surrogates(text)
                digest.add(whole)
                rows += 1
                if rows <= file.rows:
                    yield whole
            if (rows, digest.hex()) != (file.rows, file.digest):
                raise InputError(f"{file.path} was changed while it was read: repeat the command")


class _Digest:
    """Of texts, with their lengths, so that no two sequences of texts are taken for each other."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, text: str) -> None:
        encoded = text.encode()
        self._hash.update(len(encoded).to_bytes(8, "little") + encoded)

    def hex(self) -> str:
        return self._hash.hexdigest()


def find_inputs(given: Sequence[Path]) -> list[Path]:
    """Return the files that ``given`` names: files, folders (their text files, by name) and glob patterns.

    Raises:
        InputError: If a folder or pattern has no such file, or a file is named twice.
    """
    found: list[Path] = []
    for path in given:
        pattern = not path.exists() and any(sign in str(path) for sign in "*?[")
        if path.is_dir() or pattern:
            root = Path(path.anchor)
            inside = path.iterdir() if path.is_dir() else root.glob(str(path.relative_to(root)))
            files = sorted(file for file in inside if file.is_file() and file.suffix.lower() in SUFFIXES)
            if not files:
                raise InputError(f"{path}: no file of {', '.join(SUFFIXES)} there")
            found += files
        else:
            found.append(path)
    twice = next((path for number, path in enumerate(found) if path in found[:number]), None)
    if twice is not None:
        raise InputError(f"{twice} is named twice")
    return found


def survey(paths: Sequence[Path], column: str | None = None, *, keep_going: bool = False) -> Survey:
    """Read all rows of all files once, at constant memory.

    Args:
        paths: The files.
        column: See :func:`embedlift.corpus.read_rows`.
        keep_going: Leave out a file with a row that cannot be read, whole, instead of raising.

    Raises:
        InputError: Naming file and line of what cannot be read; with ``keep_going`` if no file is left.
    """
    inputs: list[Input] = []
    skipped: list[tuple[Path, str]] = []
    repaired = 0
    for path in paths:
        digest, rows, mended = _Digest(), 0, 0
        try:
            for text, _ in read_rows(path, column):
                whole = repair_surrogates(text)
                mended += whole != text
                digest.add(whole)
                rows += 1
        except (InputError, OSError) as error:
            if not keep_going:
                raise
            skipped.append((path, str(error)))
            continue
        inputs.append(Input(path, rows, digest.hex()))
        repaired += mended
    if not inputs:
        reasons = "; ".join(reason for _, reason in skipped)
        raise InputError(f"no input can be read: {reasons}")
    return Survey(inputs, column, repaired, skipped)
