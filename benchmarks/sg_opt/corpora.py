"""Does the training text have to come from the domain? SG-OPT on four corpora, each scored on all tasks.

The same number of sentences of each corpus, drawn by seed, trained on once with the settings of the ablation (a higher
rate and a narrower head than the paper's, to save time); the weights of the last step are kept.

Usage: python benchmarks/sg_opt/corpora.py MODEL --data DIR --work DIR [--corpora stsb captions wikipedia biomedical]
           [--tasks STS-B STS13 BIOSSES] [--sentences 4000] [--seeds 0] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from ablation import BASE
from material import corpus, describe, line, scores, table_head, trained

from embedlift.encoder import Encoder
from embedlift.evaluation import sts

CORPORA = ("stsb", "captions", "wikipedia", "biomedical")


def main() -> None:
    """Train on every corpus with every seed and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=CORPORA)
    parser.add_argument("--tasks", nargs="+", default=["STS-B", "STS13", "BIOSSES"])
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--layers", type=int, help="keep only the first K layers of the model")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    tasks = [sts.load_task(given.data, name) for name in given.tasks]
    print(f"{describe()}; {given.model}, {given.sentences} sentences of each corpus, one epoch; no labels used")
    print(table_head([task.name for task in tasks]))
    print(line("start", [scores(Encoder(given.model, layers=given.layers, one_token=True), tasks)]), flush=True)
    results: dict[str, list[list[float]]] = {}
    for name in given.corpora:
        texts = list(dict.fromkeys(corpus(given.data, name)))
        for seed in given.seeds:
            places = np.random.default_rng(seed).choice(len(texts), given.sentences, replace=False)
            chosen = [texts[place] for place in places]
            options = {"settings": dict(BASE), "seed": seed, "layers": given.layers}
            model = trained(given.model, chosen, given.work / f"{name}-{seed}", **options)
            results.setdefault(name, []).append(scores(Encoder(model), tasks))
            print(line(f"{name}, seed {seed}", results[name][-1:]), flush=True)
        print(line(f"{name}, {len(given.seeds)} seeds", results[name]), flush=True)
    if given.json is not None:
        names = [task.name for task in tasks]
        given.json.write_text(json.dumps({"tasks": names, "results": results}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
