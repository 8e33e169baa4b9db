import numpy as np
import pytest

from embedlift.functional.moments import Moments
from embedlift.transforms import Centering


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_the_mean_is_taken_away(dtype):
    x = (np.random.default_rng(0).normal(size=(50, 4)) + 3).astype(dtype)
    z = Centering().fit_transform(x)
    assert z.dtype == dtype
    np.testing.assert_allclose(z, x - x.mean(axis=0), atol=1e-5)


def test_one_vector_is_enough():
    x = np.array([[1.0, 2.0]])
    assert not Centering().fit_transform(x).any()


def test_differences_of_new_vectors_do_not_change():
    fitted = Centering().fit(np.random.default_rng(0).normal(size=(50, 4)) + 3)
    new = np.random.default_rng(1).normal(size=(2, 4))
    np.testing.assert_allclose(np.diff(fitted.transform(new), axis=0), np.diff(new, axis=0))


def test_known_moments_are_as_good_as_the_vectors():
    X = np.random.default_rng(0).normal(size=(50, 4)) + 3
    np.testing.assert_array_equal(Centering().fit_moments(Moments.of(X)).transform(X), Centering().fit(X).transform(X))
