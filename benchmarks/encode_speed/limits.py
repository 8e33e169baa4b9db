"""What the machine could do, and where the time goes."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentence_transformers import SentenceTransformer

    from embedlift.encoder import Encoder

#: Kinds of work, by what the names of torch's operators hold; the first that fits counts.
WORK = {
    "matrix products": ("addmm", "aten::mm", "bmm", "mkldnn_linear", "quantized::linear"),
    "attention": ("scaled_dot_product", "softmax"),
    "gelu": ("gelu", "silu", "tanh"),
    "layer norm": ("layer_norm", "rms_norm"),
    "sums, copies, masks": ("aten::add", "copy_", "where", "cat", "masked_fill", "mul", "div", "sum"),
    "embedding table": ("index_select", "embedding"),
}


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


def shares_of_time(encoder: Encoder, texts: list[str]) -> dict[str, float]:
    """Return which work takes which share of the time, largest first; "other" is Python, and what has no name."""
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
    return {kind: seconds / whole for kind, seconds in sorted(shares.items(), key=lambda item: -item[1])}
