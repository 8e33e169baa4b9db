"""The main job's figures: raw vectors and whitened ones on semantic textual similarity.

Every row is Spearman's correlation of cosine x 100. The fit sees the sentences of the task, without labels
(transductive): those of STS-B dev and test for SmolLM2, those of the seven sets for a folder given by --bert.

Usage: python benchmarks/main_job.py --data ../shared/data [--bert FOLDER] [--full] [--json FILE]

--full adds SmolLM2 with all its layers, which takes some ten minutes more on two cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import machine
import transformers
from published import SEVEN
from rich.console import Console
from rich.table import Table

from embedlift.adaptation import attach, library_versions, run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import results, sts
from embedlift.evaluation.tasks import evaluate
from embedlift.transforms import Whitening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentence_transformers import SentenceTransformer

SMOLLM2 = "packaged:smollm2-135m"


class Row(NamedTuple):
    """One adaptation that is measured."""

    label: str
    model: str
    method: str
    pooling: str | None = None
    layers: int | None = None
    dim: int | None = None
    repeats: bool = False  # whether repeated sentences count as often as they occur, as in the papers' code


def main() -> None:
    """Print both tables and write the scores."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--bert", type=Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    console = Console(width=130)
    console.print(machine.describe())
    stsb = [sts.load_task(arguments.data, name) for name in ("STS-B:dev", "STS-B")]
    scores = measure(console, smollm2_rows(full=arguments.full), stsb, stsb[1:], max_length=64)
    if arguments.bert is not None:
        seven = [sts.load_task(arguments.data, name) for name in SEVEN]
        scores += measure(console, bert_rows(str(arguments.bert)), seven, seven, max_length=None)
    if arguments.json is not None:
        settings = {"machine": machine.describe(), "transductive": True}
        results.write_json(arguments.json, scores, settings, library_versions())


def smollm2_rows(*, full: bool) -> list[Row]:
    """Return the rows of SmolLM2, cut and whole."""
    rows = []
    for layers in (1, 2, 4):
        rows.append(Row(f"{layers} layers, mean, raw", SMOLLM2, "none", None, layers))
        rows.append(Row(f"{layers} layers, mean, whitened to 256", SMOLLM2, "whitening", None, layers, 256))
    if full:
        for pooling in ("mean", "first-last-avg"):
            rows.append(Row(f"30 layers, {pooling}, raw", SMOLLM2, "none", pooling))
            rows.append(Row(f"30 layers, {pooling}, whitened", SMOLLM2, "whitening", pooling))
            rows.append(Row(f"30 layers, {pooling}, whitened to 256", SMOLLM2, "whitening", pooling, None, 256))
            rows.append(
                Row(f"30 layers, {pooling}, whitened, repeats count", SMOLLM2, "whitening", pooling, repeats=True)
            )
    return rows


def bert_rows(model: str) -> list[Row]:
    """Return the rows of a BERT-like model."""
    rows = [
        Row(f"{pooling}, {label}", model, method, pooling)
        for pooling in ("mean", "first-last-avg", "embedding-last-avg", "mean:0", "cls")
        for method, label in (("none", "raw"), ("center", "centred"), ("whitening", "whitened"))
    ]
    rows.append(Row("first-last-avg, whitened, repeats count", model, "whitening", "first-last-avg", repeats=True))
    return rows


def measure(
    console: Console, rows: Sequence[Row], fitted: Sequence[sts.Task], tasks: Sequence[sts.Task], max_length: int | None
) -> list[results.Score]:
    """Adapt and evaluate each row, and print the table."""
    corpus = [text for task in fitted for pairs in task.subsets for text in (*pairs.left, *pairs.right)]
    table = Table("", *[task.name for task in tasks], *(["average"] if len(tasks) > 1 else []), title=rows[0].model)
    scores = []
    for row in rows:
        model = adapted(row, corpus, max_length)
        found = evaluate(CachedEncoder(Encoder(model)), f"{row.model}: {row.label}", tasks)
        scores += found
        whole = [100 * (score.score or 0.0) for score in found if score.subset is None]
        average = [f"{sum(whole) / len(whole):.1f}"] if len(whole) > 1 else []
        table.add_row(row.label, *[f"{value:.1f}" for value in whole], *average)
    console.print(table)
    return scores


def adapted(row: Row, corpus: list[str], max_length: int | None) -> SentenceTransformer:
    """Return the model of a row: the main job, or whitening fitted on every sentence as often as it occurs."""
    if row.repeats:
        encoder = Encoder(row.model, pooling=row.pooling, layers=row.layers, max_length=max_length)
        return attach(encoder.model, Whitening(row.dim).fit(CachedEncoder(encoder).encode(corpus)))
    chosen: dict[str, Any] = {"pooling": row.pooling, "layers": row.layers, "dim": row.dim, "max_length": max_length}
    return run(row.model, corpus, method=row.method, **chosen).model


if __name__ == "__main__":
    main()
