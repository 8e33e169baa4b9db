"""Semantic textual similarity: does the similarity of two vectors follow the judgement of people?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from embedlift.errors import InputError
from embedlift.evaluation.bootstrap import interval, own_seed, sentence_clusters
from embedlift.evaluation.correlation import Correlation, Similarities, check_metrics, correlate
from embedlift.evaluation.labelled_lines import read_labelled
from embedlift.evaluation.results import Score
from embedlift.evaluation.senteval_text import senteval_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from embedlift.evaluation.tasks import Vectors

Aggregation = Literal["all", "mean", "wmean"]
AGGREGATIONS: tuple[Aggregation, ...] = ("all", "mean", "wmean")

#: Year -> its files, as the literature has them: STS13's SMT, which few can get, is no part of the usual figure.
SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "OnWN", "SMTeuroparl", "SMTnews"),
    "STS13": ("FNWN", "OnWN", "headlines"),
    "STS14": ("OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
#: Task -> its files under the data folder; ``{split}`` stands for train, dev or test.
TASKS = {
    **{year: f"sts/{year}/*.tsv" for year in SUBSETS},
    "STS-B": "stsb/stsb_{split}.tsv",
    "SICK-R": "sick/sickr_{split}.tsv",
    "BIOSSES": "domain_bio/biosses.tsv",
}
#: Machine translations of STS-B: ``STS-B-es`` for Spanish.
_TRANSLATED = "STS-B-"
_TRANSLATIONS = "stsb_mt/stsb_{language}_{{split}}.tsv"
_SPLITS = {"dev": ("dev", "trial"), "train": ("train",), "test": ("test",)}
#: Lowest and highest gold score, where they aren't 0 and 5.
_RANGES = {"SICK-R": (1.0, 5.0), "BIOSSES": (0.0, 4.0)}


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs with gold similarities: one file of a task.

    Attributes:
        name: Name of the subset.
        left: First sentences.
        right: Second sentences.
        gold: Similarities, shape (n,).
    """

    name: str
    left: list[str]
    right: list[str]
    gold: NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A task: the correlation of similarities with the gold similarities.

    Attributes:
        name: Such as ``STS12``.
        split: Such as ``test``.
        subsets: Its files.
        aggregation: How the subsets become one score: ``all`` pools their pairs (SimCSE, mteb), ``mean`` averages
            their scores, ``wmean`` weights that average by size (BERT-flow, SentEval). The same model differs by
            several points between them.
        metrics: Some of :data:`embedlift.evaluation.correlation.METRICS`.
    """

    name: str
    split: str
    subsets: list[Pairs]
    aggregation: Aggregation = "all"
    metrics: tuple[str, ...] = ("cosine_spearman",)

    def texts(self) -> Iterator[str]:
        """Return both sentences of every pair."""
        for pairs in self.subsets:
            yield from pairs.left
            yield from pairs.right

    def scores(self, vectors: Vectors, model: str, seed: int) -> list[Score]:
        """Return a score for each subset, if there are several, and one for the whole; each for every metric."""
        compared = [
            Similarities.of(vectors.of(pairs.left), vectors.of(pairs.right), self.metrics) for pairs in self.subsets
        ]
        found = [
            self._correlate(pairs, similarities, seed)
            for pairs, similarities in zip(self.subsets, compared, strict=True)
        ]
        whole = _joined(self.subsets)
        if len(self.subsets) == 1:
            of_whole = found[0]
        elif self.aggregation == "all":
            of_whole = self._correlate(whole, Similarities.pooled(compared), seed)
        else:
            of_whole = self._averages(found)
        rows = []
        if len(self.subsets) > 1:
            for pairs, correlations in zip(self.subsets, found, strict=True):
                rows += self._rows(model, pairs.name, pairs, correlations, vectors)
        return rows + self._rows(model, None, whole, of_whole, vectors)

    def _correlate(self, pairs: Pairs, similarities: Similarities, seed: int) -> list[Correlation]:
        own = own_seed(seed, f"{self.name}:{self.split}/{pairs.name}")
        clusters = sentence_clusters(pairs.left, pairs.right)
        return correlate(similarities, pairs.gold, self.metrics, seed=own, clusters=clusters)

    def _averages(self, found: list[list[Correlation]]) -> list[Correlation]:
        sizes = np.array([len(pairs.gold) for pairs in self.subsets])
        weights = sizes / sizes.sum() if self.aggregation == "wmean" else np.full(len(sizes), 1 / len(sizes))
        averages = []
        for subsets in zip(*found, strict=True):
            value = float(weights @ [correlation.value for correlation in subsets])
            draws = weights @ np.stack([correlation.draws for correlation in subsets])
            notes = [correlation.note for correlation in subsets if correlation.note]
            averages.append(Correlation(value, draws, notes[0] if notes else None))
        return averages

    def _rows(
        self, model: str, subset: str | None, pairs: Pairs, found: list[Correlation], vectors: Vectors
    ) -> list[Score]:
        beside = vectors.zeros_note([*pairs.left, *pairs.right])
        rows = []
        for metric, correlation in zip(self.metrics, found, strict=True):
            defined = bool(np.isfinite(correlation.value))
            notes = [correlation.note, beside if metric.startswith("cosine") else None]
            score = Score(
                model=model,
                task=self.name,
                split=self.split,
                subset=subset,
                metric=metric,
                aggregation=self.aggregation if subset is None else None,
                score=correlation.value if defined else None,
                n=len(pairs.gold),
                interval=interval(correlation.draws) if defined else None,
                note="; ".join(filter(None, notes)) or None,
                draws=correlation.draws,
            )
            rows.append(score)
        return rows


def _joined(subsets: Sequence[Pairs]) -> Pairs:
    return Pairs(
        "all",
        [text for pairs in subsets for text in pairs.left],
        [text for pairs in subsets for text in pairs.right],
        np.concatenate([pairs.gold for pairs in subsets]),
    )


def load_task(
    data: Path,
    name: str,
    aggregation: Aggregation = "all",
    *,
    metrics: Sequence[str] = ("cosine_spearman",),
    senteval: bool = False,
) -> Task:
    """Read a task of the folder ``data``, or any file in the same layout.

    Args:
        data: Folder.
        name: Such as ``STS12``, ``STS-B`` (its test split), ``STS-B:dev``, ``STS-B-es`` (translated, see
            :func:`languages`), or the path of a ``.tsv`` file, as it is or from ``data``.
        aggregation: See :class:`Task`.
        metrics: See :class:`Task`.
        senteval: Whether to write the text as SentEval's files have it (needs the extra ``senteval``).

    Raises:
        InputError: If the task or its files are missing, or a line is not ``score, sentence, sentence``.
    """
    base, split, files = _find(data, name)
    limits = None if name.endswith(".tsv") else _RANGES.get(base, (0.0, 5.0))
    subsets = [read_pairs(file, limits) for file in files]
    if senteval:
        lower = base != "SICK-R"
        subsets = [
            replace(
                pairs,
                left=[senteval_text(text, lower=lower) for text in pairs.left],
                right=[senteval_text(text, lower=lower) for text in pairs.right],
            )
            for pairs in subsets
        ]
    return Task(base, split, subsets, aggregation, check_metrics(metrics))


def languages(data: Path) -> list[str]:
    """Return the languages whose translation of STS-B is in the folder ``data``."""
    return sorted({file.stem.split("_")[1] for file in data.glob(_TRANSLATIONS.format(language="*").format(split="*"))})


def _find(data: Path, name: str) -> tuple[str, str, list[Path]]:
    """Return name, split and files of a task."""
    if name.endswith(".tsv"):
        file = Path(name) if Path(name).is_file() else data / name
        if not file.is_file():
            raise InputError(f"no file {name}, neither here nor in {data}")
        return file.stem, "test", [file]
    base, _, split = name.partition(":")
    language = base.removeprefix(_TRANSLATED) if base.startswith(_TRANSLATED) else ""
    pattern = _TRANSLATIONS.format(language=language) if language.isalpha() else TASKS.get(base)
    if pattern is None or (split and ("{split}" not in pattern or split not in _SPLITS)):
        known = ", ".join([*TASKS, *(_TRANSLATED + language for language in languages(data))])
        raise InputError(
            f"unknown task {name!r}: choose from {known} (STS-B and SICK-R also as STS-B:dev or :train) "
            "or give the path of a .tsv file (score, sentence, sentence)"
        )
    split = split or "test"
    patterns = list(dict.fromkeys(pattern.format(split=spelling) for spelling in _SPLITS[split]))
    files = sorted(file for pattern in patterns for file in data.glob(pattern))
    if not files:
        raise InputError(f"{name}: no file {' or '.join(str(data / pattern) for pattern in patterns)}")
    return base, split, _complete(base, files)


def _complete(base: str, files: list[Path]) -> list[Path]:
    """Return the files of a year's usual figure; a folder that has none of them is taken as it is.

    Raises:
        InputError: If some are there and some are not: the score would not be comparable with any table.
    """
    known = [file for file in files if file.stem in SUBSETS.get(base, ())]
    missing = sorted(set(SUBSETS.get(base, ())) - {file.stem for file in known})
    if known and missing:
        there = ", ".join(file.name for file in known)
        raise InputError(
            f"{base}: missing in {files[0].parent}: {', '.join(f'{name}.tsv' for name in missing)} (there: {there}); "
            "without them the score is not that of the task; a single file can be evaluated by its path"
        )
    return known or files


def read_pairs(path: Path, limits: tuple[float, float] | None = None) -> Pairs:
    """Read ``score<TAB>sentence<TAB>sentence``, without header or quoting.

    Args:
        path: File.
        limits: Lowest and highest possible score.

    Raises:
        InputError: Naming file and line.
    """
    left, right, gold = [], [], []
    for score, (one, other), where in read_labelled(path, 2, "score"):
        gold.append(_read_score(score, limits, where))
        left.append(one)
        right.append(other)
    if not gold:
        raise InputError(f"{path}: no pairs: the file is empty")
    return Pairs(path.stem, left, right, np.array(gold))


def _read_score(text: str, limits: tuple[float, float] | None, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not np.isfinite(score):
        raise InputError(f"{where}: the score {text!r} is not a number")
    if limits and not limits[0] <= score <= limits[1]:
        raise InputError(f"{where}: the score {text} is outside of the task's range, {limits[0]:g} to {limits[1]:g}")
    return score


def check_aggregation(name: str) -> Aggregation:
    """Return ``name`` if it is an aggregation.

    Raises:
        InputError: If it is none.
    """
    for known in AGGREGATIONS:
        if known == name:
            return known
    raise InputError(f"unknown aggregation {name!r}: choose one of {', '.join(AGGREGATIONS)}")
