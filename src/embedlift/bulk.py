"""Files in, files out: texts to vectors, vectors to transformed vectors, at constant memory."""

from __future__ import annotations

import itertools
import json
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from embedlift._version import __version__
from embedlift.errors import InputError
from embedlift.files import Mark, PartialFolder, written_whole
from embedlift.inputs import Survey, find_inputs, survey
from embedlift.journal import Journal
from embedlift.transforms.rows import finite_chunks
from embedlift.vector_files import scale_file, vector_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.encoder import Encoded, Encoder, Progress
    from embedlift.vector_files import NpyFiles, ParquetFiles

#: Rows and characters that are encoded between two writes: what a killed run loses, at most. Memory holds two such
#: parts.
_PART_ROWS = 4096
_PART_CHARACTERS = 2**25

#: Beside the shards: what they hold. The underscore hides it from readers of Parquet folders.
MANIFEST = "_manifest.json"


@dataclass(frozen=True)
class EncodedFiles:
    """What was written, and what was met on the way.

    Attributes:
        rows: Number of vectors.
        dimension: Of a vector.
        truncated: Texts that were longer than the model's limit.
        without_tokens: Texts that hold nothing that the model can read.
        repaired: Texts in which lone surrogates were replaced.
        skipped: Inputs that could not be read, each with the reason.
        resumed_at: Rows that an earlier, unfinished run had left.
    """

    rows: int
    dimension: int
    truncated: int
    without_tokens: int
    repaired: int
    skipped: list[tuple[Path, str]]
    resumed_at: int


def encode_files(
    encoder: Encoder,
    sources: Sequence[Path],
    target: Path,
    *,
    column: str | None = None,
    output_dtype: str = "float32",
    shard_rows: int | None = None,
    keep_going: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> EncodedFiles:
    """Encode the texts of ``sources`` into ``target``, a row for every row of the sources, blank ones too.

    Unfinished work lies in ``TARGET.partial``; the same call goes on with it.

    Args:
        encoder: Makes the vectors.
        sources: See :func:`embedlift.inputs.find_inputs`.
        target: ``.npy`` or ``.parquet``, see :mod:`embedlift.vector_files`; with ``shard_rows`` a folder of such files.
        column: Column of the text.
        output_dtype: ``float32``, ``float16`` or ``int8``.
        shard_rows: Rows in each file of the folder.
        keep_going: Leave out sources that cannot be read.
        overwrite: Whether a finished folder may be replaced; a file always is.
        progress: Called with (texts done, texts in all).

    Raises:
        InputError: If a source cannot be read, something given is unknown, other unfinished work lies there, or the
            disk is full.
    """
    files = vector_files(target, encoder.dimension, output_dtype)
    if shard_rows is not None and shard_rows < 1:
        raise InputError(f"--shard-rows must be at least 1, got {shard_rows}")
    found = survey(find_inputs(sources), column, keep_going=keep_going)
    settings = {
        "model": encoder.fingerprint(),
        "batch_tokens": encoder.batch_tokens,
        "device": encoder.model.device.type,
        "input": found.digest,
        "input_rows": found.rows,
        "output_dtype": output_dtype,
        "shard_rows": shard_rows,
        "embedlift": __version__,
    }
    mark = None if shard_rows is None else Mark(MANIFEST, "a folder of vectors")
    work = PartialFolder(target, settings, overwrite=overwrite, mark=mark)
    try:
        run = _Run(encoder, files, work.path, shard_rows)
        run.encode(found, progress)
        _finish(run, work, settings, found)
    except OSError as error:
        raise InputError(
            f"{target} cannot be written ({error}): free some space and repeat the command; "
            f"what is finished waits in {work.path}"
        ) from error
    return run.outcome(found)


class _Part(NamedTuple):
    """Texts that are written together: text i of the part is the distinct text ``rows[i]``."""

    first_row: int
    texts: list[str]
    distinct: list[str]
    rows: list[int]


class _Run:
    """The work between the survey of the inputs and the finished files."""

    def __init__(self, encoder: Encoder, files: NpyFiles | ParquetFiles, folder: Path, shard_rows: int | None) -> None:
        self.encoder, self.files, self.folder, self.shard_rows = encoder, files, folder, shard_rows
        for name in ("parts", "shards"):
            (folder / name).mkdir(exist_ok=True)
        self.journal = Journal(folder)
        self.resumed_at = self.journal.rows

    def encode(self, found: Survey, progress: Progress | None) -> None:
        """Encode what is not finished yet, part by part, and join the parts of each shard."""
        self._join_full_shard()
        waiting: deque[_Part] = deque()  # read by a thread, and not yet written
        written = 0  # distinct texts

        def windows() -> Iterator[list[str]]:
            for part in self._read_parts(found):
                waiting.append(part)
                yield part.distinct

        def report(done: int) -> None:
            part = waiting[0]
            repeated = len(part.texts) - len(part.distinct)
            if progress is not None:
                progress(part.first_row + repeated + done - written, found.rows)

        with closing(self.encoder.encode_windows(windows(), progress=report)) as ready:
            for encoded in ready:
                part = waiting.popleft()
                self._write_part(part, encoded)
                written += len(part.distinct)
                self._join_full_shard()
        self._join_full_shard(last=True)
        if self.journal.rows != found.rows:
            raise RuntimeError(f"{self.journal.rows} rows written, {found.rows} read")

    def _read_parts(self, found: Survey) -> Iterator[_Part]:
        """Yield what is not finished yet; no part lies in two shards, and there is one even if there is no text."""
        row = self.journal.rows
        texts = itertools.islice(found.texts(), row, None)
        no_part_yet = not self.journal.parts
        while row < found.rows or no_part_yet:
            room = _PART_ROWS if self.shard_rows is None else self.shard_rows - row % self.shard_rows
            part = _next_part(texts, min(_PART_ROWS, room))
            places: dict[str, int] = {}
            rows = [places.setdefault(text, len(places)) for text in part]
            yield _Part(row, part, list(places), rows)
            row, no_part_yet = row + len(part), False
        for _ in texts:  # there is none left, but reading on compares the last file with what it was
            raise RuntimeError("more texts than rows")

    def _write_part(self, part: _Part, encoded: Encoded) -> None:
        stem = f"parts/{part.first_row:012d}"
        self.files.write(self.folder / stem, part.first_row, part.texts, encoded.vectors[part.rows])
        counts = {
            "truncated": int(encoded.truncated[part.rows].sum()),
            "without_tokens": int(encoded.without_tokens[part.rows].sum()),
        }
        self.journal.add(stem, len(part.texts), self.files.files(self.folder / stem), counts)

    def _join_full_shard(self, *, last: bool = False) -> None:
        waiting = self.journal.waiting()
        rows = sum(part.rows for part in waiting)
        if not waiting or not (last or rows == self.shard_rows):
            return
        shards = len(self.journal.parts) - len(waiting)
        stem, parts = f"shards/{shards:05d}", [self.folder / part.stem for part in waiting]
        self.files.join(parts, self.folder / stem)
        written = self.files.count(self.folder / stem, self.journal.rows - rows)
        if written != rows:
            raise RuntimeError(f"{stem} holds {written} rows instead of {rows}, or in another order")
        self.journal.replace_waiting(stem, self.files.files(self.folder / stem))
        for file in (file for part in parts for file in self.files.files(part)):
            file.unlink()

    def outcome(self, found: Survey) -> EncodedFiles:
        """Return the record of the run."""
        counts = [part.counts for part in self.journal.parts]
        return EncodedFiles(
            rows=self.journal.rows,
            dimension=self.files.dimension,
            truncated=sum(count["truncated"] for count in counts),
            without_tokens=sum(count["without_tokens"] for count in counts),
            repaired=found.repaired,
            skipped=found.skipped,
            resumed_at=self.resumed_at,
        )


def _finish(run: _Run, work: PartialFolder, settings: dict[str, Any], found: Survey) -> None:
    """Move the finished shards to their place, the folder or the one file."""
    if run.shard_rows is None:
        *others, vectors = run.files.files(work.path / run.journal.parts[0].stem)
        if _has_scales(work.output):  # of the vectors that are replaced
            scale_file(work.output).unlink()
        for file in others:  # before the vectors, so that these are never there without their scales
            file.replace(scale_file(work.output))
        work.finish(vectors)
        return
    manifest = settings | {
        "dimension": run.files.dimension,
        "shards": [{"rows": part.rows, "blake2b": part.digests} for part in run.journal.parts],
        "inputs": [{"path": str(file.path), "rows": file.rows} for file in found.inputs],
        "skipped": [{"path": str(path), "reason": reason} for path, reason in found.skipped],
    }
    with written_whole(work.path / "shards" / MANIFEST) as beside:
        beside.write_text(json.dumps(manifest, indent=2), encoding="utf-8")
    work.finish(work.path / "shards")


def _next_part(texts: Iterator[str], rows: int) -> list[str]:
    part: list[str] = []
    characters = 0
    while len(part) < rows and characters < _PART_CHARACTERS:
        text = next(texts, None)
        if text is None:
            break
        part.append(text)
        characters += len(text)
    return part


def _has_scales(path: Path) -> bool:
    """Whether ``path`` is a ``.npy`` file of int8 numbers with its scales beside it."""
    if path.suffix != ".npy" or not path.is_file() or not scale_file(path).is_file():
        return False
    return np.load(path, mmap_mode="r").dtype == np.int8


def read_vectors(path: Path) -> NDArray[np.floating]:
    """Return the vectors of a ``.npy`` file as a memory map, shape (N, D).

    Raises:
        InputError: If it is missing, no such file, or no two-dimensional array of numbers.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is not a .npy file of numbers, or is damaged ({error})") from None
    numbers = isinstance(vectors, np.ndarray) and vectors.dtype.kind in "fiu"
    if not numbers or vectors.ndim != 2 or vectors.shape[1] == 0:
        shape = getattr(vectors, "shape", None)
        raise InputError(f"{path} must hold numbers of shape (N, D), got shape {shape}")
    if _has_scales(path):
        raise InputError(f"{path} holds int8 numbers, with scales in {scale_file(path)}: encode to float32 or float16")
    return vectors


def transform_file(transform: Any, source: Path, target: Path) -> tuple[int, int]:
    """Map the vectors of ``source`` with a fitted transform into ``target``, piece by piece; return its shape."""
    if target.suffix != ".npy":
        raise InputError(f"{target}: unknown kind of file: use .npy")
    vectors = read_vectors(source)
    if vectors.shape[1] != transform.n_features_in_:
        raise InputError(
            f"{source} has vectors of {vectors.shape[1]} dimensions, "
            f"but the transform was fitted on {transform.n_features_in_}"
        )
    shape = (len(vectors), len(transform.get_feature_names_out()))
    with written_whole(target) as beside, beside.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        try:
            for _, chunk in finite_chunks(vectors):
                file.write(np.ascontiguousarray(transform.transform(chunk), dtype="<f4").data)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None
    return shape
