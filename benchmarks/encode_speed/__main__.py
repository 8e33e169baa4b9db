"""Encoding against sentence-transformers' ``encode``, on short, long and mixed text: speed, fidelity, and the limit.

Every contender encodes the same distinct texts in turn, on the same threads; medians count. sentence-transformers runs
at its default batch size and at the best of some others, in torch and, with --peers, on its ONNX backend: a process in
a venv of its own, whose export and loading do not count. "speed" is against the fastest of these in float32. "padding"
is the share of the tokens in the model that belong to no text. "GEMM" is the arithmetic that the real tokens need, a
second, against what the machine's matrix product reaches alone in float32, measured between the rounds (bfloat16 may
exceed it). Then the profile says where the time goes. With --frontier, other number types stand beside float32: speed
against cosine with the float32 vectors. With --output, the table is also written there, with the throughput on made-up
texts of each length for ``encode_speed.plot``.
Goals: float32 at least 1.3 times as fast on short and mixed text, never slower on long text, padding at most 3 %; at
least 2 times at a mean cosine of 0.999, 3 times at 0.99.

Usage: PYTHONPATH=benchmarks python -m encode_speed MODEL [MODEL ...] --data DIR [--texts 2500] [--rounds 5]
           [--threads 1] [--peers .venv-peers/bin/python] [--frontier] [--output FOLDER] [--length-tokens 8192]
           [--cpu-time]
DIR holds stsb/stsb_test.tsv and retrieval/scifact/corpus_part*.tsv. On a busy machine and one thread, --cpu-time counts
the seconds that the process got.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import transformers
from machine import describe

from embedlift.encoder import Encoder
from encode_speed import contenders, report
from encode_speed.limits import shares_of_time
from encode_speed.measure import Row, compare
from encode_speed.peers import PeerProcess
from encode_speed.texts import of_length, read_texts

#: Lengths at which throughput is measured, as far as the model's limit allows.
LENGTHS = (8, 16, 32, 64, 128, 256, 510)


def main() -> None:
    """Measure all models, print one table, and say where the time goes."""
    given = _parser().parse_args()
    torch.set_num_threads(given.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if given.output:
        given.output.mkdir(parents=True, exist_ok=True)
    facts = {
        "machine": describe(),
        "seconds": f"{'CPU seconds of the process' if given.cpu_time else 'wall'}, medians of {given.rounds} in turn",
    }
    print("\n".join(facts.values()), flush=True)
    rows: list[Row] = []
    curve: list[Row] = []
    lines: list[str] = []
    for model in given.models:
        measure(model, given, facts, rows, curve, lines)
        if given.output:  # after each model: a run takes long
            report.write(given.output, facts, report.notes(rows) + lines, rows, curve)
    print("\n".join([report.table(rows), *report.notes(rows), *lines]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=2500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", type=Path, help="Python of the peers' venv: see benchmarks/peers.txt")
    parser.add_argument("--frontier", action="store_true")
    parser.add_argument("--output", type=Path, help="folder for the table, and for throughput by length")
    parser.add_argument("--length-tokens", type=int, default=8192, help="tokens in all texts of one length")
    parser.add_argument("--cpu-time", action="store_true")
    return parser


def measure(name: str, given: Any, facts: dict[str, str], rows: list[Row], curve: list[Row], lines: list[str]) -> None:
    """Add one model's rows, its throughput by length where that is written, and its profiles."""
    clock = time.process_time if given.cpu_time else time.perf_counter
    label = Path(name).name.removeprefix("packaged:")
    own = Encoder(name)
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peer = stack.enter_context(peer_of(own, given, work)) if given.peers else None
        if peer is not None:
            facts["peers"] = ", ".join(f"{package} {version}" for package, version in peer.versions.items())
            lines.append(f"{label}: the ONNX peer took {peer.load_seconds:.0f} s to export and load")
        ours, models = [contenders.of_embedlift(contenders.OWN, own, clock)], {"float32": own.model}
        if given.frontier:
            half = Encoder(name, dtype="bfloat16")
            models["bfloat16"] = half.model
            ours += contenders.frontier(own, half, work, given.threads, clock)
        for kind, texts in read_texts(given.data, given.texts).items():
            peers = contenders.of_peers(models, peer, texts[:: max(1, len(texts) // 500)], clock)
            found = compare(label, own.model, kind, texts, ours + peers, given.rounds, clock)
            rows += found
            print(report.table(found), flush=True)
            shares = ", ".join(f"{part} {100 * share:.1f} %" for part, share in shares_of_time(own, texts).items())
            lines.append(f"{label}, {kind}: time goes into {shares}")
        ours = [contender for contender in ours if contender.drawn]
        for length in LENGTHS if given.output else ():
            if length <= own.model.max_seq_length:
                texts = of_length(own.model.tokenizer, length, max(1, given.length_tokens // length))
                peers = contenders.of_peers(models, peer, texts, clock)
                curve += compare(label, own.model, f"{length} tokens", texts, ours + peers, given.rounds, clock)


def peer_of(own: Encoder, given: Any, work: Path) -> PeerProcess:
    """Start sentence-transformers' ONNX backend with the model that ``own`` holds."""
    folder = own.model[0].model.config._name_or_path
    return PeerProcess(given.peers, folder, given.threads, int(own.model.max_seq_length), work)


if __name__ == "__main__":
    main()
