import json
import shutil
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import WORDS, sentences
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from test_layers import POOLINGS
from transformers import AutoTokenizer

from embedlift import encoder as encoder_module
from embedlift.encoder import Encoder
from embedlift.errors import InputError

#: Largest distance of a vector to itself in another batch, relative to its length (documented in Encoder).
TOLERANCE = {"float32": 1e-5, "bfloat16": 5e-2, "float16": 5e-3}

#: Short, long, repeated, blank and unknown texts, in no order.
MIXED = ["the word", *sentences(40, seed=3), "the word", "a " * 60, "zzz"]


def distance(left, right):
    """Largest relative distance of rows."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    return (np.linalg.norm(left - right, axis=1) / np.linalg.norm(right, axis=1)).max()


@pytest.fixture(params=["tiny_bert", "tiny_llama", "tiny_roberta"])
def folder(request):
    return request.getfixturevalue(request.param)


class Spy(Encoder):
    """An encoder that keeps the shape of every batch: (texts, tokens with padding)."""

    def _forward(self, features):
        self.__dict__.setdefault("shapes", []).append(tuple(features["input_ids"].shape))
        return super()._forward(features)


def test_vectors_come_in_the_order_of_the_texts(folder):
    encoder = Encoder(folder)
    together = encoder.encode(MIXED)
    alone = np.concatenate([encoder.encode([text]) for text in MIXED])
    assert together.dtype == np.float32
    assert together.shape == (len(MIXED), encoder.dimension) == (44, 32)
    assert distance(together, alone) < TOLERANCE["float32"]


def test_each_distinct_text_is_encoded_once(tiny_bert):
    encoder = Spy(tiny_bert)
    vectors = encoder.encode(["a", "b", "a", "a", "b"])
    assert sum(texts for texts, _ in encoder.shapes) == 2
    assert np.array_equal(vectors, vectors[[0, 1, 0, 0, 1]])
    assert not np.array_equal(vectors[0], vectors[1])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last", "first-last-avg"])
def test_batches_of_1_2_and_32_agree_within_the_tolerance_of_the_dtype(folder, pooling, dtype):
    """USERS: llm2vec#68, sentence-transformers#2312, #3278: the batch size changed the vectors."""
    encoder = Encoder(folder, pooling=pooling, dtype=dtype)
    texts = list(dict.fromkeys(MIXED))
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    pairs = np.concatenate([encoder.encode(texts[i : i + 2]) for i in range(0, len(texts), 2)])
    many = np.concatenate([encoder.encode(texts[i : i + 32]) for i in range(0, len(texts), 32)])
    assert max(distance(pairs, alone), distance(many, alone)) < TOLERANCE[dtype]


def test_a_short_text_beside_one_ten_times_longer(folder):
    """USERS: mean pooling took the padding in."""
    encoder = Encoder(folder, batch_tokens=100_000)
    beside = encoder.encode(["time number", "time number " * 10])[:1]
    assert distance(beside, encoder.encode(["time number"])) < TOLERANCE["float32"]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize(
    ("kind", "side"),
    [
        ("tiny_bert", "right"),  # left: its absolute positions would count the padding, so it is saved padding right
        ("tiny_roberta", "right"),
        ("tiny_llama", "right"),
        ("tiny_llama", "left"),
    ],
)
def test_the_saved_model_gives_the_same_vectors_in_plain_sentence_transformers(request, tmp_path, kind, side, pooling):
    """USERS: sentence-transformers#3208: first and last tokens were padding, depending on the padding side."""
    encoder = Encoder(request.getfixturevalue(kind), pooling=pooling)
    encoder.model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    plain = SentenceTransformer(str(tmp_path / "m"))
    assert plain.tokenizer.padding_side == "right"
    plain.tokenizer.padding_side = side
    for batch_size in (1, 32):
        assert distance(plain.encode(MIXED, batch_size=batch_size), encoder.encode(MIXED)) < 1e-5


def test_our_own_batches_do_not_depend_on_the_padding_side(folder):
    """A loaded model may pad on the left; it is not changed, and its positions still do not count the padding."""
    encoder = Encoder(folder, pooling="last")
    expected = encoder.encode(MIXED)
    model = SentenceTransformer(modules=list(encoder.model))
    model.tokenizer.padding_side = "left"
    assert distance(Encoder(model).encode(MIXED), expected) < TOLERANCE["float32"]
    assert model.tokenizer.padding_side == "left"


def test_padded_tokens_stay_within_the_budget(folder):
    encoder = Spy(folder, batch_tokens=100)
    texts = sentences(300, seed=5)
    encoder.encode(texts)
    assert all(count * length <= 100 for count, length in encoder.shapes)
    lengths = sum(len(encoder.model.tokenizer(text)["input_ids"]) for text in texts)
    padded = sum(count * length for count, length in encoder.shapes)
    assert encoder.tokens_read == lengths
    assert padded < 1.1 * lengths, "sorted by token count, little is padding"
    assert sum(count for count, _ in encoder.shapes) == 300


def test_a_text_above_the_budget_goes_alone(tiny_llama):
    encoder = Spy(tiny_llama, batch_tokens=10)
    encoder.encode(["word " * 50, "word", "time"])
    assert encoder.shapes == [(1, 50), (2, 1)]


@pytest.mark.parametrize("budget", [0, -1])
def test_a_budget_below_one_is_refused(tiny_bert, budget):
    with pytest.raises(InputError, match=f"--batch-tokens must be at least 1, got {budget}"):
        Encoder(tiny_bert, batch_tokens=budget)


@pytest.mark.parametrize(("dtype", "tokens"), [("float32", 1024), ("bfloat16", 2048), ("float16", 2048)])
def test_the_default_budget_follows_the_size_of_a_number(tiny_bert, dtype, tokens):
    assert Encoder(tiny_bert, dtype=dtype, device="cpu").batch_tokens == tokens


def test_windows_do_not_show(tiny_bert, monkeypatch):
    texts = sentences(50)
    encoder = Encoder(tiny_bert)
    expected = encoder.encode_distinct([*texts, "a " * 100])
    monkeypatch.setattr(encoder_module, "_WINDOW", 7)
    steps = []
    found = encoder.encode_distinct([*texts, "a " * 100], progress=lambda *step: steps.append(step))
    assert distance(found.vectors, expected.vectors) < TOLERANCE["float32"]
    assert found.truncated.tolist() == expected.truncated.tolist() == [False] * 50 + [True]
    assert steps[-1] == (51, 51)
    assert steps == sorted(steps)


@pytest.mark.parametrize("empty", [[], (), np.array([], dtype=str), pd.Series([], dtype=object), iter([])])
def test_no_texts_give_no_rows(tiny_bert, empty):
    vectors = Encoder(tiny_bert).encode(empty)
    assert vectors.shape == (0, 32)
    assert vectors.dtype == np.float32


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last", "first-last-avg"])
def test_texts_without_content_have_a_finite_row(folder, pooling, dtype):
    """USERS: model2vec PR#368: empty text gave NaN in float16."""
    encoder = Encoder(folder, pooling=pooling, dtype=dtype)
    texts = ["", "   ", "\n\t", "\u200b", "zzz qqq", "😀", "the word"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ texts hold no token", UserWarning)  # checked below
        vectors = encoder.encode(texts)
        alone = np.concatenate([encoder.encode([text]) for text in texts])
    assert np.isfinite(vectors).all()
    assert distance(vectors, alone) < TOLERANCE[dtype]


def test_texts_without_a_token_are_reported_and_get_the_end_of_text(tiny_llama):
    encoder = Encoder(tiny_llama)
    with pytest.warns(UserWarning, match="2 texts hold no token"):
        empty, blank, end = encoder.encode(["", "  ", "</s>"])
    assert distance([empty, blank], [end, end]) < TOLERANCE["float32"]


@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_llama"])
def test_plain_sentence_transformers_agrees_on_empty_texts_beside_others(request, tmp_path, kind):
    """At least it stays finite there; for BERT, whose empty text has its special tokens, it is the same."""
    encoder = Encoder(request.getfixturevalue(kind))
    encoder.model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    vectors = SentenceTransformer(str(tmp_path / "m")).encode(["", "the word"])
    assert np.isfinite(vectors).all()
    if kind == "tiny_bert":
        assert distance(vectors, encoder.encode(["", "the word"])) < 1e-5


def test_truncated_texts_are_counted(folder):
    encoder = Encoder(folder, max_length=8)
    encoded = encoder.encode_distinct(["word", "word " * 8, "word " * 100])
    special = encoder.model.tokenizer.num_special_tokens_to_add()
    assert encoded.truncated.tolist() == [False, special > 0, True]


def test_a_truncated_text_is_its_beginning(tiny_llama):
    encoder = Encoder(tiny_llama, max_length=5)
    long, short = encoder.encode(["one time word number day people", "one time word number day"])
    assert distance([long], [short]) < TOLERANCE["float32"]


def test_a_very_long_line(tiny_bert):
    """100,000 characters: cut to the limit of the model, counted, and finite."""
    encoded = Encoder(tiny_bert).encode_distinct(["word " * 20_000, "x" * 100_000])
    assert encoded.truncated.tolist() == [True, False]  # the second is one unknown word
    assert np.isfinite(encoded.vectors).all()


@pytest.mark.parametrize("text", ["word " * 200_000, "x" * 1_000_000, " " * 1_000_000, "the \U0001f600" * 200_000])
def test_a_million_characters(folder, text):
    encoded = Encoder(folder, max_length=16).encode_distinct([text, "the word"])
    assert np.isfinite(encoded.vectors).all()
    assert encoded.truncated.tolist() == ["word" in text or "\U0001f600" in text, False]


def test_lone_surrogates_are_read_as_replacement_characters(tiny_bert):
    vectors = Encoder(tiny_bert).encode(["the \ud800 word", "the \ufffd word", "the \ud83d\ude00 word", "the 😀 word"])
    assert distance(vectors[[0, 2]], vectors[[1, 3]]) < TOLERANCE["float32"]


SPECIAL = ["[SEP] the [PAD] word [MASK]", "[CLS]", "</s> the word <s>", "[PAD] [PAD]", "the word"]


@pytest.mark.parametrize("split", [False, True])
def test_typed_special_tokens_are_read_as_the_tokenizer_says_here_and_in_plain_sentence_transformers(
    folder, tmp_path, split
):
    """As signs by default; as text with ``split_special_tokens``, which the saved model keeps."""
    folder = shutil.copytree(folder, tmp_path / "model")
    if split:
        settings = json.loads((folder / "tokenizer_config.json").read_text()) | {"split_special_tokens": True}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    encoder = Encoder(folder)
    signs = set(encoder.model.tokenizer.all_special_ids) - {encoder.model.tokenizer.unk_token_id}
    inside = [set(encoder.model.tokenizer(text, add_special_tokens=False)["input_ids"]) & signs for text in SPECIAL]
    assert any(inside) != split
    vectors = encoder.encode(SPECIAL)
    assert distance(vectors, np.concatenate([encoder.encode([text]) for text in SPECIAL])) < TOLERANCE["float32"]
    encoder.model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    assert distance(SentenceTransformer(str(tmp_path / "m")).encode(SPECIAL), vectors) < 1e-5
    assert distance(Encoder(tmp_path / "m").encode(SPECIAL), vectors) < 1e-5


def test_the_fingerprint_knows_how_typed_special_tokens_are_read(tiny_bert):
    encoder = Encoder(tiny_bert)
    before = encoder.fingerprint()
    encoder.model.tokenizer.split_special_tokens = True
    assert encoder.fingerprint() != before


@pytest.mark.parametrize("bad", [None, float("nan"), pd.NA, 3.14, b"bytes"], ids=repr)
def test_what_is_no_text_is_named(tiny_bert, bad):
    series = pd.Series(["fine", bad, "fine"], index=[0, 2, 5], dtype=object)
    with pytest.raises(InputError, match=r"texts\[1\] is .*, not a str"):
        Encoder(tiny_bert).encode(series)


def with_prompts(folder, pooling="mean", include_prompt=True):
    return SentenceTransformer(
        modules=[Transformer(str(folder)), Pooling(32, pooling, include_prompt=include_prompt), Normalize()],
        prompts={"query": "find the ", "passage": "read this "},
        default_prompt_name="passage",
    )


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize(
    ("prompt", "same_as"),
    [
        ("query", {"prompt_name": "query"}),
        ("find the ", {"prompt": "find the "}),
        ("some other ", {"prompt": "some other "}),
        (None, {}),
        ("", {"prompt": ""}),
    ],
    ids=str,
)
def test_prompts_are_those_of_sentence_transformers(tiny_bert, tmp_path, prompt, same_as, include_prompt):
    """By name, by text, or the model's own; the encoder's model carries the choice into what is saved."""
    model = with_prompts(tiny_bert, include_prompt=include_prompt)
    texts = sentences(20)
    expected = model.encode(texts, **same_as)
    encoder = Encoder(model, prompt=prompt)
    assert distance(encoder.encode(texts), expected) < 1e-5
    encoder.model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    assert distance(SentenceTransformer(str(tmp_path / "m")).encode(texts), expected) < 1e-5


def test_no_chat_template_wraps_a_sentence(tiny_llama, tmp_path):
    """Instruct models bring one; neither the encoder nor the saved model may apply it."""
    folder = shutil.copytree(tiny_llama, tmp_path / "chat")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for message in messages %}you said {{ message.content }} then{% endfor %}"
    tokenizer.save_pretrained(folder)
    texts, encoder = sentences(10), Encoder(folder)
    expected = Encoder(tiny_llama).encode(texts)
    assert distance(encoder.encode(texts), expected) < 1e-6
    encoder.model.save_pretrained(str(tmp_path / "m"), create_model_card=False)
    assert distance(SentenceTransformer(str(tmp_path / "m")).encode(texts), expected) < 1e-5
    assert SentenceTransformer(str(tmp_path / "m")).tokenizer.chat_template is None


def test_a_prompt_changes_the_vectors(tiny_bert):
    texts = sentences(5)
    assert distance(Encoder(tiny_bert, prompt="say ").encode(texts), Encoder(tiny_bert).encode(texts)) > 0.01


def test_a_model_that_truncates_its_dimensions(tiny_bert):
    model = SentenceTransformer(modules=[Transformer(str(tiny_bert)), Pooling(32, "mean")], truncate_dim=7)
    encoder = Encoder(model)
    assert encoder.dimension == 7
    assert distance(encoder.encode(MIXED[:9]), model.encode(MIXED[:9])) < 1e-5


def test_a_static_embedding_model(tiny_bert):
    """A model that reads text by itself, without a transformer."""
    tokenizer = Encoder(tiny_bert).model.tokenizer.backend_tokenizer
    torch.manual_seed(0)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=12)])
    texts = ["the word", *sentences(100), "the word"]
    assert distance(Encoder(model).encode(texts), model.encode(texts)) < 1e-5
    with pytest.raises(InputError, match="--pooling needs a transformer model; this one starts with StaticEmbedding"):
        Encoder(model, pooling="cls")


def test_chunk_mean_leaves_short_texts_alone(folder):
    texts = sentences(20)
    assert np.array_equal(Encoder(folder, long="chunk-mean").encode(texts), Encoder(folder).encode(texts))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_chunk_mean_is_the_mean_of_pieces_weighted_by_their_tokens(folder, pooling):
    encoder = Encoder(folder, pooling=pooling, max_length=9, long="chunk-mean")
    room = 9 - encoder.model.tokenizer.num_special_tokens_to_add()
    words = sentences(1, seed=7)[0].split() + WORDS[: 2 * room]
    pieces = [words[start : start + room] for start in range(0, len(words), room)]
    alone = Encoder(folder, pooling=pooling).encode([" ".join(piece) for piece in pieces])
    expected = np.average(alone, axis=0, weights=[len(piece) for piece in pieces])
    texts = ["the word", " ".join(words), "number"]
    encoded = encoder.encode_distinct(texts)
    assert distance(encoded.vectors[1:2], [expected]) < TOLERANCE["float32"]
    assert distance(encoded.vectors[::2], Encoder(folder, pooling=pooling).encode(texts[::2])) < TOLERANCE["float32"]
    assert not encoded.truncated.any()


def test_chunk_mean_puts_the_prompt_before_every_piece_and_normalises_at_the_end(tiny_bert):
    encoder = Encoder(with_prompts(tiny_bert), max_length=7, prompt="query", long="chunk-mean")
    unit = encoder.encode(["one time word number day people"])
    trunk = SentenceTransformer(modules=list(with_prompts(tiny_bert))[:2])
    pieces = trunk.encode(["one time word", "number day people"], prompt="find the ")
    mean = pieces.mean(axis=0, keepdims=True)
    assert distance(unit, mean / np.linalg.norm(mean)) < 1e-5


def test_chunk_mean_reports_progress_in_texts(tiny_bert):
    steps = []
    encoder = Encoder(tiny_bert, max_length=5, long="chunk-mean", batch_tokens=10)
    encoder.encode(sentences(20), progress=lambda *step: steps.append(step))
    assert steps[-1] == (20, 20)


def test_chunk_mean_is_refused_where_it_cannot_be(tiny_bert):
    tokenizer = Encoder(tiny_bert).model.tokenizer.backend_tokenizer
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=12)])
    with pytest.raises(InputError, match="--long chunk-mean needs a transformer model"):
        Encoder(static, long="chunk-mean")
    with pytest.raises(InputError, match="the prompt leaves no room for text within 6 tokens"):
        Encoder(tiny_bert, prompt="one two three make", max_length=6, long="chunk-mean")
    with pytest.raises(InputError, match="unknown --long 'mean': use one of truncate, chunk-mean"):
        Encoder(tiny_bert, long="mean")


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "cls"},
        {"layers": 1},
        {"max_length": 9},
        {"prompt": "say "},
        {"dtype": "float16"},
        {"long": "chunk-mean"},
    ],
    ids=str,
)
def test_the_fingerprint_knows_what_decides_a_vector(tiny_bert, options):
    same = Encoder(tiny_bert, batch_tokens=50)
    same.encode(sentences(3))
    assert same.fingerprint() == Encoder(str(tiny_bert)).fingerprint()
    assert Encoder(tiny_bert, **options).fingerprint() != same.fingerprint()


def test_the_fingerprint_knows_truncated_dimensions(tiny_bert):
    model = Encoder(tiny_bert).model
    before = Encoder(model).fingerprint()
    model.truncate_dim = 5
    assert Encoder(model).fingerprint() != before


def test_the_fingerprint_knows_the_weights(tiny_bert):
    encoder = Encoder(tiny_bert)
    before = encoder.fingerprint()
    with torch.no_grad():
        encoder.model[0].model.embeddings.word_embeddings.weight[7, 3] += 1e-3
    assert encoder.fingerprint() != before


def test_the_next_window_is_read_while_the_model_works_and_by_one_thread_only(tiny_bert, monkeypatch):
    """A tokenizer must not be used by two threads at once, and a stopped encoding must leave none behind."""
    windows = [sentences(20, seed=seed) for seed in range(4)]
    expected = Encoder(tiny_bert).encode(windows[0])
    tokenised, threads = [], set()
    read = encoder_module.read_window

    def watched(model, texts, *given):
        threads.add(threading.get_ident())
        tokenised.append(texts)
        return read(model, texts, *given)

    monkeypatch.setattr(encoder_module, "read_window", watched)
    ready = Encoder(tiny_bert).encode_windows(windows)
    assert np.array_equal(next(ready).vectors, expected)
    ready.close()
    assert tokenised == windows[: len(tokenised)]
    assert len(tokenised) <= 2
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


@pytest.mark.parametrize("long", ["truncate", "chunk-mean"])
def test_a_failing_model_or_reader_ends_the_thread(tiny_bert, monkeypatch, long):
    def windows():
        yield ["the word"]
        yield ["one " * 100]
        raise OSError("the disk is gone")

    encoder = Encoder(tiny_bert, long=long)
    done = []
    with pytest.raises(OSError, match="the disk is gone"):
        done.extend(encoder.encode_windows(windows()))
    assert len(done) == 2
    monkeypatch.setattr(Encoder, "_forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        encoder.encode(sentences(30))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]
