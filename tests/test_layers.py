import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from embedlift import backbone
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.layers import PoolingSpec


@pytest.mark.parametrize(
    ("text", "tokens", "mix"),
    [
        ("mean", "mean", {}),
        ("cls", "cls", {}),
        ("max", "max", {}),
        ("last", "lasttoken", {}),
        ("first-last-avg", "mean", {1: 1, -1: 1}),
        ("embedding-last-avg", "mean", {0: 1, -1: 1}),
        ("last2avg", "mean", {-2: 1, -1: 1}),
        ("cls:0,1,-1", "cls", {0: 1, 1: 1, -1: 1}),
        ("max:0=2.5, -1=0", "max", {0: 2.5, -1: 0}),
        ("last:3", "lasttoken", {3: 1}),
    ],
)
def test_pooling_grammar(text, tokens, mix):
    assert PoolingSpec.parse(text) == PoolingSpec(tokens, mix)


@pytest.mark.parametrize(
    "text", ["", "Mean", "median", "mean:", "mean:a", "mean:1,,2", "mean:1=-1", ":1", "mean 1", "mean:0=0"]
)
def test_other_poolings_are_refused(text):
    with pytest.raises(InputError, match="pooling"):
        PoolingSpec.parse(text)


def hidden_states(folder, text):
    """All hidden states of one text without any padding, (L + 1, T, D), straight from transformers."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        output = model(**AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt"), output_hidden_states=True)
    return torch.stack(output.hidden_states)[:, 0]


POOLINGS = {
    "mean": lambda h: h[-1].mean(0),
    "cls": lambda h: h[-1][0],
    "max": lambda h: h[-1].amax(0),
    "last": lambda h: h[-1][-1],
    "first-last-avg": lambda h: (h[1] + h[-1]).mean(0) / 2,
    "embedding-last-avg": lambda h: (h[0] + h[-1]).mean(0) / 2,
    "last2avg": lambda h: (h[-2] + h[-1]).mean(0) / 2,
    "mean:0": lambda h: h[0].mean(0),
    "cls:1": lambda h: h[1][0],
    "max:0=3,-1": lambda h: (0.75 * h[0] + 0.25 * h[-1]).amax(0),
    "last:0,1,2": lambda h: h.mean(0)[-1],
    "mean:-3": lambda h: h[-3].mean(0),
}


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_llama", "tiny_roberta"])
def test_each_pooling_is_its_closed_form(request, kind, pooling):
    """Also for a text that is padded beside longer ones."""
    folder = request.getfixturevalue(kind)
    texts = ["the word", "many long things", " ".join(["other words come down the side"] * 4)]
    vectors = Encoder(folder, pooling=pooling).encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        expected = POOLINGS[pooling](hidden_states(folder, text))
        torch.testing.assert_close(torch.from_numpy(vector), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_llama"])
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_keeping_the_first_layers(request, tmp_path, kind, layers):
    """The rest leaves the model; in a Llama the final norm then follows the last kept layer."""
    folder = request.getfixturevalue(kind)
    encoder = Encoder(folder, layers=layers)
    plain = AutoModel.from_pretrained(folder, num_hidden_layers=layers, dtype=torch.float32)
    with torch.no_grad():
        tokens = AutoTokenizer.from_pretrained(folder)("some time", return_tensors="pt")
        expected = plain(**tokens).last_hidden_state[0].mean(0)
    torch.testing.assert_close(torch.from_numpy(encoder.encode(["some time"])[0]), expected, rtol=1e-4, atol=1e-4)
    encoder.model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    saved = SentenceTransformer(str(tmp_path / "m"))
    assert saved[0].model.config.num_hidden_layers == layers
    stacks = [module for module in saved.modules() if isinstance(module, torch.nn.ModuleList)]
    assert [len(stack) for stack in stacks] == [layers]


@pytest.mark.parametrize("layers", [-1, 3])
def test_layers_that_the_model_lacks(tiny_bert, layers):
    with pytest.raises(InputError, match=f"between 0 and the model's 2, got {layers}"):
        backbone.load(tiny_bert, layers=layers)


@pytest.mark.parametrize(
    ("pooling", "layers", "message"),
    [
        ("mean:3", None, "hidden state 3, but the model has 0 .* to 2"),
        ("mean:-4", None, "hidden state -4"),
        ("mean:2", 1, "hidden state 2, but the model has 0 .* to 1"),
        ("last2avg", 0, "a layer mix needs at least one layer"),
    ],
)
def test_mixes_of_layers_that_are_not_there(tiny_bert, pooling, layers, message):
    with pytest.raises(InputError, match=message):
        backbone.load(tiny_bert, pooling=pooling, layers=layers)


def test_a_mix_does_not_carry_layers_that_it_never_reads(tiny_llama):
    """One more layer than named stays, because a decoder norms the output of its last layer."""
    model = backbone.load(tiny_llama, pooling="mean:0")
    assert model[0].model.config.num_hidden_layers == 1
    assert len(model[0].model.layers) == 1
