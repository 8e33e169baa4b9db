"""``embedlift adapt``: the main job."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from embedlift.cli import console, options
from embedlift.cli.training_flags import PANEL, with_training_flags
from embedlift.training.settings import TRAINING_METHODS, TrainingSettings
from embedlift.transforms import TRANSFORMS


@with_training_flags
def adapt(
    model: options.Model,
    corpus: Annotated[
        list[Path],
        typer.Option(help="Text to fit on: .txt (a text a line), .csv, .tsv, .jsonl or .parquet; for bt, two columns."),
    ],
    output: Annotated[Path, typer.Option(help="Folder for the adapted model.", metavar="DIR")],
    method: Annotated[
        str, typer.Option(help=f"none, auto, {', '.join((*TRANSFORMS, *TRAINING_METHODS))}.")
    ] = "whitening",
    column: options.Column = None,
    pooling: options.Pooling = None,
    layers: options.Layers = None,
    dim: options.Dim = None,
    preset: options.Preset = None,
    settings: options.Set = None,
    max_length: options.MaxLength = None,
    long: options.Long = "truncate",
    prompt: options.Prompt = None,
    dtype: options.Dtype = "float32",
    device: options.Device = None,
    batch_tokens: options.BatchTokens = None,
    seed: options.Seed = 0,
    cache: options.Cache = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished DIR.")] = False,
    json_file: options.Json = None,
    budget: Annotated[
        str, typer.Option(help="Time that auto may take to choose: 90s, 10m, 1h.", metavar="TIME")
    ] = "10m",
    select_with: Annotated[
        Path | None,
        typer.Option(
            help="Labelled pairs (score, sentence, sentence) that choose between checkpoints; without, the last step.",
            metavar="DEV.tsv",
            dir_okay=False,
            rich_help_panel=PANEL,
        ),
    ] = None,
    **training: Any,
) -> None:
    """Adapt a model to your text without labels, and save it for plain sentence-transformers."""
    trains = method in TRAINING_METHODS
    given = any(value is not None for value in training.values())
    with console.progress("Training" if trains else "Encoding") as progress:
        from embedlift.adaptation import run
        from embedlift.model_card import FIGURES
        from embedlift.record import write_json

        record = run(
            model,
            corpus,
            method=method,
            output=output,
            column=column,
            pooling=pooling,
            layers=layers,
            dim=dim,
            preset=preset,
            method_settings=options.parse_settings(settings),
            training=TrainingSettings.chosen(training) if trains or given else None,
            select_with=select_with,
            max_length=max_length,
            long=long,
            prompt=prompt,
            dtype=dtype,
            device=device,
            batch_tokens=batch_tokens,
            seed=seed,
            cache=cache,
            overwrite=overwrite,
            budget=options.parse_time(budget),
            progress=progress,
        )
    if json_file is not None:
        write_json(json_file, record)
    _print_corpus(record.corpus, record.truncated)
    if record.choice is not None:
        _print_choice(record.choice)
    table = Table("label-free figure", "before", "after")
    for name, description in FIGURES.items():
        if name in record.before:
            table.add_row(description, f"{record.before[name]:.4g}", f"{record.after[name]:.4g}")
    console.out.print(table)
    if record.training is not None:
        console.say(f"{record.training.trained.steps} steps; weights: {record.training.selection}")
    call = escape(f"SentenceTransformer({str(output)!r})")
    console.out.print(f"Saved. Load it with [bold]{call}[/]; embedlift is not needed for that.")


def _print_choice(choice: Any, shown: int = 8) -> None:
    """Print the best candidates and the plain model, with their evidence, and why the first was chosen."""
    order = choice.ranking()
    rows = order[:shown] if 0 in order[:shown] else [*order[: shown - 1], 0]
    title = f"{len(rows)} of {len(choice.candidates)} candidates"
    table = Table("candidate", "grading", "recovery", "uniformity", "competed", title=title, title_justify="left")
    for row in rows:
        mark = " <- chosen" if row == choice.winner else " (plain)" if row == 0 else ""
        figures = [f"{choice.evidence[row][name]:.3f}" for name in ("grading", "recovery", "uniformity")]
        table.add_row(choice.candidates[row].name + mark, *figures, "yes" if choice.verdict.competing[row] else "no")
    console.out.print(table)
    console.say(choice.explanation)


def _print_corpus(corpus: Any, truncated: int) -> None:
    notes = [f"{corpus.blank} blank", f"{corpus.repeated} repeated"]
    if corpus.repaired:
        notes.append(f"{corpus.repaired} with repaired surrogates")
    console.out.print(
        f"{len(corpus.texts)} distinct texts from {corpus.rows} rows ({', '.join(notes)}); {truncated} truncated"
    )
