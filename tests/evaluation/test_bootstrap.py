"""Statistics of resamples against scipy and scikit-learn on the items repeated as often as they were drawn."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import average_precision_score, roc_auc_score

from embedlift.evaluation import bootstrap


def drawn(counts, *values):
    """The items of each resample, one array per side."""
    for row in counts.astype(int):
        yield tuple(np.repeat(side, row) for side in values)


@pytest.fixture(params=[3, 10, 10_000], ids="{} levels".format)
def scored(request):
    """Scores with many, some or no ties, and labels that they follow."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, request.param, 40).astype(float)
    return x, np.round(x / request.param + rng.normal(size=40), 1)


COUNTS = bootstrap.resample_counts(40, resamples=30, seed=5)


@pytest.mark.parametrize(
    ("statistic", "reference"), [(bootstrap.spearman, spearmanr), (bootstrap.pearson, pearsonr)], ids=["rho", "r"]
)
def test_correlations_are_those_of_the_resampled_pairs(scored, statistic, reference):
    expected = [reference(*sides).statistic for sides in drawn(COUNTS, *scored)]
    np.testing.assert_allclose(statistic(*scored)(COUNTS), expected, rtol=1e-9)


def test_pearson_survives_a_large_offset(scored):
    """Cosines around 0.99, as anisotropic models give them: naive sums of squares would cancel."""
    x, y = scored
    np.testing.assert_allclose(
        bootstrap.pearson(1e6 + x, y - 1e6)(COUNTS), bootstrap.pearson(x, y)(COUNTS), rtol=1e-6, atol=1e-8
    )


def accuracy_at_the_best_threshold(positive, scores):
    return max(((scores >= t) == positive).mean() for t in [*np.unique(scores), np.inf])


@pytest.mark.parametrize(
    ("statistic", "reference"),
    [
        (bootstrap.roc_auc, roc_auc_score),
        (bootstrap.average_precision, average_precision_score),
        (bootstrap.best_accuracy, accuracy_at_the_best_threshold),
    ],
    ids=["auc", "ap", "accuracy"],
)
def test_statistics_of_labelled_scores_are_those_of_the_resampled_items(scored, statistic, reference):
    scores, y = scored
    positive = y > np.median(y)
    expected = [reference(labels, values) for labels, values in drawn(COUNTS, positive, scores)]
    np.testing.assert_allclose(statistic(scores, positive)(COUNTS), expected, rtol=1e-9)


def test_mean_is_that_of_the_resampled_items(scored):
    expected = [values.mean() for (values,) in drawn(COUNTS, scored[0])]
    np.testing.assert_allclose(bootstrap.mean(scored[0])(COUNTS), expected)


def test_each_resample_has_as_many_items_as_the_sample():
    assert COUNTS.shape == (30, 40)
    assert (COUNTS.sum(axis=1) == 40).all()
    assert (COUNTS == 0).mean() == pytest.approx(np.exp(-1), abs=0.05)


def test_a_cluster_is_drawn_whole_or_not_at_all():
    clusters = np.array([0, 1, 1, 2, 2, 2])
    counts = bootstrap.resample_counts(6, 500, seed=1, clusters=clusters)
    np.testing.assert_array_equal(counts, bootstrap.resample_counts(3, 500, seed=1)[:, clusters])
    assert set(counts.sum(axis=1)) > {3, 6, 9}


@pytest.mark.parametrize("clusters", [None, np.arange(25) // 2])
def test_blocks_do_not_change_the_draws(monkeypatch, clusters):
    x, y = np.random.default_rng(0).normal(size=(2, 25))
    statistics = [bootstrap.spearman(x, y), bootstrap.pearson(x, y)]
    whole = bootstrap.draws(statistics, 25, resamples=20, clusters=clusters)
    counts = bootstrap.resample_counts(25, 20, clusters=clusters)
    monkeypatch.setattr(bootstrap, "_BLOCK_BYTES", 8 * 25 * 3)
    np.testing.assert_array_equal(bootstrap.resample_counts(25, 20, clusters=clusters), counts)
    np.testing.assert_allclose(bootstrap.draws(statistics, 25, resamples=20, clusters=clusters), whole, rtol=1e-12)


@pytest.mark.parametrize("statistic", [bootstrap.spearman, bootstrap.pearson])
def test_a_resample_with_a_constant_side_is_undefined(statistic):
    x = np.array([0.1, 0.7])
    (draws,) = bootstrap.draws([statistic(x, x)], 2, resamples=200)
    assert draws[np.isfinite(draws)] == pytest.approx(1)
    assert np.isnan(draws).mean() == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("statistic", [bootstrap.roc_auc, bootstrap.average_precision])
def test_a_resample_without_positives_is_undefined(statistic):
    counts = np.array([[2.0, 0.0], [1.0, 1.0]])
    found = statistic(np.array([0.1, 0.7]), np.array([False, True]))(counts)
    assert np.isnan(found[0])
    assert found[1] == 1


def test_interval_is_central_and_skips_undefined_draws():
    draws = np.concatenate([np.arange(1001) / 1000, [np.nan] * 10])
    assert bootstrap.interval(draws) == pytest.approx((0.025, 0.975))
    assert bootstrap.interval(draws, level=0.5) == pytest.approx((0.25, 0.75))
    assert bootstrap.interval(np.full(3, np.nan)) is None


def test_pairs_that_share_a_sentence_directly_or_through_others_are_a_cluster():
    left = ["a", "c", "d", "f", "b"]
    right = ["b", "d", "e", "g", "x"]
    assert bootstrap.sentence_clusters(left, right).tolist() == [0, 1, 1, 2, 0]


def test_the_sentences_are_resampled_where_one_cluster_would_hold_nearly_all_pairs():
    left, right = zip(*[(i, j) for i in range(6) for j in range(i + 1)], strict=True)
    units = bootstrap.sentence_clusters(*[[f"sentence {i}" for i in side] for side in (left, right)])
    assert units.shape == (21, 2)
    counts, drawn = bootstrap.resample_counts(21, 50, 3, units), bootstrap.resample_counts(6, 50, 3)
    for pair, (i, j) in enumerate(units):
        expected = drawn[:, i] if i == j else drawn[:, i] * drawn[:, j]
        np.testing.assert_array_equal(counts[:, pair], expected)


@pytest.mark.parametrize("statistic", [bootstrap.spearman, bootstrap.pearson])
def test_an_empty_resample_is_undefined(statistic):
    """It happens where the sentences of few pairs are resampled."""
    x = np.arange(3.0)
    assert np.isnan(statistic(x, x)(np.zeros((1, 3)))).all()
    assert np.isnan(bootstrap.mean(x)(np.zeros((1, 3)))).all()


def shared_errors(rng, sentences, pairs):
    """Values of pairs, half of whose variance comes from their two sentences."""
    effect = rng.normal(size=sentences)
    return effect[pairs].sum(axis=1) / 2 + rng.normal(size=len(pairs)) * 0.5**0.5


STAR = np.array([[hub, 15 + 4 * hub + leaf] for hub in range(15) for leaf in range(4)])
TABLE = np.array([[i, j] for i in range(15) for j in range(i)])


@pytest.mark.parametrize(("pairs", "lowest"), [(STAR, 0.85), (TABLE, 0.9)], ids=["one against four", "all against all"])
def test_intervals_cover_the_truth_where_pairs_share_sentences(pairs, lowest):
    """Intervals from single pairs do not, which is why they are not used."""
    units = bootstrap.sentence_clusters(*[[f"sentence {i}" for i in side] for side in pairs.T])
    covered = dict.fromkeys(("shared", "single"), 0)
    counts = {
        "shared": bootstrap.resample_counts(len(pairs), 300, 0, units),
        "single": bootstrap.resample_counts(len(pairs), 300, 0),
    }
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = shared_errors(rng, pairs.max() + 1, pairs)
        for name, drawn in counts.items():
            low, high = bootstrap.interval(bootstrap.mean(values)(drawn))
            covered[name] += low <= 0 <= high
    assert lowest <= covered["shared"] / 200
    assert covered["single"] < covered["shared"] - 10


def test_about_95_percent_of_intervals_cover_the_truth():
    """The true Spearman correlation of a Gaussian pair with correlation r is 6 / pi * asin(r / 2)."""
    truth = 6 / np.pi * np.arcsin(0.25)
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        x, noise = rng.normal(size=(2, 100))
        (draws,) = bootstrap.draws([bootstrap.spearman(x, 0.5 * x + 0.75**0.5 * noise)], 100, resamples=200)
        low, high = bootstrap.interval(draws)
        covered += low <= truth <= high
    assert 0.89 <= covered / 200 <= 0.99
