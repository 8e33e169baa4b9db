"""Word embeddings by frequency: frequent words lie nearer to the origin and closer to their neighbours."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bert_flow.material import Report, Row
from bert_flow.similarity import SMOLLM2
from embedlift.encoder import Encoder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

NEIGHBOURS = (3, 5, 7)
RANKS = (0, 100, 500, 5000, 10000)
_BLOCK = 512


def word_embeddings(data: Path, bert: str, seeds: int, report: Report) -> None:
    """Norm and nearest neighbours by rank of frequency, for a BERT-like model and SmolLM2."""
    names = ("wikipedia", "brown_part1", "brown_part2")
    lines = [line for name in names for line in (data / "corpora" / f"{name}.txt").read_text("utf-8").splitlines()]
    for model in (bert, SMOLLM2):
        encoder = Encoder(model)
        transformer = encoder.model[0]
        tokenizer = transformer.tokenizer
        encoded = tokenizer(lines, add_special_tokens=False)["input_ids"]
        counts = Counter(token for tokens in encoded for token in tokens)
        ranked = [token for token, _ in counts.most_common()]
        table = transformer.model.get_input_embeddings().weight.detach().float().cpu().numpy()
        vectors = table[ranked]
        ends = [*[rank for rank in RANKS if rank < len(ranked)], len(ranked)]
        rows = [_row(vectors, first, last) for first, last in pairwise(ends)]
        report.table(
            f"{model.rstrip('/').rsplit('/', 1)[-1]}: word embeddings by rank of frequency in {', '.join(names)} "
            f"({sum(counts.values())} tokens, {len(ranked)} of {len(table)} seen)",
            rows,
            3,
        )


def _row(vectors: NDArray[np.float32], first: int, last: int) -> Row:
    part = vectors[first:last]
    nearest = np.sqrt(np.maximum(nearest_squared_distances(part, vectors, max(NEIGHBOURS)), 0))
    values = {"mean L2 norm": [float(np.linalg.norm(part, axis=1).mean())]}
    values |= {f"mean distance, {k} nearest": [float(nearest[:, :k].mean())] for k in NEIGHBOURS}
    return Row(f"ranks {first + 1} to {last}", {}, values)


def nearest_squared_distances(rows: NDArray[np.float32], others: NDArray[np.float32], k: int) -> NDArray[np.float64]:
    """Return the squared distances to the k nearest of ``others``, itself left out: (N, D), (M, D) -> (N, k)."""
    lengths = (others.astype(np.float64) ** 2).sum(1)
    out = []
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        squared = (block.astype(np.float64) ** 2).sum(1)[:, None] + lengths - 2 * (block @ others.T)
        out.append(np.sort(np.partition(squared, k, axis=1)[:, : k + 1], axis=1)[:, 1:])
    return np.concatenate(out)
