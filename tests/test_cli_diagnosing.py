import json

import numpy as np
import pytest
from command_line import command
from conftest import save_tiny, sentences

from embedlift.evaluation.percentiles import ScorePercentiles


@pytest.fixture
def world(tmp_path, tiny_bert, monkeypatch):
    """Files that are fine and files that are not, by name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(tiny_bert)
    (tmp_path / "fine.txt").write_text("\n".join(sentences(60)) + "\n\n" + sentences(1)[0] + "\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "one.txt").write_text("the word\n\nthe word\n")
    x = np.random.default_rng(0).normal(size=(62, 8)).astype(np.float16)
    np.save("x.npy", x)
    np.save("one.npy", x[:1])
    np.save("flat.npy", x[0])
    np.save("zero.npy", np.zeros((9, 4)))
    np.save("same.npy", np.ones((9, 4), dtype=np.float32))
    x[7, 2] = np.nan
    np.save("nan.npy", x)
    return tmp_path


def test_a_model(world):
    done = command("diagnose", "model", "--corpus", "fine.txt", "--json", "d.json")
    assert done.code == 0, done.err
    assert "model: 60 vectors of 32 dimensions; pairs from 60 of them" in done.out  # blank and repeated lines left out
    for text in ("IsoScore*", "hubness, k = 10", "cos ~ sum of lengths", "99 %", "Thresholds:", "Directions:"):
        assert text in done.out
    document = json.loads((world / "d.json").read_text())
    assert document["settings"]["source"] == "model"
    assert document["settings"]["corpus"] == "fine.txt"
    assert {"embedlift", "torch"} <= set(document["versions"])
    assert ScorePercentiles.load("d.json").percentiles([-2, 2]).tolist() == [0, 100]


def test_a_sample_of_the_texts_is_encoded(world):
    done = command("diagnose", "model", "--corpus", "fine.txt", "--sample", 30, "--no-cache", "--pooling", "cls")
    assert done.code == 0, done.err
    assert "model: 30 vectors of 32 dimensions" in done.out


def test_long_texts_may_be_averaged_over_pieces(world):
    given = ["--corpus", "fine.txt", "--max-length", 8, "--json", "d.json"]
    means = []
    for long in ("truncate", "chunk-mean"):
        assert command("diagnose", "model", *given, "--long", long).code == 0
        document = json.loads((world / "d.json").read_text())
        assert document["settings"]["long"] == long
        means.append(document["figures"]["random_pair_cosine"])
    assert means[0] != means[1]


def test_vectors(world):
    done = command("diagnose", "x.npy", "--sample", 40)
    assert done.code == 0, done.err
    assert "x.npy: 62 vectors of 8 dimensions; pairs from 40 of them" in done.out
    assert "Not looked at: Length and word frequency: that needs the texts (--corpus)." in done.out


def test_vectors_with_their_texts(world):
    """A row for every row of the text, blank and repeated ones too, as embedlift encode writes them."""
    with (world / "fine.txt").open("a") as file:
        file.write(sentences(1)[0].upper())  # the same to this tokenizer, but another text
    assert command("encode", "model", "fine.txt", "--output", "v.npy").code == 0
    done = command("diagnose", "v.npy", "--corpus", "fine.txt")
    assert done.code == 0, done.err
    assert "v.npy: 63 vectors of 32 dimensions; pairs from 62 of them" in done.out
    assert "cos ~ sum of lengths" in done.out
    assert "fine.txt:1 and fine.txt:63 (1.0000)" in done.out


def test_the_remedy_names_the_command_for_what_was_given(world):
    np.save("a cone.npy", np.load("x.npy").astype(np.float32) + 5)
    assert "\n    embedlift fit whitening 'a cone.npy' -o T\n" in command("diagnose", "a cone.npy").out
    (world / "t.tsv").write_text("id\tbody\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(sentences(40))))
    done = command("diagnose", "model", "--corpus", "t.tsv", "--column", "body")
    assert done.code == 0, done.err
    assert "\n    embedlift adapt model --corpus t.tsv --column body --method whitening --output DIR\n" in done.out


def test_identical_vectors(world):
    done = command("diagnose", "same.npy", "--json", "d.json")
    assert done.code == 0, done.err
    assert "Collapsed: All 9 vectors are the same" in done.out
    assert "undefined" in done.out
    assert "nan" not in done.out.lower()
    assert json.loads((world / "d.json").read_text())["figures"]["centred"] is None


def test_a_model_that_gives_nan(world):
    """The text is named, not the row of a sample that the user never saw."""
    from safetensors.torch import load_file, save_file

    folder = save_tiny(world / "broken", "bert")
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.1.output.LayerNorm.weight"].fill_(float("nan"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    done = command("diagnose", "broken", "--corpus", "fine.txt")
    assert done.code == 2
    assert "fine.txt:1: the model gives NaN or infinity for this text: try --dtype float32" in done.err


BAD = [
    ("diagnose model", "model is a model: give texts of your kind with --corpus"),
    ("diagnose model --corpus missing.txt", "missing.txt: no such file"),
    ("diagnose model --corpus empty.txt", "empty.txt: 0 distinct texts that are not blank"),
    ("diagnose model --corpus one.txt", "one.txt: 1 distinct texts that are not blank"),
    ("diagnose model --corpus fine.txt --column text", "a .txt file has a text a line and no columns"),
    ("diagnose ./nowhere --corpus fine.txt", "nowhere: no such model folder"),
    ("diagnose x.npy --corpus one.txt", "one.txt has 3 rows, x.npy has 62: row i must be the vector of text i"),
    ("diagnose x.npy --pooling cls", "--pooling, --layers, --dtype and the like are for a model"),
    ("diagnose x.npy --dtype float16", "--pooling, --layers, --dtype and the like are for a model"),
    ("diagnose x.npy --sample 1", "Invalid value for '--sample'"),
    ("diagnose x.npy --seed -1", "Invalid value for '--seed'"),
    ("diagnose x.npy --duplicates-above 2", "--duplicates-above must be between 0 and 1, got 2.0"),
    ("diagnose missing.npy", "missing.npy: no such file"),
    ("diagnose one.npy", "at least 2 vectors of at least 2 dimensions, got shape (1, 8)"),
    ("diagnose flat.npy", "flat.npy must hold numbers of shape (N, D), got shape (8,)"),
    ("diagnose zero.npy", "9 of 9 vectors are all zero: they have no cosine"),
    ("diagnose nan.npy", "NaN in row 7"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_ends_with_one_clear_line_and_leaves_nothing(world, line, message):
    before = sorted(path.name for path in world.iterdir())
    done = command(*line.split(), "--json", "d.json")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1 or "Usage:" in done.err
    assert sorted(path.name for path in world.iterdir()) == before
