"""The training path: the paper's step, what is trained, and what comes of it."""

import json
import random

import numpy as np
import pytest
import torch
from conftest import save_tiny, sentences
from plain_process import encode_without_embedlift
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from shared_data import shared
from test_encoder import distance
from training_runs import CORPUS, settings, train, weights

from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.objectives import add_weight_regulariser
from embedlift.training import checkpoints, trainer
from embedlift.training.batches import Batches
from embedlift.training.guidance import SelfGuidedObjective, sentence_ids
from embedlift.training.settings import TrainingSettings


@pytest.fixture(scope="module")
def golden():
    with np.load(shared("golden", "sgopt_fullstep.npz")) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files if arrays[name].dtype.kind != "U"} | {
            "fit5.facts": json.loads(str(arrays["fit5.facts"]))
        }


@pytest.fixture
def golden_model(golden, tmp_path):
    """The golden start as a saved model; its batches are fed as tensors, so any tokenizer will do."""
    folder = save_tiny(
        tmp_path / "golden",
        "bert",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    state = {name.removeprefix("fixed."): array for name, array in golden.items() if name.startswith("fixed.")}
    del state["embeddings.position_ids"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return Encoder(folder, pooling="cls").model


class GoldenTexts:
    """Stands for the tokenizer: texts are the numbers of the golden rows."""

    def __init__(self, golden):
        self.golden = golden

    def __call__(self, texts, **_):
        steps, rows = zip(*(map(int, text.split()) for text in texts), strict=True)
        length = self.golden["fit5.seq_len"][steps[0]]
        return {
            name: torch.stack(
                [self.golden[f"fit5.{name}"][step, row, :length] for step, row in zip(steps, rows, strict=True)]
            )
            for name in ("input_ids", "attention_mask")
        }


class InOrder(Batches):
    def __iter__(self):
        return iter([list(range(start, start + 8)) for start in range(0, 40, 8)])


def test_five_steps_of_the_product_are_those_of_the_released_code(golden, golden_model, tmp_path, monkeypatch):
    """Through the trainer: losses, rates, final weights of encoder and head."""
    facts = golden["fit5.facts"]
    chosen = TrainingSettings(
        temperature=facts["T"],
        reg_weight=facts["lamb"],
        lr=facts["base_lr"],
        batch_size=8,
        head_width=64,
        weight_decay=facts["weight_decay_by_group"][0],
        clip=facts["clip"],
    )
    objective = SelfGuidedObjective(golden_model, chosen, "sg-opt")
    objective.head.load_state_dict({n.removeprefix("head."): a for n, a in golden.items() if n.startswith("head.")})
    monkeypatch.setattr(golden_model, "preprocess", GoldenTexts(golden))
    totals, rates = [], []
    finish = trainer._Run.finish_gradients

    def record(self, step=0):
        finish(self, step)
        totals.append(objective.last_loss + self.regulariser)
        rates.append(step)

    monkeypatch.setattr(trainer._Run, "finish_gradients", record)
    texts = {"sentence": [f"{step} {row}" for step in range(5) for row in range(8)]}
    trained = trainer.train(
        golden_model,
        objective,
        texts,
        InOrder(np.full(40, 9), chosen),
        folder=checkpoints.CheckpointFolder(tmp_path / "c"),
    )
    assert trained.steps == 5
    torch.testing.assert_close(torch.stack(totals), golden["fit5.losses"].float(), rtol=1e-5, atol=0)
    for module, name in ((objective.encoder, "tuned"), (objective.head, "head")):
        found = module.state_dict()
        expected = {n.split(".", 3)[3]: a for n, a in golden.items() if n.startswith(f"fit5.final.{name}.")}
        assert len(expected) >= 4
        for key, array in expected.items():
            if not key.endswith(("key.bias", "position_ids")):  # key biases: gradients of pure rounding
                torch.testing.assert_close(found[key], array, rtol=0, atol=5e-6, msg=key)


@pytest.mark.parametrize("method", ["sg", "sg-opt1", "sg-opt2", "sg-opt"])
def test_the_fused_regulariser_is_that_of_autograd(tiny_bert, method):
    model = Encoder(tiny_bert, pooling="cls").model
    objective = SelfGuidedObjective(model, settings(), method)
    with torch.no_grad():
        for tensor in objective.trained_parameters().values():
            tensor.add_(0.01 * torch.randn_like(tensor))
    features = model.preprocess(CORPUS[:8])
    frozen = dict(zip(objective.encoder.state_dict(), objective.guide.parameters(), strict=False))
    pairs = list(zip(objective.encoder.parameters(), objective.guide.parameters(), strict=True))
    assert frozen

    def loss():
        torch.manual_seed(0)
        return objective([features])

    trained = [tensor for tensor in objective.encoder.parameters() if tensor.requires_grad]
    penalty = sum((one - other).square().sum() for one, other in pairs)
    wanted = torch.autograd.grad(loss() + 0.1 * penalty, trained)
    loss().backward()
    value = add_weight_regulariser(objective.encoder.parameters(), objective.guide.parameters(), 0.1)
    torch.testing.assert_close(value, 0.1 * penalty.detach())
    for tensor, gradient in zip(trained, wanted, strict=True):
        torch.testing.assert_close(tensor.grad, gradient, rtol=1e-4, atol=1e-6)


def test_guide_and_embeddings_stay_as_they_were(tiny_bert):
    start = weights(Encoder(tiny_bert, pooling="cls").model)
    trained = weights(train(tiny_bert).model)
    moved = {name for name in start if not torch.equal(start[name], trained[name])}
    assert any("encoder.layer.0" in name for name in moved)
    assert any("encoder.layer.1" in name for name in moved)
    assert not [name for name in moved if "embeddings" in name]
    moved = weights(train(tiny_bert, train_embeddings=True).model)
    assert not torch.equal(
        moved["0.model.embeddings.word_embeddings.weight"], start["0.model.embeddings.word_embeddings.weight"]
    )


def test_the_guide_is_in_eval_mode_without_gradients_and_out_of_the_trainers_reach(tiny_bert):
    model = Encoder(tiny_bert, pooling="cls").model
    objective = SelfGuidedObjective(model, settings(), "sg-opt")
    before = weights(objective.guide.encoder)
    objective.train()
    model.train()
    assert not objective.guide.encoder.training
    assert not any(tensor.requires_grad for tensor in objective.guide.parameters())
    assert not [name for name, _ in objective.named_modules() if "guide" in name]
    features = model.preprocess(CORPUS[:4])
    one, two = objective.guide(features), objective.guide(features)
    assert torch.equal(one, two), "no dropout"
    assert one.shape == (4, 3, 32)
    assert model[0].model.config.output_hidden_states is False
    objective([features]).backward()
    assert all(torch.equal(before[name], tensor) for name, tensor in objective.guide.encoder.state_dict().items())


def test_the_head_learns_from_both_sides_and_the_views_are_constants(tiny_bert):
    model = Encoder(tiny_bert, pooling="cls").model
    objective = SelfGuidedObjective(model, settings(), "sg-opt")
    features = model.preprocess(CORPUS[:4])
    seen = []
    objective.contrast = lambda cls, hidden, same: (seen.append((cls, hidden)), cls.sum())[1]
    objective([features])
    [(cls, hidden)] = seen
    assert cls.requires_grad
    assert not hidden.requires_grad
    del objective.contrast
    objective.contrast(cls.detach(), hidden, sentence_ids([features])).backward()
    both = objective.head[0].weight.grad.clone()
    objective.head.zero_grad()
    objective.head(hidden).sum().backward()
    assert both.abs().sum() > 0
    assert objective.head[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize(("layers", "expected"), [("all", 3), ("0..2", 3), ("1..2", 2), ("2", 1), ("0,2", 2)])
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_guide_layers(tiny_bert, layers, expected, pooling):
    model = Encoder(tiny_bert, pooling="cls").model
    guide = SelfGuidedObjective(model, settings(guide_layers=layers, guide_pooling=pooling), "sg-opt").guide
    assert guide(model.preprocess(CORPUS[:4])).shape == (4, expected, 32)


@pytest.mark.parametrize("layers", ["", "a", "3..1", "0,0", "-1", "0..3", "7"])
def test_guide_layers_that_are_not_there(tiny_bert, layers):
    with pytest.raises(InputError, match="--guide-layers"):
        train(tiny_bert, guide_layers=layers)


@pytest.fixture(scope="module")
def tiny_distilbert(tmp_path_factory):
    from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

    folder = tmp_path_factory.mktemp("models") / "tiny-distilbert"
    AutoTokenizer.from_pretrained(save_tiny(folder, "bert")).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64}
    DistilBertModel(DistilBertConfig(vocab_size=200, **sizes)).save_pretrained(folder)
    return folder


def test_all_kinds_of_models_learn_and_load_without_this_package(
    tiny_bert, tiny_roberta, tiny_distilbert, tiny_llama, tmp_path
):
    poolings = {tiny_bert: "cls", tiny_roberta: "cls", tiny_distilbert: "cls", tiny_llama: "last"}
    expected = []
    for folder, pooling in poolings.items():
        record = train(folder, output=tmp_path / folder.name, epochs=4, temperature=0.1)
        assert record.settings["pooling"] == pooling
        losses = list(record.training.trained.losses.values())
        assert np.mean(losses[-4:]) < np.mean(losses[:4])
        assert not record.model.training
        assert all(tensor.requires_grad for tensor in record.model.parameters())
        expected.append(record.model.encode(CORPUS[:8]))
        assert distance(expected[-1], Encoder(folder, pooling=pooling).encode(CORPUS[:8])) > 1e-3
    found = encode_without_embedlift(
        [tmp_path / folder.name for folder in poolings], CORPUS[:8], tmp_path / "elsewhere"
    )
    for vectors, wanted in zip(found, expected, strict=True):
        assert distance(vectors, wanted) < 1e-5


@pytest.mark.parametrize("method", ["sg", "sg-opt1", "sg-opt2"])
def test_other_variants_learn(tiny_bert, method):
    losses = list(train(tiny_bert, method=method, epochs=4).training.trained.losses.values())
    assert np.mean(losses[-4:]) < np.mean(losses[:4])


def test_a_sentence_transformers_model_as_start(tiny_bert, tmp_path):
    """Its normalisation, prompts and pooling are kept, and the object given is left as it was."""
    start = Encoder(tiny_bert, pooling="mean").model
    start = SentenceTransformer(
        modules=[*start, Normalize()], prompts={"query": "the of "}, default_prompt_name="query", device="cpu"
    )
    before = weights(start)
    record = train(start, output=tmp_path / "out")
    assert all(torch.equal(before[name], tensor) for name, tensor in start.state_dict().items())
    assert record.settings["pooling"] == "mean"
    saved = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert isinstance(saved[-1], Normalize)
    assert saved.default_prompt_name == "query"
    assert saved.prompts["query"] == "the of "
    assert distance(saved.encode(CORPUS[:4]), start.encode(CORPUS[:4])) > 1e-3


def test_pairs(tiny_bert, tmp_path):
    rows = [f"{one}\t{other}" for one, other in zip(CORPUS, sentences(64, seed=1), strict=True)]
    (tmp_path / "p.tsv").write_text("\n".join([*rows, "a\t", "\t"]) + "\n")
    record = train(tiny_bert, [tmp_path / "p.tsv"], method="bt", epochs=4)
    losses = list(record.training.trained.losses.values())
    assert np.mean(losses[-4:]) < np.mean(losses[:4])


@pytest.mark.parametrize("pooling", ["mean", "max", "first-last-avg", "cls:1"])
def test_other_poolings_of_the_student(tiny_bert, tmp_path, pooling):
    record = train(tiny_bert, pooling=pooling, output=tmp_path / "out")
    saved = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert distance(saved.encode(CORPUS[:8]), record.model.encode(CORPUS[:8])) < 1e-5
    assert distance(saved.encode(CORPUS[:8]), Encoder(tiny_bert, pooling=pooling).encode(CORPUS[:8])) > 1e-3


def test_a_model_that_is_no_transformer():
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({word: number for number, word in enumerate(["[UNK]", *"abc"])}, unk_token="[UNK]"))
    static = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=8)], device="cpu")
    with pytest.raises(InputError, match="needs a transformer model; this one starts with StaticEmbedding"):
        train(static)


def test_options_that_change_how_the_same_is_computed(tiny_bert):
    plain = weights(train(tiny_bert).model)
    saving = weights(train(tiny_bert, gradient_checkpointing=True).model)
    assert max((plain[name] - saving[name]).abs().max() for name in plain) < 1e-5
    rough = weights(train(tiny_bert, bf16=True).model)
    assert {tensor.dtype for tensor in rough.values()} == {torch.float32}
    difference = max((plain[name] - rough[name]).abs().max() for name in plain)
    assert 0 < difference < 0.05


def test_accumulated_gradients_are_an_average(tiny_bert):
    record = train(tiny_bert, batch_size=4, accumulate=4)
    assert record.training.trained.steps == 4
    assert train(tiny_bert, batch_size=4, accumulate=4, max_steps=3).training.trained.steps == 3


def test_the_callers_random_state_is_left_alone(tiny_bert):
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    train(tiny_bert, max_steps=1)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert before[2] == random.getstate()


def test_the_seed_decides_all(tiny_bert):
    one, two, other = (weights(train(tiny_bert, seed=seed).model) for seed in (0, 0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
