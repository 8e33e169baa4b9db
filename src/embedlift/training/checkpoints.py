"""Checkpoints that are whole or not there: sealed with a checksum of each file, then renamed into place."""

from __future__ import annotations

import json
import shutil
import warnings
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_SEAL = "seal.json"
_KEPT = 2  # the newest, and one more in case the newest gets damaged


class Checkpoint(NamedTuple):
    """A folder with the state of a training run after a number of steps."""

    path: Path
    step: int


class CheckpointFolder:
    """The folder in which a training run leaves its checkpoints.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def desk(self) -> Path:
        """Where a checkpoint is written before it is whole."""
        return self.path / "unfinished"

    def seal(self, written: Path, step: int) -> None:
        """Turn the folder ``written`` into the checkpoint of ``step``, and remove those that are no longer needed."""
        sums = {file.name: _checksum(file) for file in sorted(written.iterdir())}
        (written / _SEAL).write_text(json.dumps({"step": step, "files": sums}), encoding="utf-8")
        place = self.path / f"step-{step:08d}"
        shutil.rmtree(place, ignore_errors=True)  # a damaged one
        written.rename(place)
        for old in self._folders()[_KEPT:]:
            shutil.rmtree(old)

    def newest(self) -> Checkpoint | None:
        """Return the last whole checkpoint; warn about damaged ones and skip them."""
        shutil.rmtree(self.desk, ignore_errors=True)  # where the last run was killed in the middle of writing
        for folder in self._folders():
            fault = _fault(folder)
            if fault is None:
                return Checkpoint(folder, int(folder.name.removeprefix("step-")))
            warnings.warn(f"checkpoint {folder} is damaged ({fault}) and is skipped", stacklevel=2)
        return None

    def _folders(self) -> list[Path]:
        return sorted(self.path.glob("step-*"), reverse=True)


def _fault(folder: Path) -> str | None:
    try:
        sums = json.loads((folder / _SEAL).read_text(encoding="utf-8"))["files"]
        broken = [name for name, expected in sums.items() if _checksum(folder / name) != expected]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return str(error) or type(error).__name__
    return f"{broken[0]} has changed" if broken else None


def _checksum(file: Path) -> int:
    total = 0
    with file.open("rb") as handle:
        while block := handle.read(1 << 22):
            total = zlib.crc32(block, total)
    return total
