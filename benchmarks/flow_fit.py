"""Fitting the flow of BERT-flow against a plain formulation: seconds per epoch, and held-out likelihood.

Goal: an epoch over 30,000 vectors of 768 dimensions at least 3 times faster at the same number of threads,
with a held-out likelihood that is no worse. Both run in one process in turn, with one shuffled pass per epoch
over the same vectors. The product's seconds are those of the whole ``fit``, checks and start included; the
plain one's are those of its epochs alone.

Usage: python benchmarks/flow_fit.py [--vectors X.npy] [--threads 1] [--epochs 1] [--rounds 5]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import machine
import numpy as np
import torch

from embedlift.transforms.flow import Flow

if TYPE_CHECKING:
    from numpy.typing import NDArray

HELD_OUT = 2_000
#: What the plain formulation does, by this library: the same steps, faster.
SAME_STEPS = {"batch_size": 32, "lr": 1e-3, "clip_norm": 1.0, "epsilon": 1e-6}


def anisotropic_vectors(count: int = 30_000 + HELD_OUT, dimension: int = 768) -> NDArray[np.float32]:
    """Return a narrow cone of topics with a falling spectrum, two loud dimensions and uneven lengths."""
    rng = np.random.default_rng(0)
    spectrum = np.arange(1, dimension + 1) ** -0.5
    directions = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    topics = rng.standard_normal((50, dimension))[rng.integers(0, 50, count)]
    loudness = np.exp(0.3 * rng.standard_normal((count, 1)))
    vectors = ((rng.standard_normal((count, dimension)) * loudness + topics) * spectrum) @ directions
    vectors += 0.6 * rng.standard_normal(dimension)
    vectors[:, [100, 400]] += [8.0, -5.0]
    single: NDArray[np.float32] = vectors.astype(np.float32)
    return single


class Plain:
    """The plain formulation, a script that lies outside of the repository."""

    def __init__(self, vectors: Path, epochs: int, threads: int) -> None:
        shared = os.environ.get("EMBEDLIFT_SHARED", Path(__file__).parents[2] / "shared")
        script = Path(shared, "peers", "flow_fit_plain.py")
        if not script.exists():
            sys.exit(f"{script} is missing: set EMBEDLIFT_SHARED to the folder that holds peers/")
        self._arguments = [str(script), str(vectors), str(epochs), str(threads)]
        source = script.read_text(encoding="utf-8").rsplit("main()", 1)[0]
        self._names: dict[str, Any] = {"__name__": "flow_fit_plain"}
        exec(compile(source, str(script), "exec"), self._names)  # noqa: S102 - without its last line, the call
        self._class = self._names["Flow"]
        self._names["Flow"] = self._remembered

    def _remembered(self, dimension: int) -> Any:
        self.flow = self._class(dimension)
        return self.flow

    def seconds(self) -> float:
        """Run it; return its mean seconds per epoch."""
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", self._arguments), contextlib.redirect_stdout(printed):
            self._names["main"]()
        return statistics.mean(float(text) for text in re.findall(r": ([\d.]+) s,", printed.getvalue()))

    @torch.no_grad()
    def bits_per_dimension(self, rows: NDArray[np.float32]) -> float:
        """Return the mean negative log-density of ``rows``."""
        z, logdet = self.flow(torch.from_numpy(rows))
        nats = 0.5 * (z * z).sum(1) + 0.5 * z.shape[1] * math.log(2 * math.pi) - logdet
        bits: float = nats.mean().item() / (z.shape[1] * math.log(2))
        return bits


def seconds(flow: Flow, rows: NDArray[np.float32]) -> float:
    """Fit; return the seconds per epoch."""
    start = time.perf_counter()
    flow.fit(rows)
    return (time.perf_counter() - start) / flow.epochs


def bits_per_dimension(flow: Flow, rows: NDArray[np.float32]) -> float:
    """Return the mean negative log-density of ``rows``."""
    bits = -float(flow.log_prob(rows).mean()) / math.log(2)
    return bits / int(rows.shape[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=Path, help="float32 array; the last 2,000 rows are held out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    vectors = np.load(given.vectors) if given.vectors else anisotropic_vectors()
    rows, held_out = vectors[:-HELD_OUT], vectors[-HELD_OUT:]
    torch.set_num_threads(given.threads)
    settings: dict[str, Any] = {"epochs": given.epochs, "validation_fraction": 0.0}
    products = {
        "product, defaults": Flow(**settings),
        "product, same steps": Flow.preset("paper", **SAME_STEPS, **settings),
    }
    times: dict[str, list[float]] = {name: [] for name in ("plain", *products)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npy")
        np.save(path, rows)
        plain = Plain(path, given.epochs, given.threads)
        for _ in range(given.rounds):
            times["plain"].append(plain.seconds())
            for name, flow in products.items():
                times[name].append(seconds(flow, rows))
    bits = {"plain": plain.bits_per_dimension(held_out)}
    bits |= {name: bits_per_dimension(flow, held_out) for name, flow in products.items()}

    print(machine.describe())
    print(f"{rows.shape[0]} x {rows.shape[1]}, {given.epochs} epoch(s), median of {given.rounds} rounds")
    reference = statistics.median(times["plain"])
    for name, taken in times.items():
        median = statistics.median(taken)
        print(
            f"{name:20} {median:6.2f} s per epoch ({min(taken):.2f} to {max(taken):.2f}), "
            f"{reference / median:5.1f} times as fast as plain, held-out {bits[name]:.4f} bits per dimension"
        )


if __name__ == "__main__":
    main()
