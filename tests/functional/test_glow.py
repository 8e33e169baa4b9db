import copy
import itertools
from pathlib import Path

import pytest
import torch
from golden_flow import Golden
from shared_data import shared

from embedlift.errors import InputError
from embedlift.functional.adam import AdamSettings, ClippedAdam
from embedlift.functional.additive_stack import AdditiveStackGradient
from embedlift.functional.flow_gradient import AutogradGradient
from embedlift.functional.glow import Glow

NAMES = [
    "l3_d3_w32_D64",
    "l3_d3_w32_D96",
    "l3_d3_w32_D768",
    "l2_d3_w32_D64",
    "l2_d3_w32_D96",
    "affine_l3_d3_w32_D64",
    "affine_l3_d3_w32_D96",
    "lu_l3_d3_w32_D64",
    "lu_l2_d3_w32_D96",
]
VARIANTS = list(itertools.product(["additive", "affine"], ["reversal", "random", "lu"], [8, 11]))


@pytest.fixture(params=NAMES)
def golden(request):
    return Golden(shared(f"golden/glow_{request.param}.npz"))


def gradients_of(golden):
    """Return the gradient implementations that can compute this flow."""
    fast = AdditiveStackGradient.supports(golden.flow())
    return [AutogradGradient, AdditiveStackGradient] if fast else [AutogradGradient]


def assert_near(ours, theirs, tolerance=1e-4):
    torch.testing.assert_close(ours, theirs.reshape(ours.shape), atol=tolerance, rtol=0)


@torch.no_grad()
def test_forward_and_inverse_are_the_released_ones(golden):
    x = golden["x"]
    for state in ("init", "pert", "raw"):
        if f"{state}.z" not in golden or not golden.variables(state):
            continue
        flow = golden.loaded(state)
        z, logdet = flow(x)
        assert_near(z, golden[f"{state}.z"])
        assert_near(logdet, golden[f"{state}.logdet"])
        assert_near(flow.bits_per_dimension(x), golden[f"{state}.bits_per_dim"])
        assert_near(flow.inverse(z), x)


def test_initialisation_from_data_is_the_released_one(golden):
    expected = golden.variables("init")
    flow = golden.loaded("init")
    with torch.no_grad():
        for name, parameter in flow.named_parameters():
            if "norm" in name:
                parameter.fill_(float("nan"))
    flow.initialise(golden["x"])
    for name, value in flow.state_dict().items():
        if name in expected:
            assert_near(value, expected[name])


def test_gradients_are_the_released_ones(golden):
    for kind in gradients_of(golden):
        gradient = kind(golden.loaded("pert"))
        loss = gradient.loss_and_gradient(golden["x"])
        assert loss == pytest.approx(float(golden["pert.loss"]), abs=1e-4)
        assert float(gradient.gradient.norm()) == pytest.approx(float(golden["pert.gradnorm"]), rel=1e-4)
        gradient.parameters.copy_(gradient.gradient)
        holder = golden.flow()
        gradient.write_to(holder)
        for name, value in golden.variables("pert.grad").items():
            assert_near(holder.state_dict()[name], value)


@pytest.mark.parametrize("state", ["init", "pert"])
def test_five_steps_of_the_optimiser_are_the_released_ones(golden, state):
    for kind in gradients_of(golden):
        gradient = kind(golden.loaded(state))
        optimiser = ClippedAdam(len(gradient.parameters), AdamSettings())
        for batch, loss in zip(golden["train_x"], golden[f"train5_from_{state}.losses"], strict=True):
            assert gradient.loss_and_gradient(batch) == pytest.approx(float(loss), abs=1e-4)
            optimiser.step(gradient.parameters, gradient.gradient, lr=1e-3)
        flow = golden.loaded(state)
        gradient.write_to(flow)
        with torch.no_grad():
            assert_near(flow(golden["x"])[0], golden[f"train5_from_{state}.z"])
            assert_near(flow.bits_per_dimension(golden["x"]), golden[f"train5_from_{state}.bits_per_dim"])
        for name, value in golden.variables(f"train5_from_{state}.final").items():
            assert_near(flow.state_dict()[name], value)


def test_every_golden_file_is_tested():
    folder = shared("golden")
    assert sorted(path.stem for path in Path(folder).glob("glow_*.npz")) == sorted(f"glow_{name}" for name in NAMES)


def perturbed(coupling, permutation, dimension, dtype=torch.float64, **settings):
    """Return a flow whose last layers are not zero, and a batch."""
    generator = torch.Generator().manual_seed(3)
    flow = Glow(dimension, coupling=coupling, permutation=permutation, **{"width": 6, **settings}).to(dtype)
    x = torch.randn(40, dimension, generator=generator, dtype=dtype) * 2 + 1
    flow.initialise(x)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=dtype), alpha=0.03)
    return flow, x


@pytest.mark.parametrize(("coupling", "permutation", "dimension"), VARIANTS)
def test_what_every_flow_owes(coupling, permutation, dimension):
    flow, x = perturbed(coupling, permutation, dimension)
    z, logdet = flow(x)

    torch.testing.assert_close(flow.inverse(z), x, atol=1e-4, rtol=0)

    jacobian = torch.autograd.functional.jacobian(lambda row: flow(row[None])[0][0], x[0])
    torch.testing.assert_close(torch.linalg.slogdet(jacobian)[1], logdet[0])

    normal = torch.distributions.Normal(0.0, 1.0)
    torch.testing.assert_close(flow.log_prob(x), normal.log_prob(z).sum(1) + logdet)

    flow.bits_per_dimension(x).mean().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in flow.parameters())

    other = Glow(dimension, width=6, coupling=coupling, permutation=permutation, seed=9).double()
    other.load_state_dict(flow.state_dict())
    torch.testing.assert_close(other(x)[0], z, atol=0, rtol=0)


@pytest.mark.parametrize(("levels", "depth", "dimension"), [(3, 3, 8), (3, 2, 13), (2, 3, 9), (1, 1, 2), (1, 4, 75)])
def test_hand_written_gradient_is_that_of_autograd(levels, depth, dimension):
    flow, x = perturbed("additive", "reversal", dimension, levels=levels, depth=depth)
    fast, plain = AdditiveStackGradient(flow), AutogradGradient(flow)
    for batch in (x, x[:7]):  # memory set aside for one batch size must not serve another
        assert fast.loss_and_gradient(batch) == pytest.approx(plain.loss_and_gradient(batch))
    ours, expected = copy.deepcopy(flow), copy.deepcopy(flow)
    for gradient, holder in ((fast, ours), (plain, expected)):
        gradient.parameters.copy_(gradient.gradient)
        gradient.write_to(holder)
    for parameter, reference in zip(ours.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(parameter, reference)


def test_the_prior_is_a_density():
    flow, _ = perturbed("affine", "random", 2, levels=1)
    side = torch.linspace(-40, 40, 1201, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    with torch.no_grad():
        assert float(flow.log_prob(grid).exp().sum() * (side[1] - side[0]) ** 2) == pytest.approx(1, abs=1e-3)


def test_a_constant_channel_gets_the_typical_scale_if_asked():
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    x[:, 3] = 7.0
    flow = Glow(8)
    flow.initialise(x, floor=1e-3)
    scale = flow.steps[0][0].norm.scale.detach()
    assert float(scale[3]) == pytest.approx(float(x.var(0).mean() ** -0.5), rel=0.02)
    assert flow(x)[0].isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dimension": 7}, "needs at least 8: lower levels"),
        ({"levels": 0}, "levels must be at least 1"),
        ({"coupling": "cubic"}, "coupling must be one of additive, affine"),
        ({"permutation": "none"}, "permutation must be one of reversal, random, lu"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        Glow(**{"dimension": 16, **settings})


@torch.no_grad()
def test_agrees_with_zuko_on_one_configuration():
    """ActNorm, reversal and a zero-started additive coupling, expressed with zuko's transforms."""
    transforms = pytest.importorskip("zuko").transforms
    flow, x = perturbed("additive", "reversal", 6, levels=1, depth=1)
    step = flow.steps[0][0]
    theirs = transforms.ComposedTransform(
        transforms.DependentTransform(transforms.AffineTransform(step.norm.bias * step.norm.scale, step.norm.scale), 1),
        transforms.PermutationTransform(torch.arange(6).flip(0)),
        transforms.CouplingTransform(
            lambda x1: transforms.DependentTransform(transforms.AdditiveTransform(step.coupling.network(x1)), 1),
            torch.arange(6) < 3,
        ),
    )
    z, logdet = theirs.call_and_ladj(x)
    torch.testing.assert_close(flow(x)[0], z)
    torch.testing.assert_close(flow(x)[1], logdet)
    torch.testing.assert_close(flow.inverse(z), theirs.inv(z))
