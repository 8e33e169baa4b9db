import numpy as np
import pytest
from table_encoder import TableEncoder

from embedlift.evaluation import sts
from embedlift.evaluation.tasks import Vectors, evaluate

FIRST = sts.Pairs("a", ["x", "y", "x"], ["y", "z", "z"], np.array([1.0, 2.0, 3.0]))
SECOND = sts.Pairs("b", ["z", "w", "y"], ["z", "x", "w"], np.array([1.0, 2.0, 3.0]))
TASKS = [sts.Task("one", "test", [FIRST]), sts.Task("two", "test", [SECOND])]


def encoder(seed):
    rng = np.random.default_rng(seed)
    return TableEncoder({text: rng.normal(size=3) for text in "xyzw"})


def test_each_distinct_text_is_encoded_once_for_all_tasks():
    asked = encoder(0)
    evaluate(asked, "m", TASKS)
    assert sorted(asked.asked) == ["w", "x", "y", "z"]


def test_the_same_seed_gives_every_model_the_same_resamples():
    """Where a resample is undefined for one model by its gold scores, it is for the other: they are the same pairs."""
    first, second = (evaluate(encoder(seed), "m", TASKS, seed=5) for seed in (0, 1))
    for one, other in zip(first, second, strict=True):
        assert not np.array_equal(one.draws, other.draws, equal_nan=True)
        assert np.array_equal(np.isnan(one.draws), np.isnan(other.draws))


def test_vectors_are_looked_up_by_text():
    vectors = Vectors(["a", "b", "c"], np.array([[1.0, 0], [0, 0], [3, 4]]))
    assert vectors.of(["c", "a", "c"]).tolist() == [[3, 4], [1, 0], [3, 4]]
    assert vectors.zeros(["a", "b", "b"]) == 1
    with pytest.raises(KeyError):
        vectors.of(["d"])
