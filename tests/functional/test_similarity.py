import numpy as np
import pytest

from embedlift.functional.similarity import paired_cosine, paired_dot, paired_euclidean, paired_manhattan, unit_rows


def test_rows_get_length_one_and_keep_their_direction():
    rows = unit_rows(np.array([[3.0, 4.0], [-2.0, 0.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [-1.0, 0.0]])


def test_zero_rows_stay_zero():
    assert not unit_rows(np.zeros((2, 3))).any()


@pytest.mark.parametrize(
    ("left", "right", "cosine"),
    [
        ([1, 0], [0, 2], 0),
        ([1, 0], [5, 0], 1),
        ([1, 0], [-3, 0], -1),
        ([1, 0], [1, 1], 0.5**0.5),
        ([0, 0], [1, 1], 0),
        ([0, 0], [0, 0], 0),
    ],
)
def test_cosine_of_pairs(left, right, cosine):
    pairs = paired_cosine(np.array([left, left], dtype=float), np.array([right, right], dtype=float))
    np.testing.assert_allclose(pairs, [cosine, cosine], atol=1e-15)


def test_cosine_does_not_depend_on_scale():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 50, 8))
    np.testing.assert_allclose(paired_cosine(left, right), paired_cosine(1e-3 * left, 1e4 * right), rtol=1e-12)


@pytest.mark.parametrize(
    ("similarity", "expected"), [(paired_dot, [11, 0]), (paired_euclidean, [-(8**0.5), 0]), (paired_manhattan, [-4, 0])]
)
def test_other_similarities_of_pairs(similarity, expected):
    """The larger, the more alike: distances are negative."""
    found = similarity(np.array([[1.0, 2], [0, 0]]), np.array([[3.0, 4], [0, 0]]))
    np.testing.assert_allclose(found, expected)
