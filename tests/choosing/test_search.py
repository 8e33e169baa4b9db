import numpy as np
import pytest
from conftest import sentences

from embedlift.choosing.probes import Probes
from embedlift.choosing.search import decide, search, weigh
from embedlift.choosing.states import States
from embedlift.encoder import Encoder
from embedlift.errors import InputError

CORPUS = sentences(260)


def test_the_same_call_gives_the_same_choice_with_every_candidate(tiny_bert):
    first, again = (search(Encoder(tiny_bert), CORPUS, seed=1, budget=600).as_dict() for _ in range(2))
    assert first == again
    assert first["sentences"] == len(CORPUS) // 2
    assert first["candidates"][0]["candidate"] == "own pooling, none"
    assert {"mean:0", "mean:1", "mean:0,1", "mean:0,2", None} <= {row["pooling"] for row in first["candidates"]}


def test_what_is_decided_can_be_fitted(tiny_llama):
    choice, encoder, transform = decide(Encoder(tiny_llama), CORPUS, seed=0, budget=600)
    expected = Encoder(tiny_llama, pooling=choice.chosen.pooling).encode(CORPUS)
    np.testing.assert_allclose(encoder.encode(CORPUS), expected, atol=1e-5)
    assert (transform is None) == (choice.chosen.transform == "none")


def test_progress_reaches_its_end(tiny_bert):
    calls = []
    search(Encoder(tiny_bert), CORPUS, seed=0, budget=600, progress=lambda *counts: calls.append(counts))
    assert calls[-1][0] == calls[-1][1]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_too_little_text_is_refused_with_what_to_do(tiny_bert):
    with pytest.raises(InputError, match=r"needs 200 texts, 100 .* has 160, with 80 to use: give more text, or name"):
        search(Encoder(tiny_bert), CORPUS[:160], seed=0, budget=600)


def test_a_small_budget_ends_the_pass_and_says_so(tiny_bert):
    with pytest.warns(UserWarning, match=r"the budget of 0 s ended the pass over the text after 2000 of 2700 texts"):
        choice = search(Encoder(tiny_bert), sentences(2700), seed=0, budget=1e-6)
    assert choice.sentences == 1000


def test_transforms_are_fitted_on_the_texts_that_were_not_shortened():
    rng = np.random.default_rng(0)
    own = rng.normal(size=(200, 8)).astype(np.float32)
    probes = Probes(np.arange(100), ["..."] * 100, np.full(100, 0.5))
    shortened = States({}, own[:100] + 0.1, normalised=False)
    first = weigh(States({}, own, normalised=False), shortened, probes, None, None, seed=0)
    own[100:] += 5  # moves the centre, and with it the sentences that are weighed
    other = weigh(States({}, own, normalised=False), shortened, probes, None, None, seed=0)
    figures = {item.transform: (first[item].summary(), other[item].summary()) for item in first}
    assert figures["none"][0] == figures["none"][1]
    assert figures["center"][0]["uniformity"] < figures["center"][1]["uniformity"]


def test_a_layer_whose_vectors_are_all_the_same_is_no_candidate():
    rng = np.random.default_rng(0)
    probes = Probes(np.arange(100), ["..."] * 100, np.full(100, 0.5))
    texts, copies = (States({0: np.ones((n, 8), np.float32)}, rng.normal(size=(n, 8)), False) for n in (200, 100))
    assert weigh(texts, copies, probes, None, None, seed=0)
    with pytest.raises(InputError, match="all 100 vectors are identical"):
        weigh(texts, copies, probes, (0,), "mean:0", seed=0)


def test_own_vectors_that_are_all_the_same_are_refused_with_what_to_do(tiny_llama):
    same_start = [f"{CORPUS[0].split()[0]} {text}" for text in CORPUS]
    with pytest.raises(
        InputError, match="compares the model's own vectors with others, and cannot: all 130 .*--pooling"
    ):
        search(Encoder(tiny_llama, pooling="cls"), same_start, seed=0, budget=600)
