"""Short training runs on models of two layers and 32 dimensions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from conftest import sentences

from embedlift.adaptation import run
from embedlift.training.settings import TrainingSettings

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = sentences(64)


def settings(**changes):
    return TrainingSettings(**({"head_width": 32, "lr": 1e-3} | changes))


def train(model, corpus=CORPUS, method="sg-opt", output=None, **changes):
    """Return the record of a run; settings of training, and arguments of ``run``, may be changed."""
    names = ("pooling", "select_with", "seed", "prompt", "column")
    options = {name: changes.pop(name) for name in names if name in changes}
    return run(model, corpus, method=method, output=output, training=settings(**changes), **options)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one, other):
    """Whether two models, or their weights, are the same in every bit."""
    one, other = (model if isinstance(model, dict) else model.state_dict() for model in (one, other))
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


def write_dev_pairs(path: Path, sign: int = 1) -> Path:
    """Pairs from the corpus; the more words they share, the higher their score (or, with -1, the lower)."""
    rng = random.Random(0)
    pairs = [(rng.choice(CORPUS), rng.choice(CORPUS)) for _ in range(40)]
    lines = [f"{sign * len(set(one.split()) & set(other.split()))}\t{one}\t{other}\n" for one, other in pairs]
    path.write_text("".join(lines))
    return path
