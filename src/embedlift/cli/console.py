"""What the command line prints: results on standard output, all else on standard error."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

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


class Report:
    """Shows what goes on: how much is done, how fast, and the time left.

    Args:
        bar: Of rich.
        what: Is going on.
    """

    def __init__(self, bar: Progress, what: str) -> None:
        self._bar, self._what = bar, what
        self._task = bar.add_task("Loading", total=None, rate="")
        self._encoder: Any = None
        self._start: tuple[float, int] | None = None

    def watch(self, encoder: Any) -> None:
        """Show how many tokens a second ``encoder`` reads, too: it counts them as ``tokens_read``."""
        self._encoder = encoder

    def __call__(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done."""
        if self._start is None:  # what was done before, and the time for loading, do not count
            self._start = (time.monotonic(), done)
        self._bar.update(self._task, description=self._what, completed=done, total=total, rate=self._rate(done))
        if done == total:
            self._bar.reset(self._task, description="Fitting and saving", total=None, rate="")

    def _rate(self, done: int) -> str:
        began, first = self._start or (0.0, 0)
        seconds = time.monotonic() - began
        if seconds < 1 or done == first:
            return ""
        tokens = 0 if self._encoder is None else self._encoder.tokens_read
        texts = f"{(done - first) / seconds:,.0f}/s"
        return f"{texts}, {tokens / seconds:,.0f} tokens/s" if tokens else texts


@contextmanager
def progress(what: str = "Encoding") -> Iterator[Report]:
    """Show what goes on: first that the model is loaded, then how much of ``what`` is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        report = Report(bar, what)
        _quiet_transformers()
        yield report


def _quiet_transformers() -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")  # the only way to silence the bars of the GGUF reader
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
