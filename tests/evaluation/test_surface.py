import numpy as np
import pytest

from embedlift.evaluation.surface import mean_log_frequency, surface_correlations

TEXTS = ["a " * n + "b" for n in range(30)]
LEFT, RIGHT = np.triu_indices(30, 1)


def test_a_score_made_of_the_difference_of_lengths():
    length = np.array([len(text) for text in TEXTS])
    found = surface_correlations(-np.abs(length[LEFT] - length[RIGHT]).astype(float), TEXTS, LEFT, RIGHT)
    assert found.length_difference == pytest.approx(-1)
    assert abs(found.length_sum) < 0.1


def test_a_score_made_of_the_sum_of_frequencies():
    frequency = mean_log_frequency(TEXTS)
    found = surface_correlations(frequency[LEFT] + frequency[RIGHT], TEXTS, LEFT, RIGHT)
    assert found.frequency_sum == pytest.approx(1)


def test_random_scores_have_nothing_to_do_with_the_surface():
    cosines = np.random.default_rng(0).normal(size=len(LEFT))
    found = surface_correlations(cosines, TEXTS, LEFT, RIGHT)
    assert max(map(abs, vars(found).values())) < 0.15


def test_mean_log_frequency_by_hand():
    """The words are the, cat, The, dog and sat: "the" is 2 of 5."""
    expected = [np.log([2 / 5, 1 / 5]).mean(), np.log([2 / 5, 1 / 5, 1 / 5]).mean()]
    np.testing.assert_allclose(mean_log_frequency(["the cat", "The dog sat!"]), expected)


def test_characters_are_the_words_of_scripts_without_spaces():
    """Of the six words of the first text, a character each, one comes twice; in the other, letters join."""
    found = mean_log_frequency(["天上天下人間", "two words"])
    expected = [np.log([2 / 8, 1 / 8, 2 / 8, 1 / 8, 1 / 8, 1 / 8]).mean(), np.log(1 / 8)]
    np.testing.assert_allclose(found, expected)


def test_texts_without_words_are_left_out():
    texts = ["one two", "...", "one", "one two three", "two"]
    left, right = np.triu_indices(5, 1)
    cosines = np.arange(len(left), dtype=float)
    assert np.isnan(mean_log_frequency(texts)).tolist() == [False, True, False, False, False]
    assert surface_correlations(cosines, texts, left, right).frequency_sum is not None


@pytest.mark.parametrize("texts", [["abc"] * 4, ["..."] * 4], ids=["all alike", "no words"])
def test_what_does_not_vary_is_undefined(texts):
    left, right = np.triu_indices(4, 1)
    found = surface_correlations(np.arange(6.0), texts, left, right)
    assert set(vars(found).values()) == {None}


def test_constant_cosines_are_undefined():
    assert set(vars(surface_correlations(np.ones(len(LEFT)), TEXTS, LEFT, RIGHT)).values()) == {None}
