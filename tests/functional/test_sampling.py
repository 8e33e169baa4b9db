import numpy as np
import pytest

from embedlift.functional.sampling import sample_places


@pytest.mark.parametrize("most", [5, 8])
def test_few_rows_are_all_taken(most):
    assert sample_places(5, most, 0).tolist() == [0, 1, 2, 3, 4]


def test_a_sample_is_distinct_rising_and_decided_by_the_seed():
    places = sample_places(1000, 50, 3)
    assert len(places) == 50
    assert (np.diff(places) > 0).all()
    assert 0 <= places[0] <= places[-1] < 1000
    np.testing.assert_array_equal(places, sample_places(1000, 50, 3))
    assert not np.array_equal(places, sample_places(1000, 50, 4))
