"""A two-layer random BERT and a two-layer random Llama, built on the spot: nothing is downloaded."""

from __future__ import annotations

import os
import random

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # tiny models gain nothing by threads, which wait for each other on a busy machine
torch.set_num_threads(1)

WORDS = """a the of to and in is it you that he was for on are with as his they be at one have this from or had by hot
word but what some we can out other were all there when up use your how said an each she which do their time if will
way about many then them write would like so these her long make thing see him two has look more day could go come did
number sound no most people my over know water than call first who may down side been now find any new work part take
get place made live where after back little only round man year came show every good me give our under""".split()


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch):
    """Keep the vectors of a test out of the user's cache, and out of the next test."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("EMBEDLIFT_CACHE", str(folder))
    return folder


def sentences(count: int, seed: int = 0) -> list[str]:
    """Return distinct random sentences of 1 to 30 known words."""
    rng = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[" ".join(rng.choices(WORDS, k=rng.randint(1, 30)))] = None
    return list(made)


def _fast_tokenizer(special: dict[str, str], template: str | None):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate(dict.fromkeys([*special.values(), *WORDS]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if template is not None:
        used = [(token, vocabulary[token]) for token in template.split() if token != "$A"]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


BERT_TOKENS = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
LLAMA_TOKENS = {
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}  # no pad token, and nothing is added


def save_tiny(folder, kind: str, **config):
    """Save a random model of two layers and 32 dimensions, with its tokenizer, in ``folder``."""
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel, RobertaConfig, RobertaModel

    torch.manual_seed(0)
    if kind == "llama":
        tokenizer = _fast_tokenizer(LLAMA_TOKENS, None)
        sizes = {"num_key_value_heads": 2, "max_position_embeddings": 256}
        config_class, model_class = LlamaConfig, LlamaModel
    else:
        tokenizer = _fast_tokenizer(BERT_TOKENS, "[CLS] $A [SEP]")
        sizes = {"max_position_embeddings": 64}
        config_class, model_class = (BertConfig, BertModel) if kind == "bert" else (RobertaConfig, RobertaModel)
        if kind == "roberta":
            sizes["pad_token_id"] = 0
    sizes |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = model_class(config_class(vocab_size=len(tokenizer), **(sizes | config)))
    with torch.no_grad():  # spread out, so that layers and positions matter, and no two layers share a null direction
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
            else:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny-bert", "bert")


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny-llama", "llama")


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny-roberta", "roberta")
