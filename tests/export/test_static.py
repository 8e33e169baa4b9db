import json

import numpy as np
import pytest
from command_line import command
from conftest import sentences
from plain_process import encode_without_embedlift
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from test_modules import flow

from embedlift.adaptation import run
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.export.static_table import inverse_frequency
from embedlift.export.to_static import export_static, static_model
from embedlift.transforms import Whitening

CORPUS = sentences(400)
TEXTS = ["unknownword", *sentences(40, seed=3), " ".join(sentences(40, seed=4))]  # the last one is cut


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(CORPUS))
    return path


def adapted(model, method="whitening", **settings):
    return Encoder(run(model, CORPUS, method=method, cache=False, **settings).model)


def relative(found, expected):
    return (np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)).max()


def cosines(a, b):
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize("where", [{"pooling": "mean:0"}, {"layers": 0}])
@pytest.mark.parametrize("method", ["none", "center", "whitening", Whitening(8)])
def test_without_positions_it_is_exact(tiny_llama, method, where):
    encoder = adapted(tiny_llama, method, **where)
    made = static_model(encoder)
    assert [type(module) for module in made.model] == [StaticEmbedding]
    assert made.exact
    assert made.parity.largest_difference < 1e-4
    assert relative(Encoder(made.model).encode(TEXTS), encoder.encode(TEXTS)) < 1e-4


def test_normalised_vectors_stay_normalised_and_cut_ones_cut(tiny_llama):
    from sentence_transformers.base.modules import Normalize

    from embedlift.layers import with_modules

    model = Encoder(tiny_llama, pooling="mean:0").model
    normalised = Encoder(with_modules(model, [*model, Normalize()]))
    made = static_model(normalised)
    assert [type(module) for module in made.model] == [StaticEmbedding, Normalize]
    assert relative(Encoder(made.model).encode(TEXTS), normalised.encode(TEXTS)) < 1e-4
    cut = Encoder(with_modules(model, list(model), truncate_dim=5))
    found = Encoder(static_model(cut).model).encode(TEXTS)
    assert found.shape[1] == 5
    assert relative(found, cut.encode(TEXTS)) < 1e-4


def test_it_loads_in_plain_sentence_transformers(tiny_llama, tmp_path):
    encoder = adapted(tiny_llama, pooling="mean:0")
    export_static(encoder, tmp_path / "static")
    modules = json.loads((tmp_path / "static" / "modules.json").read_text())
    assert len(modules) == 1
    (found,) = encode_without_embedlift([tmp_path / "static"], TEXTS, tmp_path / "elsewhere")
    assert relative(found, encoder.encode(TEXTS)) < 1e-4


@pytest.mark.parametrize("where", [{"pooling": "mean:0"}, {"layers": 0}])
@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_roberta"])
def test_with_positions_the_mean_is_given_back_and_the_difference_said(request, corpus, kind, where):
    encoder = adapted(request.getfixturevalue(kind), **where)
    with pytest.raises(InputError, match="--corpus"):
        static_model(encoder)
    made = static_model(encoder, corpus=[corpus])
    assert not made.exact
    expected, found = encoder.encode(CORPUS), Encoder(made.model).encode(CORPUS)
    np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=1e-4)
    assert made.parity.mean_cosine == pytest.approx(cosines(expected, found).mean(), abs=1e-4)
    assert 0.5 < made.parity.mean_cosine < 0.9999
    assert abs(cosines(expected, np.roll(found, 1, axis=0)).mean()) < 0.1  # of other texts


def test_frequency_weights(tiny_llama, corpus):
    """Closed form: rows weighted by counts taken by hand."""
    encoder = adapted(tiny_llama, pooling="mean:0")
    made = static_model(encoder, corpus=[corpus], frequency_weights=1e-2)
    tokens = [text.split() for text in CORPUS]
    words = sorted({word for text in tokens for word in text})
    counts = np.array([sum(text.count(word) for text in tokens) for word in words])
    weights = 1e-2 / (1e-2 + counts / counts.sum())
    rows = encoder.encode(words) * weights[:, None]
    place = {word: number for number, word in enumerate(words)}
    expected = np.stack([rows[[place[word] for word in text]].mean(axis=0) for text in tokens])
    assert relative(Encoder(made.model).encode(CORPUS), expected) < 1e-3
    assert not made.exact
    assert weights.max() / weights.min() > 1.1


def test_inverse_frequency():
    np.testing.assert_allclose(inverse_frequency(np.array([0, 1, 3]), 0.25), [1, 0.5, 0.25])


def test_a_static_model_takes_a_transform_in(tiny_llama, tmp_path):
    """The table first, then a transform fitted on its own vectors, then one table again."""
    export_static(Encoder(tiny_llama, pooling="mean:0"), tmp_path / "table")
    encoder = adapted(tmp_path / "table")
    assert len(list(encoder.model)) == 2
    made = static_model(encoder)
    assert made.exact
    assert [type(module) for module in made.model] == [StaticEmbedding]
    assert relative(Encoder(made.model).encode(TEXTS), encoder.encode(TEXTS)) < 1e-4


@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_a_flow_is_not_affine(tiny_llama, coupling):
    with pytest.raises(InputError, match=r"(Dense|FlowModule).* not affine: the mean of mapped rows"):
        static_model(adapted(tiny_llama, flow(coupling=coupling), pooling="mean:0"))


@pytest.mark.parametrize("pooling", ["mean", "cls:0", "max:0", "mean:0,1", "mean:1"])
def test_other_poolings_read_more_than_the_embeddings(tiny_llama, pooling):
    with pytest.raises(InputError, match="--pooling mean:0"):
        static_model(Encoder(tiny_llama, pooling=pooling))


def test_the_command(tiny_bert, tmp_path, corpus):
    source, out = tmp_path / "adapted", tmp_path / "static"
    flags = ["--method", "whitening", "--pooling", "mean:0", "--dim", 12]
    assert command("adapt", tiny_bert, "--corpus", corpus, "--output", source, *flags).code == 0
    arguments = ["export", source, "--to", "static", "--output", out]
    assert "give --corpus" in command(*arguments).err
    done = command(*arguments, "--corpus", corpus, "--frequency-weights", "1e-2")
    assert done.code == 0, done.err
    assert "static: 12 dimensions. Against the model, on 400 texts: largest" in done.out
    assert SentenceTransformer(str(out)).encode(["the word"]).shape == (1, 12)
    assert "Tokens weigh 0.01" in (out / "README.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapted", "corpus.txt", "static"]
    assert "--corpus to count tokens in" in command(*arguments, "--frequency-weights", "1e-2").err
