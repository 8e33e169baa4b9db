"""``embedlift evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedlift.cli import console, options, score_table
from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embedlift.evaluation.tasks import Task

_OWN = "Your own data"


@options.with_encoder_flags
def evaluate(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Models, as for adapt.")],
    tasks: Annotated[
        str | None,
        typer.Option(help="Such as sts, retrieval, pairs, transfer (groups) or STS12,STS-B:dev,SciFact,TREC."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR|hub", help="Folder that holds the tasks, or hub: fetch them.")
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(
            help="Pairs with scores, or with labels such as 0/1 or duplicate: .csv, .tsv, .jsonl, .parquet.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns of --pairs where they cannot be told: text,text,score.", rich_help_panel=_OWN),
    ] = None,
    retrieval: Annotated[
        list[Path] | None,
        typer.Option(help="Folder with corpus, queries and qrels (.jsonl as in BEIR, or .tsv).", rich_help_panel=_OWN),
    ] = None,
    aggregation: Annotated[
        str, typer.Option(help="Of the subsets of an STS year: all (pairs pooled), mean or wmean.")
    ] = "all",
    metrics: Annotated[
        str, typer.Option(help="Of STS: cosine, dot, euclidean or manhattan, with _spearman or _pearson.")
    ] = "cosine_spearman",
    senteval_text: Annotated[
        bool, typer.Option(help="Write STS text as SentEval's files have it (old figures).")
    ] = False,
    fast: Annotated[bool, typer.Option(help="Transfer tasks: one fit each, no figures to publish.")] = False,
    baseline: Annotated[
        str | None, typer.Option(help="Model that the others are compared with: the first one, if not given.")
    ] = None,
    seed: options.Seed = 0,
    cache: options.Cache = True,
    json_file: options.Json = None,
    **encoder: Any,
) -> None:
    """Score models on tasks with labels, public or your own, and say which differences are real."""
    with console.progress() as progress:
        from embedlift import assessment

        chosen: dict[str, Any] = {
            "aggregation": aggregation,
            "metrics": metrics,
            "senteval_text": senteval_text,
            "fast": fast,
        }
        loaded = [
            *_public(tasks, data, **chosen),
            *_own(pairs or [], retrieval or [], _names(columns) or None, aggregation),
        ]
        if not loaded:
            raise InputError("nothing to score on: give --tasks with --data, or your own --pairs or --retrieval")
        models = list(dict.fromkeys(models))
        found = assessment.evaluate(
            models, loaded, baseline=baseline, seed=seed, cache=cache, progress=progress, **encoder
        )
        if json_file is not None:
            names = [f"{task.name}:{task.split}" for task in loaded]
            settings = encoder | chosen | {"models": models, "tasks": names, "data": data, "seed": seed}
            assessment.write_json(json_file, found, settings)
    score_table.show(found)


def _names(text: str | None) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(","))) if text else []


def _public(
    tasks: str | None, data: str | None, *, aggregation: str, metrics: str, senteval_text: bool, fast: bool
) -> Iterable[Task]:
    from embedlift.evaluation import hub, sts, suites

    how = sts.check_aggregation(aggregation)
    if tasks is None:
        if data is not None:
            raise InputError(f"--data {data} is of no use without --tasks, such as --tasks sts")
        return []
    if data is None:
        raise InputError("--tasks needs --data: the folder that holds them, or hub")
    if data == "hub":
        return hub.load(_names(tasks), metrics=_names(metrics))
    return suites.load(
        _names(tasks),
        Path(data),
        aggregation=how,
        metrics=_names(metrics),
        senteval=senteval_text,
        mode="fast" if fast else "converged",
    )


def _own(pairs: list[Path], retrieval: list[Path], columns: list[str] | None, aggregation: Any) -> Iterable[Task]:
    from embedlift.evaluation.own_pairs import own_pairs
    from embedlift.evaluation.retrieval_data import read_collection

    if columns and not pairs:
        raise InputError("--columns belongs to --pairs")
    return [*(own_pairs(path, columns, aggregation) for path in pairs), *map(read_collection, retrieval)]
