import errno

import numpy as np
import pytest
import torch
from conftest import sentences
from test_encoder import TOLERANCE, distance, with_prompts

from embedlift import cache
from embedlift.adaptation import run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder


@pytest.fixture
def forwards(monkeypatch):
    """Number of texts that went through a language model, by call."""
    counted = []
    original = Encoder._forward

    def count(self, features):
        counted.append(len(features["input_ids"]))
        return original(self, features)

    monkeypatch.setattr(Encoder, "_forward", count)
    return counted


TEXTS = ["the word", *sentences(30), "the word"]


def test_a_second_call_encodes_nothing(tiny_bert, forwards):
    first = CachedEncoder(Encoder(tiny_bert)).encode(TEXTS)
    assert sum(forwards) == 31
    steps = []
    second = CachedEncoder(Encoder(tiny_bert)).encode(TEXTS[::-1], progress=lambda *step: steps.append(step))
    assert sum(forwards) == 31
    assert steps == []
    np.testing.assert_array_equal(second[::-1], first)


def test_only_new_texts_are_encoded(tiny_bert, forwards):
    encoder = CachedEncoder(Encoder(tiny_bert))
    encoder.encode(TEXTS[:10])
    steps = []
    encoder.encode(TEXTS, progress=lambda *step: steps.append(step))
    assert sum(forwards) == 31
    assert steps[-1] == (21, 21)


def test_the_vectors_are_those_of_the_encoder(tiny_bert, tiny_llama):
    for folder in (tiny_bert, tiny_llama):
        encoder = Encoder(folder, pooling="first-last-avg")
        assert distance(CachedEncoder(encoder).encode(TEXTS), encoder.encode(TEXTS)) < TOLERANCE["float32"]


def test_the_encoder_itself_never_touches_the_cache(tiny_bert, cache_folder, forwards):
    encoder = Encoder(tiny_bert)
    encoder.encode(TEXTS)
    assert list(cache_folder.iterdir()) == []
    CachedEncoder(encoder).encode(TEXTS)
    before = len(forwards)
    encoder.encode(TEXTS)
    assert len(forwards) > before


@pytest.mark.parametrize(
    "options",
    [{"pooling": "cls"}, {"pooling": "first-last-avg"}, {"layers": 1}, {"max_length": 5}, {"prompt": "say "}],
    ids=str,
)
def test_other_settings_have_other_keys(tiny_bert, options, forwards):
    CachedEncoder(Encoder(tiny_bert)).encode(TEXTS)
    encoder = Encoder(tiny_bert, **options)
    assert distance(CachedEncoder(encoder).encode(TEXTS), encoder.encode(TEXTS)) < TOLERANCE["float32"]
    assert sum(forwards) == 3 * 31


def test_other_weights_have_another_key(tiny_bert):
    encoder = Encoder(tiny_bert)
    before = CachedEncoder(encoder)
    before.encode(TEXTS)
    with torch.no_grad():
        encoder.model[0].model.embeddings.word_embeddings.weight.mul_(1.5)
    after = CachedEncoder(encoder)
    assert after.folder != before.folder
    assert distance(after.encode(TEXTS), encoder.encode(TEXTS)) < TOLERANCE["float32"]


def test_the_prompt_of_a_loaded_model_is_part_of_the_key(tiny_bert):
    model = with_prompts(tiny_bert)
    for prompt, reference in (("query", {"prompt_name": "query"}), (None, {}), ("", {"prompt": ""})):
        vectors = CachedEncoder(Encoder(model, prompt=prompt)).encode(TEXTS)
        assert distance(vectors, model.encode(TEXTS, **reference)) < TOLERANCE["float32"]


@pytest.mark.parametrize("method", ["center", "whitening"])
def test_an_adapted_model_shares_the_vectors_of_its_backbone(tiny_bert, forwards, method):
    corpus = sentences(100)
    model = run(tiny_bert, corpus, method=method, pooling="first-last-avg").model
    assert sum(forwards) == 100
    cached = CachedEncoder(Encoder(model)).encode(corpus)
    assert sum(forwards) == 100
    assert distance(cached, Encoder(model).encode(corpus)) < TOLERANCE["float32"]


def test_a_truncated_dimension(tiny_bert):
    model = Encoder(tiny_bert).model
    model.truncate_dim = 5
    encoder = Encoder(model)
    cached = CachedEncoder(encoder)
    assert cached.encode(TEXTS).shape == (32, 5)
    assert distance(cached.encode(TEXTS), encoder.encode(TEXTS)) < TOLERANCE["float32"]


def shards(folder):
    return sorted(folder.rglob("*.npy"))


def test_an_interrupted_write_is_ignored(tiny_bert, cache_folder, forwards, monkeypatch):
    """Killed between the two files of a shard: the vectors without their records are never read."""
    monkeypatch.setattr(cache, "_SHARD", 10)
    expected = CachedEncoder(Encoder(tiny_bert)).encode(TEXTS)
    records = [path for path in shards(cache_folder) if path.name.endswith(".records.npy")]
    assert len(records) == 4
    records[0].unlink()
    again = CachedEncoder(Encoder(tiny_bert)).encode(TEXTS)
    assert 31 < sum(forwards) <= 41
    assert distance(again, expected) < TOLERANCE["float32"]


@pytest.mark.parametrize("victim", ["*.records.npy", "[!.]*[!s].npy"])
@pytest.mark.parametrize("damage", ["empty", "cut", "gone"])
def test_a_damaged_shard_is_made_again(tiny_bert, cache_folder, victim, damage):
    expected = CachedEncoder(Encoder(tiny_bert)).encode(TEXTS)
    (path,) = cache_folder.rglob(victim)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else -9])
    assert distance(CachedEncoder(Encoder(tiny_bert)).encode(TEXTS), expected) < TOLERANCE["float32"]


def test_a_failure_keeps_the_shards_before_it(tiny_bert, monkeypatch, forwards):
    monkeypatch.setattr(cache, "_SHARD", 10)

    def interrupt(done, total):
        if done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CachedEncoder(Encoder(tiny_bert)).encode(TEXTS, progress=interrupt)
    before = sum(forwards)
    CachedEncoder(Encoder(tiny_bert)).encode(TEXTS)
    assert sum(forwards) - before == 11


def test_what_was_met_in_encoding_is_remembered(tiny_llama):
    texts = ["word " * 9, "", "word"]
    for _ in range(2):
        encoder = CachedEncoder(Encoder(tiny_llama, max_length=5))
        with pytest.warns(UserWarning, match="1 texts hold no token"):
            encoder.encode(texts)
        assert encoder.truncated == 1


def test_vectors_may_go_to_a_memory_map(tiny_bert, tmp_path):
    encoder = CachedEncoder(Encoder(tiny_bert))
    vectors = encoder.encode(TEXTS, out=tmp_path / "v.npy")
    assert isinstance(vectors, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), encoder.encode(TEXTS))


def test_no_texts(tiny_bert, tmp_path):
    encoder = CachedEncoder(Encoder(tiny_bert))
    assert encoder.encode([]).shape == encoder.encode([], out=tmp_path / "v.npy").shape == (0, 32)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"EMBEDLIFT_CACHE": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/embedlift"),
        ({"HOME": "/h"}, "/h/.cache/embedlift"),
    ],
    ids=str,
)
def test_where_the_cache_lies(monkeypatch, environment, folder):
    for name in ("EMBEDLIFT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(cache.default_folder()) == folder


def test_the_place_of_a_memory_map_is_taken_before_it_is_written(tiny_bert, tmp_path, monkeypatch):
    """Else a full disk ends in a bus error, in the middle of writing, without a word."""
    if not hasattr(cache.os, "posix_fallocate"):
        pytest.skip("this system cannot reserve space")

    def full(descriptor, offset, length):
        assert length == (tmp_path / "v.npy").stat().st_size > 32 * 32 * 4
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache.os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left on device"):
        CachedEncoder(Encoder(tiny_bert)).encode(TEXTS, out=tmp_path / "v.npy")
