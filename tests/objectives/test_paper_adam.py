import copy

import pytest
import torch

from embedlift.errors import InputError
from embedlift.objectives.paper_adam import PaperAdamW, decay_groups, linear_warmup


def parameters(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (2**10, 2**11), (5,)]
    return [torch.randn(*shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def set_gradients(tensors, step, scale=1e-6):
    generator = torch.Generator().manual_seed(100 + step)
    for tensor in tensors:
        tensor.grad = scale * torch.randn(*tensor.shape, generator=generator).to(tensor.dtype)


def test_steps_are_those_of_the_formula():
    tensors = parameters()
    optimizer = PaperAdamW(tensors, lr=0.1, betas=(0.8, 0.9), weight_decay=0.5)
    theta, m, v = tensors[0].detach().clone(), 0.0, 0.0
    for t in range(1, 5):
        set_gradients(tensors, t)
        g = tensors[0].grad.clone()
        optimizer.step()
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g**2
        theta = theta - 0.1 * (1 - 0.9**t) ** 0.5 / (1 - 0.8**t) * m / (v.sqrt() + 1e-6)
        theta = theta - 0.1 * 0.5 * theta
        torch.testing.assert_close(tensors[0].detach(), theta)


def test_without_epsilon_and_decay_it_is_torch_adam():
    ours, theirs = parameters(), parameters()
    optimizers = [
        PaperAdamW(ours, lr=0.1, eps=0.0),
        torch.optim.Adam(theirs, lr=0.1, betas=(0.9, 0.9), eps=0.0),
    ]
    for t in range(3):
        set_gradients(ours, t)
        set_gradients(theirs, t)
        for optimizer in optimizers:
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_parameter_whose_gradient_comes_later_counts_its_own_steps():
    early, late = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    optimizer = PaperAdamW([early, late], lr=0.1)
    early.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(late, torch.ones(3))
    first_move = early.detach().clone()
    late.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(late, first_move)


def test_saved_state_continues_the_same_path():
    whole, halves = parameters(torch.float32), parameters(torch.float32)
    optimizer, first = PaperAdamW(whole, lr=0.1), PaperAdamW(halves, lr=0.1)
    second = PaperAdamW(halves, lr=1.0)
    for t in range(4):
        set_gradients(whole, t)
        set_gradients(halves, t)
        optimizer.step()
        if t == 2:
            second.load_state_dict(copy.deepcopy(first.state_dict()))
        (first if t < 2 else second).step()
    for one, other in zip(whole, halves, strict=True):
        assert torch.equal(one, other)


def test_closure_is_called_with_gradients_on():
    tensor = torch.ones(2, requires_grad=True)
    optimizer = PaperAdamW([tensor], lr=0.1)

    def closure():
        loss = tensor.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 2
    assert (tensor < 1).all()


@pytest.mark.parametrize("setting", [{"lr": -1}, {"eps": -1}, {"weight_decay": -1}, {"betas": (0.9, 1.0)}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(InputError, match="must not be negative"):
        PaperAdamW(parameters(), **setting)


def test_biases_and_norms_do_not_decay_and_frozen_weights_are_left_out():
    block = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    block[2].weight.requires_grad_(False)
    decayed, kept = decay_groups(block.parameters(), 0.02)
    assert decayed["weight_decay"] == 0.02
    assert kept["weight_decay"] == 0
    assert [id(p) for p in decayed["params"]] == [id(block[0].weight)]
    assert [tuple(p.shape) for p in kept["params"]] == [(4,), (4,), (4,), (2,)]


def test_rate_rises_from_zero_and_falls_to_zero():
    optimizer = PaperAdamW([torch.ones(1, requires_grad=True)], lr=2.0)
    schedule = linear_warmup(optimizer, 12, 0.3)
    rates = []
    for _ in range(13):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    torch.testing.assert_close(rates[:5], [0.0, 0.5, 1.0, 1.5, 2.0])
    torch.testing.assert_close(rates[5:], [2 * (12 - t) / 8 for t in range(5, 13)])


@pytest.mark.parametrize(("steps", "warmup"), [(0, 0.1), (10, 1.0), (10, -0.1)])
def test_impossible_schedules_are_refused(steps, warmup):
    with pytest.raises(InputError, match="total_steps must be at least 1"):
        linear_warmup(PaperAdamW([torch.ones(1, requires_grad=True)]), steps, warmup)
