"""How much SentEval's text (tokenised by Moses, in lower case) moves a score against the raw text.

Also says how many sentences come out exactly as in the files in circulation, where those are at hand (DATA/sts_tok).

Usage: python benchmarks/senteval_text.py DATA MODEL [--tasks STS16,STS-B]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import machine

from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import evaluate


def agreement(data: Path, task: sts.Task) -> str:
    """Return how many sentences of ``task`` are exactly those in circulation."""
    folder = data / "sts_tok" / task.name.replace("-", "")
    files = [folder / f"{pairs.name}.tsv" for pairs in task.subsets]
    if not all(file.is_file() for file in files):
        return "no files to compare with"
    there = [text for file in files for pairs in [sts.read_pairs(file)] for text in pairs.left + pairs.right]
    made = [text for pairs in task.subsets for text in pairs.left + pairs.right]
    return f"{sum(a == b for a, b in zip(made, there, strict=True))} of {len(made)} sentences as in circulation"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("model")
    parser.add_argument("--tasks", default="STS16,STS-B")
    given = parser.parse_args()
    print(machine.describe())
    encoder = Encoder(given.model)
    scores = []
    for senteval in (False, True):
        tasks = [sts.load_task(given.data, name, senteval=senteval) for name in given.tasks.split(",")]
        scores += evaluate(encoder, "SentEval's text" if senteval else "raw text", tasks)
        if senteval:
            print(*(f"{task.name}: {agreement(given.data, task)}" for task in tasks), sep="\n")
    for score in scores:
        if score.subset is None and score.score is not None:
            print(f"{score.task}, {score.model}: {100 * score.score:.2f}")
