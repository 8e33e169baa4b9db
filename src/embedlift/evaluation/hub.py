"""The same tasks from the model hub's datasets, in the versions that mteb uses.

Ids and revisions are those of mteb 2.26 (``mteb.get_task(...).metadata.dataset``): scores are comparable with its
tables. Three things differ from the files of :mod:`embedlift.evaluation.suites`: the years of STS come without their
subsets, SICK-R holds all 9,927 pairs instead of the 4,927 of the test split, and there are no transfer tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from embedlift.errors import InputError
from embedlift.evaluation import sts
from embedlift.evaluation.correlation import check_metrics
from embedlift.evaluation.retrieval import Retrieval
from embedlift.evaluation.suites import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embedlift.evaluation.tasks import Task


class Source(NamedTuple):
    """A dataset on the hub, pinned, and what is in it: ``sts`` or ``retrieval``."""

    path: str
    revision: str
    kind: str = "sts"


SOURCES = {
    "STS12": Source("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384"),
    "STS13": Source("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca"),
    "STS14": Source("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375"),
    "STS15": Source("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3"),
    "STS16": Source("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513"),
    "STS-B": Source("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831"),
    "SICK-R": Source("mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d"),
    "BIOSSES": Source("mteb/biosses-sts", "d3fb88f8f02e40887cd149695127462bbcf29b4a"),
    "SciFact": Source("mteb/scifact", "d56462d0e63a25450459c4f213e49ffdb866f7f9", "retrieval"),
    "NFCorpus": Source("mteb/nfcorpus", "ec0fa4fe99da2ff19ca1214b7966684033a58814", "retrieval"),
}
_GROUPS = {"sts": GROUPS["sts"], "retrieval": ("SciFact", "NFCorpus"), "all": tuple(SOURCES)}
_SPLITS = {"dev": "validation"}


def load(names: Iterable[str], *, metrics: Sequence[str] = ("cosine_spearman",)) -> list[Task]:
    """Fetch tasks from the hub, or from the local cache of ``datasets``.

    Args:
        names: Of ``SOURCES``, ``STS-B:dev`` for another split, or the groups ``sts``, ``retrieval`` and ``all``.
        metrics: Of STS.

    Raises:
        InputError: If a name is unknown or the hub cannot be reached.
    """
    wanted = list(dict.fromkeys(task for name in names for task in _GROUPS.get(name, (name,))))
    unknown = [name for name in wanted if name.partition(":")[0] not in SOURCES]
    if unknown:
        raise InputError(
            f"not to be had from the hub: {', '.join(unknown)}: choose from {', '.join(SOURCES)}, "
            "or the groups sts, retrieval and all"
        )
    return [_load(name, metrics) for name in wanted]


def _load(name: str, metrics: Sequence[str]) -> Task:
    base, _, split = name.partition(":")
    source, split = SOURCES[base], split or "test"
    if source.kind == "retrieval":
        documents = _rows(source, "corpus", "corpus")
        queries = {_identifier(row): row["text"] for row in _rows(source, "queries", "queries")}
        relevance: dict[str, dict[str, int]] = {}
        for row in _rows(source, "default", split):
            relevance.setdefault(str(row["query-id"]), {})[str(row["corpus-id"])] = int(row["score"])
        asked = {query: text for query, text in queries.items() if query in relevance}  # of all splits in one file
        return Retrieval(base, split, asked, {_identifier(row): _with_title(row) for row in documents}, relevance)
    rows = _rows(source, None, _SPLITS.get(split, split))
    left, right = ([row[side] for row in rows] for side in ("sentence1", "sentence2"))
    pairs = sts.Pairs(base, left, right, np.array([float(row["score"]) for row in rows]))
    # Another name than that of the test split, which the literature has: the scores are not comparable.
    shown = "SICK-R (9,927 pairs)" if base == "SICK-R" else base
    return sts.Task(shown, split, [pairs], metrics=check_metrics(metrics))


def _rows(source: Source, config: str | None, split: str) -> list[dict[str, Any]]:
    import datasets

    try:
        found = datasets.load_dataset(source.path, config, split=split, revision=source.revision)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot fetch {source.path} ({config or 'default'}, {split}) from the hub: {error}. "
            "Without a network, give a folder with the data instead of the hub"
        ) from None
    return list(found)


def _identifier(row: dict[str, Any]) -> str:
    return str(row["_id"] if "_id" in row else row["id"])


def _with_title(row: dict[str, Any]) -> str:
    return " ".join(part for part in (row.get("title") or "", row["text"]) if part.strip())
