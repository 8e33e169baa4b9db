"""The seven STS sets in the papers' tables: models x methods x seeds, with the published rows beside ours.

A method is written METHOD@POOLING, such as whitening@first-last-avg, whitening@mean:0, sg-opt@cls or none@mean; the
pooling may be left out. Transforms are fitted on the text of the seven sets (--fit seven) or on that of STS-B
(--fit stsb, also what training reads in the paper): both are transductive, without labels. Each run is kept in --work
as soon as it is done, so a stopped benchmark goes on with those that are missing; ``tables.json`` there holds all.

Usage: python benchmarks/tables.py --data DIR --work DIR --models M... --methods none@cls whitening@first-last-avg
           [--seeds 0 1 2] [--fit seven|stsb] [--tuned packaged:all-minilm-l6-v2]
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from bert_flow.material import Report, Row, distinct_sentences, load_tasks, published_rows, with_average
from published import PUBLISHED, SEVEN

from embedlift.adaptation import run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import evaluate
from embedlift.files import written_whole
from embedlift.training.settings import TRAINING_METHODS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Methods in which nothing is random: one seed stands for all.
DETERMINISTIC = ("none", "center", "whitening")


class Runs:
    """Scores of each model, method and seed, kept in a folder.

    Args:
        data: Folder of the tasks.
        work: Folder for what is done.
        fit: ``seven`` or ``stsb``.
    """

    def __init__(self, data: Path, work: Path, fit: str) -> None:
        self.fit, self.work = fit, work
        loaded = [sts.load_task(data, name, how) for how in sts.AGGREGATIONS for name in SEVEN]
        self.tasks = loaded
        splits = ["STS-B:train", "STS-B:dev", "STS-B"] if fit == "stsb" else SEVEN
        self.texts = distinct_sentences(load_tasks(data, splits))

    def scores(self, model: str, method: str, pooling: str | None, seed: int) -> dict[str, list[float]]:
        """Return aggregation -> Spearman x 100 in the order of ``SEVEN``, made now or read from the folder."""
        name = re.sub(r"[^\w.-]+", "_", f"{Path(model).name}-{method}-{pooling}-{self.fit}-{seed}")
        file = self.work / f"{name}.json"
        if not file.exists():
            options: dict[str, Any] = {"pooling": pooling, "seed": seed}
            trains = method in TRAINING_METHODS
            adapted = run(
                model, self.texts, method=method, output=self.work / name if trains else None, overwrite=True, **options
            )
            encoder = Encoder(adapted.model)
            found = evaluate(encoder if trains else CachedEncoder(encoder), model, self.tasks)
            whole = [100 * (score.score or 0.0) for score in found if score.subset is None]
            rows = {how: whole[i * len(SEVEN) : (i + 1) * len(SEVEN)] for i, how in enumerate(sts.AGGREGATIONS)}
            with written_whole(file) as beside:
                beside.write_text(json.dumps(rows) + "\n", encoding="utf-8")
        kept: dict[str, list[float]] = json.loads(file.read_text(encoding="utf-8"))
        return kept


def rows_of(runs: Runs, models: Sequence[str], methods: Sequence[str], seeds: Sequence[int], tuned: str) -> list[Row]:
    """Return a row for each model, method and aggregation."""
    rows = []
    for model in models:
        for text in methods:
            method, _, pooling = text.partition("@")
            chosen = seeds[:1] if method in DETERMINISTIC else seeds
            found = [runs.scores(model, method, pooling or None, seed) for seed in chosen]
            for how in ("all", "wmean"):
                facts = {
                    "fitted on": "-" if method == "none" else f"{runs.fit} text, transductive",
                    "aggregation": how,
                    "source": f"here, {len(chosen)} seed{'s' * (len(chosen) > 1)}",
                }
                label = f"{Path(model).name}{', tuned with labels' * (model == tuned)}: {text}"
                rows.append(Row(label, facts, with_average(SEVEN, [scores[how] for scores in found])))
    return rows


def main() -> None:
    """Run what is missing and print a table for each aggregation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--methods", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--fit", choices=("seven", "stsb"), default="seven")
    parser.add_argument("--tuned", default="packaged:all-minilm-l6-v2", help="a model to mark as tuned with labels")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    ours = rows_of(Runs(given.data, given.work, given.fit), given.models, given.methods, given.seeds, given.tuned)
    report = Report(given.work / "tables.json")
    for how in ("all", "wmean"):
        chosen = [row for row in [*published_rows(PUBLISHED), *ours] if row.facts["aggregation"] == how]
        report.table(f"Seven STS sets, Spearman x 100, aggregation {how}", chosen)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
