"""Training runs that are killed in the middle: in a step, or while a checkpoint is written but not sealed.

One process imports everything, on one thread, and forks a child for each run: only the children die.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import embedlift

_HEAD = """
import json, os, signal, sys
import torch
torch.set_num_threads(1)
from embedlift import cli

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def start(arguments, log):
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.argv = ["embedlift", *arguments]
    cli.main()
"""

_TRAINING = """
from embedlift import adaptation
from embedlift.training import checkpoints, fine_tuning, trainer
from sentence_transformers import SentenceTransformer

def run(where, kill_at, arguments, log):
    finish = trainer._Run.finish_gradients
    def finish_gradients(self, step=0):
        finish(self, step)
        if step == kill_at:
            die()
    if where == "step":
        trainer._Run.finish_gradients = finish_gradients
    elif where == "save":
        checkpoints.CheckpointFolder.seal = die
    start(arguments, log)
"""

_LOOP = """
for line in sys.stdin:
    child = os.fork()
    if not child:
        code = 1
        try:
            run(*json.loads(line))
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Killer:
    """Runs ``embedlift`` in processes of its own, and kills them.

    Args:
        log: File for what they print.
        hooks: Python source of ``run(where, kill_at, arguments, log)``, which calls ``start(arguments, log)``.
    """

    def __init__(self, log: Path, hooks: str = _TRAINING) -> None:
        self.log = log
        environment = os.environ | {"PYTHONPATH": str(Path(embedlift.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HEAD + hooks + _LOOP],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def adapt(self, arguments: list[str], *, kill_at: int = 0, where: str = "nowhere") -> int:
        """Run ``embedlift adapt`` with ``arguments``; return the exit code, -9 if it was killed.

        Args:
            arguments: Of the command line after ``adapt``.
            kill_at: Step before whose update the process dies, for ``where="step"``.
            where: ``step``, ``save`` (when the first checkpoint is written but not sealed) or ``nowhere``.
        """
        return self.run(["adapt", *arguments], kill_at, where)

    def run(self, arguments: list[str], kill_at: float = 0, where: str = "nowhere") -> int:
        """Run ``embedlift`` with ``arguments``; return the exit code, -9 if it was killed.

        Raises:
            RuntimeError: If it ended in any other way than well or killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([where, kill_at, arguments, str(self.log)]) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(self.log.read_text())
        return code

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
