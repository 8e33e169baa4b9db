"""What the experiments share: sentences, vectors, figures and tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import machine
import numpy as np
from published import SEVEN
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from embedlift.adaptation import library_versions
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.files import written_whole
from embedlift.functional.similarity import paired_cosine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from published import Published


class Space:
    """Pooled vectors of one model by sentence, kept on disk between runs.

    Args:
        model: As for :class:`embedlift.encoder.Encoder`.
        pooling: Likewise.
        max_length: Likewise.
    """

    def __init__(self, model: str, pooling: str | None = None, max_length: int | None = None) -> None:
        self.name = model.rstrip("/").rsplit("/", 1)[-1]
        self.pooling = pooling or "the model's own"
        self._encoder = CachedEncoder(Encoder(model, pooling=pooling, max_length=max_length))

    def vectors(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of ``sentences``, shape (N, D)."""
        return self._encoder.encode(sentences)


def distinct_sentences(tasks: Iterable[sts.Task]) -> list[str]:
    """Return the distinct sentences of ``tasks`` in the order of their first occurrence."""
    subsets = [pairs for task in tasks for pairs in task.subsets]
    return list(dict.fromkeys(text for pairs in subsets for text in (*pairs.left, *pairs.right)))


def load_tasks(data: Path, names: Iterable[str]) -> list[sts.Task]:
    """Read tasks such as ``STS12`` or ``STS-B:train``."""
    return [sts.load_task(data, name) for name in names]


def read_sentences(path: Path) -> list[str]:
    """Return the distinct lines of a text file."""
    return list(dict.fromkeys(line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()))


class Scorer:
    """Scores vectors of a fixed list of sentences on tasks: Spearman x 100 of cosine with gold.

    Args:
        tasks: The tasks.
        sentences: They hold all sentences of the tasks; vectors are given in this order.
    """

    def __init__(self, tasks: Sequence[sts.Task], sentences: Sequence[str]) -> None:
        place = {sentence: number for number, sentence in enumerate(sentences)}
        self.tasks = tasks
        self._subsets = [
            [([place[s] for s in pairs.left], [place[s] for s in pairs.right], pairs.gold) for pairs in task.subsets]
            for task in tasks
        ]

    def scores(self, vectors: NDArray[np.floating], aggregation: sts.Aggregation) -> list[float]:
        """Return a score for each task."""
        return [_aggregated(vectors, subsets, aggregation) for subsets in self._subsets]


def _aggregated(
    vectors: NDArray[np.floating],
    subsets: list[tuple[list[int], list[int], NDArray[np.float64]]],
    aggregation: sts.Aggregation,
) -> float:
    cosines = [paired_cosine(vectors[left], vectors[right]) for left, right, _ in subsets]
    golds = [gold for *_, gold in subsets]
    if aggregation == "all":
        return 100 * float(spearmanr(np.concatenate(cosines), np.concatenate(golds)).statistic)
    values = [100 * float(spearmanr(*pair).statistic) for pair in zip(cosines, golds, strict=True)]
    weights = [len(gold) if aggregation == "wmean" else 1 for gold in golds]
    return float(np.average(values, weights=weights))


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        label: What was done, such as the method.
        facts: What a reader must know to compare: fitting text, aggregation.
        values: Column -> one figure per seed; a single one where nothing is random.
    """

    label: str
    facts: dict[str, str]
    values: dict[str, list[float]] = field(default_factory=dict)


class Report:
    """Prints tables as they come and writes all of them at the end.

    Args:
        json_path: File for the figures of each seed, or None.
    """

    def __init__(self, json_path: Path | None) -> None:
        self.console = Console(width=170)
        self._path = json_path
        self._tables: list[dict[str, object]] = []
        self.console.print(machine.describe())

    def table(self, title: str, rows: Sequence[Row], digits: int = 1) -> None:
        """Print mean and, where there are several seeds, standard deviation of each figure."""
        columns = list(dict.fromkeys(column for row in rows for column in row.values))
        facts = list(dict.fromkeys(fact for row in rows for fact in row.facts))
        table = Table("", *facts, *columns, title=title)
        for row in rows:
            cells = [shown(row.values.get(column, []), digits) for column in columns]
            table.add_row(row.label, *[row.facts.get(fact, "") for fact in facts], *cells)
        self.console.print(table)
        self._tables.append({"title": title, "rows": [asdict(row) for row in rows]})
        self._write()

    def _write(self) -> None:  # after every table, so that a stopped run leaves what it had
        if self._path is None:
            return
        document = {"machine": machine.describe(), "versions": library_versions(), "tables": self._tables}
        with written_whole(self._path) as beside:
            beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def shown(values: list[float], digits: int) -> str:
    """Return the mean, with the standard deviation over seeds if there are several; a dash for none."""
    if not values:
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def published_rows(published: Iterable[Published]) -> list[Row]:
    """Return rows of papers' tables, with what a reader must know to compare."""
    return [
        Row(
            f"published, BERT-base: {row.method}",
            {"fitted on": row.fitted_on, "aggregation": row.aggregation, "source": row.source},
            with_average(SEVEN, [row.scores]),
        )
        for row in published
    ]


def with_average(columns: Sequence[str], by_seed: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """Return column -> values over seeds, with the average of the columns of each seed."""
    values = {column: [scores[place] for scores in by_seed] for place, column in enumerate(columns)}
    return values | ({"average": [float(np.mean(scores)) for scores in by_seed]} if len(columns) > 1 else {})
