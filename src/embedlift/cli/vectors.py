"""``embedlift encode``, ``fit`` and ``transform``: vectors in files."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import Annotated

import typer

from embedlift.cli import console, options
from embedlift.errors import InputError
from embedlift.transforms import TRANSFORMS


def encode(
    model: options.Model,
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Text: .txt, .csv, .tsv, .jsonl or .parquet.")],
    output: Annotated[Path, typer.Option(help="OUT.npy (float32) or OUT.parquet (id, text, vector).", dir_okay=False)],
    column: options.Column = None,
    pooling: options.Pooling = None,
    layers: options.Layers = None,
    max_length: options.MaxLength = None,
    prompt: options.Prompt = None,
    dtype: options.Dtype = "float32",
    device: options.Device = None,
    batch_tokens: options.BatchTokens = None,
) -> None:
    """Turn a file of texts into a file of vectors, row by row in the same order."""
    with console.progress() as progress:
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
    console.say(f"{output}: {count} vectors of {dimension} dimensions")


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
