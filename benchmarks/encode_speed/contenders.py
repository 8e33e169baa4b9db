"""The ways to encode that are compared."""

from __future__ import annotations

import copy
import functools
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import sentence_transformers
import torch

from embedlift.encoder import Encoder
from embedlift.export.onnx_encoder import OnnxEncoder
from embedlift.export.to_onnx import export_onnx
from encode_speed.worker import padding

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sentence_transformers import SentenceTransformer

    from encode_speed.peers import PeerProcess

    Clock = Callable[[], float]

BATCH_SIZES = (8, 16, 32, 64)
DEFAULT_BATCH_SIZE = 32

OWN = "embedlift"


class Contender(NamedTuple):
    """A way to encode.

    Attributes:
        name: In the tables.
        run: Encodes texts; returns the seconds that it took, and the vectors.
        padding: The share of padding in what goes into the model, or None where that cannot be watched.
        of_peers: Whether it is one that the others are measured against: sentence-transformers in float32.
        drawn: Whether it has a line in the plot.
    """

    name: str
    run: Callable[[list[str]], tuple[float, Any]]
    padding: Callable[[list[str]], float] | None
    of_peers: bool = False
    drawn: bool = True


def of_embedlift(name: str, encoder: Encoder, clock: Clock) -> Contender:
    """Return the engine of this library."""
    return _here(name, encoder.encode, encoder.model, clock)


def of_peers(
    models: dict[str, SentenceTransformer], peer: PeerProcess | None, sample: list[str], clock: Clock
) -> list[Contender]:
    """Return sentence-transformers on torch and ONNX, each at its default batch size and at its best one.

    Args:
        models: On torch, by dtype.
        peer: On ONNX, in float32.
        sample: Texts on which the best batch size is found.
        clock: Counts seconds.
    """
    ways: list[Callable[[int], Contender]] = [
        functools.partial(_of_torch, dtype, model, clock) for dtype, model in models.items()
    ]
    if peer is not None:
        ways.append(functools.partial(_of_onnx, peer, cpu_time=clock is time.process_time))
    return [way(size) for way in ways for size in sorted({DEFAULT_BATCH_SIZE, best_batch_size(way, sample)})]


def best_batch_size(way: Callable[[int], Contender], sample: list[str]) -> int:
    """Return the batch size with which a peer is fastest on a sample: the better of two tries counts."""
    seconds = {size: min(way(size).run(sample)[0] for _ in range(2)) for size in BATCH_SIZES}
    return min(seconds, key=lambda size: seconds[size])


def frontier(own: Encoder, half: Encoder, work: Path, threads: int, clock: Clock) -> list[Contender]:
    """Return this library's ways that give up some accuracy for speed, and those that should cost none."""
    found = [of_embedlift(f"{OWN}, bfloat16", half, clock)]
    compiled = copy.deepcopy(own.model)
    compiled[0].model = torch.compile(compiled[0].model, dynamic=True)
    found.append(of_embedlift(f"{OWN}, torch.compile", Encoder(compiled), clock)._replace(drawn=False))
    eight = Encoder(_in_int8(own.model))
    found.append(of_embedlift(f"{OWN}, torch's dynamic int8", eight, clock)._replace(drawn=False))
    for kind in (None, "int8"):
        folder = work / (kind or "float32")
        export_onnx(own, folder, quantize=kind)
        exported = OnnxEncoder(folder, threads=threads)
        found.append(_here(f"{OWN} export, {kind or 'float32'}", exported.encode, None, clock))
    return found


def _here(
    name: str, encode: Callable[[list[str]], Any], model: Any, clock: Clock, *, of_peers: bool = False
) -> Contender:
    """Return a contender in this process; ``model`` is the one whose batches are watched."""

    def run(texts: list[str]) -> tuple[float, Any]:
        start = clock()
        vectors = encode(texts)
        return clock() - start, vectors

    watch = None if model is None else lambda texts: padding(model, lambda: encode(texts))
    return Contender(name, run, watch, of_peers)


def _of_torch(dtype: str, model: SentenceTransformer, clock: Clock, size: int) -> Contender:
    name = f"sentence-transformers {sentence_transformers.__version__}, torch, {dtype}, {_batch(size)}"
    encode = lambda texts: model.encode(texts, batch_size=size)
    return _here(name, encode, model, clock, of_peers=dtype == "float32")


def _of_onnx(peer: PeerProcess, size: int, *, cpu_time: bool) -> Contender:
    return Contender(
        f"sentence-transformers {peer.versions['sentence-transformers']}, ONNX, float32, {_batch(size)}",
        lambda texts: peer.encode(texts, size, cpu_time=cpu_time),
        lambda texts: peer.padding(texts, size),
        of_peers=True,
    )


def _batch(size: int) -> str:
    return f"batch {size}{' (default)' if size == DEFAULT_BATCH_SIZE else ''}"


def _in_int8(model: SentenceTransformer) -> SentenceTransformer:
    eight = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the successor of this interface
        quantize: Any = torch.ao.quantization.quantize_dynamic
        eight[0].model = quantize(eight[0].model, {torch.nn.Linear}, torch.qint8)
    return eight
