import numpy as np
import pytest

from embedlift.evaluation import retrieval


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
