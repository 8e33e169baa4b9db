"""Vectors on disk, so that a second method, or a second attempt, does not encode the same text again."""

from __future__ import annotations

import hashlib
import os
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedlift.corpus import check_texts
from embedlift.encoder import Encoder, through_head, warn_without_tokens
from embedlift.files import written_whole
from embedlift.layers import split_after_pooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedlift.encoder import Encoded, Progress

#: Texts encoded between two writes: what a killed run loses at most.
_SHARD = 4096

_RECORD = np.dtype([("key", "V16"), ("truncated", "?"), ("without_tokens", "?")])


def default_folder() -> Path:
    """Where vectors are kept: ``$EMBEDLIFT_CACHE``, else ``embedlift`` in the user's cache folder."""
    if "EMBEDLIFT_CACHE" in os.environ:
        return Path(os.environ["EMBEDLIFT_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "embedlift"


class CachedEncoder:
    """An encoder that remembers vectors in a folder.

    What is remembered is the output of the pooling: the transforms that follow cost next to nothing, so all
    methods that were fitted on one encoder share its vectors. The key of a vector is the fingerprint of the
    model up to there and the text. A shard is a pair of files, ``NAME.npy`` (vectors,
    float32, (n, D)) and ``NAME.records.npy`` (a digest of each text, and what was met in encoding it); the second is
    written last, so an interrupted write is never read. Shards have unique names, so processes may share a folder
    without locks.

    Args:
        encoder: Makes the missing vectors.
        folder: Where the shards lie; by default :func:`default_folder`.

    Attributes:
        truncated: Number of texts of the last call that were longer than the model's limit.
    """

    def __init__(self, encoder: Encoder, folder: Path | None = None) -> None:
        self.encoder = encoder
        trunk, self._head = split_after_pooling(encoder.model)
        self._trunk = Encoder(trunk, batch_tokens=encoder.batch_tokens, long=encoder.long)
        self.folder = (folder or default_folder()) / "vectors" / self._trunk.fingerprint()
        self.truncated = 0

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.encoder.dimension

    @property
    def tokens_read(self) -> int:
        """Tokens that went through the model so far, padding left out."""
        return self._trunk.tokens_read

    def encode(
        self, texts: Sequence[str], *, progress: Progress | None = None, out: Path | None = None
    ) -> NDArray[np.float32]:
        """Return the vectors of ``texts`` in their order, shape (N, D).

        Args:
            texts: The texts.
            progress: Called with (texts done, texts to be encoded); never, if all are known.
            out: If given, the vectors are a memory map of this ``.npy`` file instead of an array.
        """
        texts = check_texts(texts)
        keys = [_key(text) for text in texts]
        known = self._read_index()
        missing = list({key: text for key, text in zip(keys, texts, strict=True) if key not in known}.items())
        parts = [missing[start : start + _SHARD] for start in range(0, len(missing), _SHARD)]
        report = None if progress is None else lambda done: progress(done, len(missing))
        windows = ([text for _, text in part] for part in parts)
        with closing(self._trunk.encode_windows(windows, progress=report)) as encoded:
            for part, window in zip(parts, encoded, strict=True):
                known |= self._write([key for key, _ in part], window)
        places = [known[key] for key in keys]
        self.truncated = sum(place.truncated for place in places)
        warn_without_tokens(sum(place.without_tokens for place in places))
        return self._gather(places, out)

    def _gather(self, places: list[_Place], out: Path | None) -> NDArray[np.float32]:
        shape = (len(places), self.dimension)
        if out is None or not places:
            vectors: NDArray[np.float32] = np.empty(shape, dtype=np.float32)
        else:
            vectors = _reserved_map(out, shape)
        by_shard: dict[Path, list[tuple[int, int]]] = {}
        for target, place in enumerate(places):
            by_shard.setdefault(place.shard, []).append((target, place.row))
        for shard, pairs in by_shard.items():
            targets, rows = np.array(pairs).T
            vectors[targets] = through_head(self.encoder.model, self._head, np.load(shard, mmap_mode="r")[rows])
        return vectors

    def _read_index(self) -> dict[bytes, _Place]:
        index: dict[bytes, _Place] = {}
        for file in sorted(self.folder.glob("*.records.npy")):
            shard = file.with_name(file.name.replace(".records.npy", ".npy"))
            try:
                records = np.load(file)
                np.load(shard, mmap_mode="r")  # whole, or the map fails
            except (OSError, ValueError, EOFError):  # damaged, or removed by somebody: encoded again
                continue
            index |= _places(shard, records)
        return index

    def _write(self, keys: list[bytes], encoded: Encoded) -> dict[bytes, _Place]:
        """Write a shard and return where its vectors lie."""
        records = np.empty(len(keys), dtype=_RECORD)
        records["key"] = keys
        records["truncated"] = encoded.truncated
        records["without_tokens"] = encoded.without_tokens
        name = uuid.uuid4().hex
        for file, array in ((f"{name}.npy", encoded.vectors), (f"{name}.records.npy", records)):
            with written_whole(self.folder / file) as beside, beside.open("wb") as handle:
                np.save(handle, array)
        return _places(self.folder / f"{name}.npy", records)


class _Place(NamedTuple):
    shard: Path
    row: int
    truncated: bool
    without_tokens: bool


def _places(shard: Path, records: NDArray[np.void]) -> dict[bytes, _Place]:
    return {key: _Place(shard, row, *met) for row, (key, *met) in enumerate(records.tolist())}


def _reserved_map(path: Path, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return a new memory map whose place on disk is taken: to write into one on a full disk kills the process."""
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return vectors


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
