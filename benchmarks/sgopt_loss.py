"""SG-OPT's loss, forward and backward, against its plain broadcast formulation: time and peak memory.

Goals: at least 10 times faster at B = 16 and 40 times at B = 64, with at most 1/8 of the memory there.
Both run in one process, one after the other in turn; memory is measured in a process for each. The plain
formulation allocates gigabytes, so its time depends on the allocator: both settings are reported, and
"tuned" (freed memory is kept, not returned to the system) is the one in its favour.

Usage: python benchmarks/sgopt_loss.py [rounds]
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
import torch

from embedlift.objectives import self_guided_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

LAYERS, WIDTH = 13, 4096
GOALS = {16: 10, 64: 40}
ALLOCATORS = {
    "default": {},
    "tuned": {"MALLOC_MMAP_THRESHOLD_": str(2**40), "MALLOC_TRIM_THRESHOLD_": str(2**40)},
}


def formulations() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Return the product's loss and the plain one, which lies outside of the repository."""
    shared = os.environ.get("EMBEDLIFT_SHARED", Path(__file__).parents[2] / "shared")
    path = Path(shared, "peers", "sgopt_loss_plain.py")
    spec = importlib.util.spec_from_file_location("sgopt_loss_plain", path)
    if spec is None or spec.loader is None or not path.exists():
        sys.exit(f"{path} is missing: set EMBEDLIFT_SHARED to the folder that holds peers/")
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return {"product": self_guided_loss, "plain": plain.loss_plain}


def batch_of(sentences: int) -> tuple[Tensor, Tensor]:
    """Return projected [CLS] vectors and layers of random sentences."""
    torch.manual_seed(0)
    return torch.randn(sentences, WIDTH).requires_grad_(), torch.randn(sentences, LAYERS, WIDTH).requires_grad_()


def seconds(sentences: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of forward and backward of each formulation, run in turn."""
    cls, hidden = batch_of(sentences)
    times: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        for name, loss in formulations().items():
            start = time.perf_counter()
            torch.autograd.grad(loss(cls, hidden), (cls, hidden))
            times.setdefault(name, []).append(time.perf_counter() - start)
    return {name: statistics.median(measured[1:]) for name, measured in times.items()}


def megabytes(sentences: int, name: str) -> float:
    """Return the growth of this process' peak memory over its inputs, in MB."""
    cls, hidden = batch_of(sentences)
    loss = formulations()[name]
    small = batch_of(2)
    torch.autograd.grad(loss(*small), small)  # so that torch's own start-up is not counted
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.autograd.grad(loss(cls, hidden), (cls, hidden))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000


def in_subprocess(*arguments: object, **environment: str) -> Any:
    """Run this script with ``arguments`` on one thread and return what it prints as JSON."""
    command = [sys.executable, __file__, *map(str, arguments)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return json.loads(subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE).stdout)


def main(rounds: int) -> None:
    """Print times, memory and their ratios."""
    print(machine.describe())
    print(f"L = {LAYERS}, D = {WIDTH}, float32, forward + backward, medians of {rounds}")
    for sentences, goal in GOALS.items():
        for allocator, environment in ALLOCATORS.items():
            took = in_subprocess("seconds", sentences, rounds, **environment)
            used = {name: in_subprocess("megabytes", sentences, name, **environment) for name in took}
            print(
                f"B = {sentences}, {allocator} allocator: product {1e3 * took['product']:.2f} ms, "
                f"plain {1e3 * took['plain']:.1f} ms, {took['plain'] / took['product']:.1f} times faster "
                f"(goal {goal}); product {used['product']:.0f} MB, plain {used['plain']:.0f} MB, "
                f"1/{used['plain'] / used['product']:.1f} of the memory (goal 1/8)"
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["seconds"]:
        print(json.dumps(seconds(int(sys.argv[2]), int(sys.argv[3]))))
    elif sys.argv[1:2] == ["megabytes"]:
        print(json.dumps(megabytes(int(sys.argv[2]), sys.argv[3])))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 5)
