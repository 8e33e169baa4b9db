import importlib.util
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from command_line import command
from conftest import sentences
from test_modules import flow

from embedlift.adaptation import run
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.export.onnx_encoder import OnnxEncoder
from embedlift.export.to_onnx import export_onnx
from embedlift.layers import with_modules
from embedlift.transforms import Whitening

CORPUS = sentences(300)
TEXTS = ["", " ", "unknownword", *sentences(30, seed=3), " ".join(sentences(40, seed=4))]  # the last one is cut

CASES = {
    "bert": ("tiny_bert", {"method": "none"}),
    "bert-cls": ("tiny_bert", {"method": "none", "pooling": "cls"}),
    "bert-max-whitening": ("tiny_bert", {"method": Whitening(8), "pooling": "max"}),
    "bert-mix": ("tiny_bert", {"method": "whitening", "pooling": "mean:0,1,-1"}),
    "bert-prompt": ("tiny_bert", {"method": "none", "prompt": "the number "}),
    "roberta-first-last": ("tiny_roberta", {"method": "whitening", "pooling": "first-last-avg"}),
    "llama-layer": ("tiny_llama", {"method": "center", "layers": 1}),
    "llama-embeddings": ("tiny_llama", {"method": "whitening", "layers": 0}),
    "llama-last-flow": ("tiny_llama", {"method": flow(), "pooling": "last"}),
    "llama-mix-affine-flow": ("tiny_llama", {"method": flow(coupling="affine"), "pooling": "last2avg"}),
}


def distance(found, expected):
    """Largest distance of two rows, relative to the second's length."""
    return (np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)).max()


@pytest.fixture(scope="module")
def exported(request, tmp_path_factory):
    """A function from the name of a case to its folder and the encoder it was made from."""
    made = {}

    def export(name):
        if name not in made:
            kind, settings = CASES[name]
            encoder = Encoder(run(request.getfixturevalue(kind), CORPUS, cache=False, max_length=40, **settings).model)
            made[name] = tmp_path_factory.mktemp("exported") / name, encoder
            export_onnx(encoder, made[name][0])
        return made[name]

    return export


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.* texts hold no token")
def test_the_vectors_are_the_encoders(exported, name):
    """In batches with padding and alone; empty, unknown and too long texts too."""
    folder, encoder = exported(name)
    found = OnnxEncoder(folder, threads=1)
    expected = encoder.encode(TEXTS)
    assert found.dimension == expected.shape[1]
    assert distance(found.encode(TEXTS), expected) < 1e-4
    assert distance(np.concatenate([found.encode([text]) for text in TEXTS]), expected) < 1e-4


def test_it_runs_where_torch_and_transformers_cannot_be_imported(exported, tmp_path):
    """With the file that lies in the folder, and by the ten lines of the README."""
    folder, encoder = exported("bert-mix")
    readme = (folder / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0]
    program = f"""
import sys
for name in ("torch", "transformers", "sentence_transformers", "embedlift", "sklearn", "onnx"):
    sys.modules[name] = None  # importing it raises ImportError
sys.path.insert(0, ".")
from onnx_encoder import OnnxEncoder
{example}
np.save(sys.argv[1], np.concatenate([vectors, OnnxEncoder(threads=1).encode(texts)]))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "v.npy"], cwd=folder, check=True, timeout=60)
    expected = encoder.encode(["A first sentence.", "And a second one."])
    assert distance(np.load(tmp_path / "v.npy"), np.tile(expected, (2, 1))) < 1e-4


def test_the_example_of_the_readme_names_the_prompt(exported):
    folder, _ = exported("bert-prompt")
    assert '"the number " "A first sentence."' in (folder / "README.md").read_text()


def products(folder):
    """Number of matrix products in the encoder."""
    graph = onnx.load(folder / "model.onnx").graph
    return sum(node.op_type == "MatMul" and node.name.startswith("/trunk") for node in graph.node)


def test_layers_that_take_no_part_are_not_in_the_graph(exported, tiny_bert, tmp_path):
    whole, one = exported("bert")[0], tmp_path / "one"
    export_onnx(Encoder(tiny_bert, layers=1), one)
    per_layer = products(whole) // 2
    assert per_layer >= 6
    assert products(one) == per_layer
    mixed = Encoder(tiny_bert, pooling="mean:0")
    assert mixed.model[0].model.config.num_hidden_layers == 1  # the model keeps a layer that the mix does not use
    export_onnx(mixed, tmp_path / "none")
    assert products(tmp_path / "none") == 0


@pytest.mark.parametrize("name", ["bert-max-whitening", "llama-last-flow"])
def test_int8(exported, tmp_path, name):
    """The encoder's products are in integers, those of the transform are not."""
    _, encoder = exported(name)
    parity = export_onnx(encoder, tmp_path / "int8", quantize="int8")
    graph = onnx.load(tmp_path / "int8" / "model.onnx").graph
    assert {node.name.split("/")[1] for node in graph.node if node.op_type == "MatMulInteger"} == {"trunk.0"}
    assert parity.mean_cosine > 0.98
    cosines = cosine(OnnxEncoder(tmp_path / "int8", threads=1).encode(TEXTS[3:]), encoder.encode(TEXTS[3:]))
    assert cosines.mean() > 0.98
    config = json.loads((tmp_path / "int8" / "onnx_config.json").read_text())
    assert config["quantize"] == "int8"
    assert config["parity"]["mean_cosine"] == parity.mean_cosine


def cosine(a, b):
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_the_configuration(exported):
    config = json.loads((exported("bert-prompt")[0] / "onnx_config.json").read_text())
    assert (config["dimension"], config["max_length"], config["pad_id"], config["quantize"]) == (32, 40, 0, None)
    assert config["prompts"][config["default_prompt"]] == "the number "
    assert config["parity"]["texts"] > 16
    assert 0 < config["parity"]["largest_difference"] < config["tolerance"] == 1e-3


def test_prompts_by_name_and_by_text(tiny_bert, tmp_path):
    model = Encoder(tiny_bert).model
    model.prompts = {"query": "the word "}
    export_onnx(Encoder(model), tmp_path / "out")
    expected = Encoder(tiny_bert).encode(["the word this"])
    for prompt in ("query", "the word "):
        assert distance(OnnxEncoder(tmp_path / "out", prompt=prompt).encode(["this"]), expected) < 1e-5
    assert distance(OnnxEncoder(tmp_path / "out").encode(["the word this"]), expected) < 1e-5


def test_what_the_exported_encoder_takes(exported):
    found = OnnxEncoder(exported("bert")[0], threads=1, batch_tokens=8)
    assert found.encode([]).shape == (0, 32)
    assert np.array_equal(*found.encode(["the \ud83d word", "the \ufffd word"]))
    with pytest.raises(TypeError, match="one str"):
        found.encode("the word")
    with pytest.raises(TypeError, match=r"texts\[1\] is None"):
        found.encode(["a", None])


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_too_large_a_difference_leaves_nothing_behind(tiny_bert, tmp_path, quantize):
    with pytest.raises(InputError, match="Nothing was written"):
        export_onnx(Encoder(tiny_bert), tmp_path / "out", quantize=quantize, tolerance=1e-12)
    assert not list(tmp_path.iterdir())


class Bessel(torch.nn.Module):
    def forward(self, features):
        return features | {"sentence_embedding": torch.special.bessel_j0(features["sentence_embedding"])}

    def get_embedding_dimension(self):
        return 32


def test_what_onnx_has_no_operator_for(tiny_bert, tmp_path):
    model = Encoder(tiny_bert).model
    with pytest.raises(InputError, match="cannot be written as an ONNX graph: .*bessel_j0"):
        export_onnx(Encoder(with_modules(model, [*model, Bessel()])), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_without_a_fast_form(tiny_bert, tmp_path, monkeypatch):
    encoder = Encoder(tiny_bert)
    monkeypatch.setattr(type(encoder.model.tokenizer), "is_fast", False)
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        export_onnx(encoder, tmp_path / "out")


def test_a_tokenizer_that_reads_its_signs_as_text(tiny_bert, tmp_path):
    encoder = Encoder(tiny_bert)
    encoder.model.tokenizer.split_special_tokens = True
    with pytest.raises(InputError, match="reads its own signs"):
        export_onnx(encoder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path, tiny_bert):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(CORPUS))
    arguments = ["export", tiny_bert, "--to", "onnx", "--output", tmp_path / "out", "--layers", 1]
    done = command(*arguments, "--corpus", corpus)
    assert done.code == 0, done.err
    assert "32 dimensions. Against the model, on " in done.out
    assert "largest difference" in done.out
    expected = Encoder(tiny_bert, layers=1).encode(CORPUS)
    assert distance(OnnxEncoder(tmp_path / "out").encode(CORPUS), expected) < 1e-5
    assert "pass --overwrite" in command(*arguments).err
    assert command(*arguments, "--overwrite").code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("README.md", "model.onnx", "onnx_config.json", "onnx_encoder.py", "tokenizer.json")
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "out"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--to", "coreml"], "use onnx or static"),
        (["--to", "onnx", "--quantize", "int4"], "int8 is the only kind"),
        (["--to", "onnx", "--frequency-weights", "1e-3"], "belongs to --to static"),
        (["--to", "static", "--quantize", "int8"], "belongs to --to onnx"),
    ],
)
def test_wrong_flags(tmp_path, tiny_bert, flags, message):
    done = command("export", tiny_bert, "--output", tmp_path / "out", *flags)
    assert done.code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_the_extra_is_named_where_it_is_missing(tiny_bert, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "onnxruntime" else find(name, *rest)
    )
    with pytest.raises(InputError, match=r"needs onnxruntime: pip install 'embedlift\[onnx\]'"):
        export_onnx(Encoder(tiny_bert), tmp_path / "out")
