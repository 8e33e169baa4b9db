"""From statistics over a task's items to records with intervals: what the kinds of tasks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.evaluation.bootstrap import draws, interval, own_seed
from embedlift.evaluation.results import Score

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from embedlift.evaluation.bootstrap import Statistic
    from embedlift.evaluation.tasks import Task


def scored(
    task: Task,
    model: str,
    n: int,
    statistics: Mapping[str, Statistic],
    *,
    seed: int,
    unit: str,
    notes: Mapping[str, str | None],
    clusters: NDArray[np.int64] | None = None,
) -> list[Score]:
    """Return a record for each statistic: its value over all ``n`` items, and over the same resamples of them.

    Args:
        task: Gives name and split.
        model: Name of the model.
        n: Number of items.
        statistics: Name of a metric -> its statistic.
        seed: Of the bootstrap.
        unit: What ``n`` counts, in the plural.
        notes: Name of a metric -> its note.
        clusters: Items that are drawn together, see :func:`embedlift.evaluation.bootstrap.draws`.
    """
    own = own_seed(seed, f"{task.name}:{task.split}")
    resampled = draws(list(statistics.values()), n, seed=own, clusters=clusters)
    once = np.ones((1, n))
    return [
        Score(
            model=model,
            task=task.name,
            split=task.split,
            subset=None,
            metric=metric,
            aggregation=None,
            score=float(statistic(once)[0]),
            n=n,
            interval=interval(found),
            note=notes[metric],
            draws=found,
            unit=unit,
        )
        for (metric, statistic), found in zip(statistics.items(), resampled, strict=True)
    ]


def undefined(task: Task, model: str, n: int, metrics: Iterable[str], why: str, *, unit: str) -> list[Score]:
    """Return a record without a score for each metric."""
    return [
        Score(model, task.name, task.split, None, metric, None, None, n, None, f"undefined: {why}", unit=unit)
        for metric in metrics
    ]
