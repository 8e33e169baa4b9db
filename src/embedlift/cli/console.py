"""What the command line prints: results on standard output, all else on standard error."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

out = Console()
err = Console(stderr=True)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    err.print(f"[yellow]warning:[/] {escape(message)}", highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """Print a line as it is: file names may hold what rich takes for markup."""
    out.print(message, markup=False, highlight=False, soft_wrap=True)


def fail(message: str) -> None:
    """Print an error and end the program with exit code 2."""
    err.print("[bold red]error:[/] ", end="")
    err.print(message, markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)


@contextmanager
def progress(what: str = "Encoding") -> Iterator[Callable[[int, int], None]]:
    """Show what goes on: first that the model is loaded, then how much of ``what`` is done."""
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
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("Loading", total=None)
        _quiet_transformers()

        def report(done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)
            if done == total:
                bar.reset(task, description="Fitting and saving", total=None)

        yield report


def _quiet_transformers() -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")  # the only way to silence the bars of the GGUF reader
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
