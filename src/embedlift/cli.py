"""The command line: parse, call, print."""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from embedlift.errors import InputError
from embedlift.transforms import TRANSFORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

app = typer.Typer(
    help="Better sentence embeddings from any pre-trained language model, without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_out = Console()
_err = Console(stderr=True)

_Model = Annotated[
    str,
    typer.Argument(help="Hub id, folder, .gguf file, packaged:smollm2-135m or packaged:all-minilm-l6-v2."),
]
_Pooling = Annotated[
    str | None,
    typer.Option(
        help="mean, cls, max, last, first-last-avg, embedding-last-avg, last2avg, or layers such as mean:0,1,-1."
    ),
]
_Layers = Annotated[int | None, typer.Option(help="Keep only the first K layers of the model.", metavar="K")]
_Prompt = Annotated[str | None, typer.Option(help="Name of one of the model's prompts, or the text of one.")]
_MaxLength = Annotated[int | None, typer.Option(help="Longest input in tokens.", metavar="N")]
_Dtype = Annotated[str, typer.Option(help="Of the weights: float32, bfloat16 or float16.")]
_Device = Annotated[str | None, typer.Option(help="For torch: cpu, cuda, mps.")]
_BatchTokens = Annotated[int | None, typer.Option(help="Tokens in a batch, padding included.", metavar="N")]
_Seed = Annotated[int, typer.Option(help="Of every random choice.", metavar="S", min=0)]
_Cache = Annotated[bool, typer.Option(help="Keep vectors in the user's cache folder for later runs.")]
_Json = Annotated[
    Path | None, typer.Option("--json", help="Write the results to FILE as JSON.", metavar="FILE", dir_okay=False)
]
_Column = Annotated[str | None, typer.Option(help="Column of the text; its number from 1 in a file without header.")]
_Preset = Annotated[str | None, typer.Option(help="Of the flow: paper (the released settings) or default.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Setting of the method: shrinkage=oas, coupling=affine.", metavar="NAME=VALUE"),
]
_Dim = Annotated[int | None, typer.Option(help="Dimensions of the new vectors (whitening).", metavar="K")]


@app.command()
def adapt(
    model: _Model,
    corpus: Annotated[
        list[Path], typer.Option(help="Text to fit on: .txt (a text a line), .csv, .tsv, .jsonl or .parquet.")
    ],
    output: Annotated[Path, typer.Option(help="Folder for the adapted model.", metavar="DIR")],
    method: Annotated[str, typer.Option(help=f"none, {', '.join(TRANSFORMS)}.")] = "whitening",
    column: _Column = None,
    pooling: _Pooling = None,
    layers: _Layers = None,
    dim: _Dim = None,
    preset: _Preset = None,
    settings: _Set = None,
    max_length: _MaxLength = None,
    prompt: _Prompt = None,
    dtype: _Dtype = "float32",
    device: _Device = None,
    batch_tokens: _BatchTokens = None,
    seed: _Seed = 0,
    cache: _Cache = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished DIR.")] = False,
    json_file: _Json = None,
) -> None:
    """Adapt a model to your text without labels, and save it for plain sentence-transformers."""
    with _progress() as progress:
        from embedlift.adaptation import run, write_json
        from embedlift.model_card import FIGURES

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
            method_settings=_parse_settings(settings),
            max_length=max_length,
            prompt=prompt,
            dtype=dtype,
            device=device,
            batch_tokens=batch_tokens,
            seed=seed,
            cache=cache,
            overwrite=overwrite,
            progress=progress,
        )
    if json_file is not None:
        write_json(json_file, record)
    _print_corpus(record.corpus, record.truncated)
    table = Table("label-free figure", "before", "after")
    for name, description in FIGURES.items():
        if name in record.before:
            table.add_row(description, f"{record.before[name]:.4g}", f"{record.after[name]:.4g}")
    _out.print(table)
    call = escape(f"SentenceTransformer({str(output)!r})")
    _out.print(f"Saved. Load it with [bold]{call}[/]; embedlift is not needed for that.")


@app.command()
def evaluate(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Models, as for adapt.")],
    data: Annotated[Path, typer.Option(help="Folder with sts/STS12/*.tsv, stsb/, sick/ (score, sentence, sentence).")],
    tasks: Annotated[str, typer.Option(help="Such as STS12,STS-B,SICK-R; STS-B:dev for another split.")],
    aggregation: Annotated[
        str, typer.Option(help="Of the subsets of a year: all (pairs pooled), mean or wmean.")
    ] = "all",
    pooling: _Pooling = None,
    layers: _Layers = None,
    max_length: _MaxLength = None,
    prompt: _Prompt = None,
    dtype: _Dtype = "float32",
    device: _Device = None,
    batch_tokens: _BatchTokens = None,
    seed: _Seed = 0,
    cache: _Cache = True,
    json_file: _Json = None,
) -> None:
    """Score models on semantic textual similarity: Spearman's correlation of cosine with people's judgement."""
    with _progress() as progress:
        from embedlift.adaptation import library_versions
        from embedlift.cache import CachedEncoder
        from embedlift.encoder import Encoder
        from embedlift.evaluation import results, sts

        method = sts.check_aggregation(aggregation)
        loaded = [sts.load_task(data, task) for task in _distinct(task.strip() for task in tasks.split(","))]
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
            scores += sts.evaluate(source, model, loaded, aggregation=method, seed=seed, progress=progress)
    if json_file is not None:
        settings = options | {"models": models, "tasks": tasks, "aggregation": aggregation, "seed": seed}
        results.write_json(json_file, scores, settings, library_versions())
    _print_scores(models, loaded, scores, aggregation)


@app.command()
def encode(
    model: _Model,
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Text: .txt, .csv, .tsv, .jsonl or .parquet.")],
    output: Annotated[Path, typer.Option(help="OUT.npy (float32) or OUT.parquet (id, text, vector).", dir_okay=False)],
    column: _Column = None,
    pooling: _Pooling = None,
    layers: _Layers = None,
    max_length: _MaxLength = None,
    prompt: _Prompt = None,
    dtype: _Dtype = "float32",
    device: _Device = None,
    batch_tokens: _BatchTokens = None,
) -> None:
    """Turn a file of texts into a file of vectors, row by row in the same order."""
    with _progress() as progress:
        from embedlift.bulk import encode_file
        from embedlift.encoder import Encoder

        encoder = Encoder(
            model,
            pooling=pooling,
            layers=layers,
            max_length=max_length,
            prompt=prompt,
            dtype=dtype,
            device=device,
            batch_tokens=batch_tokens,
        )
        count, dimension = encode_file(encoder, source, output, column=column, progress=progress)
    _say(f"{output}: {count} vectors of {dimension} dimensions")


@app.command()
def fit(
    method: Annotated[str, typer.Argument(help=f"{', '.join(TRANSFORMS)}.")],
    vectors: Annotated[Path, typer.Argument(metavar="VECTORS.npy", help="Numbers, shape (N, D); read in pieces.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the fitted transform.", dir_okay=False)],
    dim: _Dim = None,
    preset: _Preset = None,
    settings: _Set = None,
    seed: _Seed = 0,
) -> None:
    """Fit a transform on vectors from anywhere."""
    from embedlift.bulk import read_vectors
    from embedlift.transforms import make_transform, storage

    transform = make_transform(method, dim=dim, preset=preset, seed=seed, settings=_parse_settings(settings))
    found = read_vectors(vectors)
    if not len(found):
        raise InputError(f"{vectors} holds no vectors")
    storage.save(transform.fit(found), output)
    _say(f"{output}: {transform}, {transform.n_features_in_} -> {len(transform.get_feature_names_out())} dimensions")


@app.command()
def transform(
    fitted: Annotated[Path, typer.Argument(metavar="T", help="A transform from embedlift fit.")],
    vectors: Annotated[Path, typer.Argument(metavar="VECTORS.npy", help="Numbers, shape (N, D).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="OUT.npy, float32.", dir_okay=False)],
) -> None:
    """Map vectors with a fitted transform."""
    from embedlift.bulk import transform_file
    from embedlift.transforms import storage

    count, dimension = transform_file(storage.load(fitted), vectors, output)
    _say(f"{output}: {count} vectors of {dimension} dimensions")


def main() -> None:
    """Run the command line; what the user can mend is one line on standard error and exit code 2."""
    warnings.showwarning = lambda message, *_: _warn(str(message))
    try:
        app()
    except InputError as error:
        _fail(str(error))
    except OSError as error:  # a full disk, a missing permission, a file where a folder should be
        _fail(f"cannot read or write: {error}")


def _warn(message: str) -> None:
    _err.print(f"[yellow]warning:[/] {escape(message)}", highlight=False, soft_wrap=True)


def _say(message: str) -> None:
    """Print a line as it is: file names may hold what rich takes for markup."""
    _out.print(message, markup=False, highlight=False, soft_wrap=True)


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _parse_settings(given: list[str] | None) -> dict[str, Any]:
    settings = {}
    for item in given or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--set {item}: write NAME=VALUE")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value  # a word
    return settings


def _fail(message: str) -> None:
    _err.print("[bold red]error:[/] ", end="")
    _err.print(message, markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show what goes on: first that the model is loaded, then how many texts are encoded."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as bar:
        task = bar.add_task("Loading", total=None)
        _quiet_transformers()

        def report(done: int, total: int) -> None:
            bar.update(task, description="Encoding", completed=done, total=total)
            if done == total:
                bar.reset(task, description="Fitting and saving", total=None)

        yield report


def _quiet_transformers() -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")  # the only way to silence the bars of the GGUF reader
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _print_corpus(corpus: Any, truncated: int) -> None:
    notes = [f"{corpus.blank} blank", f"{corpus.repeated} repeated"]
    if corpus.repaired:
        notes.append(f"{corpus.repaired} with repaired surrogates")
    _out.print(
        f"{len(corpus.texts)} distinct texts from {corpus.rows} rows ({', '.join(notes)}); {truncated} truncated"
    )


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
    _out.print(table)


def _cell(score: Any) -> str:
    if score.score is None:
        return str(score.note)
    low, high = score.interval
    return rf"{100 * score.score:.1f} [dim]\[{100 * low:.1f}, {100 * high:.1f}][/]"


def _average(scores: list[Any]) -> str:
    values = [score.score for score in scores]
    return "undefined" if None in values else f"{100 * sum(values) / len(values):.1f}"
