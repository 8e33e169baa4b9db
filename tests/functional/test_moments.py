import numpy as np
import pytest

from embedlift.functional.moments import Moments


def cloud(count, dimension=5, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dimension)) + np.arange(dimension)


def assert_same(one, other):
    assert one.count == other.count
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    np.testing.assert_allclose(one.scatter, other.scatter, rtol=1e-10, atol=1e-10)


def test_moments_are_count_mean_and_unbiased_covariance():
    vectors = cloud(40)
    moments = Moments.of(vectors)
    assert moments.count == 40
    np.testing.assert_allclose(moments.mean, vectors.mean(axis=0))
    np.testing.assert_allclose(moments.covariance(), np.cov(vectors.T))


@pytest.mark.parametrize("cuts", [[10], [1], [39], [1, 2, 3, 30]], ids=str)
def test_pieces_of_any_size_merge_to_the_whole(cuts):
    vectors = cloud(40)
    first, *rest = np.split(vectors, cuts)
    merged = Moments.of(first)
    for piece in rest:
        merged = merged.merge(Moments.of(piece))
    assert_same(merged, Moments.of(vectors))


def test_merging_is_associative_and_does_not_depend_on_order():
    a, b, c = (Moments.of(cloud(count, seed=count)) for count in (3, 1, 20))
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert_same(a.merge(b), b.merge(a))


def test_a_large_mean_in_float32_does_not_drown_the_variance():
    """The textbook formula E[x^2] - E[x]^2 loses everything here: the squares are 1e8, the variance is 1."""
    noise = np.random.default_rng(0).normal(size=(4000, 3))
    vectors = (noise + 1e4).astype(np.float32)
    merged = Moments.of(vectors[:1000]).merge(Moments.of(vectors[1000:]))
    assert merged.scatter.dtype == np.float64
    np.testing.assert_allclose(merged.covariance(), np.cov(noise.T), atol=2e-3)  # rounding of the input: 5e-4 each


def test_one_vector_has_no_scatter():
    moments = Moments.of(np.array([[3.0, 4.0]], dtype=np.float32))
    assert moments.count == 1
    assert not moments.scatter.any()
