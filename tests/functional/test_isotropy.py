import numpy as np
import pytest
import torch
from IsoScore import IsoScore as isoscore_package
from scipy.special import hyp0f1

from embedlift.functional import isotropy
from embedlift.functional.moments import Moments


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


def spectrum_of(vectors):
    return np.linalg.eigvalsh(Moments.of(vectors).covariance())


def test_uniformity_of_the_sphere_in_closed_form():
    """E exp(4 cos) over the sphere is 0F1(D / 2, 4)."""
    assert isotropy.uniformity(gaussian(dimension=16), pairs=200_000) == pytest.approx(
        -4 + np.log(hyp0f1(8, 4)), abs=0.01
    )


def test_cosines_of_many_pairs_are_those_of_each():
    unit = gaussian(50, 4)
    left, right = isotropy.random_pairs(50, 40_000, seed=0)
    np.testing.assert_allclose(isotropy.cosines_of_pairs(unit, left, right), (unit[left] * unit[right]).sum(axis=1))
    assert (left != right).all()


@pytest.mark.parametrize(
    ("spectrum", "score"),
    [([1, 1, 1, 1], 1), ([7, 0, 0, 0], 0), ([2, 2, 0, 0, 0], 1 / 4), ([3, 1], 16 / 10 - 1), ([1e300, 1e300], 1)],
)
def test_isoscore_in_closed_form(spectrum, score):
    """k equal eigenvalues of D give (k - 1) / (D - 1); for 3 and 1: (3 + 1)^2 / (9 + 1) - 1."""
    assert isotropy.isoscore(np.array(spectrum, dtype=float)) == pytest.approx(score)


CLOUDS = {
    "even": gaussian(2000, 8),
    "uneven": gaussian(2000, 8) * np.arange(1, 9) + 3,
    "one direction": gaussian(300, 1) * np.arange(1.0, 9.0),
    "few": gaussian(5, 8),
}


@pytest.mark.parametrize("name", CLOUDS)
def test_isoscore_equals_the_package_of_its_authors(name):
    found = isotropy.isoscore(spectrum_of(CLOUDS[name]))
    assert found == pytest.approx(float(isoscore_package.IsoScore(CLOUDS[name])), abs=1e-6)  # the package's float32


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_isoscore_star_equals_the_package_of_its_authors(name, weight):
    spectrum = spectrum_of(CLOUDS[name])
    sphere = torch.from_numpy(spectrum.mean() * np.eye(8))
    expected = isoscore_package.IsoScore_star(CLOUDS[name], sphere, weight)
    assert isotropy.isoscore_star(spectrum, len(CLOUDS[name]), weight) == pytest.approx(float(expected), abs=1e-6)


def test_isoscore_of_few_vectors_is_low_and_isoscore_star_is_not():
    """A sample of N vectors of an even cloud has a participation ratio near D / (1 + D / N)."""
    spectrum = spectrum_of(gaussian(80, 160))
    assert isotropy.isoscore(spectrum) == pytest.approx((160 / 3 - 1) / 159, rel=0.03)
    assert isotropy.isoscore_star(spectrum, 80) == pytest.approx(1, abs=0.01)


def test_isoscore_star_of_many_vectors_is_isoscore():
    vectors = gaussian(3000, 8) * np.arange(1, 9)
    assert isotropy.isoscore_star(spectrum_of(vectors), 3000) == pytest.approx(
        isotropy.isoscore(spectrum_of(vectors)), rel=0.01
    )


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_isoscores_do_not_depend_on_scale(scale):
    spectrum = spectrum_of(gaussian(20, 8) * np.arange(1, 9))
    assert isotropy.isoscore(spectrum * scale) == pytest.approx(isotropy.isoscore(spectrum))
    assert isotropy.isoscore_star(spectrum * scale, 20) == pytest.approx(isotropy.isoscore_star(spectrum, 20))


@pytest.mark.parametrize(("rows", "dimension"), [(40, 8), (5, 8)])
def test_rankme_is_the_entropy_of_the_singular_values(rows, dimension):
    vectors = gaussian(rows, dimension) * np.arange(1, dimension + 1) + 1
    singular = np.linalg.svd(vectors, compute_uv=False)
    p = singular / singular.sum()
    found = isotropy.rankme(np.linalg.eigvalsh(vectors.T @ vectors))
    assert found == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-4)


@pytest.mark.parametrize(("singular", "rank"), [([1, 1, 1, 1], 4), ([5, 0, 0], 1), ([3, 1], 4 / 3**0.75)])
def test_rankme_in_closed_form(singular, rank):
    assert isotropy.rankme(np.array(singular, dtype=float) ** 2) == pytest.approx(rank, rel=1e-5)
