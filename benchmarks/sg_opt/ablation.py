"""What each part of SG-OPT is worth: one setting changed at a time, over seeds, scored on two STS sets.

Every run has the same number of steps on sentences of STS-B, unlabelled; the weights of the last step are kept. To
save time the learning rate is three times the paper's, so that a quarter of an epoch gets somewhere, and the projection
head has 1,024 dimensions, unless the run is about them. Runs are kept in --work, so a stopped benchmark goes on with
those that are missing. The mean over tokens of the start, raw and
whitened on the sets' own sentences, is the yardstick.

Usage: python benchmarks/sg_opt/ablation.py MODEL --data DIR --work DIR [--steps 250] [--seeds 0 1] [--layers K]
           [--only NAME...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from material import corpus, describe, line, scores, table_head, trained

from embedlift.adaptation import run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.functional import isotropy
from embedlift.training.selection import ShortenedCopies

TASKS = ("STS-B", "STS13")

BASE = {"head_width": 1024, "lr": 1.5e-4}
#: Name of the run -> method and settings that differ from the base; {last} is the last hidden state.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "SG-OPT": ("sg-opt", {}),
    "variant: SG": ("sg", {}),
    "variant: opt1": ("sg-opt1", {}),
    "variant: opt2": ("sg-opt2", {}),
    "regulariser 0": ("sg-opt", {"reg_weight": 0.0}),
    "guide layers: embeddings only": ("sg-opt", {"guide_layers": "0"}),
    "guide layers: last only": ("sg-opt", {"guide_layers": "{last}"}),
    "guide layers: lower half": ("sg-opt", {"guide_layers": "0..{half}"}),
    "embeddings trained": ("sg-opt", {"train_embeddings": True}),
    "head width 256": ("sg-opt", {"head_width": 256}),
    "temperature 0.05": ("sg-opt", {"temperature": 0.05}),
    "learning rate 5e-4": ("sg-opt", {"lr": 5e-4}),
    "regulariser 1": ("sg-opt", {"reg_weight": 1.0}),
    "guide layers: upper half": ("sg-opt", {"guide_layers": "{half}..{last}"}),
    "learning rate 5e-5, as in the paper": ("sg-opt", {"lr": 5e-5}),
    "head width 4096, as in the paper": ("sg-opt", {"head_width": 4096}),
}


def settings_of(changed: dict[str, Any], layers: int, steps: int) -> dict[str, Any]:
    """Return the settings of a run on a model with ``layers`` layers."""
    filled = {
        name: value.format(half=layers // 2, last=layers) if isinstance(value, str) and "{" in value else value
        for name, value in changed.items()
    }
    return BASE | {"max_steps": steps} | filled


def main() -> None:
    """Train and score every run, seed after seed, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--layers", type=int, help="keep only the first K layers of the model")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), metavar="NAME", help="these runs")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    texts = corpus(given.data)
    tasks = [sts.load_task(given.data, name) for name in TASKS]
    start = Encoder(given.model, layers=given.layers, one_token=True)
    print(f"{describe()}; {given.model}, {given.steps} steps of 16 sentences of STS-B; last step, no labels used")
    print(table_head(TASKS))
    print(line("start", [scores(start, tasks)]), flush=True)
    for method in ("none", "whitening"):
        own = [text for task in tasks for text in task.texts()]
        adapted = run(given.model, own, method=method, pooling="mean", layers=given.layers)
        print(line(f"start, mean, {method}", [scores(CachedEncoder(Encoder(adapted.model)), tasks)]), flush=True)
    sample = list(dict.fromkeys(texts))[:1000]
    copies = ShortenedCopies(sample, 0)
    results: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in given.only}
    for seed in given.seeds:
        for name in given.only:
            method, changed = RUNS[name]
            output = given.work / f"{name.replace(' ', '_').replace(':', '').replace(',', '')}-{seed}"
            settings = settings_of(changed, start.model[0].model.config.num_hidden_layers, given.steps)
            options = {"layers": given.layers, "method": method, "settings": settings, "seed": seed}
            encoder = Encoder(trained(given.model, texts, output, **options))
            results[name][seed] = {
                "scores": scores(encoder, tasks),
                "label_free": isotropy.summary(encoder.encode(sample), 0)
                | {"recovery": float(copies.recovery(encoder).mean())},
            }
            print(line(f"{name}, seed {seed}", [results[name][seed]["scores"]]), flush=True)
    for name, runs in results.items():
        print(line(f"{name}, {len(runs)} seeds", [run["scores"] for run in runs.values()]))
    if given.json is not None:
        given.json.write_text(json.dumps({"tasks": TASKS, "results": results}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
