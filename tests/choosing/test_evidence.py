import numpy as np
import pytest
from scipy.stats import spearmanr

from embedlift.choosing.evidence import gather

N, D = 60, 32


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def copies(sentences, rng, noise=0.0):
    return sentences + noise * rng.normal(size=sentences.shape)


def test_a_perfect_model_finds_everything(rng):
    x = rng.normal(size=(N, D))
    found = gather(x, copies(x, rng), np.full(N, 0.5), seed=0)
    np.testing.assert_allclose(found.recovery, 0)
    assert found.grading() > 0.85  # only two values of deletion: ties


def test_a_collapsed_model_finds_nothing():
    x = np.ones((N, D))
    found = gather(x, x, np.linspace(0.1, 0.9, N), seed=0)
    np.testing.assert_allclose(found.recovery, -np.log(N))
    assert found.grading() == 0
    assert found.uniformity == pytest.approx(0)


def test_grading_is_spearman_of_cosine_and_kept_share(rng):
    x, share = rng.normal(size=(N, D)), rng.uniform(0.1, 0.9, size=N)
    altered = (1 - share[:, None]) * x + share[:, None] * rng.normal(size=(N, D))
    found = gather(x, altered, share, seed=0)
    assert found.grading() == pytest.approx(spearmanr(found.cosines, -found.deletion).statistic)
    assert found.grading() > 0.85  # half of the shares are 1, and ties hold it down
    rows = rng.integers(N, size=N)
    both = np.r_[rows, rows + N]
    assert found.grading(rows) == pytest.approx(spearmanr(found.cosines[both], -found.deletion[both]).statistic)


def test_more_noise_is_worse_in_every_figure_of_the_copies(rng):
    x = rng.normal(size=(N, D))
    better, worse = (gather(x, copies(x, rng, noise), np.full(N, 0.5), seed=0).summary() for noise in (0.5, 3.0))
    assert all(better[name] > worse[name] for name in ("grading", "recovery"))


def test_lengths_do_not_matter_and_the_seed_decides(rng):
    x = rng.normal(size=(N, D))
    altered = copies(x, rng, 1.0)
    first = gather(x, altered, np.full(N, 0.5), seed=1).summary()
    assert gather(3 * x, 7 * altered, np.full(N, 0.5), seed=1).summary() == pytest.approx(first)
    assert gather(x, altered, np.full(N, 0.5), seed=2).summary()["grading"] != first["grading"]
