"""Nothing half-written on disk: results are written beside their place and renamed into it."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_SETTINGS = "embedlift-settings.json"


class Mark(NamedTuple):
    """The file by which a folder is known as something of a kind, and may be replaced; and the kind in words."""

    file: str
    kind: str


SAVED_MODEL = Mark("modules.json", "a saved model")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path``; move it into place if the block succeeds, remove it if it fails."""
    _check_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


class PartialFolder:
    """The folder ``OUTPUT.partial`` in which unfinished work waits until it can become ``OUTPUT``.

    The settings of the run lie inside it, so that the same command goes on with the work and another
    one is refused instead of mixing two runs.

    Args:
        output: The folder that the finished work becomes, or the file.
        settings: JSON-able settings that decide the result.
        overwrite: Whether a finished ``output`` may be replaced.
        mark: Of every finished ``output`` of this kind, so that no other folder is ever replaced;
            None if the output is a file, which may be replaced.

    Raises:
        InputError: If ``output`` exists and may not be replaced, or if unfinished work of other
            settings lies there.
    """

    def __init__(
        self,
        output: Path,
        settings: Mapping[str, Any],
        *,
        overwrite: bool = False,
        mark: Mark | None = SAVED_MODEL,
    ) -> None:
        output = output.resolve()  # "." has no name that could be changed
        self.output = output
        self.path = output.with_name(f"{output.name}.partial")
        if mark is None:
            _check_file(output)
        else:
            check_folder(output, mark, overwrite=overwrite)
        wanted = json.loads(json.dumps(settings, sort_keys=True))
        self.resumed = (self.path / _SETTINGS).exists()
        if self.resumed:
            self._check_same_settings(wanted)
            return
        if self.path.exists() and any(self.path.iterdir()):
            raise InputError(
                f"{self.path} exists and is not unfinished work of embedlift: move it away, or choose another output"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        with written_whole(self.path / _SETTINGS) as beside:
            beside.write_text(json.dumps(wanted, indent=2), encoding="utf-8")

    def _check_same_settings(self, wanted: dict[str, Any]) -> None:
        try:
            found = dict(json.loads((self.path / _SETTINGS).read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{self.path / _SETTINGS} is damaged ({error}): remove {self.path} and start again"
            ) from None
        differing = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
        if differing:
            changes = ", ".join(f"{key} was {found.get(key)!r}, is {wanted.get(key)!r}" for key in differing)
            raise InputError(
                f"{self.path} holds unfinished work with other settings ({changes}): "
                "repeat the command with those, or remove the folder to start again"
            )

    def discard(self) -> None:
        """Remove the unfinished work: it failed in a way that going on cannot mend."""
        shutil.rmtree(self.path)

    def finish(self, result: Path) -> None:
        """Make ``result``, a file or folder in this one, the output, and remove the rest."""
        if result.is_file():
            result.replace(self.output)
        else:
            _put_in_place(result, self.output)
        shutil.rmtree(self.path)


def _check_file(output: Path) -> None:
    if output.is_dir():
        raise InputError(f"{output} is a folder: give the name of a file")


def check_folder(output: Path, mark: Mark = SAVED_MODEL, *, overwrite: bool) -> None:
    """Refuse an ``output`` that exists, unless it may be replaced: it bears the ``mark``.

    Raises:
        InputError: If it may not be replaced.
    """
    if output.is_file():
        raise InputError(f"{output} is a file: the output must be a folder")
    if not output.exists() or not any(output.iterdir()):
        return
    if not overwrite:
        raise InputError(f"{output} exists already: pass --overwrite to replace it, or choose another output")
    if not (output / mark.file).exists():
        raise InputError(
            f"{output} is not {mark.kind} (no {mark.file}), so it is not overwritten: choose another output"
        )


@contextmanager
def folder_written_whole(output: Path, *, mark: Mark = SAVED_MODEL, overwrite: bool = False) -> Iterator[Path]:
    """Yield a new folder beside ``output``; move it into place if the block succeeds, remove it if it fails.

    Args:
        output: The folder.
        mark: Of folders that may be replaced.
        overwrite: Whether they may.

    Raises:
        InputError: If ``output`` exists and may not be replaced.
    """
    output = output.resolve()
    check_folder(output, mark, overwrite=overwrite)
    beside = output.with_name(f".{output.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        _put_in_place(beside, output)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _put_in_place(folder: Path, output: Path) -> None:
    """Make ``folder`` the output; what was there goes when the new one is in its place."""
    displaced = output.with_name(f".{output.name}.replaced")
    shutil.rmtree(displaced, ignore_errors=True)
    if output.exists():
        output.rename(displaced)
    folder.rename(output)
    shutil.rmtree(displaced, ignore_errors=True)
