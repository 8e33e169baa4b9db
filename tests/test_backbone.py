import copy
import shutil
from pathlib import Path

import pytest
import torch
from conftest import sentences
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoModel

from embedlift import backbone
from embedlift.encoder import Encoder
from embedlift.errors import InputError


def test_a_missing_pad_token_is_set_without_a_new_token(tiny_llama):
    transformer = backbone.load(tiny_llama)[0]
    assert transformer.tokenizer.pad_token == "</s>"
    assert transformer.tokenizer.padding_side == "right"
    assert len(transformer.tokenizer) == transformer.model.config.vocab_size


def test_a_pad_token_of_the_model_is_kept(tiny_bert):
    assert backbone.load(tiny_bert)[0].tokenizer.pad_token == "[PAD]"


def copy_of(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def test_a_folder_without_weights(tiny_bert, tmp_path):
    folder = copy_of(tiny_bert, tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no weights \(no .safetensors or .bin file\)"):
        backbone.load(folder)


def test_a_folder_with_damaged_weights(tiny_bert, tmp_path):
    folder = copy_of(tiny_bert, tmp_path)
    (folder / "model.safetensors").write_bytes(b"short")
    with pytest.raises(InputError, match="cannot load .*copy"):
        backbone.load(folder)


def test_a_folder_with_a_damaged_config(tiny_bert, tmp_path):
    folder = copy_of(tiny_bert, tmp_path)
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot load .*copy"):
        backbone.load(folder)


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(InputError, match="neither config.json nor modules.json"):
        backbone.load(tmp_path)


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "a/b/c"])
def test_a_missing_folder(name):
    with pytest.raises(InputError, match="no such model folder"):
        backbone.load(name)


def test_a_missing_gguf_file(tmp_path):
    with pytest.raises(InputError, match="m.gguf: no such file"):
        backbone.load(tmp_path / "m.gguf")


def test_gguf_without_its_package(tmp_path, monkeypatch):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(backbone.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'embedlift\[gguf\]'"):
        backbone.load(tmp_path / "m.gguf")


def test_an_unknown_hub_model_offline():
    with pytest.raises(InputError, match="cannot load 'no-such-model-anywhere'") as caught:
        backbone.load("no-such-model-anywhere")
    assert str(caught.value).count("cannot load") == 1


def test_an_unknown_packaged_model():
    with pytest.raises(InputError, match="unknown packaged model 'gpt-5': choose one of smollm2-135m, "):
        backbone.load("packaged:gpt-5")


@pytest.mark.parametrize("name", backbone.PACKAGED)
def test_a_missing_wheel_gives_the_command_that_installs_it(monkeypatch, name):
    monkeypatch.setattr(backbone.importlib.util, "find_spec", lambda package: None)
    with pytest.raises(InputError) as error:
        backbone.load(f"packaged:{name}")
    assert str(error.value) == f"packaged:{name} is not installed: pip install {backbone.PACKAGED[name].pip}"


@pytest.mark.parametrize("dtype", ["float64", "int8", "fp16"])
def test_unknown_dtypes(tiny_bert, dtype):
    with pytest.raises(InputError, match=f"unknown dtype '{dtype}'"):
        backbone.load(tiny_bert, dtype=dtype)


@pytest.mark.parametrize("device", ["gpu", "cuda:77", "mps:9", ""])
def test_unknown_or_absent_devices(tiny_bert, device):
    with pytest.raises(InputError, match=f"device '{device}'"):
        backbone.load(tiny_bert, device=device)


@pytest.mark.parametrize("dtype", backbone.DTYPES)
def test_the_dtype_is_that_asked_for_whatever_the_files_hold(tiny_bert, tmp_path, dtype):
    half = AutoModel.from_pretrained(tiny_bert, dtype=torch.float16)
    folder = copy_of(tiny_bert, tmp_path)
    half.save_pretrained(folder)
    assert backbone.load(folder).dtype == torch.float32
    model = backbone.load(folder, dtype=dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {backbone.DTYPES[dtype]}


@pytest.mark.parametrize(
    ("kind", "limit"), [("tiny_bert", 64), ("tiny_llama", 256), ("tiny_roberta", 63)], ids=["bert", "llama", "roberta"]
)
def test_long_texts_never_leave_the_positions(request, kind, limit):
    """RoBERTa counts positions from behind the padding index: "index out of range in self" is a well-known symptom."""
    folder = request.getfixturevalue(kind)
    encoder = Encoder(folder)
    assert encoder.model.max_seq_length == limit
    encoded = encoder.encode_distinct(["word " * 1000, "word"])
    assert encoded.truncated.tolist() == [True, False]
    assert torch.isfinite(torch.from_numpy(encoded.vectors)).all()
    with pytest.raises(InputError, match=f"--max-length is {limit + 1}, but the model has only {limit} positions"):
        backbone.load(folder, max_length=limit + 1)


@pytest.mark.parametrize("length", [-1, 0, 2])
def test_a_maximum_below_the_special_tokens(tiny_bert, length):
    with pytest.raises(InputError, match="--max-length must be above 2"):
        backbone.load(tiny_bert, max_length=length)


@pytest.fixture
def trained(tiny_bert):
    """A sentence-transformers model with prompts, a pooling of its own, and normalised vectors."""
    transformer = Transformer(str(tiny_bert))
    return SentenceTransformer(
        modules=[transformer, Pooling(32, "cls"), Normalize()],
        prompts={"query": "find the ", "document": ""},
        default_prompt_name="query",
        similarity_fn_name="dot",
    )


def test_prompts_normalisation_and_pooling_of_a_model_are_kept(trained, tmp_path):
    trained.save_pretrained(str(tmp_path / "m"))
    for source in (trained, tmp_path / "m", str(tmp_path / "m")):
        model = backbone.load(source)
        assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Normalize"]
        assert model[1].pooling_mode == "cls"
        assert model.prompts["query"] == "find the "
        assert model.default_prompt_name == "query"
        assert model.similarity_fn_name == "dot"


def test_another_pooling_keeps_prompts_and_normalisation(trained):
    model = backbone.load(trained, pooling="first-last-avg")
    names = [type(module).__name__ for module in model]
    assert names == ["Transformer", "WeightedLayerPooling", "Pooling", "Normalize"]
    assert model[2].pooling_mode == "mean"
    assert model.default_prompt_name == "query"
    assert model.similarity_fn_name == "dot"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pooling": "first-last-avg"},
        {"layers": 1},
        {"max_length": 8},
        {"prompt": "say "},
        {"prompt": "document"},
        {"pooling": "max", "layers": 1, "max_length": 8, "prompt": "say "},
    ],
    ids=str,
)
def test_a_loaded_model_is_not_mutated(trained, options):
    texts = sentences(5)
    before = copy.deepcopy(trained)
    encoder = Encoder(trained, **options)
    encoder.encode(texts)
    assert [type(module).__name__ for module in trained] == ["Transformer", "Pooling", "Normalize"]
    assert trained[0].model.config.to_dict() == before[0].model.config.to_dict()
    assert len(trained[0].model.encoder.layer) == 2
    assert trained.prompts == before.prompts
    assert trained.default_prompt_name == "query"
    assert trained.max_seq_length == before.max_seq_length
    assert (trained.encode(texts) == before.encode(texts)).all()


def test_weights_that_the_files_lack_are_the_same_every_time(tiny_bert, tmp_path):
    """An unused pooler is drawn at random by transformers: the saved bytes must not depend on it."""
    folder = copy_of(tiny_bert, tmp_path)
    tensors = {name: value for name, value in load_file(folder / "model.safetensors").items() if "pooler" not in name}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    torch.manual_seed(1)
    first = backbone.load(folder).state_dict()
    drawn = torch.rand(1)
    second = backbone.load(folder).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), drawn), "loading moved the caller's random numbers"


#: Name of a Llama's weight in transformers -> in GGUF.
GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_weights(model):
    """Yield the weights of a Llama as GGUF keeps them: queries and keys with the halves of a head interleaved."""
    yield "token_embd.weight", model.embed_tokens.weight
    yield "output_norm.weight", model.norm.weight
    for index, layer in enumerate(model.layers):
        for name, gguf_name in GGUF_NAMES.items():
            weight = layer.get_parameter(f"{name}.weight")
            heads = {"q": model.config.num_attention_heads, "k": model.config.num_key_value_heads}
            if (count := heads.get(gguf_name.removeprefix("attn_"))) is not None:
                weight = weight.reshape(count, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
            yield f"blk.{index}.{gguf_name}.weight", weight


@pytest.fixture(scope="module")
def tiny_gguf(tiny_llama, tmp_path_factory):
    """The tiny Llama as one file, with a tokenizer that knows single letters."""
    gguf = pytest.importorskip("gguf")
    model = AutoModel.from_pretrained(tiny_llama, dtype=torch.float32)
    config = model.config
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    tokens = ["<unk>", "<s>", "</s>", "\u2581", *"abcdefghijklmnopqrstuvwxyz"]
    tokens += [f"<unused{i}>" for i in range(config.vocab_size - len(tokens))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([1] * len(tokens))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, weight in gguf_weights(model):
        writer.add_tensor(name, weight.detach().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_the_model_that_it_was_made_of(tiny_gguf, tiny_llama, tmp_path):
    """And it is saved as an ordinary folder of safetensors."""
    encoder = Encoder(tiny_gguf)
    tokens = encoder.model.tokenizer("some text", return_tensors="pt")
    assert len(set(tokens["input_ids"][0].tolist())) > 5
    with torch.no_grad():
        states = AutoModel.from_pretrained(tiny_llama, dtype=torch.float32)(**tokens).last_hidden_state[0]
    torch.testing.assert_close(torch.from_numpy(encoder.encode(["some text"])[0]), states.mean(0), rtol=1e-4, atol=1e-5)
    encoder.model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    plain = SentenceTransformer(str(tmp_path / "m"))
    torch.testing.assert_close(torch.from_numpy(plain.encode("some text")), states.mean(0), rtol=1e-4, atol=1e-5)
    assert "quantization_config" not in (tmp_path / "m" / "config.json").read_text()


@pytest.mark.parametrize("size", [0, 3, 1000, 10_000, -100])
def test_a_damaged_gguf_file(tiny_gguf, tmp_path, size):
    (tmp_path / "m.gguf").write_bytes(tiny_gguf.read_bytes()[:size])
    with pytest.raises(InputError, match="cannot load .*m.gguf"):
        backbone.load(tmp_path / "m.gguf")


@pytest.mark.model
@pytest.mark.parametrize("name", ["all-minilm-l6-v2"])
def test_a_packaged_model_is_that_of_plain_sentence_transformers(name):
    wheel = backbone.PACKAGED[name]
    spec = backbone.importlib.util.find_spec(wheel.package)
    if spec is None:
        pytest.skip(f"pip install {wheel.pip}")
    texts = ["A dog runs through the park.", "An animal is outside."]
    ours = Encoder(f"packaged:{name}").encode(texts)
    plain = SentenceTransformer(str(Path(spec.origin).parent / wheel.inside), device="cpu").encode(texts)
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)
