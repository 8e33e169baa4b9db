import numpy as np
import pytest
from conftest import sentences
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from test_encoder import distance

from embedlift.choosing.states import StatesEncoder, joined, mixable_layers
from embedlift.encoder import Encoder

TEXTS = sentences(40)


@pytest.fixture(params=["tiny_bert", "tiny_llama"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("mix", [(0,), (1,), (2,), (0, 1), (0, 1, 2), (1, 2)])
def test_one_pass_gives_the_vectors_of_every_pooling(folder, mix, normalised):
    model = Encoder(folder).model
    if normalised:
        model = SentenceTransformer(modules=[*model, Normalize()], device="cpu")
    states = StatesEncoder(Encoder(model), (0, 1, 2)).encode(TEXTS)
    pooled = Encoder(model, pooling="mean:" + ",".join(map(str, mix))).encode(TEXTS)
    assert distance(states.vectors(mix), pooled) < 1e-5
    assert distance(states.vectors(None), Encoder(model).encode(TEXTS)) < 1e-6


def test_the_users_model_stays_as_it_was(tiny_bert):
    encoder = Encoder(tiny_bert, pooling="cls")
    before = encoder.fingerprint()
    states = StatesEncoder(encoder, (0, 2)).encode(TEXTS)
    assert sorted(states.pooled) == [0, 2]
    assert encoder.fingerprint() == before
    assert not encoder.model[0].model.config.output_hidden_states
    assert distance(states.own, encoder.encode(TEXTS)) < 1e-6


def test_parts_are_joined(tiny_bert):
    encoder = StatesEncoder(Encoder(tiny_bert), (0, 1, 2))
    whole = encoder.encode(TEXTS)
    together = joined([encoder.encode(TEXTS[:15]), encoder.encode(TEXTS[15:])])
    assert distance(whole.vectors((0, 1)), together.vectors((0, 1))) < 1e-5
    assert distance(whole.own, together.own) < 1e-5


def test_models_whose_layers_cannot_be_mixed_give_their_own_vectors(tiny_bert):
    transformer, pooling = Encoder(tiny_bert).model
    mapped = SentenceTransformer(modules=[transformer, pooling, Dense(32, 8)], device="cpu")
    static = SentenceTransformer(modules=[StaticEmbedding(transformer.tokenizer, embedding_dim=8)], device="cpu")
    for model in (mapped, static):
        assert mixable_layers(model) == 0
        states = StatesEncoder(Encoder(model), (0, 1)).encode(TEXTS)
        assert states.pooled == {}
        np.testing.assert_allclose(states.vectors(None), Encoder(model).encode(TEXTS), atol=1e-6)
    assert mixable_layers(SentenceTransformer(modules=[transformer, Pooling(32, "cls")], device="cpu")) == 2
