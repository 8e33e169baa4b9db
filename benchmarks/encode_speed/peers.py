"""Contenders that run in a venv of their own: a process that encodes when it is told to."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from types import TracebackType


class PeerProcess:
    """sentence-transformers with its ONNX backend, which cannot be installed beside this library's dependencies.

    Args:
        python: The interpreter of the peers' venv.
        model: Folder of the model.
        threads: That onnxruntime may use.
        max_length: The limit of the model in tokens.
        work: A folder for texts and vectors on their way.

    Attributes:
        versions: Of the peer's packages.
        load_seconds: Loading and export, which are not part of any figure.
    """

    def __init__(self, python: Path, model: str, threads: int, max_length: int, work: Path) -> None:
        self._work = work
        self._sent: list[str] | None = None
        command = [str(python), "-m", "encode_speed.worker", model]
        self._process = subprocess.Popen(
            [*command, "--threads", str(threads), "--max-length", str(max_length)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(work / "peer.log").open("w"),
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "HF_HUB_OFFLINE": "1"},
        )
        ready = self._answer()
        self.versions: dict[str, str] = ready["versions"]
        self.load_seconds: float = ready["seconds"]

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()  # closes its input, which ends it

    def encode(self, texts: list[str], batch_size: int, *, cpu_time: bool) -> tuple[float, Any]:
        """Return the seconds that it took over there, and the vectors."""
        target = self._work / "vectors.npy"
        taken = self._ask(texts, batch_size, str(target))
        return taken["cpu_seconds" if cpu_time else "seconds"], np.load(target)

    def padding(self, texts: list[str], batch_size: int) -> float:
        """Return the share of padding in what goes into the model."""
        return float(self._ask(texts, batch_size, None)["padding"])

    def _ask(self, texts: list[str], batch_size: int, vectors: str | None) -> dict[str, Any]:
        source = self._work / "texts.json"
        if texts is not self._sent:
            source.write_text(json.dumps(texts), encoding="utf-8")
            self._sent = texts
        request = {"texts": str(source), "batch_size": batch_size, "vectors": vectors}
        stdin: Any = self._process.stdin
        print(json.dumps(request), file=stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        stdout: Any = self._process.stdout
        line = stdout.readline()
        if not line:
            log = (self._work / "peer.log").read_text(encoding="utf-8")
            raise SystemExit(f"the peers' process ended:\n{log[-2000:]}")
        return json.loads(line)
