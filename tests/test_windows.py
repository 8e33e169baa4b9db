import numpy as np
import pytest

from embedlift.windows import cut_sorted


def batches(lengths, budget):
    lengths = np.sort(np.array(lengths))[::-1]
    return [lengths[part].tolist() for part in cut_sorted(lengths, budget)]


def test_a_batch_that_is_half_full_ends_where_the_length_changes():
    assert batches([5] * 3 + [4] * 9, 20) == [[5, 5, 5], [4] * 5, [4] * 4]
    assert batches([5] * 1 + [4] * 9, 20) == [[5, 4, 4, 4], [4] * 5, [4]], "less than half full: filled up"


def test_a_text_above_the_budget_goes_alone():
    assert batches([50, 9, 1], 10) == [[50], [9], [1]]


@pytest.mark.parametrize("budget", [1, 7, 64, 1024])
def test_every_text_is_in_one_batch_within_the_budget(budget):
    lengths = np.sort(np.random.default_rng(0).integers(1, 80, size=500))[::-1]
    parts = list(cut_sorted(lengths, budget))
    assert np.array_equal(np.concatenate([lengths[part] for part in parts]), lengths)
    assert all(part.stop - part.start == 1 or (part.stop - part.start) * lengths[part][0] <= budget for part in parts)


def test_no_texts_give_no_batch():
    assert list(cut_sorted(np.empty(0, dtype=np.int64), 10)) == []


def test_little_of_many_short_texts_is_padding():
    """Lengths as in sentences: at most 3 % of what the model works on."""
    lengths = np.sort(np.random.default_rng(0).gamma(6.0, 2.5, size=4000).astype(int) + 3)[::-1]
    padded = sum((part.stop - part.start) * int(lengths[part][0]) for part in cut_sorted(lengths, 1024))
    assert 1 - lengths.sum() / padded < 0.03
