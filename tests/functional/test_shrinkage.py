import numpy as np
import pytest
from sklearn.covariance import oas

from embedlift.functional.shrinkage import oas_weight


@pytest.mark.parametrize("count", [10, 200])
def test_the_weight_is_that_of_equation_23(count):
    covariance = np.diag([4.0, 1.0, 1.0])
    trace, squared = 6, 18
    by_hand = ((1 - 2 / 3) * squared + trace**2) / ((count + 1 - 2 / 3) * (squared - trace**2 / 3))
    assert oas_weight(trace, (covariance**2).sum(), 3, count) == pytest.approx(min(1, by_hand))


def test_a_sphere_is_shrunk_to_itself():
    assert oas_weight(3.0, 3.0, 3, 100) == 1


def test_it_falls_with_the_number_of_vectors_as_in_scikit_learn():
    """scikit-learn leaves out the terms in 1 / D, so the two agree in many dimensions."""
    vectors = np.random.default_rng(0).normal(size=(300, 60)) * np.linspace(1, 4, 60)
    centred = vectors - vectors.mean(axis=0)
    covariance = centred.T @ centred / len(vectors)
    found = oas_weight(np.trace(covariance), (covariance**2).sum(), 60, 300)
    assert found == pytest.approx(oas(centred, assume_centered=True)[1], rel=0.05)
