"""All contenders in turn over the same texts, and what each of them took."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from encode_speed.limits import gemm_rate, work_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentence_transformers import SentenceTransformer

    from encode_speed.contenders import Clock, Contender

#: Texts on which padding is watched.
_WATCHED = 400


@dataclass(frozen=True)
class Row:
    """One contender on one kind of text.

    Attributes:
        model: Name of the model.
        kind: Of the texts.
        way: Name of the contender.
        texts: Their number.
        tokens: Of all texts, special ones too, padding left out.
        seconds: Median of the rounds.
        rounds: Seconds of each round.
        first: Seconds of the round before, which warms up and compiles.
        speed: How many times as fast as the fastest of sentence-transformers in float32.
        padding: Share of the tokens in the model that belong to no text, or None where it was not watched.
        of_gemm: Arithmetic on tokens of texts a second, as a share of what the machine's matrix product reaches alone.
        cosine: Mean cosine with sentence-transformers' float32 vectors.
        difference: Largest difference of a vector from them, relative to its length.
    """

    model: str
    kind: str
    way: str
    texts: int
    tokens: int
    seconds: float
    rounds: list[float]
    first: float
    speed: float
    padding: float | None
    of_gemm: float
    cosine: float
    difference: float


def compare(
    name: str,
    model: SentenceTransformer,
    kind: str,
    texts: list[str],
    contenders: list[Contender],
    rounds: int,
    clock: Clock,
) -> list[Row]:
    """Let all encode in turn, and return a row for each; the first round does not count."""
    vectors: dict[str, Any] = {}
    gemm: list[float] = []
    seconds = take_turns(contenders, texts, rounds, vectors, lambda: gemm.append(gemm_rate(model, clock)))
    medians = {way: statistics.median(taken[1:]) for way, taken in seconds.items()}
    peers = [contender.name for contender in contenders if contender.of_peers]
    fastest = min(medians[way] for way in peers)
    tokens, flops = work_of(model, texts)
    rows = []
    for contender in contenders:
        way = contender.name
        cosine, difference = fidelity(vectors[way], vectors[peers[0]])
        rows.append(
            Row(
                model=name,
                kind=kind,
                way=way,
                texts=len(texts),
                tokens=tokens,
                seconds=medians[way],
                rounds=seconds[way][1:],
                first=seconds[way][0],
                speed=fastest / medians[way],
                padding=contender.padding(texts[:_WATCHED]) if contender.padding else None,
                of_gemm=flops / medians[way] / statistics.median(gemm),
                cosine=cosine,
                difference=difference,
            )
        )
    return rows


def take_turns(
    contenders: Sequence[Contender],
    texts: list[str],
    rounds: int,
    vectors: dict[str, Any] | None = None,
    after_round: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """Return the seconds of each contender in each round, before which a round warms up; keep the last vectors."""
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(rounds + 1):
        for contender in contenders:
            spent, found = contender.run(texts)
            seconds[contender.name].append(spent)
            if vectors is not None:
                vectors[contender.name] = found
        after_round()
    return seconds


def fidelity(found: Any, plain: Any) -> tuple[float, float]:
    """Return the mean cosine of two sets of vectors, and the largest difference of a vector relative to its length."""
    found, plain = np.asarray(found, dtype=np.float64), np.asarray(plain, dtype=np.float64)
    norms = np.linalg.norm(plain, axis=1)
    cosine = (found * plain).sum(1) / norms / np.linalg.norm(found, axis=1)
    return float(cosine.mean()), float((np.linalg.norm(found - plain, axis=1) / norms).max())
