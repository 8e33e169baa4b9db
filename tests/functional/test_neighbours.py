import numpy as np
import pytest
from scipy.stats import skew
from sklearn.neighbors import NearestNeighbors

from embedlift.functional import neighbours
from embedlift.functional.neighbours import scan_all_pairs, skewness
from embedlift.functional.similarity import unit_rows


def unit(count=200, dimension=6, shift=0.0):
    return unit_rows(np.random.default_rng(0).normal(size=(count, dimension)) + shift)


@pytest.fixture(params=[1, 10_000, 2**25], ids=["a row a block", "some rows", "one block"])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(neighbours, "_BLOCK_BYTES", request.param)


@pytest.mark.parametrize("k", [1, 10, 199])
def test_occurrences_are_those_of_scikit_learn(block_bytes, k):
    found = NearestNeighbors(n_neighbors=k, metric="cosine").fit(unit()).kneighbors(return_distance=False)
    expected = np.bincount(found.ravel(), minlength=200)
    np.testing.assert_array_equal(scan_all_pairs(unit(), k, 1.0).occurrence, expected)


def test_close_pairs_are_counted_once_and_the_closest_are_named(block_bytes):
    vectors = unit()
    left, right = np.triu_indices(200, 1)
    cosines = (vectors[left] * vectors[right]).sum(axis=1)
    found = scan_all_pairs(vectors, 3, 0.9, keep=4)
    assert found.close == (cosines > 0.9).sum() > 4
    best = np.argsort(-cosines)[:4]
    assert [pair[:2] for pair in found.closest] == list(zip(left[best], right[best], strict=True))
    np.testing.assert_allclose([pair[2] for pair in found.closest], cosines[best])


def test_no_pair_is_close(block_bytes):
    assert (scan_all_pairs(np.eye(5), 1, 0.5).close, scan_all_pairs(np.eye(5), 1, 0.5).closest) == (0, [])


def test_a_star_has_a_hub():
    """Seven points around one: it is the nearest of all of them, and none of them is another's."""
    spokes = unit_rows(np.concatenate([np.ones((7, 1)), np.eye(7)], axis=1))
    vectors = np.concatenate([spokes, np.eye(8)[:1]])
    found = scan_all_pairs(vectors, 1, 1.0)
    assert found.occurrence[7] == 7
    assert sorted(found.occurrence[:7]) == [0, 0, 0, 0, 0, 0, 1]
    assert skewness(found.occurrence) == pytest.approx(skew(found.occurrence))


def test_skewness_of_neighbours_by_chance():
    """Poisson counts of mean k: 1 / sqrt(k)."""
    counts = np.random.default_rng(0).poisson(10, size=200_000)
    assert skewness(counts) == pytest.approx(1 / np.sqrt(10), abs=0.02)
