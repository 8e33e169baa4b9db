"""The other side of :mod:`encode_speed.peers`: sentence-transformers with its ONNX backend, in a venv of its own.

Run by the peers' Python as ``python -m encode_speed.worker MODEL --threads N --max-length N``. Each line on stdin asks
for one encoding, each line on stdout answers it; both are JSON. Imports nothing of embedlift.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Load the model, say so, and encode whatever is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--max-length", type=int, required=True)
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    start = time.perf_counter()
    model = load(given.model, given.threads, given.max_length)
    packages = ("sentence-transformers", "transformers", "optimum-onnx", "onnxruntime")
    ready = {"seconds": time.perf_counter() - start, "versions": {name: version(name) for name in packages}}
    print(json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(model, json.loads(line))), file=answers, flush=True)


def load(name: str, threads: int, max_length: int) -> Any:
    """Return the model on onnxruntime, exported by sentence-transformers on the way where it has no graph."""
    import onnxruntime
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model: Any = SentenceTransformer(
        name,
        device="cpu",
        backend="onnx",
        model_kwargs={"provider": "CPUExecutionProvider", "session_options": options},
    )
    model.max_seq_length = max_length
    return model


def answer(model: Any, request: dict[str, Any]) -> dict[str, float]:
    """Encode the texts of a request, write their vectors, and return what it took."""
    texts = json.loads(Path(request["texts"]).read_text(encoding="utf-8"))

    def encode() -> Any:
        return model.encode(texts, batch_size=request["batch_size"], show_progress_bar=False)

    if request["vectors"] is None:
        return {"padding": padding(model, encode)}
    wall, cpu = time.perf_counter(), time.process_time()
    vectors = encode()
    taken = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    np.save(request["vectors"], vectors)
    return taken


def padding(model: Any, encode: Callable[[], Any]) -> float:
    """Return the share of the tokens in the first module of ``model`` that belong to no text, while ``encode`` runs."""
    shapes, real = [], []

    def watch(_: Any, given: tuple[Any, ...]) -> None:
        shapes.append(given[0]["attention_mask"].numel())
        real.append(int(given[0]["attention_mask"].sum()))

    hook = model[0].register_forward_pre_hook(watch)
    encode()
    hook.remove()
    return 1 - sum(real) / sum(shapes)


if __name__ == "__main__":
    main()
