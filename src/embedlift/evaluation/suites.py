"""Names -> tasks, from a folder with labelled data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedlift.errors import InputError
from embedlift.evaluation import pair_classification, sts, transfer
from embedlift.evaluation.retrieval_data import read_collection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from embedlift.evaluation.logistic_regression import Mode
    from embedlift.evaluation.tasks import Task

#: Task -> its folder below the data folder. Several splits: ``SciFact:train``.
RETRIEVAL = {"SciFact": "retrieval/scifact", "PubMedQA": "retrieval/pubmedqa"}

#: Group -> its tasks. ``sts`` are the seven sets of the papers; ``MRPC`` is SentEval's, ``MRPC-pairs`` is by cosine.
GROUPS: dict[str, tuple[str, ...]] = {
    "sts": ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"),
    "transfer": ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC"),
    "pairs": tuple(pair_classification.TASKS),
    "retrieval": tuple(RETRIEVAL),
}
GROUPS["all"] = (*GROUPS["sts"], "BIOSSES", *GROUPS["pairs"], *GROUPS["retrieval"], *GROUPS["transfer"])


def names_of(names: Iterable[str]) -> list[str]:
    """Return ``names`` with groups written out, each task once."""
    return list(dict.fromkeys(task for name in names for task in GROUPS.get(name, (name,))))


def load(
    names: Iterable[str],
    data: Path,
    *,
    aggregation: sts.Aggregation = "all",
    metrics: Sequence[str] = ("cosine_spearman",),
    senteval: bool = False,
    mode: Mode = "converged",
) -> list[Task]:
    """Read tasks and groups of tasks from the folder ``data``.

    Args:
        names: Groups (``GROUPS``) and tasks: of :func:`embedlift.evaluation.sts.load_task` (such as ``STS12``,
            ``STS-B:dev``, or the path of a .tsv file), ``transfer.TASKS``, ``pair_classification.TASKS`` or
            ``RETRIEVAL``.
        data: Folder.
        aggregation: Of the years of STS.
        metrics: Of STS.
        senteval: Whether STS text is written as in SentEval's files.
        mode: How the regressions of transfer tasks are fitted.

    Raises:
        InputError: If a name is unknown, files are missing (with all that is missing and there), or a file is bad.
    """
    if not data.is_dir():
        raise InputError(f"{data}: no such folder")
    wanted = names_of(names)
    for name in wanted:
        _check_name(name)
    tasks: list[Task] = []
    problems = []
    for name in wanted:
        base, _, split = name.partition(":")
        try:
            if name in transfer.TASKS:
                tasks.append(transfer.load_task(data, name, mode))
            elif name in pair_classification.TASKS:
                tasks.append(pair_classification.load_task(data, name))
            elif base in RETRIEVAL:
                tasks.append(read_collection(data / RETRIEVAL[base], base, split or "test"))
            else:
                tasks.append(sts.load_task(data, name, aggregation, metrics=metrics, senteval=senteval))
        except InputError as error:
            problems.append(str(error))
    if problems:
        there = ", ".join(task.name for task in tasks) or "none"
        aside = f"\n{len(problems)} of {len(wanted)} tasks cannot be read; those that can: {there}"
        raise InputError("\n".join(problems) + (aside if len(wanted) > 1 else ""))
    return tasks


def _check_name(name: str) -> None:
    base, _, split = name.partition(":")
    without_split = name in transfer.TASKS or name in pair_classification.TASKS
    of_sts = base in sts.TASKS or base.startswith("STS-B-") or name.endswith(".tsv")
    if without_split or of_sts or (base in RETRIEVAL and split in ("", "train", "dev", "test")):
        return
    groups = "; ".join(f"{group} = {', '.join(tasks)}" for group, tasks in GROUPS.items() if group != "all")
    others = ", ".join(task for task in (*sts.TASKS, *transfer.TASKS) if task not in GROUPS["all"] or task == "BIOSSES")
    raise InputError(
        f"unknown task {name!r}: choose from the groups {groups}; all; {others}; STS-B-LANGUAGE; or the path of a .tsv "
        "file (score, sentence, sentence). STS-B, SICK-R and SciFact have splits, such as STS-B:dev"
    )
