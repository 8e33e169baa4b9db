"""How an assessment is printed: a table of scores, what must be known about them, and what the differences say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from embedlift.cli import console

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embedlift.assessment import Assessment
    from embedlift.evaluation.comparison import Comparison

#: Beside a score on a task that the fit has seen.
_SEEN = "†"
#: Longest name of a model that is shown whole.
_WIDE = 24


def show(found: Assessment) -> None:
    """Print an assessment."""
    label = _labels(dict.fromkeys(score.model for score in found.scores))
    wholes = [replace(score, model=label[score.model]) for score in found.scores if score.subset is None]
    models = list(label.values())
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for score in wholes:
        rows.setdefault((score.task, score.split, score.metric, score.aggregation), {})[score.model] = score
    of_years = [f"aggregation {score.aggregation!r}" for score in wholes if score.aggregation is not None]
    title = ", ".join(["Scores x 100 [95 % bootstrap interval]", *dict.fromkeys(of_years)])
    table = Table("task", "metric", *map(escape, models), title=title)
    for (task, split, metric, _), scores in rows.items():
        table.add_row(f"{task} {split}", metric, *[_cell(scores[model]) for model in models])
    for metric, aggregation in dict.fromkeys((metric, aggregation) for _, _, metric, aggregation in rows):
        alike = [scores for key, scores in rows.items() if key[2:] == (metric, aggregation)]
        if len(alike) > 1:
            averages = [_average([scores[model] for scores in alike]) for model in models]
            table.add_row(f"average of {len(alike)}", metric, *averages)
    console.out.print(table)
    compared = [replace(one, model=label[one.model], baseline=label[one.baseline]) for one in found.comparisons]
    for line in [*_notes(wholes), *_sentences(compared)]:
        console.say(line)


def _labels(models: Iterable[str]) -> dict[str, str]:
    """Return model -> its name in the table: of long ones the last part, where that tells them apart."""
    short = {model: PurePath(model).name if len(model) > _WIDE else model for model in models}
    return short if len(set(short.values())) == len(short) else {model: model for model in short}


def _cell(score: Any) -> str:
    if score.score is None:
        return "undefined"
    mark = f" {_SEEN}" if "transductive" in (score.note or "") else ""
    if score.interval is None:
        return f"{100 * score.score:.1f}{mark}"
    low, high = score.interval
    return rf"{100 * score.score:.1f} [dim]\[{100 * low:.1f}, {100 * high:.1f}][/]{mark}"


def _average(scores: Sequence[Any]) -> str:
    values = [score.score for score in scores]
    return "undefined" if None in values else f"{100 * sum(values) / len(values):.1f}"


def _notes(scores: Sequence[Any]) -> list[str]:
    """Return each note once, with the tasks and models that it is about."""
    about: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        for note in (score.note or "").split("; "):
            if note:
                models = about.setdefault((f"{score.task} {score.split}", note), [])
                models.extend([] if score.model in models else [score.model])
    alone = len({score.model for score in scores}) == 1
    return [
        f"{_SEEN + ' ' if note.startswith('transductive') else ''}{task}: {note}"
        + ("" if alone else f" ({', '.join(models)})")
        for (task, note), models in about.items()
    ]


def _sentences(comparisons: Sequence[Comparison]) -> list[str]:
    """Return what the comparisons say; of several tasks, the averages first."""
    ordered = sorted(comparisons, key=lambda one: one.split is not None)
    several = len({(one.task, one.split, one.metric) for one in ordered}) > 1
    lines = []
    for one in ordered:
        where = f"{one.task}{' ' + one.split if one.split else ''}, {one.metric}: " if several else ""
        lines.append(where + one.sentence)
    return lines
