"""``adapt --method auto`` from end to end; what it chooses, and why, is tested in choosing/."""

import json

import numpy as np
import pytest
from command_line import command
from conftest import sentences
from sentence_transformers import SentenceTransformer
from test_encoder import distance

from embedlift.adaptation import run
from embedlift.choosing import search
from embedlift.choosing.choice import Rule
from embedlift.encoder import Encoder
from embedlift.errors import InputError

CORPUS = sentences(200)


@pytest.fixture
def eager(monkeypatch):
    """Make the rule adapt whatever it sees: the tiny models are random, so it would often keep them."""
    monkeypatch.setattr("embedlift.choosing.choice.RULE", Rule(kept=-2, trusted=-2))


def test_the_saved_model_is_what_was_chosen(tiny_llama, tmp_path, eager):
    record = run(tiny_llama, CORPUS, method="auto", output=tmp_path / "out")
    assert record.choice is not None
    chosen = record.choice.chosen
    assert record.choice.winner > 0
    raw = Encoder(tiny_llama, pooling=chosen.pooling).encode(CORPUS)
    make = search.transforms(32)[chosen.transform]
    expected = make().fit(raw).transform(raw)
    assert distance(SentenceTransformer(str(tmp_path / "out")).encode(CORPUS), expected) < 1e-3
    assert record.settings["method.chosen"] == chosen.name
    assert record.settings["pooling"] == chosen.pooling


def test_the_command_prints_the_ranking_and_writes_all_of_it(tiny_bert, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(CORPUS))
    out, report = tmp_path / "out", tmp_path / "a.json"
    done = command(
        *("adapt", tiny_bert, "--corpus", corpus, "--output", out, "--method", "auto", "--budget", "5m"),
        *("--json", report),
    )
    assert done.code == 0, done.err
    choice = json.loads(report.read_text())["choice"]
    assert "<- chosen" in done.out
    assert choice["explanation"] in done.out
    assert choice["explanation"] in (out / "README.md").read_text()
    assert len(choice["candidates"]) > 20
    assert len(SentenceTransformer(str(out)).encode(["a new text"])[0]) in (32, 31)


def test_a_kept_model_gives_the_vectors_that_it_gave(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setattr("embedlift.choosing.choice.RULE", Rule(kept=2))
    record = run(tiny_bert, CORPUS, method="auto", output=tmp_path / "out")
    assert record.choice.winner == 0
    np.testing.assert_allclose(record.model.encode(CORPUS), Encoder(tiny_bert).encode(CORPUS), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pooling": "mean:0"}, "auto chooses the pooling"),
        ({"dim": 8}, "need a method given by name"),
        ({"method_settings": {"shrinkage": 0.1}}, "need a method given by name"),
    ],
)
def test_what_auto_chooses_cannot_be_given(tiny_bert, arguments, message):
    with pytest.raises(InputError, match=message):
        run(tiny_bert, CORPUS, method="auto", **arguments)


def test_a_taken_output_is_refused_before_the_choice(tiny_bert, tmp_path, monkeypatch):
    run(tiny_bert, CORPUS[:50], output=tmp_path / "out", method="center")
    monkeypatch.setattr(search, "search", lambda *_, **__: pytest.fail("chose"))
    with pytest.raises(InputError, match="exists already"):
        run(tiny_bert, CORPUS, method="auto", output=tmp_path / "out")


@pytest.mark.parametrize("budget", ["soon", "0s", "-1m", "", "inf"])
def test_a_budget_is_a_time(tiny_bert, tmp_path, budget):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(CORPUS))
    output = ("--output", tmp_path / "out", "--method", "auto", "--budget", budget)
    done = command("adapt", tiny_bert, "--corpus", corpus, *output)
    assert done.code == 2
    assert "write a time such as 90s, 10m or 1h" in done.err
