import doctest
import json

import numpy as np
import pytest
from scipy.stats import norm

from embedlift.errors import InputError
from embedlift.evaluation import percentiles
from embedlift.evaluation.percentiles import ScorePercentiles


def normal_scores(count=200_000, seed=0):
    return 0.8 + 0.05 * np.random.default_rng(seed).normal(size=count)


def test_percentiles_of_a_normal_law():
    scale = ScorePercentiles.from_scores(normal_scores())
    scores = np.array([0.7, 0.8, 0.85, 0.9])
    np.testing.assert_allclose(scale.percentiles(scores), 100 * norm.cdf(scores, 0.8, 0.05), atol=0.2)
    assert scale.score_at(99.9) == pytest.approx(norm.ppf(0.999, 0.8, 0.05), abs=0.005)


def test_the_tail_is_resolved_where_thresholds_lie():
    """Of fresh scores, the share above the score at a level is what the level says."""
    scale, fresh = ScorePercentiles.from_scores(normal_scores()), normal_scores(1_000_000, seed=1)
    for level in (99, 99.9, 99.99):
        assert (fresh > scale.score_at(level)).mean() == pytest.approx(1 - level / 100, rel=0.35)


def test_the_order_of_scores_stays():
    scale = ScorePercentiles.from_scores(normal_scores(1000))
    assert (np.diff(scale.percentiles(np.linspace(0.7, 0.9, 500))) >= 0).all()


def test_percentiles_of_random_pairs_are_uniform():
    vectors = np.random.default_rng(0).normal(size=(400, 16)) + 1.5
    scale = ScorePercentiles.fit(vectors, pairs=50_000)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = scale.percentiles((unit @ unit.T)[np.triu_indices(400, 1)])
    np.testing.assert_allclose(np.percentile(found, [5, 25, 50, 75, 95]), [5, 25, 50, 75, 95], atol=1.5)


def test_beyond_all_pairs_it_is_0_or_100_and_nan_stays_nan():
    scale = ScorePercentiles.from_scores([0.1, 0.2])
    np.testing.assert_allclose(scale.percentiles([[-1, 1], [np.nan, 0.15]]), [[0, 100], [np.nan, 50]])


def test_equal_scores_lie_in_the_middle_of_their_levels():
    scale = ScorePercentiles.from_scores([0.5] * 900 + [0.9] * 100)
    assert scale.percentiles(0.5) == pytest.approx(45, abs=2)
    constant = ScorePercentiles.from_scores([0.5, 0.5])
    assert constant.percentiles([0.4, 0.5, 0.6]).tolist() == [0, 50, 100]
    assert constant.score_at(99) == 0.5


def test_levels_with_fewer_than_ten_pairs_above_are_not_measured():
    scale = ScorePercentiles.from_scores(normal_scores(1000))
    assert [scale.is_measured(level) for level in (50, 99, 99.5, 99.9)] == [True, True, False, False]


def test_the_seed_decides_the_pairs():
    vectors = np.random.default_rng(0).normal(size=(50, 4))
    assert ScorePercentiles.fit(vectors, 100, seed=1) == ScorePercentiles.fit(vectors, 100, seed=1)
    assert ScorePercentiles.fit(vectors, 100, seed=1) != ScorePercentiles.fit(vectors, 100, seed=2)


def test_save_and_load(tmp_path):
    scale = ScorePercentiles.from_scores(normal_scores(1000))
    scale.save(tmp_path / "scale.json")
    assert ScorePercentiles.load(str(tmp_path / "scale.json")) == scale
    assert [path.name for path in tmp_path.iterdir()] == ["scale.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "holds no percentiles"),
        ("[]", "holds no percentiles"),
        ('{"percentiles": {"levels": [0], "scores": ["x"], "pairs": 1}}', "holds no percentiles"),
        (json.dumps({"percentiles": {"levels": [0, 50], "scores": [1, 0], "pairs": 9}}), "is damaged"),
        (json.dumps({"percentiles": {"levels": [], "scores": [], "pairs": 9}}), "is damaged"),
        (json.dumps({"percentiles": {"levels": [1, 2], "scores": [1], "pairs": 9}}), "is damaged"),
    ],
)
def test_damaged_files(tmp_path, content, message):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(InputError, match=message):
        ScorePercentiles.load(tmp_path / "s.json")


def test_bad_input(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        ScorePercentiles.load(tmp_path / "missing.json")
    with pytest.raises(InputError, match="at least 2 vectors, got 1"):
        ScorePercentiles.fit(np.ones((1, 4)))
    for scores in ([], [0.1, np.nan], [[0.1]]):
        with pytest.raises(InputError, match="finite numbers of shape"):
            ScorePercentiles.from_scores(scores)
    with pytest.raises(InputError, match="between 0 and 100, got 101"):
        ScorePercentiles.from_scores([0.1]).score_at(101)


def test_the_examples_in_the_docstrings_are_true():
    found = doctest.testmod(percentiles)
    assert (found.failed, found.attempted) == (0, 3)
