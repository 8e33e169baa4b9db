import torch

from embedlift.functional.buckets import buckets


def sizes(tensors, elements):
    return [[tensor.numel() for tensor in tensors[part]] for part in buckets(tensors, elements)]


def test_portions_are_filled_in_order_and_large_tensors_stand_alone():
    tensors = [torch.zeros(n) for n in (3, 4, 20, 1, 2, 7, 1)]
    assert sizes(tensors, 10) == [[3, 4], [20], [1, 2, 7], [1]]


def test_a_portion_has_one_dtype():
    tensors = [torch.zeros(1), torch.zeros(2), torch.zeros(3, dtype=torch.bfloat16), torch.zeros(4)]
    assert sizes(tensors, 100) == [[1, 2], [3], [4]]


def test_nothing_gives_nothing():
    assert sizes([], 10) == []
