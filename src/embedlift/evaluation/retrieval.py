"""Retrieval: do queries find the documents that belong to them?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.errors import InputError
from embedlift.evaluation.bootstrap import mean
from embedlift.evaluation.scoring import scored, undefined
from embedlift.functional.similarity import unit_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from embedlift.evaluation.results import Score
    from embedlift.evaluation.tasks import Vectors

#: Documents looked at for each query: Recall@100 is the deepest of the measures.
DEPTH = 100
METRICS = ("cosine_ndcg_at_10", "cosine_recall_at_100", "cosine_mrr_at_10")

_BLOCK_BYTES = 64 * 2**20
_STEPS = 1e6  # cosines in float32 that differ by less than 1e-6 hold nothing but rounding errors


@dataclass(frozen=True)
class Retrieval:
    """A task: each query ranks all documents by cosine.

    The prompts stand before the texts in what :meth:`texts` gives, as sentence-transformers puts them: a model with
    prompts for queries and documents is asked through a copy of the task, ``dataclasses.replace(task,
    query_prompt=..., document_prompt=...)``, and encodes without a prompt of its own.

    Attributes:
        name: Such as ``SciFact``.
        split: Such as ``test``.
        queries: Id -> text.
        documents: Id -> text, a title included.
        relevance: Id of a query -> id of a document -> grade; those above 0 are relevant.
        query_prompt: Put before each query.
        document_prompt: Put before each document.
    """

    name: str
    split: str
    queries: dict[str, str]
    documents: dict[str, str]
    relevance: dict[str, dict[str, int]]
    query_prompt: str = ""
    document_prompt: str = ""

    def __post_init__(self) -> None:
        """Check that judgements are of known queries and documents.

        Raises:
            InputError: If they are not, or if no query has a relevant document.
        """
        unknown = [query for query in self.relevance if query not in self.queries]
        if unknown:
            raise InputError(f"{self.name}: judgements of unknown queries: {_some(unknown)}")
        named = {document for grades in self.relevance.values() for document in grades}
        unknown = sorted(named - self.documents.keys())
        if unknown:
            raise InputError(f"{self.name}: judgements of unknown documents: {_some(unknown)}")
        if not self._judged():
            raise InputError(f"{self.name}: no query has a relevant document")

    def _judged(self) -> list[str]:
        """Ids of the queries with a relevant document."""
        found = self.relevance
        return [query for query in self.queries if max(found.get(query, {}).values(), default=0) > 0]

    def texts(self) -> Iterator[str]:
        """Return the queries that have a relevant document, and all documents, with their prompts."""
        for query in self._judged():
            yield self.query_prompt + self.queries[query]
        for document in self.documents.values():
            yield self.document_prompt + document

    def scores(self, vectors: Vectors, model: str, seed: int) -> list[Score]:
        """Return nDCG@10, Recall@100 and MRR@10, each a mean over queries; the bootstrap draws queries."""
        judged = self._judged()
        queries = vectors.of([self.query_prompt + self.queries[query] for query in judged])
        documents = vectors.of([self.document_prompt + text for text in self.documents.values()])
        left_out = len(self.queries) - len(judged)
        notes = [f"{left_out} of {len(self.queries)} queries without a relevant document left out"] if left_out else []
        if not (np.isfinite(queries).all() and np.isfinite(documents).all()):
            return undefined(
                self, model, len(judged), METRICS, "; ".join(["NaN or infinity in the vectors", *notes]), unit="queries"
            )
        notes += ["collapsed: all documents have the same vector"] if _alike(documents) else []
        values = measure(self._search(judged, queries, documents), {query: self.relevance[query] for query in judged})
        statistics = {metric: mean(found) for metric, found in values.items()}
        found = dict.fromkeys(METRICS, "; ".join(notes) or None)
        return scored(self, model, len(judged), statistics, seed=seed, unit="queries", notes=found)

    def _search(
        self, judged: list[str], queries: NDArray[np.floating], documents: NDArray[np.floating]
    ) -> dict[str, list[str]]:
        """Return the ids of the first documents for each query."""
        ids = list(self.documents)
        row = {document: place for place, document in enumerate(ids)}
        grades = [{row[document]: grade for document, grade in self.relevance[query].items()} for query in judged]
        return {
            query: [ids[place] for place in places]
            for query, places in zip(judged, nearest(queries, documents, grades), strict=True)
        }


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _alike(vectors: NDArray[np.floating]) -> bool:
    lengths = np.linalg.norm(vectors, axis=1)
    first = vectors[0] / max(float(lengths[0]), 1e-30)
    return bool((np.abs(vectors @ first - lengths) <= lengths / _STEPS).all())


def role_prompts(prompts: Mapping[str, str]) -> tuple[str, str]:
    """Return what sentence-transformers' ``encode_query`` and ``encode_document`` put before texts.

    Args:
        prompts: A model's prompts by name.
    """
    document = next((prompts[name] for name in ("document", "passage", "corpus") if name in prompts), "")
    return prompts.get("query", ""), document


def nearest(
    queries: NDArray[np.floating],
    documents: NDArray[np.floating],
    grades: list[dict[int, int]],
    depth: int = DEPTH,
) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of the ``depth`` documents of the highest cosine for each query, nearest first.

    The search is exact, and goes over blocks of queries, so that it takes little memory beside the vectors. Of
    documents of equal cosine (to 1e-6) those of the lowest grade come first, so that ties count against the model: a
    collapsed one cannot look good.

    Args:
        queries: Shape (Q, D).
        documents: Shape (N, D).
        grades: Row of a document -> its grade, for each query; 0 for those not named.
        depth: Number of documents.
    """
    queries, documents = unit_rows(queries), unit_rows(documents)
    depth = min(depth, len(documents))
    highest = max((grade for found in grades for grade in found.values()), default=0)
    size = max(1, _BLOCK_BYTES // (8 * len(documents)))
    for start in range(0, len(queries), size):
        cosines = queries[start : start + size] @ documents.T
        keys = np.rint(cosines * _STEPS).astype(np.int64) * (highest + 1)
        for key, found in zip(keys, grades[start : start + size], strict=True):
            for row, grade in found.items():
                key[row] -= max(grade, 0)
            first = np.argpartition(-key, depth - 1)[:depth]
            yield first[np.argsort(-key[first], kind="stable")]


def measure(ranked: dict[str, list[str]], relevance: dict[str, dict[str, int]]) -> dict[str, NDArray[np.float64]]:
    """Return each of ``METRICS`` for each query in order, shape (Q,), as trec_eval computes it.

    Args:
        ranked: Query -> documents, best first.
        relevance: Query -> document -> grade.

    Raises:
        InputError: If pytrec_eval is not installed.
    """
    pytrec_eval = _pytrec_eval()
    runs = {query: {document: float(-place) for place, document in enumerate(found)} for query, found in ranked.items()}
    first = {query: dict(list(run.items())[:10]) for query, run in runs.items()}
    measures = {"ndcg_cut.10", f"recall.{DEPTH}"}
    deep = pytrec_eval.RelevanceEvaluator(relevance, measures).evaluate(runs)
    shallow = pytrec_eval.RelevanceEvaluator(relevance, {"recip_rank"}).evaluate(first)
    return {
        "cosine_ndcg_at_10": np.array([deep[query]["ndcg_cut_10"] for query in ranked]),
        "cosine_recall_at_100": np.array([deep[query][f"recall_{DEPTH}"] for query in ranked]),
        "cosine_mrr_at_10": np.array([shallow[query]["recip_rank"] for query in ranked]),
    }


def _pytrec_eval() -> Any:
    try:
        import pytrec_eval
    except ImportError:
        raise InputError("retrieval needs pytrec_eval: pip install 'embedlift[evaluation]'") from None
    return pytrec_eval


def known_item_ranks(
    queries: NDArray[np.floating], documents: NDArray[np.floating], relevant: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the rank, from 1, of each query's one document by cosine.

    Args:
        queries: Shape (Q, D).
        documents: Shape (N, D).
        relevant: Row of each query's document, shape (Q,).
    """
    return ranks_from_scores(unit_rows(queries) @ unit_rows(documents).T, relevant)


def ranks_from_scores(scores: NDArray[np.floating], relevant: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank, from 1, of each query's document: scores (Q, N), relevant (Q,) -> (Q,).

    Ties count against the query, so a collapsed model cannot look good.
    """
    own = scores[np.arange(len(scores)), relevant]
    return (scores >= own[:, None]).sum(axis=1)


def reciprocal_ranks(ranks: NDArray[np.int64], cutoff: int = 10) -> NDArray[np.float64]:
    """Return 1 / rank, or 0 beyond the cutoff; the mean over queries is MRR@cutoff."""
    return np.where(ranks <= cutoff, 1.0 / ranks, 0.0)
