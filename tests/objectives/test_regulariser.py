import pytest
import torch

from embedlift.errors import InputError
from embedlift.objectives.regulariser import add_weight_regulariser

SHAPES = [(3, 4), (4,), (2**10, 2**11), (5, 2), (7,)]  # the third is a bucket of its own


def parameters(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in SHAPES]


def of_autograd(trained, frozen, strength):
    value = strength * sum((f - t).square().sum() for t, f in zip(trained, frozen, strict=True))
    return value, torch.autograd.grad(value, [t for t in trained if t.requires_grad])


def test_value_and_gradient_are_those_of_autograd():
    trained, frozen = parameters(0), [f.requires_grad_(False) for f in parameters(1)]
    value, gradients = of_autograd(trained, frozen, 0.1)
    found = add_weight_regulariser(trained, frozen, 0.1)
    torch.testing.assert_close(found, value.detach())
    assert not found.requires_grad
    for parameter, gradient in zip(trained, gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_gradient_is_added_to_what_is_there():
    trained, frozen = parameters(0), parameters(1)
    _, gradients = of_autograd(trained, frozen, 0.3)
    trained[1].grad = torch.ones(4)
    add_weight_regulariser(trained, frozen, 0.3)
    torch.testing.assert_close(trained[1].grad, gradients[1] + 1)
    torch.testing.assert_close(trained[0].grad, gradients[0])


def test_weights_without_gradient_count_in_the_value_alone():
    trained, frozen = parameters(0), parameters(1)
    trained[0].requires_grad_(False)
    value, _ = of_autograd(trained, frozen, 0.1)
    torch.testing.assert_close(add_weight_regulariser(trained, frozen, 0.1), value.detach())
    assert trained[0].grad is None
    assert trained[4].grad is not None


def test_an_unmoved_model_has_value_and_gradient_zero():
    trained = parameters(0)
    assert add_weight_regulariser(trained, parameters(0)) == 0
    assert all(parameter.grad.abs().max() == 0 for parameter in trained)


def test_unmatched_weights_are_refused():
    with pytest.raises(InputError, match="got 5 tensors of .* and 4 tensors"):
        add_weight_regulariser(parameters(0), parameters(1)[:-1])
    with pytest.raises(InputError, match="same shapes in the same order"):
        add_weight_regulariser(parameters(0), parameters(1)[::-1])
    with pytest.raises(InputError, match="not be empty"):
        add_weight_regulariser([], [])
