"""Questions with answers (QNLI), and lexical overlap (edit distance), by cosine of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from bert_flow import methods
from bert_flow.material import Report, Row, Space, distinct_sentences, load_tasks
from bert_flow.similarity import TRANSDUCTIVE
from embedlift.functional.similarity import paired_cosine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

FEW_EDITS = 4


def qnli(data: Path, bert: str, seeds: int, report: Report) -> None:
    """AUC of cosine: does the sentence answer the question?"""
    lines = (data / "qnli" / "qnli_dev.tsv").read_text(encoding="utf-8").splitlines()
    labels, questions, answers = zip(*(line.split("\t") for line in lines), strict=True)
    space = Space(bert, "first-last-avg")
    fitting = space.vectors(list(dict.fromkeys([*questions, *answers])))
    left, right = space.vectors(questions), space.vectors(answers)
    truth = np.array(labels).astype(int)
    rows = []
    for method in methods.ALL:
        values = [100 * float(roc_auc_score(truth, cosine)) for cosine in _cosines(method, seeds, fitting, left, right)]
        facts = {"fitted on": "-" if method is methods.RAW else f"QNLI dev, {TRANSDUCTIVE}"}
        rows.append(Row(method.name, facts, {"AUC": values}))
    report.table(f"{space.name}, {space.pooling}, QNLI dev ({len(truth)} pairs): AUC x 100", rows)


def edit_distance(data: Path, bert: str, seeds: int, report: Report) -> None:
    """Spearman of similarity with normalised edit distance, on all pairs and on those that differ little."""
    tasks = load_tasks(data, ["STS-B:train", "STS-B:dev", "STS-B"])
    subsets = [pairs for task in tasks for pairs in task.subsets]
    lefts = [text for pairs in subsets for text in pairs.left]
    rights = [text for pairs in subsets for text in pairs.right]
    gold = np.concatenate([pairs.gold for pairs in subsets])
    space = Space(bert, "first-last-avg")
    fitting = space.vectors(distinct_sentences(tasks))
    left, right = space.vectors(lefts), space.vectors(rights)
    systems = {"gold": [gold]}
    systems |= {method.name: _cosines(method, seeds, fitting, left, right) for method in methods.ALL}
    for unit, split in (("characters", list), ("words", str.split)):
        edits = [edit_distances(split(a), split(b)) for a, b in zip(lefts, rights, strict=True)]
        counts = np.array(edits)
        longest = np.array([max(len(split(a)), len(split(b))) for a, b in zip(lefts, rights, strict=True)])
        few = counts <= FEW_EDITS
        columns = {"all pairs": np.ones(len(gold), dtype=bool), f"at most {FEW_EDITS} edits": few}
        rows = []
        for name, cosines in systems.items():
            values = {
                f"{column} (n={chosen.sum()})": [
                    100 * float(spearmanr(cosine[chosen], (counts / longest)[chosen]).statistic) for cosine in cosines
                ]
                for column, chosen in columns.items()
            }
            values[f"with gold, at most {FEW_EDITS} edits"] = [
                100 * float(spearmanr(c[few], gold[few]).statistic) for c in cosines
            ]
            unfitted = name in ("gold", methods.RAW.name)
            rows.append(Row(name, {"fitted on": "-" if unfitted else f"STS-B, {TRANSDUCTIVE}"}, values))
        report.table(
            f"{space.name}, {space.pooling}, STS-B train + dev + test: Spearman x 100 of similarity with the edit "
            f"distance in {unit}, divided by the longer length",
            rows,
        )


def _cosines(
    method: methods.Method,
    seeds: int,
    fitting: NDArray[np.float32],
    left: NDArray[np.float32],
    right: NDArray[np.float32],
) -> list[NDArray[np.floating]]:
    """Return the cosine of each pair, shape (N,), for each seed."""
    cosines = []
    for seed in range(seeds if method.random else 1):
        fitted = method.make(seed)
        fitted.fit(fitting)
        cosines.append(paired_cosine(fitted.transform(left), fitted.transform(right)))
    return cosines


def edit_distances(source: Sequence[str], target: Sequence[str]) -> int:
    """Return the Levenshtein distance of two sequences.

    A row of the table is computed at once: min over deletion and substitution first, then insertions as a running
    minimum of what is left after subtracting the column's number.
    """
    codes = {item: number for number, item in enumerate(dict.fromkeys([*source, *target]))}
    columns = np.arange(len(target) + 1)
    wanted = np.array([codes[item] for item in target], dtype=int)
    row = columns.copy()
    for item in source:
        changed = row + 1
        changed[1:] = np.minimum(changed[1:], row[:-1] + (wanted != codes[item]))
        row = np.minimum.accumulate(changed - columns) + columns
    return int(row[-1])
