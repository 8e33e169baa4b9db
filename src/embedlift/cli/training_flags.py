"""The flags of training, made from the fields of its settings: their names, defaults and words exist once."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedlift.cli.options import with_flags
from embedlift.training.settings import TRAINING_METHODS, TrainingSettings, flag

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

_TYPES = {"float": float, "int": int, "int | None": int, "str": str, "bool": bool}
PANEL = f"Training ({', '.join(TRAINING_METHODS)})"


def with_training_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the ``**training`` of a command by one flag for each training setting; those not given are None."""
    return with_flags(command, map(_parameter, fields(TrainingSettings)))


def _parameter(item: Field[Any]) -> inspect.Parameter:
    default = item.default
    shown = f" (default {default})" if default is not None and default is not False else ""
    kind = _TYPES[str(item.type)]
    option = typer.Option(
        flag(item.name),
        help=item.metadata["help"] + shown,
        metavar=item.metadata["metavar"] or (" " if kind is bool else None),
        rich_help_panel=PANEL,
    )
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
