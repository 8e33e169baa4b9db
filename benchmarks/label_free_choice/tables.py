"""The study's tables: regret of the rule and of fixed recipes, each figure alone, and the rule's constants left out."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from embedlift.choosing.choice import Rule, choose, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from label_free_choice.cases import Case

#: What the constants of the rule are chosen from, when a model or a task is left out.
GRID = [
    Rule(layers, gain, evenness)
    for layers, gain, evenness in itertools.product((0.8, 0.85, 0.9, 0.95), (0.02, 0.03, 0.05), (0.5, 1.0, 2.0, 4.0))
]


def regret(case: Case, place: int) -> float:
    """Return by how many points the best candidate beats the one at ``place``."""
    return float(case.truth.max() - case.truth[place])


def _first_last(case: Case) -> tuple[int, ...]:
    last = max(max(item.mix) for item in case.candidates if item.mix is not None and len(item.mix) == 2)
    return (1, last) if any(item.mix == (1, last) for item in case.candidates) else (0, 1)


#: Recipes that look at nothing, and figures of the literature that are maximised.
RECIPES: dict[str, Callable[[Case], int]] = {
    "keep the model": lambda case: 0,
    "own pooling, whitened": lambda case: case.place(None, "whitening exponent=1"),
    "first-last-avg, whitened": lambda case: case.place(_first_last(case), "whitening exponent=1"),
    "word embeddings, whitened": lambda case: case.place((0,), "whitening exponent=1"),
    "highest uniformity": lambda case: int(np.argmax([found.uniformity for found in case.evidence])),
    "highest RankMe": lambda case: int(np.argmax(case.spectra["RankMe"])),
    "highest IsoScore": lambda case: int(np.argmax(case.spectra["IsoScore"])),
}


def print_cases(cases: list[Case]) -> None:
    """Print what is chosen for each model and task."""
    print(
        "| model | task | plain | best | chosen | its score | regret | certainty |\n|---|---|---|---|---|---|---|---|"
    )
    for case in cases:
        choice = choose(case.candidates, case.evidence, seed=0)
        chosen = "keep the model" if choice.winner == 0 else choice.chosen.name
        print(
            f"| {case.model} | {case.task} | {case.truth[0]:.1f} | {case.truth.max():.1f} | {chosen} | "
            f"{case.truth[choice.winner]:.1f} | {regret(case, choice.winner):.1f} | {choice.certainty:.2f} | "
            f"{choice.verdict.halves[None]:.3f}, {choice.verdict.halves[0,]:.3f} |"
        )


def print_recipes(cases: list[Case]) -> None:
    """Print mean and worst regret of the rule and of the recipes, and the worst loss against the plain model."""
    print("| choice | mean regret | worst regret | worst change of the plain model |\n|---|---|---|---|")
    places = {
        "**--method auto**": [choose(case.candidates, case.evidence, seed=0).winner for case in cases],
        "auto, constants fitted without the model": _left_out(cases, lambda case: case.model),
        "auto, constants fitted without the task": _left_out(cases, lambda case: case.task),
    } | {name: [recipe(case) for case in cases] for name, recipe in RECIPES.items()}
    for name, found in places.items():
        regrets = [regret(case, place) for case, place in zip(cases, found, strict=True)]
        changes = [case.truth[place] - case.truth[0] for case, place in zip(cases, found, strict=True)]
        print(f"| {name} | {np.mean(regrets):.2f} | {max(regrets):.1f} | {min(changes):+.1f} |")


def _left_out(cases: list[Case], key: Callable[[Case], str]) -> list[int]:
    """Judge each case by the constants that are best, on average, on all cases of another key."""
    winners = np.array([[judge(case.candidates, case.evidence, rule=rule).winner for rule in GRID] for case in cases])
    regrets = np.array([[regret(case, place) for place in row] for case, row in zip(cases, winners, strict=True)])
    found = []
    for row, case in enumerate(cases):
        others = [key(other) != key(case) for other in cases]
        found.append(int(winners[row, regrets[others].mean(axis=0).argmin()]))
    return found


def print_figures(cases: list[Case]) -> None:
    """Print how well each figure alone ranks the candidates, and the regret of its maximum."""
    kept = {case.model for case in cases if judge(case.candidates, case.evidence).keeps}
    groups = {"models that are kept": kept, "models that are adapted": {case.model for case in cases} - kept}
    print("| figure | " + " | ".join(f"{name}: rank correlation, regret" for name in groups) + " |\n|---|---|---|")
    names = ["halves", "grading", "recovery", "uniformity", "RankMe", "IsoScore"]
    for name in names:
        cells = []
        for models in groups.values():
            chosen = [case for case in cases if case.model in models]
            values = [_figure(case, name) for case in chosen]
            pairs = list(zip(chosen, values, strict=True))
            correlation = np.mean([spearmanr(found, case.truth).statistic for case, found in pairs])
            cost = np.mean([regret(case, int(found.argmax())) for case, found in pairs])
            cells.append(f"{correlation:.2f}, {cost:.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def _figure(case: Case, name: str) -> NDArray[np.float64]:
    return case.spectra[name] if name in case.spectra else np.array([item.summary()[name] for item in case.evidence])
