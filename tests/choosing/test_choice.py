import json

import numpy as np
import pytest

from embedlift.choosing.candidates import Candidate
from embedlift.choosing.choice import Rule, choose, judge
from embedlift.choosing.evidence import Evidence

N = 200
PLAIN = Candidate(None, None, "none")
OWN_WHITE = Candidate(None, None, "whitening exponent=1")
WORDS = Candidate("mean:0", (0,), "none")
WORDS_WHITE = Candidate("mean:0", (0,), "whitening exponent=1")
ALL = [PLAIN, OWN_WHITE, WORDS, WORDS_WHITE]


def evidence(halves, recovery, noise, uniformity=1.0, seed=0):
    """Evidence of given averages; cosine follows deletion up to ``noise``."""
    rng = np.random.default_rng(seed)
    share = np.concatenate([rng.uniform(0.1, 0.9, N), np.ones(N)])
    cosines = -share + noise * rng.normal(size=2 * N)
    return Evidence(
        halves + 0.02 * rng.normal(size=N), recovery + 0.02 * rng.normal(size=N), cosines, share, uniformity
    )


def strong():
    """A tuned model: its output knows best what a sentence is about; whitening finds shortened copies better."""
    return [
        evidence(0.2, -0.6, 0.1),
        evidence(0.05, -0.5, 0.1, 3),
        evidence(0.1, -0.8, 0.2),
        evidence(0.02, -0.2, 0.1, 3),
    ]


def weak():
    """A language model: its word embeddings know more than its output, and whitening helps."""
    return [evidence(0.05, -2, 2), evidence(0.02, -1, 0.5, 3), evidence(0.08, -1, 1), evidence(0.01, -0.3, 0.2, 3)]


def test_a_tuned_model_is_kept():
    choice = choose(ALL, strong(), seed=0)
    assert choice.chosen == PLAIN
    assert choice.verdict.keeps
    assert choice.certainty > 0.95
    assert choice.explanation.startswith("The model is kept as it is")


def test_a_language_model_is_adapted():
    choice = choose(ALL, weak(), seed=0)
    assert choice.chosen == WORDS_WHITE
    assert choice.certainty == 1
    assert choice.same_winner == 1
    assert "mean:0, whitening exponent=1" in choice.explanation
    assert choice.explanation.count(". ") == 1


def test_right_layers_with_a_cosine_that_does_not_follow_get_a_transform_only():
    found = strong()
    found[0] = evidence(0.2, -0.6, 2.0)
    choice = choose(ALL, found, seed=0)
    assert choice.chosen == OWN_WHITE
    assert np.isnan(choice.verdict.scores[2:]).all()


def test_what_is_not_reliably_better_is_not_chosen():
    found = weak()
    rng = np.random.default_rng(0)
    wide = rng.normal(size=N)  # the layers differ by less than the sentences tell
    found[0] = Evidence(0.05 + 0 * wide, found[0].recovery, found[1].cosines, found[1].deletion, 1.0)
    found[2] = Evidence(0.056 + 0.2 * wide, found[2].recovery, found[2].cosines, found[2].deletion, 1.0)
    verdict, choice = judge(ALL, found), choose(ALL, found, seed=0)
    assert 0.05 < choice.certainty < 0.95
    assert choice.chosen == PLAIN
    assert not verdict.keeps
    assert "nothing is reliably better" in choice.explanation


def test_the_rules_constants_decide():
    found = strong()
    assert not judge(ALL, found, rule=Rule(gain=-1)).keeps
    assert judge(ALL, found, rule=Rule(layers=0.99)).keeps
    assert judge(ALL, weak(), rule=Rule(layers=0.5, gain=2)).keeps


def test_all_of_it_is_json_and_the_seed_decides():
    choice = choose(ALL, weak(), seed=0)
    document = json.loads(json.dumps(choice.as_dict()))
    assert [row["candidate"] for row in document["candidates"]] == [item.name for item in ALL]
    assert document["chosen"] == "mean:0, whitening exponent=1"
    assert choose(ALL, dict(zip(ALL, weak(), strict=True)), seed=0).as_dict() == choice.as_dict()


@pytest.mark.parametrize("place", range(4))
def test_every_figure_is_in_the_summary(place):
    rows = choose(ALL, weak(), seed=0).as_dict()["candidates"]
    assert {"halves", "grading", "recovery", "uniformity", "score", "layers_halves"} <= rows[place].keys()
