"""What the SG-OPT benchmarks share: corpora, training once per setting and seed, scores, rows of a table."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from machine import describe
from published import PUBLISHED, SEVEN

from embedlift.adaptation import run
from embedlift.corpus import read_corpus
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import Encodes, evaluate
from embedlift.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PUBLISHED", "SEVEN", "corpus", "describe", "line", "scores", "setting", "table_head", "trained"]

#: Corpus -> its files under the data folder, one sentence a line; ``stsb`` is read from its pairs.
_FILES = {
    "captions": "corpora/captions_multi30k.txt",
    "wikipedia": "corpora/wikipedia.txt",
    "biomedical": "corpora/biomedical_abstracts_part*.txt",
}


def corpus(data: Path, name: str = "stsb") -> list[str]:
    """Return a corpus of the data folder; ``stsb`` is both sentences of every pair of its three splits, row by row."""
    if name in _FILES:
        return list(read_corpus(sorted(data.glob(_FILES[name]))).texts)
    texts = []
    for split in ("train", "dev", "test"):
        pairs = sts.read_pairs(data / "stsb" / f"stsb_{split}.tsv")
        texts += [text for pair in zip(pairs.left, pairs.right, strict=True) for text in pair]
    return texts


def trained(
    model: str,
    texts: Sequence[str],
    output: Path,
    *,
    method: str = "sg-opt",
    settings: dict[str, Any] | None = None,
    seed: int = 0,
    **options: Any,
) -> str:
    """Train into ``output`` unless it is there already, so that a benchmark that was stopped goes on; return it."""
    if not output.exists():
        chosen = TrainingSettings.chosen(settings or {})
        run(model, texts, method=method, output=output, seed=seed, training=chosen, **options)
    return str(output)


def scores(encoder: Encodes, tasks: Sequence[sts.Task]) -> list[float]:
    """Return Spearman x 100 of each task."""
    found = evaluate(encoder, "", tasks)
    return [100 * (score.score or 0.0) for score in found if score.subset is None]


def table_head(columns: Sequence[str]) -> str:
    """Return the first two lines of a table."""
    return "| model | " + " | ".join((*columns, "mean")) + " |\n|" + "---|" * (len(columns) + 2)


def line(name: str, runs: Sequence[Sequence[float]]) -> str:
    """Return a row of the table: means over the runs, and standard deviations where there are several."""
    runs = [[*run, statistics.mean(run)] for run in runs]
    cells = []
    for column in zip(*runs, strict=True):
        spread = f" ±{statistics.stdev(column):.2f}" if len(column) > 1 else ""
        cells.append(f"{statistics.mean(column):.2f}{spread}")
    return f"| {name} | " + " | ".join(cells) + " |"


def setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
