"""``embedlift export``."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import Annotated, Any

import typer

from embedlift.cli import console, options
from embedlift.errors import InputError


def export(
    model: options.Model,
    to: Annotated[str, typer.Option(help="onnx: one graph for onnxruntime; static: a table of token vectors.")],
    output: Annotated[Path, typer.Option(help="Folder for the exported model.", metavar="DIR")],
    quantize: Annotated[str | None, typer.Option(help="onnx: int8, weights of a quarter of the size.")] = None,
    corpus: Annotated[
        list[Path] | None, typer.Option(help="Text on which the vectors are compared; static: needed by most models.")
    ] = None,
    column: options.Column = None,
    frequency_weights: Annotated[
        float | None,
        typer.Option(help="static: tokens weigh A / (A + p), p their share of the corpus; try 3e-3.", metavar="A"),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="onnx: largest difference of a vector, relative to its length (1e-3); with int8, of the mean cosine "
            "from 1 (0.1).",
            metavar="T",
        ),
    ] = None,
    pooling: options.Pooling = None,
    layers: options.Layers = None,
    max_length: options.MaxLength = None,
    prompt: options.Prompt = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export in DIR.")] = False,
) -> None:
    """Write a model for places without torch (onnx), or as a table of token vectors, many times faster (static)."""
    _check(
        to, onnx={"--quantize": quantize, "--tolerance": tolerance}, static={"--frequency-weights": frequency_weights}
    )
    with console.progress():
        from embedlift.encoder import Encoder

        encoder = Encoder(
            model, pooling=pooling, layers=layers, max_length=max_length, prompt=prompt, dtype="float32", device="cpu"
        )
        shared: dict[str, Any] = {"corpus": corpus or (), "column": column, "overwrite": overwrite}
        if to == "onnx":
            from embedlift.export.to_onnx import export_onnx

            parity = export_onnx(encoder, output, quantize=quantize, tolerance=tolerance, **shared)
            note = ""
        else:
            from embedlift.export.to_static import export_static

            made = export_static(encoder, output, frequency_weights=frequency_weights, **shared)
            parity = made.parity
            note = " (exact)" if made.exact else ""
    console.say(
        f"{output}: {encoder.dimension} dimensions. Against the model, on {parity.texts} texts{note}: largest "
        f"difference {parity.largest_difference:.1e} of a vector's length, mean cosine {parity.mean_cosine:.6f}"
    )


def _check(to: str, **owned: dict[str, Any]) -> None:
    if to not in owned:
        raise InputError(f"unknown --to {to!r}: use onnx or static")
    for kind, flags in owned.items():
        given = [flag for flag, value in flags.items() if value is not None]
        if given and kind != to:
            raise InputError(f"{given[0]} belongs to --to {kind}")
