"""Walk over a model's tensors in portions, so that scratch space stays small and launches few."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor


def buckets(tensors: Sequence[Tensor], elements: int = 2**20) -> Iterator[slice]:
    """Yield slices of ``tensors`` with about ``elements`` elements each, of one device and dtype.

    A temporary of a whole model costs its memory once more and never stays in a cache; one call for each
    tensor costs a launch on an accelerator. A tensor larger than ``elements`` is a bucket of its own.
    """
    start, total = 0, 0
    for stop, tensor in enumerate(tensors):
        first = tensors[start]
        alike = tensor.device == first.device and tensor.dtype == first.dtype
        if stop > start and (total + tensor.numel() > elements or not alike):
            yield slice(start, stop)
            start, total = stop, 0
        total += tensor.numel()
    if tensors:
        yield slice(start, len(tensors))
