import numpy as np
import pytest
from scipy.stats import spearmanr

from embedlift.evaluation import bootstrap


@pytest.mark.parametrize("levels", [3, 10, 10_000])
def test_resamples_are_spearmans_correlation_of_the_resampled_pairs(levels):
    """Rebuild each resample from the counts that the same generator draws, and ask scipy, ties and all."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, levels, 40).astype(float)
    y = np.round(x / levels + rng.normal(size=40), 1)
    draws = bootstrap.spearman_resamples(x, y, resamples=30, seed=5)
    counts = np.random.default_rng(5).multinomial(40, np.full(40, 1 / 40), size=30)
    expected = [spearmanr(np.repeat(x, count), np.repeat(y, count)).statistic for count in counts]
    np.testing.assert_allclose(draws, expected, rtol=1e-9)


def test_blocks_do_not_change_the_draws(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(2, 25))
    whole = bootstrap.spearman_resamples(x, y, resamples=20)
    monkeypatch.setattr(bootstrap, "_BLOCK_BYTES", 8 * 25 * 3)
    np.testing.assert_array_equal(bootstrap.spearman_resamples(x, y, resamples=20), whole)


def test_a_resample_with_a_constant_side_is_undefined():
    draws = bootstrap.spearman_resamples(np.array([0.0, 1.0]), np.array([0.0, 1.0]), resamples=200)
    assert set(draws[np.isfinite(draws)]) == {1.0}
    assert np.isnan(draws).mean() == pytest.approx(0.5, abs=0.15)


def test_about_95_percent_of_intervals_cover_the_truth():
    """The true Spearman correlation of a Gaussian pair with correlation r is 6 / pi * asin(r / 2)."""
    truth = 6 / np.pi * np.arcsin(0.25)
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        x, noise = rng.normal(size=(2, 100))
        draws = bootstrap.spearman_resamples(x, 0.5 * x + 0.75**0.5 * noise, resamples=200)
        low, high = bootstrap.interval(draws)
        covered += low <= truth <= high
    assert 0.89 <= covered / 200 <= 0.99


def test_interval_is_central_and_skips_undefined_draws():
    draws = np.concatenate([np.arange(1001) / 1000, [np.nan] * 10])
    assert bootstrap.interval(draws) == pytest.approx((0.025, 0.975))
    assert bootstrap.interval(np.full(3, np.nan)) is None


def test_mean_resamples_spread_like_the_standard_error():
    values = np.random.default_rng(0).normal(size=400)
    draws = bootstrap.mean_resamples(values)
    assert draws.mean() == pytest.approx(values.mean(), abs=0.01)
    assert draws.std() == pytest.approx(values.std() / 20, rel=0.15)
