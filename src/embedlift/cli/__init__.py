"""The command line: parse, call, print; one file per group of commands."""

from __future__ import annotations

import warnings

import typer

from embedlift.cli import console
from embedlift.cli.adapting import adapt
from embedlift.cli.diagnosing import diagnose
from embedlift.cli.evaluating import evaluate
from embedlift.cli.exporting import export
from embedlift.cli.vectors import encode, fit, transform
from embedlift.errors import InputError

app = typer.Typer(
    help="Better sentence embeddings from any pre-trained language model, without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (adapt, evaluate, diagnose, encode, export, fit, transform):
    app.command()(command)


def main() -> None:
    """Run the command line; what the user can mend is one line on standard error and exit code 2."""
    warnings.showwarning = lambda message, *_: console.warn(str(message))
    try:
        app()
    except InputError as error:
        console.fail(str(error))
    except OSError as error:  # a full disk, a missing permission, a file where a folder should be
        console.fail(f"cannot read or write: {error}")
