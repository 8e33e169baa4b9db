import numpy as np
import pytest

from embedlift.transforms.rows import RandomBatches


def numbered(count):
    """Return rows that hold their own number."""
    return np.repeat(np.arange(count, dtype=np.float32)[:, None], 3, axis=1)


@pytest.mark.parametrize("count", [2, 9, 300, 20_001])
def test_every_row_is_held_out_or_drawn_once_in_each_epoch(count):
    batches = RandomBatches(numbered(count), 0.1, seed=[0])
    epochs = [np.concatenate(list(batches.epoch(1)))[:, 0] for _ in range(2)]
    for drawn in epochs:
        assert len(drawn) == batches.count
        everything = np.concatenate([drawn, batches.held_out[:, 0]])
        np.testing.assert_array_equal(np.sort(everything), np.arange(count))
    assert count < 300 or not np.array_equal(*epochs)
    assert np.isin(batches.sample[:, 0], epochs[0]).all()
    assert abs(len(batches.held_out) - 0.1 * count) <= max(1, 0.01 * count)


def test_batches_are_full_and_cross_the_shuffled_windows():
    batches = RandomBatches(numbered(20_000), 0.0, seed=[0])
    drawn = list(batches.epoch(3_000))
    assert [len(batch) for batch in drawn] == [3_000] * 6
    assert len(np.unique(np.concatenate(drawn)[:, 0])) == 18_000


def test_what_is_held_out_is_bounded():
    assert len(RandomBatches(numbered(100_000), 0.5, seed=[0]).held_out) == 8192


def test_memory_map_gives_the_same_batches(tmp_path):
    np.save(tmp_path / "rows.npy", numbered(500))
    sources = (numbered(500), np.load(tmp_path / "rows.npy", mmap_mode="r"))
    one, other = (list(RandomBatches(rows, 0.2, seed=[1, 2]).epoch(64)) for rows in sources)
    np.testing.assert_array_equal(one, other)
