import numpy as np
import pytest

from embedlift.functional.cosine_sums import CosineSums


def cloud(count=30, dimension=5):
    return np.random.default_rng(0).normal(size=(count, dimension)) + np.arange(dimension)


def pair_products(vectors):
    """The products of unit vectors, dimension by dimension, of all pairs of different rows: (pairs, D)."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    left, right = np.triu_indices(len(unit), 1)
    return unit[left] * unit[right]


def test_contributions_are_means_over_all_pairs():
    sums, products = CosineSums.of(cloud()), pair_products(cloud())
    np.testing.assert_allclose(sums.contributions(), products.mean(axis=0))
    assert sums.mean_cosine() == pytest.approx(products.sum(axis=1).mean())


def test_pieces_merge_to_the_whole():
    merged = CosineSums.of(cloud()[:7]).merge(CosineSums.of(cloud()[7:]))
    np.testing.assert_allclose(merged.contributions(), CosineSums.of(cloud()).contributions())


def test_a_rogue_dimension_adds_nearly_everything():
    vectors = np.random.default_rng(0).normal(size=(500, 10))
    vectors[:, 3] += 100
    contributions = CosineSums.of(vectors).contributions()
    assert contributions.argmax() == 3
    assert contributions[3] == pytest.approx(1, abs=0.01)
    assert np.abs(np.delete(contributions, 3)).max() < 1e-4


def test_zero_vectors_do_not_count():
    with_zeros = np.concatenate([cloud(), np.zeros((4, 5))])
    sums = CosineSums.of(with_zeros)
    assert sums.count == 30
    assert sums.mean_cosine() == pytest.approx(CosineSums.of(cloud()).mean_cosine())


def test_float16_vectors_are_summed_in_float64():
    vectors = np.full((3000, 2), 1.0, dtype=np.float16)
    sums = CosineSums.of(vectors)
    assert sums.total.dtype == np.float64
    assert sums.mean_cosine() == pytest.approx(1, abs=1e-12)
