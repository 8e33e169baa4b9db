"""Encoding against sentence-transformers' ``encode``, on short, long and mixed text: speed, fidelity, and the limit.

Every contender encodes the same distinct texts in turn, on the same threads; medians count. sentence-transformers runs
at its default batch size and at the best of some others. "padding" is the share of the tokens in the model that belong
to no text. "of GEMM" is the arithmetic that the real tokens need, a second, against what the machine's matrix product
reaches alone, measured between the rounds. Then the profile says where the time goes, and faster number types stand
beside float32: speed against cosine with the float32 vectors. Goals: float32 at least 1.3 times as fast on short and
mixed text, never slower on long text, padding at most 3 %; at least 2 times at a mean cosine of 0.999, 3 times at 0.99.

Usage: python benchmarks/encode_speed.py MODEL --data DIR [--texts 2500] [--rounds 5] [--threads 1] [--frontier]
DIR holds stsb/stsb_test.tsv and retrieval/scifact/corpus_part*.tsv. On a busy machine and one thread, --cpu-time counts
the seconds that this process got.
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import transformers
from machine import describe
from torch.profiler import ProfilerActivity, profile

from embedlift.encoder import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentence_transformers import SentenceTransformer

BATCH_SIZES = (8, 16, 32, 64)

#: Kinds of work, by what the names of torch's operators hold; the first that fits counts.
WORK = {
    "matrix products": ("addmm", "aten::mm", "bmm", "mkldnn_linear", "quantized::linear"),
    "attention": ("scaled_dot_product", "softmax"),
    "gelu": ("gelu", "silu", "tanh"),
    "layer norm": ("layer_norm", "rms_norm"),
    "sums, copies, masks": ("aten::add", "copy_", "where", "cat", "masked_fill", "mul", "div", "sum"),
    "embedding table": ("index_select", "embedding"),
}


class Contender(NamedTuple):
    """A way to encode, and the model whose batches are watched."""

    name: str
    encode: Callable[[list[str]], Any]
    model: SentenceTransformer


def main() -> None:
    """Print a table for each kind of text, and where the time goes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=2500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--frontier", action="store_true")
    parser.add_argument("--cpu-time", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    transformers.utils.logging.set_verbosity_error()
    clock = time.process_time if given.cpu_time else time.perf_counter
    seconds = "CPU seconds of the process" if given.cpu_time else "seconds"
    print(f"{describe()}; {given.model}; medians of {given.rounds} in turn; {seconds}")
    own = Encoder(given.model)
    for kind, texts in read_texts(given.data, given.texts).items():
        best = best_batch_size(own.model, texts[:: max(1, len(texts) // 500)], clock)
        contenders = [of_embedlift("embedlift", own), *(of_peer(own.model, size) for size in sorted({32, best}))]
        if given.frontier:
            contenders += frontier(given.model, own)
        compare(kind, texts, contenders, given.rounds, clock)
        print_profile(own, texts)


def read_texts(data: Path, count: int) -> dict[str, list[str]]:
    """Return distinct sentences, abstracts (a twentieth as many: they are long), and both shuffled."""
    sentences: dict[str, None] = {}
    for line in (data / "stsb/stsb_test.tsv").read_text(encoding="utf-8").split("\n"):
        sentences |= dict.fromkeys(line.split("\t")[1:3])
    abstracts = [
        " ".join(line.split("\t")[1:])
        for part in sorted((data / "retrieval/scifact").glob("corpus_part*.tsv"))
        for line in part.read_text(encoding="utf-8").split("\n")
        if line
    ]
    short = [text for text in sentences if text][:count]
    long = list(dict.fromkeys(abstracts))[: max(1, count // 20)]
    mixed = short[: len(short) // 2] + long[: len(long) // 2]
    random.Random(0).shuffle(mixed)
    return {"short": short, "long": long, "mixed": mixed}


def of_embedlift(name: str, encoder: Encoder) -> Contender:
    """Return the engine of this library."""
    return Contender(name, encoder.encode, encoder.model)


def of_peer(model: SentenceTransformer, size: int) -> Contender:
    """Return sentence-transformers' own loop with the same model."""
    name = f"sentence-transformers, batch {size}{' (default)' if size == 32 else ''}"
    return Contender(name, lambda texts: model.encode(texts, batch_size=size), model)


def best_batch_size(model: SentenceTransformer, texts: list[str], clock: Callable[[], float]) -> int:
    """Return the batch size with which sentence-transformers is fastest on a sample."""
    seconds = {size: min(timed(of_peer(model, size), texts, clock)[0] for _ in range(2)) for size in BATCH_SIZES}
    return min(seconds, key=lambda size: seconds[size])


def frontier(name: str, own: Encoder) -> list[Contender]:
    """Return ways that give up some accuracy for speed; the ONNX graph of ``embedlift export`` belongs here too."""
    found = [of_embedlift("embedlift, bfloat16", Encoder(name, dtype="bfloat16"))]
    eight = copy.deepcopy(own.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the successor of this interface
        quantize: Any = torch.ao.quantization.quantize_dynamic
        eight[0].model = quantize(eight[0].model, {torch.nn.Linear}, torch.qint8)
    found.append(of_embedlift("embedlift, torch's dynamic int8", Encoder(eight)))
    compiled = copy.deepcopy(own.model)
    compiled[0].model = torch.compile(compiled[0].model, dynamic=True)
    return [*found, of_embedlift("embedlift, torch.compile", Encoder(compiled))]


def timed(contender: Contender, texts: list[str], clock: Callable[[], float]) -> tuple[float, Any]:
    """Return the seconds that it takes, and the vectors."""
    start = clock()
    vectors = contender.encode(texts)
    return clock() - start, vectors


def compare(kind: str, texts: list[str], contenders: list[Contender], rounds: int, clock: Callable[[], float]) -> None:
    """Let all encode in turn, and print a line for each."""
    seconds: dict[str, list[float]] = defaultdict(list)
    gemm, vectors = [], {}
    tokens, flops = work_of(contenders[0].model, texts)
    for number in range(rounds + 1):  # the first warms up
        for contender in contenders:
            spent, vectors[contender.name] = timed(contender, texts, clock)
            seconds[contender.name] += [spent] if number else []
        gemm.append(gemm_rate(contenders[0].model, clock))
    rate = statistics.median(gemm)
    print(
        f"\n{kind}: {len(texts)} texts, {tokens} tokens, {tokens / len(texts):.0f} each; GEMM {rate / 1e9:.0f} Gflop/s"
    )
    peers = [name for name in seconds if name.startswith("sentence-transformers")]
    fastest = min(statistics.median(seconds[name]) for name in peers)
    plain = np.asarray(vectors[peers[0]], dtype=np.float64)
    for contender in contenders:
        median = statistics.median(seconds[contender.name])
        found = np.asarray(vectors[contender.name], dtype=np.float64)
        norms = np.linalg.norm(plain, axis=1)
        cosine = (found * plain).sum(1) / norms / np.linalg.norm(found, axis=1)
        print(
            f"  {contender.name:39} {median:7.2f} s {len(texts) / median:7.0f} texts/s {tokens / median:8.0f} tokens/s"
            f"  {fastest / median:5.2f}x  padding {100 * padding(contender, texts[:400]):4.1f} %"
            f"  of GEMM {100 * flops / median / rate:3.0f} %  mean cosine {cosine.mean():.6f},"
            f" largest difference {(np.linalg.norm(found - plain, axis=1) / norms).max():.1e}"
        )


def work_of(model: SentenceTransformer, texts: list[str]) -> tuple[int, float]:
    """Return the tokens of ``texts``, special ones too, and the floating-point operations that they need."""
    lengths = np.array([len(ids) for ids in model.tokenizer(texts, truncation=True)["input_ids"]], dtype=np.float64)
    network: Any = model[0].model
    linear = [
        module.in_features * module.out_features
        for name, module in network.named_modules()
        if isinstance(module, torch.nn.Linear) and "pooler" not in name
    ]
    attention = 4 * network.config.num_hidden_layers * network.config.hidden_size * (lengths**2).sum()
    return int(lengths.sum()), float(2 * sum(linear) * lengths.sum() + attention)


def gemm_rate(model: SentenceTransformer, clock: Callable[[], float]) -> float:
    """Return what the machine reaches in the model's own matrix products, in flop/s: the best of ten."""
    width = model[0].model.config.hidden_size
    rows, weight = torch.randn(1024, width), torch.randn(4 * width, width)
    spent = []
    with torch.inference_mode():
        for _ in range(10):
            start = clock()
            for _ in range(5):
                torch.nn.functional.linear(rows, weight)
            spent.append(clock() - start)
    return 5 * 2 * 1024 * width * 4 * width / min(spent)


def padding(contender: Contender, texts: list[str]) -> float:
    """Return the share of padding in what goes into the model."""
    shapes, real = [], []

    def watch(_: Any, given: tuple[Any, ...]) -> None:
        shapes.append(given[0]["attention_mask"].numel())
        real.append(int(given[0]["attention_mask"].sum()))

    hook = contender.model[0].register_forward_pre_hook(watch)
    contender.encode(texts)
    hook.remove()
    return 1 - sum(real) / sum(shapes)


def print_profile(encoder: Encoder, texts: list[str]) -> None:
    """Print the shares of the time; what no operator takes is Python, and the rest of the library."""
    start = time.perf_counter()
    encoder.model.tokenizer(texts, truncation=True)
    tokenising = time.perf_counter() - start
    with profile(activities=[ProfilerActivity.CPU]) as measured:
        start = time.perf_counter()
        encoder.encode(texts)
        whole = time.perf_counter() - start
    shares: dict[str, float] = defaultdict(float)
    for event in measured.key_averages():
        kind = next((kind for kind, names in WORK.items() if any(name in event.key for name in names)), "other")
        shares[kind] += event.self_cpu_time_total / 1e6
    shares["tokenising"] = tokenising
    named = sum(seconds for kind, seconds in shares.items() if kind != "other")
    shares["other"] = max(0.0, whole - named)
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    print("  profile: " + ", ".join(f"{kind} {100 * seconds / whole:.1f} %" for kind, seconds in ordered))


if __name__ == "__main__":
    main()
