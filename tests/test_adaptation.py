import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import sentences
from plain_process import encode_without_embedlift
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from test_encoder import TOLERANCE, distance, with_prompts

import embedlift
from embedlift.adaptation import run, write_json
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.evaluation import contamination
from embedlift.functional.isotropy import random_pair_cosine
from embedlift.transforms import TRANSFORMS, Whitening, make_transform

#: The output of a LayerNorm lies in a hyperplane, so the mean of BERT's last layer spans one dimension less.
CORPUS = sentences(300)
FITTED = ("none", *TRANSFORMS)
NEW = ["the word", "a longer and unseen thing that many people know", *sentences(10, seed=9)]


@pytest.fixture(params=["tiny_bert", "tiny_llama"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("method", FITTED)
def test_the_saved_model_is_the_returned_model(folder, tmp_path, method):
    record = run(folder, CORPUS, method=method, output=tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    saved = SentenceTransformer(str(tmp_path / "out"))
    assert distance(saved.encode(NEW), record.model.encode(NEW)) < 1e-6
    # Other batches round otherwise, and full whitening lifts the faintest direction: see docs/encoding.md.
    assert distance(Encoder(tmp_path / "out").encode(NEW), saved.encode(NEW)) < 3e-5
    assert len(saved) == 2 + {"center": 1, "whitening": 1, "flow": 19, "none": 0}[method]


@pytest.mark.parametrize("method", FITTED)
def test_the_model_does_what_the_method_says(folder, method):
    raw = Encoder(folder).encode(CORPUS)
    found = embedlift.adapt(folder, CORPUS, method=method).encode(CORPUS)
    expected = raw if method == "none" else make_transform(method).fit(raw).transform(raw)
    assert distance(found, expected) < 1e-3
    if method == "whitening":
        np.testing.assert_allclose(np.cov(found.T), np.eye(31 if folder.name == "tiny-bert" else 32), atol=1e-2)


def test_moved_models_give_the_same_vectors_without_this_package(tiny_bert, tiny_llama, tmp_path):
    """USERS: sentence-transformers#3111, #2458, and BERT-whitening#1: one unseen text, never a refit."""
    expected, moved = [], []
    for folder in (tiny_bert, tiny_llama):
        for pooling in ("mean", "first-last-avg", "last:1"):
            model = run(folder, CORPUS, pooling=pooling, output=tmp_path / "out").model
            expected.append(model.encode(NEW))
            moved.append(tmp_path / "moved" / f"{folder.name} {pooling}")
            moved[-1].parent.mkdir(exist_ok=True)
            shutil.move(tmp_path / "out", moved[-1])
            modules = json.loads((moved[-1] / "modules.json").read_text())
            assert all(module["type"].startswith("sentence_transformers.") for module in modules)
            assert not list(moved[-1].rglob("*.py"))
            assert str(tmp_path) not in "".join(path.read_text() for path in moved[-1].rglob("*.json"))
    found = encode_without_embedlift(moved, NEW, tmp_path / "elsewhere")
    for vectors, wanted in zip(found, expected, strict=True):
        assert distance(vectors, wanted) < 1e-5


def test_one_unseen_text_alone_and_in_a_batch(folder, tmp_path):
    run(folder, CORPUS, output=tmp_path / "out")
    plain = SentenceTransformer(str(tmp_path / "out"))
    alone = np.concatenate([plain.encode([text]) for text in NEW])
    assert distance(plain.encode(NEW), alone) < 10 * TOLERANCE["float32"], "whitening makes faint directions louder"


def weights(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.safetensors")}


@pytest.mark.parametrize("cache", [True, False])
def test_the_same_seed_gives_the_same_bytes(tiny_bert, tmp_path, monkeypatch, cache):
    for name in ("one", "two"):
        monkeypatch.setenv("EMBEDLIFT_CACHE", str(tmp_path / f"cache-{name}"))
        run(tiny_bert, CORPUS, output=tmp_path / name, cache=cache)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert len(one) == 2
    assert one == two
    assert (tmp_path / "one" / "README.md").read_text() == (tmp_path / "two" / "README.md").read_text()


def test_python_and_files_give_the_same_model(tiny_bert, tmp_path):
    (tmp_path / "c.txt").write_text("\n".join(CORPUS))
    (tmp_path / "c.csv").write_text("\n".join(["text", *CORPUS]))
    expected = embedlift.adapt(tiny_bert, CORPUS).encode(NEW)
    for name in ("c.txt", "c.csv"):
        np.testing.assert_array_equal(embedlift.adapt(str(tiny_bert), [tmp_path / name]).encode(NEW), expected)


def test_random_pairs_get_less_alike(tiny_bert):
    """USERS: unrelated texts all score 0.8 to 0.9: here because of a large mean that all vectors share."""
    model = Encoder(tiny_bert).model
    with torch.no_grad():
        model[0].model.encoder.layer[-1].output.LayerNorm.bias.add_(2.0)
    record = run(model, CORPUS)
    found = random_pair_cosine(record.model.encode(CORPUS))
    assert record.before["random_pair_cosine"] > 0.8
    assert abs(found) < 0.02
    assert record.after["random_pair_cosine"] == pytest.approx(found, abs=1e-3)
    assert record.after["effective_rank"] > record.before["effective_rank"]


def test_the_method_none_reports_the_same_figures_twice(tiny_bert):
    record = run(tiny_bert, CORPUS, method="none")
    assert record.before == record.after
    assert record.before["dimension"] == 32


def test_a_saved_model_tells_which_sentences_it_was_fitted_on(tiny_bert, tmp_path):
    """Without the text itself: what an evaluation needs to call a result transductive."""
    run(tiny_bert, [*CORPUS, CORPUS[0].upper()], output=tmp_path / "out")
    seen = contamination.read(tmp_path / "out")
    assert np.array_equal(seen, contamination.fingerprints(CORPUS))
    assert contamination.FILE in (tmp_path / "out" / "README.md").read_text()


def test_the_model_card_says_what_was_done(tiny_bert, tmp_path):
    corpus = [*CORPUS, CORPUS[0], "  ", "long " * 300]
    record = run(tiny_bert, corpus, dim=8, pooling="first-last-avg", output=tmp_path / "out", seed=5)
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    for part in (
        str(tiny_bert),
        "**whitening**",
        "301 distinct texts (303 rows read, 1 blank and 1 repeated",
        "; 1 texts were\nlonger",
        f"`{record.corpus.digest}`",
        "- pooling: `first-last-avg`",
        "- method.n_components: `8`",
        "- seed: `5`",
        f"torch {torch.__version__}",
        "arXiv:2103.15316",
        'SentenceTransformer("path/to/this/folder")',
        f"| {record.before['random_pair_cosine']:.4g} | {record.after['random_pair_cosine']:.4g} |",
        "| dimension | 32 | 8 |",
    ):
        assert part in card
    assert "{" not in card


def test_a_method_given_as_an_object_is_cited_too(tiny_bert, tmp_path):
    run(tiny_bert, CORPUS, method=Whitening(4, shrinkage="oas"), output=tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "- method.shrinkage: `oas`" in card
    assert "arXiv:2103.15316" in card


def test_the_record_as_json(tiny_bert, tmp_path):
    record = run(tiny_bert, [*CORPUS, ""], output=tmp_path / "out", dim=4)
    write_json(tmp_path / "r.json", record)
    document = json.loads((tmp_path / "r.json").read_text())
    assert list(document) == ["schema_version", "settings", "versions", "corpus", "figures", "resumed"]
    assert document["settings"]["method.n_components"] == 4
    assert document["corpus"] == {
        "rows": 301,
        "blank": 1,
        "repeated": 0,
        "repaired": 0,
        "digest": record.corpus.digest,
        "distinct": 300,
        "truncated": 0,
    }
    assert document["figures"]["after"]["dimension"] == 4


def test_prompts_and_normalisation_of_a_model_stay(tiny_bert, tmp_path):
    model = run(with_prompts(tiny_bert), CORPUS, output=tmp_path / "out").model
    saved = SentenceTransformer(str(tmp_path / "out"))
    assert [type(module).__name__ for module in saved] == ["Transformer", "Pooling", "Normalize", "Dense", "Normalize"]
    vectors = saved.encode(NEW)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert saved.default_prompt_name == "passage"
    assert distance(vectors, model.encode(NEW)) < 1e-6
    assert distance(vectors, saved.encode(NEW, prompt="read this ")) < 1e-6
    assert distance(vectors, saved.encode(NEW, prompt="")) > 0.01


@pytest.mark.parametrize("normalised", [False, True])
def test_a_model_that_truncates_its_dimensions(tiny_bert, normalised):
    modules = [Transformer(str(tiny_bert)), Pooling(32, "mean"), *([Normalize()] if normalised else [])]
    model = SentenceTransformer(modules=modules, truncate_dim=8)
    adapted = embedlift.adapt(model, CORPUS)
    expected = Whitening().fit_transform(model.encode(CORPUS).astype(np.float64))
    if normalised:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert distance(adapted.encode(CORPUS), expected) < 1e-2


def test_a_static_embedding_model(tiny_bert, tmp_path):
    torch.manual_seed(0)
    tokenizer = Encoder(tiny_bert).model.tokenizer.backend_tokenizer
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=12)])
    adapted = run(model, CORPUS, output=tmp_path / "out").model
    saved = SentenceTransformer(str(tmp_path / "out"))
    assert distance(saved.encode(NEW), adapted.encode(NEW)) < 1e-6
    np.testing.assert_allclose(np.cov(saved.encode(CORPUS).T), np.eye(12), atol=1e-2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_dtypes_reach_the_saved_model(tiny_bert, tmp_path, dtype):
    options = {"pooling": "first-last-avg", "dim": 16}
    model = run(tiny_bert, CORPUS, dtype=dtype, output=tmp_path / "out", **options).model
    expected = embedlift.adapt(tiny_bert, CORPUS, **options).encode(NEW)
    loaded = Encoder(tmp_path / "out", dtype=dtype)
    assert {str(parameter.dtype) for parameter in loaded.model.parameters()} == {f"torch.{dtype}"}
    vectors = loaded.encode(NEW)
    assert np.isfinite(vectors).all()
    assert distance(vectors, Encoder(model).encode(NEW)) < TOLERANCE[dtype]
    cosines = (vectors * expected).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.95


@pytest.mark.parametrize(("count", "dim", "left"), [(10, None, 9), (10, 20, 9), (2, None, 1)])
def test_fewer_texts_than_dimensions_shrink_with_a_warning(tiny_bert, count, dim, left):
    with pytest.warns(UserWarning, match=f"{count} vectors span only {left} directions of 32"):
        model = embedlift.adapt(tiny_bert, CORPUS[:count], dim=dim)
    assert model.encode(NEW).shape == (len(NEW), left)
    assert np.isfinite(model.encode(NEW)).all()


BAD = [
    ([], {}, "the corpus is empty"),
    (["", " "], {}, "the corpus is empty: 2 rows, 2 of them blank"),
    (["one"], {}, "at least 2 vectors, got n_samples = 1"),
    (["same", "same", "same"], {}, "at least 2 vectors, got n_samples = 1"),
    (["Word", "word", "WORD"], {}, "all 3 vectors are identical"),
    (["a", None], {}, r"corpus\[1\] is None"),
    (CORPUS, {"method": "pca"}, "unknown method 'pca': choose one of none, auto, center, flow, whitening"),
    (CORPUS, {"method": "center", "dim": 3}, "--dim is not for center"),
    (CORPUS, {"dim": 0}, "--dim must be between 1 and the model's 32 dimensions, got 0"),
    (CORPUS, {"dim": 33}, "--dim must be between 1 and the model's 32 dimensions, got 33"),
    (CORPUS, {"seed": -1}, "--seed must be at least 0, got -1"),
    (CORPUS, {"pooling": "median"}, "unknown pooling"),
    (CORPUS, {"max_length": 0}, "--max-length must be above"),
]


@pytest.mark.parametrize(("corpus", "options", "message"), BAD, ids=[f"{b[2][:30]} {b[1]}" for b in BAD])
def test_bad_input_leaves_nothing_behind(tiny_bert, tmp_path, corpus, options, message):
    with pytest.raises(InputError, match=message):
        run(tiny_bert, corpus, output=tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"dim": 0}, {"dim": 33}, {"seed": -1}, {"method": "pca"}], ids=str)
def test_bad_options_are_refused_before_the_corpus_is_encoded(tiny_bert, monkeypatch, options):
    monkeypatch.setattr(Encoder, "_forward", lambda *_: pytest.fail("encoded"))
    with pytest.raises(InputError):
        run(tiny_bert, CORPUS, **options)


def test_a_corpus_of_identical_texts_can_be_centred(tiny_bert):
    vectors = embedlift.adapt(tiny_bert, ["Word", "word"], method="center").encode(["word", "the"])
    assert np.abs(vectors[0]).max() < 1e-5
    assert np.linalg.norm(vectors[1]) > 0.1


KILLED = """
import sys
from pathlib import Path
from embedlift import cache
from embedlift.adaptation import run
cache._SHARD = 50
def progress(done, total):
    if done >= 150:
        print("now", flush=True)
        sys.stdin.read()  # until killed
run(sys.argv[1], [Path(sys.argv[2])], output=Path(sys.argv[3]), cache=sys.argv[4] == "cache", progress=progress)
"""


@pytest.mark.parametrize("cache", [True, False])
def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_happened(tiny_bert, tmp_path, monkeypatch, cache):
    """USERS: sentence-transformers#1086, PR#2648, #1244: killed at 60 %, started again."""
    corpus = tmp_path / "c.txt"
    corpus.write_text("\n".join(CORPUS))
    out = tmp_path / "out"
    arguments = [str(tiny_bert), str(corpus), str(out), "cache" if cache else "no-cache"]
    environment = os.environ | {"PYTHONPATH": str(Path(embedlift.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout.readline() == b"now\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.txt", "out.partial"]

    with pytest.raises(InputError, match="unfinished work with other settings .*method.n_components was None, is 4"):
        run(str(tiny_bert), [corpus], output=out, cache=cache, dim=4)
    encoded = 0
    original = Encoder._forward

    def count(self, features):
        nonlocal encoded
        encoded += len(features["input_ids"])
        return original(self, features)

    monkeypatch.setattr(Encoder, "_forward", count)
    monkeypatch.setattr("embedlift.cache._SHARD", 50)
    record = run(str(tiny_bert), [corpus], output=out, cache=cache)
    assert record.resumed
    assert 100 <= encoded <= 200, "what the killed run had encoded is not encoded again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.txt", "out"]

    monkeypatch.setenv("EMBEDLIFT_CACHE", str(tmp_path / "fresh"))
    run(str(tiny_bert), [corpus], output=tmp_path / "uninterrupted", cache=cache)
    assert weights(out) == weights(tmp_path / "uninterrupted")


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "center"},
        {"dim": 4},
        {"pooling": "cls"},
        {"layers": 1},
        {"max_length": 9},
        {"prompt": "say "},
        {"dtype": "float16"},
        {"seed": 1},
        {"corpus": CORPUS[1:]},
        {"model": "other"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_unfinished_work_of_other_settings_is_refused(tiny_bert, tmp_path, changed):
    """Also where the names are the same and the content is not."""
    folder = shutil.copytree(tiny_bert, tmp_path / "m")
    with pytest.raises(KeyboardInterrupt):
        run(folder, CORPUS, output=tmp_path / "out", progress=interrupted)
    if changed.pop("model", None):
        tensors = load_file(folder / "model.safetensors")
        tensors["embeddings.word_embeddings.weight"] *= 2
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="unfinished work with other settings"):
        run(folder, changed.pop("corpus", CORPUS), output=tmp_path / "out", **changed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "out.partial"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Exception("No space left on device (os error 28)"), InputError),  # as tokenizers says it
        (SafetensorError("I/O error: No space left on device (os error 28)"), InputError),
        (TypeError("a mistake of ours"), TypeError),
    ],
    ids=repr,
)
def test_a_disk_that_fills_while_the_model_is_saved(tiny_bert, tmp_path, monkeypatch, error, told):
    """What was encoded stays for the same command; a mistake of ours is not called a full disk."""

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformer, "save_pretrained", fail)
        with pytest.raises(told, match="cannot be written .*free some space" if told is InputError else "mistake"):
            run(tiny_bert, CORPUS, output=tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out.partial"]
    assert run(tiny_bert, CORPUS, output=tmp_path / "out").resumed


def test_a_finished_model_needs_overwrite(tiny_bert, tmp_path):
    run(tiny_bert, CORPUS, output=tmp_path / "out")
    before = weights(tmp_path / "out")
    with pytest.raises(InputError, match="exists already: pass --overwrite"):
        run(tiny_bert, CORPUS, dim=3, output=tmp_path / "out")
    assert weights(tmp_path / "out") == before
    run(tiny_bert, CORPUS, dim=3, output=tmp_path / "out", overwrite=True)
    assert weights(tmp_path / "out") != before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_is_encoded_when_the_output_is_taken(tiny_bert, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    monkeypatch.setattr(Encoder, "_forward", lambda *_: pytest.fail("encoded"))
    for overwrite in (False, True):
        with pytest.raises(InputError):
            run(tiny_bert, CORPUS, output=tmp_path / "out", overwrite=overwrite)
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"


def test_memory_does_not_hold_the_vectors_of_a_saved_run(tiny_bert, tmp_path, monkeypatch):
    """The transform is fitted on a memory map that lies in the partial folder."""
    seen = []
    original = Whitening.fit
    monkeypatch.setattr(Whitening, "fit", lambda self, X: seen.append(type(X)) or original(self, X))
    run(tiny_bert, CORPUS, output=tmp_path / "out")
    assert seen == [np.memmap]


@pytest.mark.parametrize("method", ["whitening", "none", "auto"])
def test_a_model_that_gives_no_numbers_is_refused_with_the_text(tiny_bert, method):
    model = Encoder(tiny_bert).model
    with torch.no_grad():
        model[0].model.encoder.layer[1].output.dense.bias[0] = float("nan")
    with pytest.raises(InputError, match="the model gives NaN or infinity for this text: try --dtype float32"):
        run(model, sentences(220), method=method)
