"""Items made by a thread while their reader works on the ones before."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

T = TypeVar("T")


def read_ahead(items: Iterable[T], count: int = 1) -> Generator[T]:
    """Yield ``items``, of which a thread makes up to ``count`` before they are asked for.

    One thread makes all of them, in order. What it raises is raised here in its turn, with its traceback. The thread
    ends with the generator: a reader that may stop early wraps it in :func:`contextlib.closing`, which waits for the
    item that is being made.

    Args:
        items: Read in the thread only.
        count: Made and not yet taken, at most.
    """
    rest, end = iter(items), object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead") as thread:
        waiting = deque(thread.submit(next, rest, end) for _ in range(count))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(thread.submit(next, rest, end))
                yield item  # type: ignore[misc]  # the end is not yielded
        finally:
            for future in waiting:
                future.cancel()
