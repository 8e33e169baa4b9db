"""Semantic textual similarity: methods, fitting texts, poolings and models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from published import PUBLISHED, SEVEN

from bert_flow import methods
from bert_flow.material import (
    Report,
    Row,
    Scorer,
    Space,
    distinct_sentences,
    load_tasks,
    published_rows,
    read_sentences,
    with_average,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from embedlift.evaluation import sts

TRANSDUCTIVE = "transductive"
MINILM, SMOLLM2 = "packaged:all-minilm-l6-v2", "packaged:smollm2-135m"
#: The nearest thing at hand to the NLI text of the paper, and a text that has nothing to do with the tasks.
NLI, GENERAL = "snli_dev_test", "wikipedia"
GENERAL_SENTENCES = 15_000


@dataclass(frozen=True)
class FittingText:
    """The sentences that a method sees when it is fitted.

    Attributes:
        name: For the tables; says if the sentences of the test are among them.
        sentences: One list for all tasks, or one for each.
        tasks: Places of the tasks that it is for, in order; all by default.
    """

    name: str
    sentences: list[list[str]]
    tasks: tuple[int, ...] | None = None


def compare(
    space: Space,
    tasks: Sequence[sts.Task],
    texts: Sequence[FittingText],
    compared: Sequence[methods.Method],
    seeds: int,
    aggregations: Sequence[sts.Aggregation],
) -> list[Row]:
    """Return a row for each fitting text, method and aggregation."""
    sentences = distinct_sentences(tasks)
    vectors = space.vectors(sentences)
    rows = []
    for text in texts:
        fitting = [space.vectors(part) for part in text.sentences]
        chosen = [tasks[place] for place in text.tasks or range(len(tasks))]
        parts = [chosen] if len(fitting) == 1 else [[task] for task in chosen]
        for method in compared:
            if method is methods.RAW and text is not texts[0]:
                continue  # it is the same for every text
            by_seed: dict[sts.Aggregation, list[list[float]]] = {name: [] for name in aggregations}
            for seed in range(seeds if method.random else 1):
                scored: dict[sts.Aggregation, list[float]] = {name: [] for name in aggregations}
                for part, rows_to_fit in zip(parts, fitting, strict=True):
                    fitted = method.make(seed)
                    fitted.fit(rows_to_fit)
                    mapped = fitted.transform(vectors)
                    scorer = Scorer(part, sentences)
                    for name in aggregations:
                        scored[name] += scorer.scores(mapped, name)
                for name in aggregations:
                    by_seed[name].append(scored[name])
            for name in aggregations:
                shown = "-" if method is methods.RAW else text.name
                facts = {"fitted on": shown, "aggregation": name}
                values = with_average([task.name for task in chosen], by_seed[name])
                if len(chosen) < len(tasks):
                    values.pop("average", None)
                rows.append(Row(method.name, facts, values))
    return rows


def seven_sets(data: Path, bert: str, seeds: int, report: Report) -> None:
    """The seven sets for a BERT-like model: fitting texts and methods; published rows beside them."""
    tasks = load_tasks(data, SEVEN)
    extra = {name: load_tasks(data, [f"{name}:train", f"{name}:dev", name]) for name in ("STS-B", "SICK-R")}
    own = [distinct_sentences(extra.get(task.name, [task])) for task in tasks]
    train = [distinct_sentences(extra[name][:1]) for name in extra]
    texts = [
        FittingText(f"all seven, {TRANSDUCTIVE}", [distinct_sentences(tasks)]),
        FittingText(f"own text, {TRANSDUCTIVE}", own),
        FittingText("own train split only", train, tasks=(5, 6)),
        _general(data, NLI),
        _general(data, GENERAL),
    ]
    space = Space(bert, "first-last-avg")
    rows = compare(space, tasks, texts, methods.ALL, seeds, ("all", "wmean"))
    of_flows = [row for row in PUBLISHED if row.source != "SG-OPT paper"]
    for aggregation in ("all", "wmean"):
        chosen = [row for row in [*published_rows(of_flows), *rows] if row.facts["aggregation"] == aggregation]
        report.table(f"{space.name}, first-last-avg; published rows: BERT-base", chosen)


def poolings(data: Path, bert: str, seeds: int, report: Report) -> None:
    """The same with other poolings."""
    tasks = load_tasks(data, SEVEN)
    texts = [FittingText(f"all seven, {TRANSDUCTIVE}", [distinct_sentences(tasks)]), _general(data, NLI)]
    for pooling in ("mean:0", "embedding-last-avg"):
        space = Space(bert, pooling)
        report.table(f"{space.name}, {pooling}", compare(space, tasks, texts, methods.ALL, seeds, ("all",)))


def _general(data: Path, name: str) -> FittingText:
    sentences = read_sentences(data / "corpora" / f"{name}.txt")[:GENERAL_SENTENCES]
    return FittingText(f"{name}, {len(sentences)} sentences", [sentences])


def minilm(data: Path, seeds: int, report: Report) -> None:
    """A model that was tuned with labels: does the flow add anything?"""
    tasks = load_tasks(data, SEVEN)
    texts = [FittingText(f"all seven, {TRANSDUCTIVE}", [distinct_sentences(tasks)]), _general(data, NLI)]
    rows = compare(Space(MINILM), tasks, texts, methods.ALL, seeds, ("all",))
    report.table("all-MiniLM-L6-v2 (tuned with labels, on data that includes NLI and captions)", rows)


def smollm2(data: Path, seeds: int, report: Report) -> None:
    """SmolLM2 with all layers, and its layer 1 without the final norm, on STS-B."""
    tasks = load_tasks(data, ["STS-B:dev", "STS-B"])
    texts = [FittingText(f"STS-B dev + test, {TRANSDUCTIVE}", [distinct_sentences(tasks)])]
    for pooling in ("first-last-avg", "mean:1"):
        space = Space(SMOLLM2, pooling, max_length=64)
        rows = compare(space, tasks[1:], texts, methods.ALL, seeds, ("all",))
        report.table(f"SmolLM2-135M-Instruct, {pooling}, STS-B test", rows)
