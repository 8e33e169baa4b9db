"""SentEval's protocol on the vectors that SentEval's own code was run on: each mode's figures, and what centring saves.

Usage: python benchmarks/transfer.py GOLDEN [--tasks CR TREC] [--modes converged as-released fast]

GOLDEN holds vectors_CR.npz, vectors_TREC_train.npz and vectors_TREC_test.npz: ``x`` (n, D), ``y``, and ``ntok``, the
number of tokens of each sentence.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import get_args

import machine
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from embedlift.evaluation import logistic_regression
from embedlift.evaluation.logistic_regression import Mode, Part


def read(path: Path) -> Part:
    """Return vectors and classes in SentEval's order."""
    found = np.load(path)
    order = np.lexsort((found["y"], found["ntok"]))
    return Part(found["x"].astype(np.float32), found["y"].astype(np.int64)).rows(order)


def parts(folder: Path, task: str) -> list[Part]:
    """Return the one part of CR, or train and test of TREC."""
    names = ["CR"] if task == "CR" else ["TREC_train", "TREC_test"]
    return [read(folder / f"vectors_{name}.npz") for name in names]


def run(folder: Path, task: str, mode: Mode) -> str:
    """Return a row of the table."""
    train, *tests = parts(folder, task)
    started = time.process_time()
    if tests:
        outcome = logistic_regression.k_fold(train, tests[0], mode)
    else:
        outcome = logistic_regression.nested(train, mode)
    seconds = time.process_time() - started
    accuracy = float((outcome.weights * (outcome.predicted == outcome.y)).sum())
    dev = "" if outcome.dev is None else f"{outcome.dev:.2f}"
    return f"| {task} | {mode} | {100 * accuracy:.2f} | {dev} | {seconds:.0f} | {outcome.note} |"


def solvers(folder: Path) -> list[str]:
    """Return iterations, CPU seconds and test accuracy of one fit on TREC, C = 1, for each way of fitting."""
    train, test = parts(folder, "TREC")
    rows = []
    for solver, centred in (("lbfgs", False), ("lbfgs", True), ("newton-cg", False), ("newton-cg", True)):
        mean = train.x.mean(axis=0) * centred
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = LogisticRegression(C=1.0, solver=solver, max_iter=5000).fit(train.x - mean, train.y)
        seconds = time.process_time() - started
        accuracy = 100 * float((fit.predict(test.x - mean) == test.y).mean())
        kind = "centred" if centred else "raw"
        rows.append(f"| {solver} | {kind} | {int(fit.n_iter_.max())} | {seconds:.1f} | {accuracy:.1f} |")
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", type=Path)
    parser.add_argument("--tasks", nargs="*", default=["CR", "TREC"], choices=["CR", "TREC"])
    parser.add_argument("--modes", nargs="*", default=list(get_args(Mode)), choices=get_args(Mode))
    arguments = parser.parse_args()
    print(machine.describe())
    print("\n| solver | vectors | iterations | CPU s | test accuracy |\n|---|---|---|---|---|", flush=True)
    for row in solvers(arguments.golden):
        print(row, flush=True)
    print("\n| task | mode | accuracy | where C was chosen | CPU s | note |\n|---|---|---|---|---|---|", flush=True)
    for task in arguments.tasks:
        for mode in arguments.modes:
            print(run(arguments.golden, task, mode), flush=True)


if __name__ == "__main__":
    main()
