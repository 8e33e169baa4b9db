"""The figures of docs/diagnostics.md: what ``embedlift diagnose`` finds in models, raw and adapted.

The text is Python's own docstrings: half of a seeded sample of sentences is diagnosed and fitted on; the other half
tells whether thresholds that were taken from percentiles let through as many unrelated pairs as they say. Near-
duplicates of one half in the other count as unrelated there, so the highest level is the hardest.

Usage: python benchmarks/diagnostics.py [MODEL...] [--sentences 2000] [--memory]

--memory measures the peak memory of a diagnosis of files of vectors instead, each in a process of its own.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import machine
import numpy as np
import transformers

from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation.diagnostics import diagnose
from embedlift.functional.similarity import unit_rows
from embedlift.transforms import Centering, Whitening

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedlift.evaluation.diagnosis import Diagnosis
    from embedlift.evaluation.percentiles import ScorePercentiles

LEVELS = (99, 99.9)


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["packaged:all-minilm-l6-v2", "packaged:smollm2-135m"])
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"Machine: {machine.describe()}\n")
    if arguments.memory:
        print_memory()
        return
    print_figures(arguments.models, draw_sentences(arguments.sentences))


def draw_sentences(count: int) -> list[str]:
    """Return sentences of the docstrings, in random order."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from stdlib_docstrings import read_docstrings

    sentences = read_docstrings().sentences
    return [sentences[place] for place in np.random.default_rng(0).permutation(len(sentences))[:count]]


def print_figures(models: list[str], texts: list[str]) -> None:
    """Print a line for each model, raw, centred and whitened."""
    fitted, fresh = texts[: len(texts) // 2], texts[len(texts) // 2 :]
    print(f"{len(fitted)} sentences diagnosed, {len(fresh)} others tell what the thresholds let through.\n")
    print("| vectors | mean cosine | percentile of 0.8 | IsoScore / * | effective rank / RankMe | log10 I(W) ", end="")
    print("| uniformity | hubness | five dimensions add | 99 % at, lets through | 99.9 % at, lets through |")
    print("|---" * 11 + "|")
    for model in models:
        name = re.split("[:/]", model)[-1]
        source = CachedEncoder(Encoder(model))
        raw, others = source.encode(fitted), source.encode(fresh)
        print_row(f"{name}, raw", diagnose(raw, fitted), others)
        for transform in (Centering(), Whitening(shrinkage="oas")):
            found = diagnose(transform.fit_transform(raw), fitted)
            print_row(f"{name}, {type(transform).__name__.lower()}", found, transform.transform(others))


def print_row(name: str, found: Diagnosis, others: NDArray[np.floating]) -> None:
    """Print what was found, and the share of pairs of other texts above the thresholds, of 10,000."""
    scale, spectrum = found.cosines.percentiles, found.spectrum
    unit = unit_rows(others)
    cosines = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    cells = [
        f"{found.random_pair_cosine:.3f}",
        f"{percentile_of(0.8, scale)}",
        f"{spectrum.isoscore:.3f} / {spectrum.isoscore_star:.3f}",
        f"{spectrum.effective_rank:.0f} / {spectrum.rankme:.0f} of {found.dimension}",
        f"{spectrum.log_partition_isotropy / np.log(10):.2g}",
        f"{found.cosines.uniformity:.2f}",
        f"{found.cosines.hubness.skewness:.2f}" if found.cosines.hubness else "",
        f"{sum(item.contribution for item in found.dimensions):.3f}",
    ]
    for level in LEVELS:
        threshold = scale.score_at(level)
        cells.append(f"{threshold:.3f}: {10_000 * (cosines > threshold).mean():.0f} of 10,000")
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def percentile_of(cosine: float, scale: ScorePercentiles) -> str:
    """Write the percentile of a cosine."""
    found = float(scale.percentiles(cosine))
    return "above all" if found == 100 else f"{found:.2f}"


MEASURED = """
import pathlib, resource, sys, time
from embedlift.bulk import read_vectors
from embedlift.evaluation.diagnostics import diagnose
start = time.perf_counter()
diagnose(read_vectors(pathlib.Path(sys.argv[1])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, round(time.perf_counter() - start, 1))
"""


def print_memory() -> None:
    """Print the peak memory of diagnoses of float16 vectors of 384 dimensions."""
    print("| rows | file, MB | peak memory, MB | seconds |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v.npy"
        for rows in (20_000, 100_000, 500_000):
            vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(rows, 384))
            random = np.random.default_rng(0)
            for start in range(0, rows, 10_000):
                vectors[start : start + 10_000] = random.normal(size=(10_000, 384))
            del vectors
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True
            )
            peak, seconds = done.stdout.split()
            print(f"| {rows:,} | {path.stat().st_size // 10**6} | {peak} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
