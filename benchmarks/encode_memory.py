"""Peak memory of ``embedlift encode`` against the number of texts, with a tiny model: it must not grow.

Each size runs in a process of its own, on texts that are all different. Goal: from 10,000 to 200,000 texts the peak
resident memory stays within a few per cent. For comparison: the vectors and the texts of the largest size.

Usage: python benchmarks/encode_memory.py [--kind npy|parquet] [--sizes 10000 200000]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import describe

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import WORDS, save_tiny  # type: ignore[import-not-found]


def write_texts(path: Path, count: int) -> None:
    """Write ``count`` different texts of about ten words."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            digits = [WORDS[int(digit) + 10 * place] for place, digit in enumerate(f"{number:08d}")]
            file.write(" ".join([*digits, "end", "word"]) + "\n")


def encode(model: str, source: str, output: str) -> None:
    """Encode in this process and print its peak of resident memory, in MiB."""
    from embedlift.bulk import encode_files
    from embedlift.encoder import Encoder

    encode_files(Encoder(model), [Path(source)], Path(output))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Print the peak for each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="npy", choices=("npy", "parquet"))
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 50_000, 200_000])
    given = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        model = save_tiny(Path(folder) / "model", "bert", hidden_size=256)
        for size in given.sizes:
            source, output = Path(folder) / "texts.txt", Path(folder) / f"out.{given.kind}"
            write_texts(source, size)
            command = [sys.executable, __file__, "--encode", str(model), str(source), str(output)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            mib = output.stat().st_size / 2**20
            print(
                f"{size} texts: peak {float(done.stdout.split()[-1]):.0f} MiB; the output has {mib:.0f} MiB", flush=True
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--encode"]:
        encode(*sys.argv[2:5])
    else:
        main()
