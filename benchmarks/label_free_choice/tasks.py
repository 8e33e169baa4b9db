"""The study's tasks: their unlabelled sentences, and the labels that judge a choice but never make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import ndcg_score, roc_auc_score

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_FITTING = 1000


@dataclass(frozen=True)
class Task:
    """A task with labels.

    Attributes:
        name: Its name.
        texts: Distinct sentences.
        metric: ``spearman``, ``auc`` or ``ndcg``.
        left: Places of first sentences, or of queries.
        right: Places of second sentences, or of documents.
        gold: Labels of the pairs, shape (n,), or relevance of documents, shape (queries, documents).
        corpus: Places of the texts that fit and criteria see, shape (m,).
    """

    name: str
    texts: list[str]
    metric: str
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    gold: NDArray[np.float64]
    corpus: NDArray[np.int64]

    def score(self, vectors: NDArray[np.float32]) -> float:
        """Return the quality of ``vectors``, one for each text: x 100."""
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        if self.metric == "ndcg":
            scores = unit[self.left] @ unit[self.right].T
            return 100 * float(ndcg_score(self.gold, scores, k=10))
        cosines = np.einsum("nd,nd->n", unit[self.left], unit[self.right])
        if not np.isfinite(cosines).all() or np.ptp(cosines) == 0:
            return 0.0
        if self.metric == "auc":
            return 100 * float(roc_auc_score(self.gold, cosines))
        return 100 * float(spearmanr(cosines, self.gold).statistic)


def load(name: str, data: Path, pairs: int) -> Task:
    """Read a task, at most about ``pairs`` of its pairs."""
    if name in ("SciFact", "PubMedQA"):
        return _retrieval(name, data, pairs)
    if name == "BIOSSES":
        more = (data / "corpora/biomedical_abstracts_part1.txt").read_text(encoding="utf-8").splitlines()
        rng = np.random.default_rng(0)
        chosen = [more[i] for i in np.sort(rng.permutation(len(more))[:_FITTING])]
        return _pairs(name, [data / "domain_bio/biosses.tsv"], pairs, "spearman", chosen)
    if name == "QNLI":
        return _pairs(name, [data / "qnli/qnli_dev.tsv"], pairs, "auc", None)
    files = {"STS-B": ["stsb/stsb_test.tsv"], "SICK-R": ["sick/sickr_test.tsv"]}
    for language in ("es", "de", "fr", "zh", "ru"):
        files[f"STS-B {language}"] = [f"stsb_mt/stsb_{language}_test.tsv"]
    found = [data / file for file in files[name]] if name in files else sorted((data / "sts" / name).glob("*.tsv"))
    return _pairs(name, found, pairs, "spearman", None)


def _read(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]


def _pairs(name: str, files: list[Path], limit: int, metric: str, fitted_on: list[str] | None) -> Task:
    rows = [row for file in files for row in _read(file)]
    chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:limit])
    places: dict[str, int] = {}
    left = [places.setdefault(rows[i][1], len(places)) for i in chosen]
    right = [places.setdefault(rows[i][2], len(places)) for i in chosen]
    gold = np.array([float(rows[i][0]) for i in chosen])
    corpus = np.arange(len(places))
    if fitted_on is not None:
        corpus = np.array([places.setdefault(text, len(places)) for text in fitted_on])
    return Task(name, list(places), metric, np.array(left), np.array(right), gold, np.unique(corpus))


def _retrieval(name: str, data: Path, limit: int) -> Task:
    folder = data / "retrieval" / name.lower()
    tests = "_test" if name == "SciFact" else ""
    documents = [row for file in sorted(folder.glob("corpus*.tsv")) for row in _read(file)]
    queries = _read(folder / f"queries{tests}.tsv")[: limit // 2]
    wanted = {(row[0], row[1]) for row in _read(folder / f"qrels{tests}.tsv") if float(row[2]) > 0}
    needed = {document for query, document in wanted if query in {row[0] for row in queries}}
    order = np.random.default_rng(0).permutation(len(documents))
    kept = [documents[i] for i in order if documents[i][0] in needed]
    kept += [documents[i] for i in order if documents[i][0] not in needed][: max(0, limit - len(kept))]
    places: dict[str, int] = {}
    left = [places.setdefault(row[1], len(places)) for row in queries]
    # Abstracts are cut: the study's time goes into their encoding. Their first words decide most.
    right = [places.setdefault(" ".join(f"{row[1]} {row[2]}".split()[:60]), len(places)) for row in kept]
    gold = np.array([[float((query[0], row[0]) in wanted) for row in kept] for query in queries])
    answered = gold.any(axis=1)
    return Task(
        name, list(places), "ndcg", np.array(left)[answered], np.array(right), gold[answered], np.arange(len(places))
    )
