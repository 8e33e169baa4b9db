import dataclasses
import sys

import numpy as np
import pytest
from table_encoder import TableEncoder

from embedlift.errors import InputError
from embedlift.evaluation import retrieval
from embedlift.evaluation.tasks import evaluate


def test_ranks_by_cosine_not_by_length():
    queries = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.2]])
    documents = np.array([[9.0, 9.0], [0.1, 0.0], [0.0, 0.5]])
    ranks = retrieval.known_item_ranks(queries, documents, np.array([1, 2, 2]))
    assert ranks.tolist() == [1, 1, 3]


def test_a_collapsed_model_comes_last_and_not_first():
    same = np.ones((4, 3))
    assert retrieval.known_item_ranks(same, same, np.arange(4)).tolist() == [4, 4, 4, 4]


def test_ties_count_against_the_query():
    scores = np.array([[0.5, 0.5, 0.1], [0.9, 0.5, 0.5]])
    assert retrieval.ranks_from_scores(scores, np.array([0, 0])).tolist() == [2, 1]


@pytest.mark.parametrize(("rank", "value"), [(1, 1), (2, 0.5), (10, 0.1), (11, 0)])
def test_reciprocal_rank_with_cutoff(rank, value):
    assert retrieval.reciprocal_ranks(np.array([rank])) == pytest.approx([value])


def task(**changes):
    """Three queries and four documents; the second query has two relevant ones, the last none."""
    settings = {
        "name": "Facts",
        "split": "test",
        "queries": {"q1": "east", "q2": "north", "q3": "west"},
        "documents": {"d1": "sunrise", "d2": "pole", "d3": "ice", "d4": "sea"},
        "relevance": {"q1": {"d1": 1}, "q2": {"d2": 2, "d3": 1, "d4": 0}},
    }
    return retrieval.Retrieval(**(settings | changes))


VECTORS = {
    "east": [1.0, 0.0],
    "north": [0.0, 1.0],
    "west": [-1.0, 0.0],
    "sunrise": [5.0, 0.1],
    "pole": [0.5, 1.0],
    "ice": [0.0, 3.0],
    "sea": [0.4, 0.1],
}


def found(task, vectors=VECTORS):
    return {score.metric: score for score in evaluate(TableEncoder(vectors), "m", [task])}


def test_figures_by_hand():
    """Query 1 finds its document first; query 2 finds the document of grade 1 before that of grade 2."""
    scores = found(task())
    ideal, got = 2 + 1 / np.log2(3), 1 + 2 / np.log2(3)
    assert scores["cosine_ndcg_at_10"].score == pytest.approx((1 + got / ideal) / 2)
    assert scores["cosine_mrr_at_10"].score == 1
    assert scores["cosine_recall_at_100"].score == 1
    assert all(score.n == 2 and "1 of 3 queries without a relevant document" in score.note for score in scores.values())


def test_figures_are_those_of_a_plain_computation():
    """Binary relevance over 300 random documents: nDCG@10, Recall@100 and MRR@10 written out."""
    rng = np.random.default_rng(0)
    documents = {f"d{i}": f"document {i}" for i in range(300)}
    queries = {f"q{i}": f"query {i}" for i in range(40)}
    relevance = {query: {f"d{i}": 1 for i in rng.choice(300, 3, replace=False)} for query in queries}
    vectors = {text: rng.normal(size=4) for text in (*documents.values(), *queries.values())}
    expected = []
    for query, text in queries.items():
        unit = {d: np.array(vectors[t]) / np.linalg.norm(vectors[t]) for d, t in documents.items()}
        order = sorted(documents, key=lambda d: -(vectors[text] @ unit[d]))
        hits = np.array([d in relevance[query] for d in order])
        gains = 1 / np.log2(np.arange(2, 12))
        first = hits[:10].argmax() + 1 if hits[:10].any() else np.inf
        expected.append([(hits[:10] * gains).sum() / gains[:3].sum(), hits[:100].sum() / 3, 1 / first])
    scores = found(task(queries=queries, documents=documents, relevance=relevance), vectors)
    assert [score.score for score in scores.values()] == pytest.approx(np.mean(expected, axis=0), abs=1e-6)
    assert all(score.interval[0] <= score.score <= score.interval[1] for score in scores.values())


@pytest.mark.parametrize("block", [1, 64 * 2**20], ids=["one query at a time", "all at once"])
def test_the_search_is_exact_in_blocks(monkeypatch, block):
    monkeypatch.setattr(retrieval, "_BLOCK_BYTES", block)
    rng = np.random.default_rng(0)
    queries, documents = rng.normal(size=(7, 5)), rng.normal(size=(50, 5))
    cosines = queries @ (documents / np.linalg.norm(documents, axis=1, keepdims=True)).T
    nearest = list(retrieval.nearest(queries, documents, [{}] * 7, depth=10))
    assert np.array_equal(nearest, np.argsort(-cosines, axis=1)[:, :10])


def test_ties_go_against_the_model_lowest_grade_first():
    documents = np.array([[2.0, 0.0], [1.0, 1e-9], [3.0, 0.0], [0.0, 1.0]])
    (rows,) = retrieval.nearest(np.array([[1.0, 0.0]]), documents, [{0: 2, 1: 1}])
    assert rows.tolist() == [2, 1, 0, 3]


@pytest.mark.parametrize("vector", [[1.0, 1.0], [0.0, 0.0]], ids=["one vector", "zero"])
def test_a_collapsed_model_finds_nothing_first(vector):
    documents = {f"d{i}": f"document {i}" for i in range(150)}
    given = task(documents=documents, queries={"q": "query"}, relevance={"q": {"d0": 1}})
    scores = found(given, dict.fromkeys([*documents.values(), "query"], vector))
    assert [score.score for score in scores.values()] == [0, 0, 0]
    assert all("collapsed: all documents have the same vector" in score.note for score in scores.values())


def test_nan_is_called_so():
    scores = found(task(), VECTORS | {"ice": [np.nan, 1.0]})
    assert all(score.score is None and "undefined: NaN" in score.note for score in scores.values())


def test_prompts_stand_before_the_texts():
    prompted = dataclasses.replace(task(), query_prompt="find: ", document_prompt="text: ")
    assert list(prompted.texts()) == ["find: east", "find: north", *(f"text: {t}" for t in task().documents.values())]
    vectors = {("find: " if t in ("east", "north", "west") else "text: ") + t: v for t, v in VECTORS.items()}
    assert [s.score for s in found(prompted, vectors).values()] == [s.score for s in found(task()).values()]


def test_prompts_of_a_model_are_those_that_sentence_transformers_uses():
    assert retrieval.role_prompts({"query": "q: ", "passage": "p: ", "corpus": "c: "}) == ("q: ", "p: ")
    assert retrieval.role_prompts({"query": "q: ", "document": "", "passage": "p: "}) == ("q: ", "")
    assert retrieval.role_prompts({"sts": "s: "}) == ("", "")


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        ({"q1": {"d1": 1}, "q9": {"d1": 1}}, "judgements of unknown queries: 'q9'"),
        ({"q1": {f"x{i}": 1 for i in range(7)}}, "unknown documents: 'x0', 'x1', 'x2', 'x3', 'x4' and 2 more"),
        ({"q1": {"d1": 0}}, "no query has a relevant document"),
    ],
)
def test_judgements_that_cannot_be_used_are_named(relevance, message):
    with pytest.raises(InputError, match=message):
        task(relevance=relevance)


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytrec_eval", None)
    with pytest.raises(InputError, match=r"pip install 'embedlift\[evaluation\]'"):
        found(task())
