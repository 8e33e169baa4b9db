"""``embedlift encode``, ``fit`` and ``transform``: vectors in files."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedlift.cli import console, options
from embedlift.errors import InputError
from embedlift.transforms import TRANSFORMS

if TYPE_CHECKING:
    from embedlift.bulk import EncodedFiles


@options.with_encoder_flags
def encode(
    model: options.Model,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...", help="Text: .txt, .csv, .tsv, .jsonl or .parquet; files, folders or patterns."
        ),
    ],
    output: Annotated[Path, typer.Option(help="OUT.npy or OUT.parquet (id, text, vector).", metavar="OUT")],
    column: options.Column = None,
    output_dtype: Annotated[str, typer.Option(help="Of the numbers in OUT: float32, float16 or int8.")] = "float32",
    shard_rows: Annotated[
        int | None, typer.Option(help="Make OUT a folder of files with N rows each.", metavar="N")
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Leave out inputs that cannot be read, and exit with code 1.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished folder OUT.")] = False,
    **encoder: Any,
) -> None:
    """Turn files of texts into a file of vectors, row by row in the same order; an interrupted run is continued."""
    with console.progress() as progress:
        from embedlift.bulk import encode_files
        from embedlift.encoder import Encoder

        loaded = Encoder(model, **encoder)
        progress.watch(loaded)
        done = encode_files(
            loaded,
            sources,
            output,
            column=column,
            output_dtype=output_dtype,
            shard_rows=shard_rows,
            keep_going=keep_going,
            overwrite=overwrite,
            progress=progress,
        )
    console.say(f"{output}: {done.rows} vectors of {done.dimension} dimensions{_notes(done)}")
    for _, reason in done.skipped:
        console.warn(f"left out: {reason}")
    if done.skipped:
        raise typer.Exit(1)


def _notes(done: EncodedFiles) -> str:
    notes = {
        "rows from an unfinished run": done.resumed_at,
        "truncated": done.truncated,
        "without a token": done.without_tokens,
        "with repaired surrogates": done.repaired,
    }
    met = [f"{count} {what}" for what, count in notes.items() if count]
    return f" ({', '.join(met)})" if met else ""


def fit(
    method: Annotated[str, typer.Argument(help=f"{', '.join(TRANSFORMS)}.")],
    vectors: Annotated[Path, typer.Argument(metavar="VECTORS.npy", help="Numbers, shape (N, D); read in pieces.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the fitted transform.", dir_okay=False)],
    dim: options.Dim = None,
    preset: options.Preset = None,
    settings: options.Set = None,
    seed: options.Seed = 0,
) -> None:
    """Fit a transform on vectors from anywhere."""
    from embedlift.bulk import read_vectors
    from embedlift.transforms import make_transform, storage

    transform = make_transform(method, dim=dim, preset=preset, seed=seed, settings=options.parse_settings(settings))
    found = read_vectors(vectors)
    if not len(found):
        raise InputError(f"{vectors} holds no vectors")
    storage.save(transform.fit(found), output)
    console.say(
        f"{output}: {transform}, {transform.n_features_in_} -> {len(transform.get_feature_names_out())} dimensions"
    )


def transform(
    fitted: Annotated[Path, typer.Argument(metavar="T", help="A transform from embedlift fit.")],
    vectors: Annotated[Path, typer.Argument(metavar="VECTORS.npy", help="Numbers, shape (N, D).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="OUT.npy, float32.", dir_okay=False)],
) -> None:
    """Map vectors with a fitted transform."""
    from embedlift.bulk import transform_file
    from embedlift.transforms import storage

    count, dimension = transform_file(storage.load(fitted), vectors, output)
    console.say(f"{output}: {count} vectors of {dimension} dimensions")
