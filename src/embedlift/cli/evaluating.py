"""``embedlift evaluate``."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from embedlift.cli import console, options

if TYPE_CHECKING:
    from collections.abc import Iterable


def evaluate(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Models, as for adapt.")],
    data: Annotated[Path, typer.Option(help="Folder with sts/STS12/*.tsv, stsb/, sick/ (score, sentence, sentence).")],
    tasks: Annotated[str, typer.Option(help="Such as STS12,STS-B,SICK-R; STS-B:dev for another split.")],
    aggregation: Annotated[
        str, typer.Option(help="Of the subsets of a year: all (pairs pooled), mean or wmean.")
    ] = "all",
    pooling: options.Pooling = None,
    layers: options.Layers = None,
    max_length: options.MaxLength = None,
    prompt: options.Prompt = None,
    dtype: options.Dtype = "float32",
    device: options.Device = None,
    batch_tokens: options.BatchTokens = None,
    seed: options.Seed = 0,
    cache: options.Cache = True,
    json_file: options.Json = None,
) -> None:
    """Score models on semantic textual similarity: Spearman's correlation of cosine with people's judgement."""
    with console.progress() as progress:
        from embedlift.cache import CachedEncoder
        from embedlift.encoder import Encoder
        from embedlift.evaluation import results, sts
        from embedlift.evaluation.tasks import evaluate as score_tasks
        from embedlift.record import library_versions

        method = sts.check_aggregation(aggregation)
        loaded = [sts.load_task(data, task, method) for task in _distinct(task.strip() for task in tasks.split(","))]
        models = _distinct(models)
        options = {
            "pooling": pooling,
            "layers": layers,
            "max_length": max_length,
            "prompt": prompt,
            "dtype": dtype,
            "device": device,
            "batch_tokens": batch_tokens,
        }
        scores = []
        for model in models:
            encoder = Encoder(model, **options)  # type: ignore[arg-type]
            source = CachedEncoder(encoder) if cache else encoder
            scores += score_tasks(source, model, loaded, seed=seed, progress=progress)
    if json_file is not None:
        settings = options | {"models": models, "tasks": tasks, "aggregation": aggregation, "seed": seed}
        results.write_json(json_file, scores, settings, library_versions())
    _print_scores(models, loaded, scores, aggregation)


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _print_scores(models: list[str], tasks: list[Any], scores: list[Any], aggregation: str) -> None:
    by_model = [[score for score in scores if score.model == model and score.subset is None] for model in models]
    table = Table(
        "task",
        *map(escape, models),
        title=f"Spearman of cosine x 100 [95 % bootstrap interval], aggregation {aggregation!r}",
    )
    for task, *row in zip(tasks, *by_model, strict=True):
        table.add_row(f"{task.name} {task.split}", *[_cell(score) for score in row])
    if len(tasks) > 1:
        table.add_row("average", *[_average(row) for row in by_model])
    console.out.print(table)


def _cell(score: Any) -> str:
    if score.score is None:
        return str(score.note)
    low, high = score.interval
    return rf"{100 * score.score:.1f} [dim]\[{100 * low:.1f}, {100 * high:.1f}][/]"


def _average(scores: list[Any]) -> str:
    values = [score.score for score in scores]
    return "undefined" if None in values else f"{100 * sum(values) / len(values):.1f}"
