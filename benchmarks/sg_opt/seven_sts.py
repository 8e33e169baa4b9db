"""SG-OPT on all sentences of STS-B, without labels, scored on the seven STS sets: over seeds, beside published rows.

The corpus is every sentence of STS-B's three splits, repeats kept, as in the paper; its scores are not used. The
weights of the last step are kept. Aggregation of a year's subsets is ``all``, as in the paper.

Usage: python benchmarks/sg_opt/seven_sts.py --data DIR --models MODEL... [--seeds 0 1 2] [--method sg-opt]
           [--set lr=1e-4 ...] [--then whitening flow] [--work DIR] [--json FILE]

--then fits transforms on the trained model's vectors of the same sentences; whitening@first-last-avg takes another
pooling of the trained model.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch
from material import PUBLISHED, SEVEN, corpus, describe, line, scores, setting, table_head, trained

from embedlift.adaptation import run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import sts


def main() -> None:
    """Train with every seed and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--method", default="sg-opt")
    parser.add_argument("--set", nargs="*", type=setting, default=[])
    parser.add_argument("--then", nargs="*", default=[])
    parser.add_argument("--layers", type=int)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp())
    texts = corpus(given.data)
    tasks = [sts.load_task(given.data, name) for name in SEVEN]
    print(f"{describe()}; {len(texts)} sentences; last step, no labels used")
    print(table_head(SEVEN))
    for row in PUBLISHED:
        if row.source == "SG-OPT paper":
            print(line(f"published, BERT-base, {row.method}", [row.scores]))
    results = {}
    for model in given.models:
        raw = scores(Encoder(model, layers=given.layers, one_token=True), tasks)
        print(line(f"{model}, raw, one token", [raw]), flush=True)
        runs: dict[str, list[list[float]]] = {}
        for seed in given.seeds:
            output = work / f"{Path(model).name}-{given.method}-{seed}"
            options = {"method": given.method, "settings": dict(given.set), "seed": seed, "layers": given.layers}
            encoder = Encoder(trained(model, texts, output, **options))
            runs.setdefault(given.method, []).append(scores(encoder, tasks))
            for text in given.then:
                method, _, pooling = text.partition("@")
                adapted = run(str(output), texts, method=method, pooling=pooling or None, seed=seed).model
                runs.setdefault(f"{given.method}, then {text}", []).append(
                    scores(CachedEncoder(Encoder(adapted)), tasks)
                )
            for name, found in runs.items():
                print(line(f"{model}, {name}, seed {seed}", found[-1:]), flush=True)
        for name, found in runs.items():
            print(line(f"{model}, {name}, {len(found)} seeds", found), flush=True)
        results[model] = {"raw": raw} | {
            name: dict(zip(given.seeds, found, strict=True)) for name, found in runs.items()
        }
    if given.json is not None:
        document = {"tasks": SEVEN, "method": given.method, "settings": dict(given.set), "results": results}
        given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
