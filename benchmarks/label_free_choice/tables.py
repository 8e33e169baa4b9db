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
    Rule(kept, trusted, f"whitening {strength}")
    for kept, trusted, strength in itertools.product(
        (0.015, 0.02, 0.025, 0.03, 0.04),
        (0.03, 0.04, 0.05, 0.07, 0.1),
        ("exponent=0.5", "exponent=0.75", "exponent=1", "dim=128", "dim=256"),
    )
]


def regret(case: Case, place: int) -> float:
    """Return by how many points the best candidate beats the one at ``place``."""
    return float(case.truth.max() - case.truth[place])


def _first_last(case: Case) -> tuple[int, ...]:
    last = max(max(item.mix) for item in case.candidates if item.mix is not None)
    return (1, last) if any(item.mix == (1, last) for item in case.candidates) else (0, 1)


def _score(place: Callable[[Case], int]) -> Callable[[Case], float]:
    return lambda case: float(case.truth[place(case)])


#: Recipes that look at nothing, and figures of the literature that are maximised: what they score.
RECIPES: dict[str, Callable[[Case], float]] = {
    "keep the model": _score(lambda case: 0),
    "own pooling, whitened": _score(lambda case: case.place(None, "whitening exponent=1")),
    "first-last-avg, whitened": _score(lambda case: case.place(_first_last(case), "whitening exponent=1")),
    "first-last-avg, flow": lambda case: case.flow,
    "word embeddings, whitened": _score(lambda case: case.place((0,), "whitening exponent=1")),
    "best uniformity": _score(lambda case: int(np.argmin([found.uniformity for found in case.evidence]))),
    "highest RankMe": _score(lambda case: int(np.argmax(case.spectra["RankMe"]))),
    "highest IsoScore": _score(lambda case: int(np.argmax(case.spectra["IsoScore"]))),
}


def print_cases(cases: list[Case]) -> None:
    """Print what is chosen for each model and task."""
    print("| model | task | plain | best | chosen | its score | regret | gain | same answer |\n|" + "---|" * 9)
    for case in cases:
        choice = choose(case.candidates, case.evidence, seed=0)
        chosen = "keep the model" if choice.winner == 0 else choice.chosen.name
        print(
            f"| {case.model} | {case.task} | {case.truth[0]:.1f} | {case.truth.max():.1f} | {chosen} | "
            f"{case.truth[choice.winner]:.1f} | {regret(case, choice.winner):.1f} | {choice.verdict.gain:.3f} | "
            f"{choice.same_answer:.2f} |"
        )


def print_matrix(cases: list[Case]) -> None:
    """Print plain score, chosen score and regret of each model, by task."""
    by_place = {(case.model, case.task): case for case in cases}
    models = list(dict.fromkeys(case.model for case in cases))
    print("| task | " + " | ".join(models) + " |")
    print("|---" * (len(models) + 1) + "|")
    for task in dict.fromkeys(case.task for case in cases):
        cells = []
        for model in models:
            case = by_place.get((model, task))
            if case is None:
                cells.append("")
                continue
            winner = judge(case.candidates, case.evidence).winner
            change = "kept" if winner == 0 else f"{case.truth[winner]:.0f}"
            cells.append(f"{case.truth[0]:.0f}, {change} ({regret(case, winner):.1f})")
        print(f"| {task} | " + " | ".join(cells) + " |")


def print_recipes(cases: list[Case]) -> None:
    """Print mean and worst regret of the rule and of the recipes, and the worst loss against the plain model."""
    print("| choice | mean regret | worst regret | worst change of the plain model |\n|---|---|---|---|")
    rules = {
        "**--method auto**": [judge(case.candidates, case.evidence).winner for case in cases],
        "auto, constants fitted without the model": _left_out(cases, lambda case: case.model),
        "auto, constants fitted without the task": _left_out(cases, lambda case: case.task),
    }
    scores = {
        name: [case.truth[place] for case, place in zip(cases, found, strict=True)] for name, found in rules.items()
    } | {name: [recipe(case) for case in cases] for name, recipe in RECIPES.items()}
    for name, found in scores.items():
        # The flow is no candidate: where it beats all of them, its regret is below 0.
        regrets = [case.truth.max() - score for case, score in zip(cases, found, strict=True)]
        changes = [score - case.truth[0] for case, score in zip(cases, found, strict=True)]
        print(f"| {name} | {np.mean(regrets):.2f} | {max(regrets):.1f} | {min(changes):+.1f} |")


def print_models(cases: list[Case]) -> None:
    """Print the regret of the rule for each model, and the smallest and largest gain in grading."""
    print("| model | cases | mean regret | worst regret | gain in grading |\n|---|---|---|---|---|")
    for model in dict.fromkeys(case.model for case in cases):
        own = [case for case in cases if case.model == model]
        verdicts = [judge(case.candidates, case.evidence) for case in own]
        regrets = [regret(case, verdict.winner) for case, verdict in zip(own, verdicts, strict=True)]
        gains = [verdict.gain for verdict in verdicts]
        print(
            f"| {model} | {len(own)} | {np.mean(regrets):.2f} | {max(regrets):.1f} | "
            f"{min(gains):.3f} to {max(gains):.3f} |"
        )


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
    answers = {(case.model, case.task): judge(case.candidates, case.evidence).answer for case in cases}
    groups = dict.fromkeys(answers.values())
    print("| figure | " + " | ".join(f"{name}: rank correlation, regret" for name in groups) + " |")
    print("|---" * (len(groups) + 1) + "|")
    for name in ("grading", "recovery", "uniformity", "RankMe", "IsoScore"):
        cells = []
        for group in groups:
            chosen = [case for case in cases if answers[case.model, case.task] == group]
            pairs = [(case, _figure(case, name)) for case in chosen]
            correlation = np.mean([spearmanr(found, case.truth).statistic for case, found in pairs])
            cost = np.mean([regret(case, int(found.argmax())) for case, found in pairs])
            cells.append(f"{correlation:.2f}, {cost:.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def _figure(case: Case, name: str) -> NDArray[np.float64]:
    """Return a label-free figure of each candidate, higher for what it takes for better."""
    if name in case.spectra:
        return case.spectra[name]
    found = np.array([item.summary()[name] for item in case.evidence])
    return -found if name == "uniformity" else found
