"""The parts of an unfinished encoding, with checksums: a killed run goes on and loses or doubles no row."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from embedlift.errors import InputError
from embedlift.files import written_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Part(NamedTuple):
    """Consecutive rows that are on disk.

    Attributes:
        stem: Path of its files below the journal's folder, without what follows the dot.
        rows: Number of rows.
        joined: Whether it is a finished shard, made of parts.
        digests: Of its files, by name.
        counts: What was met: rows that were truncated, and so on.
    """

    stem: str
    rows: int
    joined: bool
    digests: dict[str, str]
    counts: dict[str, int]


class Journal:
    """What is finished in a folder, in the order of the rows.

    The list is written anew after each part, beside its place and renamed into it, and only when the files of the part
    are whole. On opening, the files are compared with their checksums; from the first one that differs, all is done
    again.

    Args:
        folder: Where the parts lie.

    Attributes:
        parts: The finished parts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "journal.json"
        self.parts: list[Part] = []
        for part in self._read():
            if not self._is_whole(part):
                break
            self.parts.append(part)

    @property
    def rows(self) -> int:
        """Number of rows that are finished."""
        return sum(part.rows for part in self.parts)

    def waiting(self) -> list[Part]:
        """Return the parts at the end that belong to no shard yet."""
        return [part for part in self.parts if not part.joined]

    def add(self, stem: str, rows: int, files: Sequence[Path], counts: dict[str, int]) -> None:
        """Note a part whose files are written."""
        self._write([*self.parts, Part(stem, rows, False, _digests(files), counts)])

    def replace_waiting(self, stem: str, files: Sequence[Path]) -> None:
        """Note a shard that holds all waiting parts."""
        waiting = self.waiting()
        counts = {name: sum(part.counts[name] for part in waiting) for name in waiting[0].counts}
        shard = Part(stem, sum(part.rows for part in waiting), True, _digests(files), counts)
        self._write([*self.parts[: len(self.parts) - len(waiting)], shard])

    def _write(self, parts: list[Part]) -> None:
        with written_whole(self._path) as beside:
            beside.write_text(json.dumps([part._asdict() for part in parts]), encoding="utf-8")
        self.parts = parts

    def _read(self) -> list[Part]:
        if not self._path.exists():
            return []
        try:
            return [Part(**entry) for entry in json.loads(self._path.read_text(encoding="utf-8"))]
        except (ValueError, TypeError) as error:
            raise InputError(f"{self._path} is damaged ({error}): remove {self._folder} and start again") from None

    def _is_whole(self, part: Part) -> bool:
        files = [(self._folder / part.stem).with_name(name) for name in part.digests]
        return all(file.is_file() for file in files) and _digests(files) == part.digests


def _digests(files: Sequence[Path]) -> dict[str, str]:
    found = {}
    for path in files:
        digest: Any = hashlib.blake2b(digest_size=16)
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
        found[path.name] = digest.hexdigest()
    return found
