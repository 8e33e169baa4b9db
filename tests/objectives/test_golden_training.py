"""Training steps of the paper's released code on a two-layer BERT: the parts of this package together."""

import json

import numpy as np
import pytest
import torch
from shared_data import shared

from embedlift.objectives import (
    PaperAdamW,
    ProjectionHead,
    add_weight_regulariser,
    decay_groups,
    linear_warmup,
    self_guided_loss,
)

CASES = [
    "T0.01_lamb0.1_mean_l0-3",
    "T0.1_lamb0.1_mean_l0-3",
    "T0.01_lamb0_mean_l0-3",
    "T0.01_lamb0.1_max_l0-3",
    "T0.1_lamb0.1_mean_l1-3",
]


@pytest.fixture(scope="module")
def golden():
    with np.load(shared("golden", "sgopt_fullstep.npz")) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files if arrays[name].dtype.kind != "U"} | {
            "fit5.facts": json.loads(str(arrays["fit5.facts"]))
        }


def part(golden, prefix):
    return {name.removeprefix(prefix): array for name, array in golden.items() if name.startswith(prefix)}


def bert(golden, name):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config)
    state = part(golden, f"{name}.")
    del state["embeddings.position_ids"]  # a constant of older releases
    model.load_state_dict(state)
    return model


def projection_head(golden):
    head = ProjectionHead(32, 64)
    head.load_state_dict(part(golden, "head."))
    return head


def pooled_layers(model, batch, pooling, layers):
    with torch.no_grad():
        hidden = torch.stack(model(**batch, output_hidden_states=True).hidden_states[layers], dim=1)
    mask = batch["attention_mask"][:, None, :, None]
    if pooling == "max":
        return hidden.masked_fill(mask == 0, -1e9).amax(2)
    return (hidden * mask).sum(2) / mask.sum(2)


def settings(case):
    """Temperature, strength of the regulariser, pooling and layers, from a case's name."""
    temperature, strength, pooling, layers = case.split("_")
    first, stop = layers.removeprefix("l").split("-")
    return float(temperature[1:]), float(strength[4:]), pooling, slice(int(first), int(stop))


def run_case(golden, case, detach=lambda head, hidden: head(hidden)):
    temperature, strength, pooling, layers = settings(case)
    tuned, fixed, head = bert(golden, "tuned"), bert(golden, "fixed"), projection_head(golden)
    batch = {name: golden[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    hidden = pooled_layers(fixed, batch, pooling, layers)
    cls = tuned(**batch).last_hidden_state[:, 0]
    contrastive = self_guided_loss(head(cls), detach(head, hidden), temperature)
    contrastive.backward()
    regulariser = add_weight_regulariser(tuned.parameters(), fixed.parameters(), strength)
    return tuned, head, hidden, contrastive.detach(), regulariser


def assert_agree(found, expected, name):
    difference = (found - expected).abs().max()
    assert difference <= 1e-4 * expected.abs().max(), f"{name} differs by {difference}"


@pytest.mark.parametrize("case", CASES)
def test_single_step_is_golden(golden, case):
    tuned, head, hidden, contrastive, regulariser = run_case(golden, case)
    expected = part(golden, f"{case}.")
    assert_agree(contrastive, expected["contrastive"], "contrastive")
    assert_agree(regulariser, settings(case)[1] * expected["regulariser"], "regulariser")
    assert_agree(contrastive + regulariser, expected["total"], "total")
    if "pooled_fixed" in expected:
        assert_agree(hidden, expected["pooled_fixed"], "pooled_fixed")
    gradients = {f"tuned.{name}": p.grad for name, p in tuned.named_parameters()}
    gradients |= {f"head.{name}": p.grad for name, p in head.named_parameters()}
    wanted = part(golden, f"{case}.grad.")
    assert len(wanted) >= 8
    for name, gradient in wanted.items():
        assert_agree(gradients[name], gradient, name)


def test_head_learns_from_the_frozen_side_too(golden):
    """Detached after the head instead of before it, the frozen views would give the head another gradient."""
    expected = part(golden, f"{CASES[1]}.grad.head.")
    _, head, *_ = run_case(golden, CASES[1], detach=lambda head, hidden: head(hidden).detach())
    for name, parameter in head.named_parameters():
        assert (parameter.grad - expected[name]).abs().max() > 0.1 * expected[name].abs().max()


def test_five_optimiser_steps_are_golden(golden):
    facts = golden["fit5.facts"]
    tuned, fixed, head = bert(golden, "fixed"), bert(golden, "fixed"), projection_head(golden)
    tuned.embeddings.requires_grad_(False)
    trained = [p for p in [*tuned.parameters(), *head.parameters()] if p.requires_grad]
    groups = decay_groups(trained, facts["weight_decay_by_group"][0])
    optimizer = PaperAdamW(groups, facts["base_lr"], betas=tuple(facts["betas"]), eps=facts["eps"])
    schedule = linear_warmup(optimizer, facts["total_steps"])
    for step, length in enumerate(golden["fit5.seq_len"].tolist()):
        batch = {name: golden[f"fit5.{name}"][step, :, :length] for name in ("input_ids", "attention_mask")}
        hidden = pooled_layers(fixed, batch, "mean", slice(0, 3))
        optimizer.zero_grad()
        loss = self_guided_loss(head(tuned(**batch).last_hidden_state[:, 0]), head(hidden), facts["T"])
        loss.backward()
        total = loss.detach() + add_weight_regulariser(tuned.parameters(), fixed.parameters(), facts["lamb"])
        torch.testing.assert_close(total, golden["fit5.losses"][step], rtol=1e-5, atol=0)
        assert schedule.get_last_lr()[0] == pytest.approx(golden["fit5.lr"][step].item(), abs=1e-15)
        torch.nn.utils.clip_grad_norm_(trained, facts["clip"])
        optimizer.step()
        schedule.step()
    assert_final_weights(tuned, part(golden, "fit5.final.tuned."))
    assert_final_weights(head, part(golden, "fit5.final.head."))


def assert_final_weights(module, expected):
    found = module.state_dict()
    for name in expected:
        # the gradient of an attention key's bias is zero but for rounding, which Adam makes large
        if not name.endswith(("key.bias", "position_ids")):
            torch.testing.assert_close(found[name], expected[name], rtol=0, atol=5e-6, msg=name)
