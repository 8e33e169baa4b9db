"""The command line in this process (fast), or in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import embedlift
from embedlift import cli


class Outcome(NamedTuple):
    """Exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def command(*arguments) -> Outcome:
    """Run ``embedlift`` with ``arguments`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    argv, columns = sys.argv, os.environ.get("COLUMNS")
    sys.argv = ["embedlift", *map(str, arguments)]
    os.environ["COLUMNS"] = "400"
    code = 0
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            warnings.simplefilter("default")
            cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = argv
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns
    return Outcome(code, out.getvalue(), err.getvalue())


def process(program, *arguments, **options) -> Outcome:
    """Run the Python source ``program`` in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(Path(embedlift.__file__).parents[1]), "COLUMNS": "400"}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
