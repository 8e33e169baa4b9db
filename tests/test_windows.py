import itertools

import numpy as np
import pytest

from embedlift.windows import cut_sorted


def batches(lengths, budget):
    lengths = np.sort(np.array(lengths))[::-1]
    return [lengths[part].tolist() for part in cut_sorted(lengths, budget)]


def test_batches_end_where_the_length_changes_if_that_saves_more_than_a_batch_costs():
    assert batches([5] * 3 + [4] * 5, 20) == [[5] * 3, [4] * 5]
    assert batches([50] * 3 + [49] * 5, 640) == [[50] * 3 + [49] * 5], "3 x 1 tokens of padding, 10 for a batch"
    assert batches([50] * 3 + [40] * 5, 640) == [[50] * 3, [40] * 5]


def cost(parts, lengths, budget):
    return sum((part.stop - part.start) * lengths[part.start] + budget / 64 for part in parts)


def fits(part, lengths, budget):
    size = part.stop - part.start
    return size == 1 or size * lengths[part.start] <= budget


def every_cut(count):
    for chosen in itertools.product([False, True], repeat=count - 1):
        stops = [0, *(place + 1 for place in range(count - 1) if chosen[place]), count]
        yield [slice(*pair) for pair in itertools.pairwise(stops)]


@pytest.mark.parametrize("seed", range(5))
def test_no_other_cut_costs_less(seed):
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(1, 20, size=9))[::-1]
    budget = int(rng.integers(20, 200))
    allowed = [parts for parts in every_cut(9) if all(fits(part, lengths, budget) for part in parts)]
    best = min(cost(parts, lengths, budget) for parts in allowed)
    assert cost(cut_sorted(lengths, budget), lengths, budget) == pytest.approx(best)


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
    """Lengths as in sentences: at most 1 % of what the model works on."""
    lengths = np.sort(np.random.default_rng(0).gamma(6.0, 2.5, size=4000).astype(int) + 3)[::-1]
    padded = sum((part.stop - part.start) * int(lengths[part][0]) for part in cut_sorted(lengths, 1024))
    assert 1 - lengths.sum() / padded < 0.01
