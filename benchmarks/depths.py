"""SmolLM2 with its layers cut, against the whole model: speed and quality at each depth.

Every model is one that ``--layers K`` gives: the final norm of the model follows layer K. Speed: distinct sentences of
STS-B (test) in embedlift's encoder, all depths in turn, medians. Quality: Spearman of cosine x 100 on all pairs of
STS-B (test), mean pooling, raw and whitened; whitening is fitted on these sentences, without their scores. Vectors for
quality are kept in $EMBEDLIFT_CACHE; without them, the default depths cost about two passes of the whole model.

Usage: PYTHONPATH=benchmarks python benchmarks/depths.py --data DIR [--model packaged:smollm2-135m]
           [--depths 1 2 4 8 16 30] [--texts 200] [--rounds 5] [--threads 1] [--output FOLDER] [--cpu-time]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

os.environ.setdefault("TQDM_DISABLE", "1")  # the GGUF reader draws bars of its own

import torch
import transformers
from encode_speed.contenders import of_embedlift
from encode_speed.measure import take_turns
from export import sentences, spearman
from machine import describe

from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.transforms import Whitening

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = ("layers", "parameters", "sentences/s", "times the whole", "Spearman, raw", "Spearman, whitened")


class Depth(NamedTuple):
    """What is measured at one depth: Spearman x 100, parameters in millions."""

    layers: int
    parameters: float
    sentences_a_second: float
    times_the_whole: float
    raw: float
    whitened: float


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="packaged:smollm2-135m")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 4, 8, 16, 30])
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="folder for depths.md and depths.json")
    parser.add_argument("--cpu-time", action="store_true", help="count the seconds that this process got")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    task = sts.load_task(given.data, "STS-B")
    texts = sentences([task])
    whole = Encoder(given.model)
    encoders = {depth: Encoder(whole.model, layers=depth) for depth in sorted(given.depths)}
    clock = time.process_time if given.cpu_time else time.perf_counter
    contenders = [of_embedlift(str(depth), encoder, clock) for depth, encoder in encoders.items()]
    rounds = take_turns(contenders, texts[: given.texts], given.rounds)
    seconds = {way: statistics.median(taken[1:]) for way, taken in rounds.items()}
    deepest = seconds[contenders[-1].name]
    rows = []
    for depth, encoder in encoders.items():
        taken = seconds[str(depth)]
        raw, whitened = quality(encoder, texts, task)
        parameters = sum(weights.numel() for weights in encoder.model.parameters()) / 1e6
        rows.append(Depth(depth, parameters, given.texts / taken, deepest / taken, raw, whitened))
    facts = f"{describe()}; {given.model}; speed on {given.texts} sentences, quality on {len(texts)}"
    print(f"{facts}\n\n{table(rows)}")
    if given.output:
        given.output.mkdir(parents=True, exist_ok=True)
        (given.output / "depths.md").write_text(f"{facts}\n\n{table(rows)}\n", encoding="utf-8")
        document = {"facts": facts, "rows": [row._asdict() for row in rows]}
        (given.output / "depths.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def quality(encoder: Encoder, texts: list[str], task: sts.Task) -> tuple[float, float]:
    """Return Spearman x 100 of the raw vectors and of the whitened ones."""
    vectors = CachedEncoder(encoder).encode(texts)
    whitened = Whitening().fit(vectors).transform(vectors)
    return spearman(texts, vectors, [task])[0], spearman(texts, whitened, [task])[0]


def table(rows: Sequence[Depth]) -> str:
    """Return the rows in markdown."""
    lines = [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
    lines += [
        f"| {row.layers} | {row.parameters:.0f} M | {row.sentences_a_second:.0f} | {row.times_the_whole:.1f} | "
        f"{row.raw:.1f} | {row.whitened:.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
