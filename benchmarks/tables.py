"""The seven STS sets in the papers' tables: models x methods x seeds, with the published rows beside ours.

A method is written METHOD@POOLING, such as whitening@first-last-avg, whitening@mean:0, sg-opt@cls or none@mean; the
pooling may be left out. Transforms are fitted on the text of the seven sets or of STS-B (--fit); methods that train
read STS-B's rows, as in their paper: all of it is transductive, without labels. Each run is kept in --work as soon as
it is done, so a stopped benchmark goes on with those that are missing; ``tables.json`` there holds all.

Usage: PYTHONPATH=benchmarks python benchmarks/tables.py --data DIR --work DIR
           --models M... --methods none@cls whitening@first-last-avg [--rows packaged:all-minilm-l6-v2 none whitening]
           [--seeds 0 1 2] [--fit seven|stsb] [--tuned packaged:all-minilm-l6-v2] [--markdown docs/seven_sets.md]
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from bert_flow.material import Report, Row, load_tasks, published_rows, shown, with_average
from published import PUBLISHED, SEVEN

from embedlift.adaptation import run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import Encodes, evaluate
from embedlift.files import written_whole
from embedlift.training.settings import TRAINING_METHODS

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN: tuple[sts.Aggregation, ...] = ("all", "wmean")
TEXTS = {"seven": "all seven", "stsb": "STS-B"}
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
        self.tasks = [sts.load_task(data, name, how) for how in SHOWN for name in SEVEN]
        texts = {"stsb": ["STS-B:train", "STS-B:dev", "STS-B"], "seven": list(SEVEN)}
        self.texts = {
            name: [text for task in load_tasks(data, tasks) for text in task.texts()] for name, tasks in texts.items()
        }

    def fitted_on(self, method: str) -> str:
        """Return the name of the text that a method sees."""
        return "stsb" if method in TRAINING_METHODS else self.fit

    def scores(self, model: str, method: str, pooling: str | None, seed: int) -> dict[str, list[float]]:
        """Return aggregation -> Spearman x 100 in the order of ``SEVEN``, made now or read from the folder."""
        text = self.fitted_on(method)
        name = re.sub(r"[^\w.-]+", "_", f"{Path(model).name}-{method}-{pooling}-{text}-{seed}")
        file = self.work / f"{name}.json"
        if not file.exists():
            found = evaluate(self._encoder(model, method, pooling, seed, self.work / name), model, self.tasks)
            whole = [100 * (score.score or 0.0) for score in found if score.subset is None]
            rows = {how: whole[i * len(SEVEN) : (i + 1) * len(SEVEN)] for i, how in enumerate(SHOWN)}
            with written_whole(file) as beside:
                beside.write_text(json.dumps(rows) + "\n", encoding="utf-8")
        kept: dict[str, list[float]] = json.loads(file.read_text(encoding="utf-8"))
        return kept

    def _encoder(self, model: str, method: str, pooling: str | None, seed: int, folder: Path) -> Encodes:
        options: dict[str, Any] = {"method": method, "pooling": pooling, "seed": seed}
        texts = self.texts[self.fitted_on(method)]
        if method not in TRAINING_METHODS:
            return CachedEncoder(Encoder(run(model, texts, **options).model))
        if not folder.exists():  # what was trained is kept, as it takes long
            run(model, texts, output=folder, **options)
        return Encoder(str(folder))


def rows_of(runs: Runs, model: str, methods: Sequence[str], seeds: Sequence[int], *, tuned: bool) -> list[Row]:
    """Return a row for each method of a model, and each aggregation."""
    rows = []
    for text in methods:
        method, _, pooling = text.partition("@")
        chosen = seeds[:1] if method in DETERMINISTIC else seeds
        found = [runs.scores(model, method, pooling or None, seed) for seed in chosen]
        for how in SHOWN:
            facts = {
                "fitted on": "-" if method == "none" else f"{TEXTS[runs.fitted_on(method)]}, transductive",
                "aggregation": how,
                "source": f"here, {len(chosen)} seed{'s' * (len(chosen) > 1)}",
            }
            label = f"{Path(model).name}{', tuned with labels' * tuned}: {text}"
            rows.append(Row(label, facts, with_average(SEVEN, [scores[how] for scores in found])))
    return rows


def markdown(document: dict[str, Any]) -> str:
    """Return the page of the tables in ``tables.json``."""
    lines = [
        "# The seven STS sets",
        "",
        "Made by `benchmarks/tables.py` from its JSON; do not edit. Spearman of cosine x 100, mean ± standard",
        f"deviation over seeds where there are several. Machine: {document['machine']}.",
    ]
    for table in document["tables"]:
        columns = list(table["rows"][0]["values"])
        lines += ["", f"## {table['title']}", ""]
        lines += ["| method | fitted on | source | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 3)]
        for row in table["rows"]:
            cells = [shown(row["values"][column], 1) for column in columns]
            lines.append(
                "| " + " | ".join([row["label"], row["facts"]["fitted on"], row["facts"]["source"], *cells]) + " |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing and print a table for each aggregation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--methods", nargs="+", default=[], help="of every model of --models")
    parser.add_argument("--rows", nargs="+", action="append", default=[], metavar=("MODEL", "METHOD"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--fit", choices=("seven", "stsb"), default="seven")
    parser.add_argument("--tuned", default="packaged:all-minilm-l6-v2", help="a model to mark as tuned with labels")
    parser.add_argument("--markdown", type=Path, help="page to write the tables to")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.data, given.work, given.fit)
    ours = []
    for model, *methods in [*([model, *given.methods] for model in given.models), *given.rows]:
        ours += rows_of(runs, model, methods, given.seeds, tuned=model == given.tuned)
    report = Report(given.work / "tables.json")
    for how in SHOWN:
        chosen = [row for row in [*published_rows(PUBLISHED), *ours] if row.facts["aggregation"] == how]
        report.table(f"Aggregation {how}", chosen)
    if given.markdown is not None:
        made = json.loads((given.work / "tables.json").read_text(encoding="utf-8"))
        with written_whole(given.markdown) as beside:
            beside.write_text(markdown(made), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
