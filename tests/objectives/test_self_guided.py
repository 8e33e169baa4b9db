import numpy as np
import pytest
import torch
from shared_data import shared

from embedlift.errors import InputError
from embedlift.objectives.self_guided import ProjectionHead, sample_layer, self_guided_loss

VARIANTS = ["sg", "sg-opt1", "sg-opt2", "sg-opt"]
TEMPERATURES = ["0.01", "0.1", "1"]


@pytest.fixture(scope="module")
def golden():
    with np.load(shared("golden", "sgopt_losses.npz")) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def views(variant, batch=6, layers=3, dimension=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    layers = layers if variant == "sg-opt" else 1
    shapes = [(batch, dimension), (batch, layers, dimension)]
    return [torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def value_and_gradients(cls, hidden, *args, **kwargs):
    cls, hidden = cls.detach().requires_grad_(), hidden.detach().requires_grad_()
    loss = self_guided_loss(cls, hidden, *args, **kwargs)
    return loss.detach(), *torch.autograd.grad(loss, (cls, hidden))


def sums_of_the_text(cls, hidden, temperature, variant, ids=range(6)):
    """The paper's formulas, sentence by sentence, in Python's own loops."""
    cosine = lambda u, v: torch.dot(u, v) / (u.norm() * v.norm()) / temperature  # noqa: E731
    terms = []
    for i, anchor in enumerate(cls):
        others = [m for m in range(len(cls)) if ids[m] != ids[i]]
        negatives = sum(cosine(anchor, h).exp() for m in others for h in hidden[m])
        if variant in ("sg", "sg-opt1"):
            negatives = negatives + sum(cosine(anchor, cls[m]).exp() for m in others)
        for positive in hidden[i]:
            terms.append(-torch.log(cosine(anchor, positive).exp() / (cosine(anchor, positive).exp() + negatives)))
        if variant == "sg":
            h = hidden[i, 0]
            negatives = sum(cosine(h, cls[m]).exp() + cosine(h, hidden[m, 0]).exp() for m in others)
            terms.append(-torch.log(cosine(h, anchor).exp() / (cosine(h, anchor).exp() + negatives)))
    return sum(terms) / len(terms)


def assert_agree(found, expected):
    """Agreement to 1e-4 of the largest number, for a value or a gradient."""
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_sg_opt_is_golden(golden, temperature):
    found = value_and_gradients(golden["cls"], golden["cont"], float(temperature))
    for value, name in zip(found, ["loss", "grad_cls", "grad_cont"], strict=True):
        assert_agree(value, golden[f"T{temperature}.sgopt.{name}"])


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_opt1_is_golden(golden, temperature):
    loss, grad_cls, grad_hidden = value_and_gradients(
        golden["cls"], golden["zj"][:, None], float(temperature), "sg-opt1"
    )
    assert_agree(loss, golden[f"T{temperature}.opt1.loss"])
    assert_agree(grad_cls, golden[f"T{temperature}.opt1.grad_cls"])
    assert_agree(grad_hidden[:, 0], golden[f"T{temperature}.opt1.grad_zj"])


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_sg_is_golden_with_the_mean_over_both_views(golden, temperature):
    """The stored gradients belong to the sum over B; the product's mean is over the 2 B anchors."""
    loss, grad_cls, grad_hidden = value_and_gradients(golden["cls"], golden["zj"][:, None], float(temperature), "sg")
    name = f"T{temperature}.original_patched"
    assert_agree(loss, golden[f"{name}.loss_sum_over_2B"])
    assert_agree(2 * grad_cls, golden[f"{name}.grad_cls"])
    assert_agree(2 * grad_hidden[:, 0], golden[f"{name}.grad_zj"])


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_opt2_is_golden_but_for_the_negative_that_the_release_loses(golden, temperature):
    """Row 0 lacks h_1 and every other row h_0 there: put the lost terms back, the losses must agree."""
    cls, zj = golden["cls"].double(), golden["zj"].double()
    logits = torch.cosine_similarity(cls[:, None], zj[None], dim=-1) / float(temperature)
    lost = torch.zeros(8, 8, dtype=torch.bool)
    lost[0, 1] = lost[1:, 0] = True
    released = torch.nn.functional.cross_entropy(logits.masked_fill(lost, -torch.inf), torch.arange(8))
    assert_agree(released, golden[f"T{temperature}.opt2.loss"].double())
    difference = logits.logsumexp(1).mean() - logits.masked_fill(lost, -torch.inf).logsumexp(1).mean()
    assert difference > 0.05  # else this test would not see the defect
    found = self_guided_loss(golden["cls"], golden["zj"][:, None], float(temperature), "sg-opt2")
    assert_agree(found.double(), golden[f"T{temperature}.opt2.loss"].double() + difference)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_every_variant_is_the_sum_that_the_paper_writes(variant, temperature):
    cls, hidden = views(variant)
    expected = sums_of_the_text(cls, hidden, temperature, variant)
    loss = self_guided_loss(cls, hidden, temperature, variant)
    torch.testing.assert_close(loss, expected)
    for found, wanted in zip(
        torch.autograd.grad(loss, (cls, hidden)), torch.autograd.grad(expected, (cls, hidden)), strict=True
    ):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("variant", VARIANTS)
def test_order_of_the_sentences_does_not_matter(variant):
    cls, hidden = views(variant)
    order = torch.tensor([3, 1, 5, 0, 4, 2])
    loss, grad_cls, grad_hidden = value_and_gradients(cls, hidden, 0.1, variant)
    permuted = value_and_gradients(cls[order], hidden[order], 0.1, variant)
    for found, expected in zip(permuted, (loss, grad_cls[order], grad_hidden[order]), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_length_of_the_vectors_does_not_matter(variant):
    cls, hidden = views(variant)
    loss = self_guided_loss(cls, hidden, 0.1, variant)
    torch.testing.assert_close(self_guided_loss(3 * cls, hidden / 7, 0.1, variant), loss)


def test_order_of_the_layers_does_not_matter():
    cls, hidden = views("sg-opt")
    torch.testing.assert_close(self_guided_loss(cls, hidden.flip(1), 0.1), self_guided_loss(cls, hidden, 0.1))


def test_sg_treats_both_views_alike():
    cls, hidden = views("sg")
    swapped = self_guided_loss(hidden[:, 0], cls[:, None], 0.1, "sg")
    torch.testing.assert_close(swapped, self_guided_loss(cls, hidden, 0.1, "sg"))


def test_sg_opt_of_one_layer_is_opt2():
    cls, hidden = views("sg-opt2")
    assert torch.equal(self_guided_loss(cls, hidden, 0.1, "sg-opt"), self_guided_loss(cls, hidden, 0.1, "sg-opt2"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradient_reaches_every_number_of_both_arguments(variant):
    _, grad_cls, grad_hidden = value_and_gradients(*views(variant), 0.1, variant)
    assert grad_cls.abs().min() > 0
    assert grad_hidden.abs().min() > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_bfloat16_at_the_paper_temperature_is_finite_and_near_float32(variant):
    cls, hidden = views(variant, batch=16, layers=13, dimension=256, dtype=torch.bfloat16)
    expected = value_and_gradients(cls.float(), hidden.float(), 0.01, variant)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = value_and_gradients(cls, hidden, 0.01, variant)
    torch.testing.assert_close(found[0], expected[0])
    for gradient, wanted in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(gradient.float(), wanted, rtol=2**-7, atol=2**-7 * wanted.abs().max().item())


def test_loss_at_both_ends_of_the_paper_temperature():
    """All cosines are 0 or 1: with the positive at 1 nothing is lost, with a negative there 1 / tau is."""
    cls = torch.eye(4)
    assert 0 <= self_guided_loss(cls, cls[:, None], 0.01) < 1e-12
    assert self_guided_loss(cls, cls.roll(1, 0)[:, None], 0.01) == pytest.approx(100)


@pytest.mark.parametrize("variant", VARIANTS)
def test_identical_sentences_are_no_negatives_of_each_other(variant):
    cls, hidden = views(variant)
    ids = torch.tensor([7, 1, 2, 1, 7, 7])
    loss = self_guided_loss(cls, hidden, 0.1, variant, sentence_ids=ids)
    torch.testing.assert_close(loss, sums_of_the_text(cls, hidden, 0.1, variant, ids.tolist()))
    assert loss < self_guided_loss(cls, hidden, 0.1, variant) - 0.01


def test_batch_of_one_repeated_sentence_teaches_nothing():
    loss, grad_cls, grad_hidden = value_and_gradients(*views("sg-opt"), 0.01, sentence_ids=torch.zeros(6))
    assert loss == grad_cls.abs().max() == grad_hidden.abs().max() == 0


def test_default_ids_are_all_different():
    cls, hidden = views("sg-opt")
    named = self_guided_loss(cls, hidden, 0.1, sentence_ids=torch.tensor([9, 3, 4, 1, 0, 7]))
    assert torch.equal(named, self_guided_loss(cls, hidden, 0.1))


@pytest.mark.parametrize(
    ("cls", "hidden", "options", "message"),
    [
        ((4, 8), (4, 8), {}, r"hidden \(B, L, D\): got cls \(4, 8\) and hidden \(4, 8\)"),
        ((4, 8), (4, 3, 6), {}, r"got cls \(4, 8\) and hidden \(4, 3, 6\)"),
        ((4, 8), (5, 3, 8), {}, r"got cls \(4, 8\) and hidden \(5, 3, 8\)"),
        ((4, 8), (4, 0, 8), {}, r"got cls \(4, 8\) and hidden \(4, 0, 8\)"),
        ((1, 8), (1, 3, 8), {}, "a batch of one sentence has no negatives"),
        ((4, 8), (4, 3, 8), {"variant": "sg-opt1"}, r"one layer per sentence, .* hidden \(4, 3, 8\)"),
        ((4, 8), (4, 3, 8), {"variant": "opt3"}, "unknown variant 'opt3': choose one of sg, sg-opt1"),
        ((4, 8), (4, 3, 8), {"temperature": 0.0}, "temperature must be positive"),
        ((4, 8), (4, 3, 8), {"sentence_ids": torch.arange(3)}, r"shape \(B,\) = \(4,\), got \(3,\)"),
    ],
)
def test_unusable_input_is_refused_with_its_shapes(cls, hidden, options, message):
    with pytest.raises(InputError, match=message):
        self_guided_loss(torch.ones(cls), torch.ones(hidden), **options)


def test_sampled_layers_are_drawn_for_each_sentence_from_all_layers():
    hidden = torch.arange(3.0).expand(2000, 3)[..., None]
    drawn = sample_layer(hidden, torch.Generator().manual_seed(0))
    assert drawn.shape == (2000, 1, 1)
    assert torch.bincount(drawn.flatten().long()).min() > 600
    assert torch.equal(drawn, sample_layer(hidden, torch.Generator().manual_seed(0)))
    with pytest.raises(InputError, match=r"got \(4, 8\)"):
        sample_layer(torch.ones(4, 8))


def test_sampled_layer_is_one_of_the_sentence_itself():
    hidden = torch.randn(50, 4, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    drawn = sample_layer(hidden)
    assert (drawn == hidden).all(-1).any(1).all()
    drawn.sum().backward()
    assert hidden.grad.sum() == drawn.numel()


def test_projection_head_starts_as_in_the_paper():
    head = ProjectionHead(32, initializer_range=0.2, generator=torch.Generator().manual_seed(0))
    first, second = head[0], head[2]
    assert (first.weight.shape, second.weight.shape) == ((4096, 32), (4096, 4096))
    for layer in (first, second):
        assert abs(layer.weight.std() - 0.2) < 1e-3
        assert abs(layer.weight.mean()) < 2e-3
        assert layer.bias.abs().max() == 0


def test_projection_head_applies_gelu_after_both_layers():
    head = ProjectionHead(6, 10, generator=torch.Generator().manual_seed(0))
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(1))
    gelu = lambda v: v * 0.5 * (1 + torch.erf(v / 2**0.5))  # noqa: E731
    expected = gelu(gelu(x @ head[0].weight.T + head[0].bias) @ head[2].weight.T + head[2].bias)
    torch.testing.assert_close(head(x), expected)
    again = ProjectionHead(6, 10)
    again.load_state_dict(head.state_dict())
    assert torch.equal(again(x), head(x))
