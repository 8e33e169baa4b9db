"""Fitting whitening on a file of vectors: time beside that of the bare matrix products, and memory.

Goal: at most 1.5 times the products X'X of the same pieces in float64, on a memory-mapped file of 1,000,000 x 768, at a
memory that does not grow with the rows. The products run on one piece in memory, as many times as the file has pieces,
so they pay neither for reading nor for the mean. Both take turns. Memory is the anonymous memory of the process (pages
of the mapped file belong to the system's cache), sampled every 10 ms.

Usage: python benchmarks/whitening_fit.py [--rows 10000 1000000] [--dimension 768] [--rounds 3] [--folder DIR]
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from machine import describe
from threadpoolctl import threadpool_limits

from embedlift.transforms import Whitening
from embedlift.transforms.rows import finite_chunks

_WRITTEN = 20_000


class Memory:
    """The most anonymous memory, in MB, that this process has while the block runs, over what it had before."""

    def __enter__(self) -> Memory:
        ctypes.CDLL(None).malloc_trim(0)  # what was used before and kept for later would hide what is used now
        self._before, self.peak, self._ends = _anonymous(), 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ends.wait(0.01):
            self.peak = max(self.peak, _anonymous() - self._before)

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def _anonymous() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000


def write_vectors(path: Path, rows: int, dimension: int) -> None:
    """Write random vectors with a falling spectrum, float32."""
    rng = np.random.default_rng(0)
    scales = (np.arange(1, dimension + 1) ** -0.5).astype(np.float32)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, dimension))
    for start in range(0, rows, _WRITTEN):
        part = out[start : start + _WRITTEN]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32) * scales + 1
    out.flush()


def products(vectors: np.ndarray) -> float:
    """Return the seconds of the matrix products alone."""
    sizes = [len(chunk) for _, chunk in finite_chunks(vectors[: 2 * _WRITTEN])]
    piece = vectors[: sizes[0]].astype(np.float64)
    start = time.perf_counter()
    for _ in range(round(len(vectors) / len(piece))):
        piece.T @ piece
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files are written for a while")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{describe()}; medians of {given.rounds}, in turn")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder, threadpool_limits(1):
        for rows in given.rows:
            path = Path(folder) / "x.npy"
            write_vectors(path, rows, given.dimension)
            vectors = np.load(path, mmap_mode="r")
            fits, bare, peaks = [], [], []
            for _ in range(given.rounds):
                with Memory() as memory:
                    start = time.perf_counter()
                    Whitening().fit(vectors)
                    fits.append(time.perf_counter() - start)
                peaks.append(memory.peak)
                bare.append(products(vectors))
            fit, product = statistics.median(fits), statistics.median(bare)
            print(
                f"{rows:,} x {given.dimension}: fit {fit:.2f} s, products {product:.2f} s: {fit / product:.2f} times "
                f"(goal 1.5); {statistics.median(peaks):.0f} MB"
            )
            path.unlink()


if __name__ == "__main__":
    main()
