import numpy as np
import pytest

from embedlift.errors import InputError
from embedlift.training.batches import Batches
from embedlift.training.settings import TrainingSettings


def made(count=50, seed=0, lengths=None, **changes):
    lengths = np.ones(count, dtype=np.int64) if lengths is None else lengths
    return list(Batches(lengths, TrainingSettings(**({"batch_size": 8} | changes)), seed))


def test_every_epoch_is_a_permutation_of_all_rows():
    batches = made(epochs=2)
    assert len(batches) == 14
    one, two = sum(batches[:7], []), sum(batches[7:], [])
    assert sorted(one) == sorted(two) == list(range(50))
    assert one != two
    assert [len(batch) for batch in batches[:7]] == [8] * 6 + [2]


def test_the_seed_decides_the_order():
    assert made(seed=1) == made(seed=1)
    assert made(seed=1) != made(seed=2)


@pytest.mark.parametrize("count", [49, 50, 56])
@pytest.mark.parametrize("changes", [{}, {"epochs": 3}, {"max_steps": 2}, {"max_steps": 2, "accumulate": 3}], ids=str)
def test_there_are_as_many_as_said(count, changes):
    batches = Batches(np.ones(count, dtype=np.int64), TrainingSettings(batch_size=8, **changes))
    found = list(batches)
    assert len(found) == len(batches)
    assert min(map(len, found)) > 1


def test_a_row_alone_in_the_last_batch_is_left_out():
    assert [len(batch) for batch in made(count=17)] == [8, 8]


def test_grouped_by_length():
    lengths = np.random.default_rng(0).integers(1, 100, size=1000)

    def spread(batches):
        return np.mean([np.ptp(lengths[batch]) for batch in batches])

    grouped = made(lengths=lengths, group_by_length=True)
    assert sorted(sum(grouped, [])) == list(range(1000))
    assert spread(grouped) < 0.1 * spread(made(lengths=lengths))
    firsts = [lengths[batch[0]] for batch in grouped]
    assert firsts != sorted(firsts), "the order of the groups is random"


def test_fewer_rows_than_a_batch():
    with pytest.raises(InputError, match="the corpus has 7 rows to train on, fewer than a batch"):
        made(count=7)
