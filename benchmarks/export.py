"""Exported models: how near their vectors are, what they score, and how much faster they are, on one thread.

ONNX: float32 and int8 against the model in torch, on STS-B (test). Static: the table of token vectors against the model
that it was made from, on the seven STS sets. Fits and means see the sentences of the sets, never their scores
(transductive). Speed: medians of alternating rounds over the same distinct sentences, each with tokenisation.

Usage: python benchmarks/export.py --data ../shared/data --bert FOLDER [--only onnx|static] [--rounds 5] [--texts 512]
           [--smollm2]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import machine
import numpy as np
import torch
import transformers
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from embedlift.adaptation import run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.export.onnx_encoder import OnnxEncoder
from embedlift.export.parity import Parity
from embedlift.export.static_table import affine_map, split_head, token_rows
from embedlift.export.to_onnx import export_onnx
from embedlift.export.to_static import export_static

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

SEVEN = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
MINILM, SMOLLM2 = "packaged:all-minilm-l6-v2", "packaged:smollm2-135m"
WEIGHTS = (1e-3, 3e-3, 1e-2)


class OnnxCase(NamedTuple):
    """A model that is exported to ONNX."""

    label: str
    model: str
    method: str
    pooling: str | None = None
    dim: int | None = None


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--bert", required=True)
    parser.add_argument("--only", choices=("onnx", "static"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--smollm2", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(machine.describe())
    with tempfile.TemporaryDirectory() as work:
        if given.only != "static":
            onnx_table(given, Path(work))
        if given.only != "onnx":
            static_tables(given, Path(work))


def sentences(tasks: Sequence[sts.Task]) -> list[str]:
    """Return the distinct sentences of the tasks."""
    return list(dict.fromkeys(text for task in tasks for part in task.subsets for text in (*part.left, *part.right)))


def spearman(texts: list[str], vectors: NDArray[np.float32], tasks: Sequence[sts.Task]) -> list[float]:
    """Return Spearman of cosine x 100 of each task, the pairs of its subsets pooled; rows belong to ``texts``."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    places = {text: place for place, text in enumerate(texts)}
    scores = []
    for task in tasks:
        left = [places[text] for part in task.subsets for text in part.left]
        right = [places[text] for part in task.subsets for text in part.right]
        gold = np.concatenate([part.gold for part in task.subsets])
        scores.append(100 * float(spearmanr((unit[left] * unit[right]).sum(axis=1), gold).statistic))
    return scores


def seconds(ways: dict[str, Callable[[list[str]], Any]], texts: list[str], rounds: int) -> dict[str, float]:
    """Return the median seconds of each way over rounds in which all take turns, the first of which does not count."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way(texts)
            if number:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in taken.items()}


def onnx_table(given: Any, work: Path) -> None:
    """Print size, nearness, score and speed of float32 and int8."""
    task = sts.load_task(given.data, "STS-B")
    texts = sentences([task])
    cases = [
        OnnxCase("BERT, first-last-avg", given.bert, "none", "first-last-avg"),
        OnnxCase("BERT, first-last-avg, whitened", given.bert, "whitening", "first-last-avg"),
        OnnxCase("BERT, first-last-avg, whitened to 128", given.bert, "whitening", "first-last-avg", 128),
        OnnxCase("all-MiniLM-L6-v2", MINILM, "none"),
    ]
    print(f"\nONNX: STS-B test, {len(texts)} sentences; speed on {given.texts} of them against our encoder in torch\n")
    print("| model | graph | MB | largest difference | mean cosine | least | Spearman | in torch | speed |")
    print("|---|---|---|---|---|---|---|---|---|")
    for number, case in enumerate(cases):
        encoder = Encoder(run(case.model, texts, method=case.method, pooling=case.pooling, dim=case.dim).model)
        expected = encoder.encode(texts)
        (score,) = spearman(texts, expected, [task])
        ways: dict[str, Callable[[list[str]], Any]] = {
            "torch": encoder.encode,
            "sentence-transformers": plain(encoder.model),
        }
        rows = {}
        for kind in (None, "int8"):
            folder = work / f"onnx-{number}-{kind}"
            export_onnx(encoder, folder, quantize=kind, tolerance=2.0)
            exported = OnnxEncoder(folder, threads=1)
            found = exported.encode(texts)
            ways[kind or "float32"] = exported.encode
            size = (folder / "model.onnx").stat().st_size / 1e6
            rows[kind or "float32"] = size, Parity.of(expected, found), spearman(texts, found, [task])[0]
        taken = seconds(ways, texts[: given.texts], given.rounds)
        for name, (size, parity, own) in rows.items():
            print(
                f"| {case.label} | {name} | {size:.0f} | {parity.largest_difference:.1e} | {parity.mean_cosine:.5f} | "
                f"{parity.least_cosine:.4f} | {own:.2f} | {score:.2f} | {taken['torch'] / taken[name]:.2f}x |"
            )
        ratio = taken["sentence-transformers"] / taken["torch"]
        print(
            f"| {case.label} | (our encoder in torch: {ratio:.2f}x the speed of sentence-transformers) | | | | | | | |",
            flush=True,
        )


def plain(model: SentenceTransformer) -> Callable[[list[str]], Any]:
    """Return sentence-transformers' own encoding."""
    return lambda texts: model.encode(texts, show_progress_bar=False)


def static_tables(given: Any, work: Path) -> None:
    """Print the scores and the speed of static models."""
    tasks = [sts.load_task(given.data, name) for name in SEVEN]
    texts = sentences(tasks)
    corpus = work / "corpus.txt"
    corpus.write_text("\n".join(text.replace("\n", " ") for text in texts), encoding="utf-8")
    for name in (given.bert, *([SMOLLM2] if given.smollm2 else [])):
        print(f"\nStatic: {Path(name).name}, {len(texts)} sentences; cosine: mean, to the model it was made from\n")
        print(f"| vectors | {' | '.join(SEVEN)} | average | cosine |\n|{'---|' * (len(SEVEN) + 3)}")
        static_table(name, texts, tasks, corpus, work / Path(name).name.replace(":", "-"), given)


def static_table(name: str, texts: list[str], tasks: Sequence[sts.Task], corpus: Path, work: Path, given: Any) -> None:
    """Print one table: the model, tables made from it, and tables that were adapted themselves."""

    def show(label: str, model: SentenceTransformer, cosine: float | None = None) -> None:
        scores = spearman(texts, CachedEncoder(Encoder(model)).encode(texts), tasks)
        cells = " | ".join(f"{value:.1f}" for value in [*scores, statistics.mean(scores)])
        print(f"| {label} | {cells} | {'' if cosine is None else f'{cosine:.4f}'} |", flush=True)

    raw = Encoder(name, pooling="mean:0")
    adapted = Encoder(run(raw.model, texts, method="whitening").model)
    show("embedding output, raw", raw.model)
    show("embedding output, whitened", adapted.model)
    static = export_static(adapted, work / "static", corpus=[corpus])
    show("static, whitened", static.model, static.parity.mean_cosine)
    show("static, whitened, mean not given back", off_centre(adapted.model, static.model))
    for weight in WEIGHTS:
        weighted = export_static(adapted, work / f"static-{weight}", corpus=[corpus], frequency_weights=weight)
        show(f"static, whitened, frequency weights {weight:g}", weighted.model, weighted.parity.mean_cosine)
    table = export_static(raw, work / "table", corpus=[corpus])
    show("static, raw", table.model, table.parity.mean_cosine)
    show("static, raw, then whitened", run(table.model, texts, method="whitening").model)
    for weight in WEIGHTS:
        table = export_static(raw, work / f"table-{weight}", corpus=[corpus], frequency_weights=weight)
        show(f"static, frequency weights {weight:g}", table.model, table.parity.mean_cosine)
        for dim in (None, 128):
            label = f"static, frequency weights {weight:g}, then whitened" + (f" to {dim}" if dim else "")
            show(label, run(table.model, texts, method="whitening", dim=dim).model)
    whole = Encoder(name)
    ways: dict[str, Callable[[list[str]], Any]] = {
        "the whole model": plain(whole.model),
        "embedding output, whitened": plain(adapted.model),
        "static, whitened": plain(static.model),
    }
    chosen = [texts[place] for place in np.random.default_rng(0).permutation(len(texts))[: given.texts]]
    taken = seconds(ways, chosen, given.rounds)
    for label, median in taken.items():
        speed = len(chosen) / median
        print(
            f"{label:32} {speed:10.0f} sentences/s in sentence-transformers, {taken['the whole model'] / median:7.1f}x"
        )


def off_centre(model: SentenceTransformer, static: SentenceTransformer) -> SentenceTransformer:
    """Return the static model without the constant that gives its vectors the mean they had in ``model``."""
    rows = token_rows(model).rows
    linear, offset = affine_map(split_head(model)[0], rows.shape[1])
    table = torch.from_numpy((rows @ linear + offset).astype(np.float32))
    return SentenceTransformer(modules=[StaticEmbedding(static[0].tokenizer, table)], device="cpu")


if __name__ == "__main__":
    main()
