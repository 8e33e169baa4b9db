import threading
import traceback
from contextlib import closing

import pytest

from embedlift.read_ahead import read_ahead


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("length", [0, 1, 2, 50])
def test_all_items_come_in_order_from_one_other_thread(length, count):
    makers = set()

    def items():
        for number in range(length):
            makers.add(threading.get_ident())
            yield number

    assert list(read_ahead(items(), count)) == list(range(length))
    assert len(makers) == min(1, length)
    assert threading.get_ident() not in makers
    assert not threads()


@pytest.mark.parametrize("count", [1, 3])
def test_items_are_made_while_their_reader_works_and_not_too_many(count):
    made = []
    reached = threading.Semaphore(0)

    def items():
        for number in range(10):
            made.append(number)
            reached.release()
            yield number

    with closing(read_ahead(items(), count)) as ready:
        assert next(ready) == 0
        for _ in range(1 + count):  # or the test hangs
            reached.acquire()
        for number in range(1, 10):
            assert next(ready) == number
            assert len(made) <= number + 1 + count


def test_an_error_comes_in_its_turn_with_its_own_traceback():
    def items():
        yield 1
        yield 2
        raise ValueError("broken")

    got = []
    with pytest.raises(ValueError, match="broken") as caught:
        got.extend(read_ahead(items()))
    assert got == [1, 2]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "items"
    assert not threads()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_no_thread_stays_when_the_reader_stops(error):
    endless = iter(int, 1)
    with pytest.raises(error), closing(read_ahead(endless, 5)) as ready:
        for _ in ready:
            raise error
    assert not threads()
    assert next(endless) == 0, "nobody else reads it"


def test_nothing_starts_before_the_first_item_is_asked_for():
    ready = read_ahead(iter(int, 1))
    assert not threads()
    ready.close()
