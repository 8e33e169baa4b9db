import numpy as np
import pytest

from embedlift.functional import isotropy


def gaussian(count=3000, dimension=64, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dimension))


def test_an_isotropic_gaussian_is_even():
    figures = isotropy.summary(gaussian())
    assert figures["random_pair_cosine"] == pytest.approx(0, abs=0.01)
    # |u - v|^2 = 2 - 2 cos, and cos has variance 1 / D: log E exp(-4 + 4 cos) is about -4 + 8 / D.
    assert figures["uniformity"] == pytest.approx(-4 + 8 / 64, abs=0.05)
    assert figures["effective_rank"] > 60
    assert figures["dimension"] == 64


def test_vectors_on_one_ray_are_collapsed():
    scales = np.random.default_rng(0).uniform(1, 2, size=(100, 1))
    figures = isotropy.summary(scales * np.arange(1.0, 9.0))
    assert figures["random_pair_cosine"] == pytest.approx(1)
    assert figures["uniformity"] == pytest.approx(0, abs=1e-6)
    assert figures["effective_rank"] == pytest.approx(1)


def test_a_shared_mean_gives_the_cosine_that_theory_says():
    """Unit noise around a mean of squared length m: E[cos] is about m / (m + D)."""
    vectors = gaussian(dimension=400) + 2.0
    assert isotropy.random_pair_cosine(vectors) == pytest.approx(4 / 5, abs=0.01)


def test_no_vector_is_paired_with_itself():
    assert isotropy.random_pair_cosine(np.array([[1.0, 0.0], [-1.0, 0.0]])) == pytest.approx(-1)


@pytest.mark.parametrize(
    ("spectrum", "rank"),
    [([1, 1, 1, 1], 4), ([5, 0, 0], 1), ([2, 2, -1e-18], 2), ([0, 0], 0), ([3, 1], 4 / 3**0.75)],
)
def test_effective_rank_in_closed_form(spectrum, rank):
    """For the shares 3/4 and 1/4: exp(-(3/4 log 3/4 + 1/4 log 1/4)) = 4 / 3^(3/4)."""
    assert isotropy.effective_rank(np.array(spectrum, dtype=float)) == pytest.approx(rank)


def test_figures_do_not_depend_on_rotation():
    vectors = gaussian(200, 8) * np.arange(1, 9) + 1
    rotation = np.linalg.qr(gaussian(8, 8))[0]
    assert isotropy.summary(vectors @ rotation) == pytest.approx(isotropy.summary(vectors))


def test_the_seed_decides_the_draw():
    vectors = gaussian(50, 4)
    assert isotropy.uniformity(vectors, seed=1) == isotropy.uniformity(vectors, seed=1)
    assert isotropy.uniformity(vectors, seed=1) != isotropy.uniformity(vectors, seed=2)
