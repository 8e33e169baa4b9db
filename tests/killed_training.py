"""A training run in a process of its own that is killed in the middle: at a step, or while it writes a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import embedlift

_PROGRAM = """
import os, signal, sys
import torch
torch.set_num_threads(1)
kill_at, where, *arguments = sys.argv[1:]
from embedlift import cli, checkpoints, training

def die():
    os.kill(os.getpid(), signal.SIGKILL)

if where == "step":
    before = training._Run.finish_gradients
    def finish_gradients(self, step=0):
        before(self, step)
        if step == int(kill_at):
            die()
    training._Run.finish_gradients = finish_gradients
elif where == "save":
    checkpoints.CheckpointFolder.seal = lambda self, written, step: die()
sys.argv = ["embedlift", *arguments]
cli.main()
"""


def adapt(arguments: list[str], *, kill_at: int = 0, where: str = "nowhere") -> int:
    """Run ``embedlift adapt`` with ``arguments``; return the exit code, -9 if it was killed.

    Args:
        arguments: Of the command line.
        kill_at: Step before whose update the process dies, for ``where="step"``.
        where: ``step``, ``save`` (when the first checkpoint is written but not sealed) or ``nowhere``.
    """
    environment = os.environ | {"PYTHONPATH": str(Path(embedlift.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _PROGRAM, str(kill_at), where, "adapt", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(done.stderr)
    return done.returncode
