import pytest
import torch

from embedlift.errors import InputError
from embedlift.functional.contrastive import cosine_logits, info_nce, other_sentences


def vectors(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def test_logits_are_torch_cosines_over_the_temperature():
    anchors, candidates = vectors(5, 7), vectors(9, 7, seed=1)
    expected = torch.cosine_similarity(anchors[:, None], candidates[None], dim=-1) / 0.3
    torch.testing.assert_close(cosine_logits(anchors, candidates, 0.3), expected)


def test_gradient_is_right_through_both_arguments():
    assert torch.autograd.gradcheck(lambda a, c: cosine_logits(a, c, 0.5), (vectors(4, 6), vectors(5, 6, seed=1)))


def test_gradient_is_right_where_one_tensor_is_both_arguments():
    assert torch.autograd.gradcheck(lambda a: cosine_logits(a, a, 0.5), (vectors(4, 6),))


@pytest.mark.parametrize("constant", [0, 1])
def test_no_gradient_is_made_for_a_constant(constant):
    arguments = [vectors(4, 6), vectors(5, 6, seed=1)]
    arguments[constant].requires_grad_(False)
    cosine_logits(*arguments, 0.5).sum().backward()
    assert arguments[constant].grad is None
    assert arguments[1 - constant].grad.abs().min() > 0


def test_zero_vector_has_cosine_zero_and_a_finite_gradient():
    anchors = torch.zeros(2, 3, requires_grad=True)
    logits = cosine_logits(anchors, vectors(4, 3, dtype=torch.float32), 1.0)
    logits.sum().backward()
    assert logits.abs().max() == 0
    assert anchors.grad.isfinite().all()


def test_autocast_rounds_neither_logits_nor_gradient():
    anchors, candidates = vectors(5, 64, dtype=torch.float32), vectors(9, 64, dtype=torch.float32, seed=1)
    weights = torch.linspace(-1, 1, 45).view(5, 9)
    exact = cosine_logits(anchors, candidates, 0.01)
    expected = torch.autograd.grad((exact * weights).sum(), (anchors, candidates))
    with torch.autocast("cpu", dtype=torch.bfloat16):  # backward inside too, where matmuls would be rounded
        logits = cosine_logits(anchors, candidates, 0.01)
        found = torch.autograd.grad((logits * weights).sum(), (anchors, candidates))
    assert logits.dtype == torch.float32
    assert torch.equal(logits, exact)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_half_precision_arguments_get_gradients_of_their_own_dtype():
    anchors, candidates = vectors(5, 8, dtype=torch.bfloat16), vectors(9, 8, dtype=torch.float32)
    logits = cosine_logits(anchors, candidates, 0.01)
    logits.sum().backward()
    assert logits.dtype == torch.float32
    assert (anchors.grad.dtype, candidates.grad.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("temperature", [0, -0.1, float("nan")])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(InputError, match="temperature must be positive"):
        cosine_logits(vectors(2, 3), vectors(2, 3), temperature)


def test_info_nce_is_cross_entropy_where_an_anchor_has_one_positive():
    logits = vectors(6, 6)
    differ = ~torch.eye(6, dtype=torch.bool)
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(6))
    torch.testing.assert_close(info_nce(logits.diagonal()[:, None], logits, differ), expected)


def test_anchor_without_negatives_adds_neither_loss_nor_gradient():
    logits = vectors(3, 4)
    is_negative = torch.tensor([[True] * 4, [False] * 4, [True] * 4])
    loss = info_nce(logits[:, :1], logits, is_negative)
    loss.backward()
    alone = info_nce(logits[[0, 2], :1], logits[[0, 2]], is_negative[[0, 2]])
    torch.testing.assert_close(loss, alone * 2 / 3)
    assert logits.grad.isfinite().all()
    assert logits.grad[1].abs().max() == 0


def test_identical_sentences_are_not_others():
    differ = other_sentences(torch.zeros(3, 2), torch.tensor([7, 4, 7]))
    assert differ.tolist() == [[False, True, False], [True, False, True], [False, True, False]]
    assert other_sentences(torch.zeros(2, 5)).tolist() == [[False, True], [True, False]]


def test_a_batch_needs_two_sentences_and_one_id_for_each():
    with pytest.raises(InputError, match=r"B must be at least 2, got \(1, 5\)"):
        other_sentences(torch.zeros(1, 5))
    with pytest.raises(InputError, match=r"shape \(B,\) = \(3,\), got \(2,\)"):
        other_sentences(torch.zeros(3, 5), torch.arange(2))
