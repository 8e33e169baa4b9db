import numpy as np
import pytest
import torch
from shared_data import shared

from embedlift.errors import InputError
from embedlift.objectives.simcse import simcse_loss


@pytest.fixture(scope="module")
def golden():
    with np.load(shared("golden", "simcse_losses.npz")) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def assert_golden(golden, name, loss, inputs):
    torch.testing.assert_close(loss, golden[f"{name}.loss"], rtol=1e-5, atol=0)
    for i, gradient in enumerate(torch.autograd.grad(loss, inputs), start=1):
        expected = golden[f"{name}.grad_z{i}"]
        assert (gradient - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.mark.parametrize("temperature", ["0.05", "0.1", "1"])
def test_loss_and_gradients_are_golden(golden, temperature):
    inputs = [golden[name].clone().requires_grad_() for name in ("z1", "z2")]
    assert_golden(golden, f"T{temperature}", simcse_loss(*inputs, float(temperature)), inputs)


@pytest.mark.parametrize("weight", [0, 1])
def test_hard_negatives_are_golden(golden, weight):
    inputs = [golden[name].clone().requires_grad_() for name in ("z1", "z2", "z3")]
    first, second, third = inputs
    loss = simcse_loss(first, second, hard_negatives=third, hard_negative_weight=weight)
    assert_golden(golden, f"T0.05.hardneg_w{weight}", loss, inputs)


def random_views(count, dtype=torch.float64):
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(5, 8, generator=generator, dtype=dtype) for _ in range(count)]


def test_order_of_the_sentences_does_not_matter():
    first, second, third = random_views(3)
    order = torch.tensor([3, 1, 0, 4, 2])
    loss = simcse_loss(first, second, hard_negatives=third, hard_negative_weight=0.5)
    permuted = simcse_loss(first[order], second[order], hard_negatives=third[order], hard_negative_weight=0.5)
    torch.testing.assert_close(permuted, loss)


def test_identical_sentences_are_no_negatives_of_each_other():
    first, second = random_views(2)
    logits = torch.cosine_similarity(first[:, None], second[None], dim=-1) / 0.05
    logits[0, 3] = logits[3, 0] = -torch.inf
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(5))
    found = simcse_loss(first, second, sentence_ids=torch.tensor([0, 1, 2, 0, 4]))
    torch.testing.assert_close(found, expected)


def test_bfloat16_at_a_low_temperature_is_finite():
    first, second = (view.requires_grad_() for view in random_views(2, torch.bfloat16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = simcse_loss(first, second, 0.01)
    loss.backward()
    assert loss.isfinite()
    assert first.grad.isfinite().all()
    assert second.grad.isfinite().all()


def test_unusable_input_is_refused_with_its_shapes():
    with pytest.raises(InputError, match=r"got \(4, 8\) and \(5, 8\)"):
        simcse_loss(torch.ones(4, 8), torch.ones(5, 8))
    with pytest.raises(InputError, match=r"got \(4, 8\) and \(4, 8\) and \(4, 6\)"):
        simcse_loss(torch.ones(4, 8), torch.ones(4, 8), hard_negatives=torch.ones(4, 6))
    with pytest.raises(InputError, match="a batch of one sentence has no negatives"):
        simcse_loss(torch.ones(1, 8), torch.ones(1, 8))
