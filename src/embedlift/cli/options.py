"""Flags that several commands share."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Model = Annotated[
    str,
    typer.Argument(help="Hub id, folder, .gguf file, packaged:smollm2-135m or packaged:all-minilm-l6-v2."),
]
Pooling = Annotated[
    str | None,
    typer.Option(
        help="mean, cls, max, last, first-last-avg, embedding-last-avg, last2avg, or layers such as mean:0,1,-1."
    ),
]
Layers = Annotated[int | None, typer.Option(help="Keep only the first K layers of the model.", metavar="K")]
Prompt = Annotated[str | None, typer.Option(help="Name of one of the model's prompts, or the text of one.")]
MaxLength = Annotated[int | None, typer.Option(help="Longest input in tokens.", metavar="N")]
Long = Annotated[
    str, typer.Option(help="Texts above the limit: truncate, or chunk-mean (mean over pieces by their tokens).")
]
Dtype = Annotated[str, typer.Option(help="Of the weights: float32, bfloat16 or float16.")]
Device = Annotated[str | None, typer.Option(help="For torch: cpu, cuda, mps.")]
BatchTokens = Annotated[int | None, typer.Option(help="Tokens in a batch, padding included.", metavar="N")]
Seed = Annotated[int, typer.Option(help="Of every random choice.", metavar="S", min=0)]
Cache = Annotated[bool, typer.Option(help="Keep vectors in the user's cache folder for later runs.")]
Json = Annotated[
    Path | None, typer.Option("--json", help="Write the results to FILE as JSON.", metavar="FILE", dir_okay=False)
]
Column = Annotated[str | None, typer.Option(help="Column of the text; its number from 1 in a file without header.")]
Preset = Annotated[str | None, typer.Option(help="Of the flow: paper (the released settings) or default.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Setting of the method: shrinkage=oas, coupling=affine.", metavar="NAME=VALUE"),
]
Dim = Annotated[int | None, typer.Option(help="Dimensions of the new vectors (whitening).", metavar="K")]


#: Arguments of the encoder that are flags of every command that only encodes, with their defaults.
_ENCODER: dict[str, tuple[Any, Any]] = {
    "pooling": (Pooling, None),
    "layers": (Layers, None),
    "max_length": (MaxLength, None),
    "long": (Long, "truncate"),
    "prompt": (Prompt, None),
    "dtype": (Dtype, "float32"),
    "device": (Device, None),
    "batch_tokens": (BatchTokens, None),
}


def with_encoder_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the ``**encoder`` of a command by one flag for each of the encoder's arguments."""
    return with_flags(
        command,
        (
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in _ENCODER.items()
        ),
    )


def any_encoder_flag(encoder: dict[str, Any]) -> bool:
    """Return whether any of the encoder's flags was given, with another value than its default."""
    return any(value != _ENCODER[name][1] for name, value in encoder.items())


def with_flags(command: Callable[..., None], flags: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """Replace the ``**keywords`` of a command by ``flags``: typer reads signatures."""
    signature = inspect.signature(command, eval_str=True)
    own = [item for item in signature.parameters.values() if item.kind is not inspect.Parameter.VAR_KEYWORD]
    command.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
    return command


def parse_settings(given: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` items; a value is JSON, else a word."""
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


def parse_time(text: str) -> float:
    """Read a time such as ``90s``, ``10m`` or ``1h``, in seconds; a number alone is seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 1)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"--budget {text}: write a time such as 90s, 10m or 1h")
    return seconds
