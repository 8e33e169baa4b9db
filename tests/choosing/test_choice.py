import json

import numpy as np
import pytest

from embedlift.choosing.candidates import Candidate
from embedlift.choosing.choice import RULE, Rule, choose, judge
from embedlift.choosing.evidence import Evidence

N = 200
PLAIN = Candidate(None, None, "none")
OWN_WHITE = Candidate(None, None, RULE.transform)
WORDS = Candidate("mean:0", (0,), "none")
WORDS_WHITE = Candidate("mean:0", (0,), RULE.transform)
LAST_WHITE = Candidate("mean:1,2", (1, 2), RULE.transform)
ALL = [PLAIN, OWN_WHITE, WORDS, WORDS_WHITE, LAST_WHITE]


def evidence(recovery, noise, seed=0):
    """Evidence of a given average recovery; cosine follows deletion up to ``noise``."""
    rng = np.random.default_rng(seed)
    share = np.concatenate([rng.uniform(0.1, 0.9, N), np.ones(N)])
    return Evidence(recovery + 0.02 * rng.normal(size=N), -share + noise * rng.normal(size=2 * N), share, -1.0)


def tuned(noise=0.1):
    """A tuned model, whose cosine follows deletion but for ``noise``; words find shortened copies best, as always."""
    return [evidence(-0.6, noise), evidence(-0.5, 0.1), evidence(-0.8, 0.2), evidence(-0.2, 0.1), evidence(-0.4, 0.1)]


def untuned():
    """A language model: cosine follows deletion badly, and whitening helps."""
    return [evidence(-2, 2), evidence(-1, 0.5), evidence(-1, 1), evidence(-0.3, 0.2), evidence(-0.5, 0.2)]


def test_a_tuned_model_is_kept():
    choice = choose(ALL, tuned(), seed=0)
    assert choice.chosen == PLAIN
    assert choice.verdict.gain == 0
    assert choice.same_answer == 1
    assert choice.explanation.startswith("The model is kept as it is")


def test_a_tuned_model_on_foreign_text_keeps_its_layers_and_is_whitened():
    choice = choose(ALL, tuned(noise=0.14), seed=0)
    assert RULE.kept < choice.verdict.gain < RULE.trusted
    assert choice.chosen == OWN_WHITE
    assert np.flatnonzero(choice.verdict.competing).tolist() == [1]
    assert "enough to whiten them" in choice.explanation


def test_of_a_language_model_the_layers_compete_by_recovery():
    choice = choose(ALL, untuned(), seed=0)
    assert choice.chosen == WORDS_WHITE
    assert choice.same_answer == 1
    assert choice.same_winner == 1
    assert np.flatnonzero(choice.verdict.competing).tolist() == [1, 3, 4]
    assert choice.ranking() == [3, 4, 1, 2, 0]
    assert WORDS_WHITE.name in choice.explanation


@pytest.mark.parametrize("found", [tuned(), tuned(noise=0.14), untuned()])
def test_the_reason_is_two_sentences(found):
    assert choose(ALL, found, seed=0).explanation.count(". ") == 1


def test_an_answer_at_the_edge_says_how_unsure_it_is(monkeypatch):
    found = tuned(noise=0.14)
    monkeypatch.setattr("embedlift.choosing.choice.RULE", Rule(kept=judge(ALL, found).gain - 1e-4))
    assert 0.2 < choose(ALL, found, seed=0).same_answer < 0.8


def test_a_model_whose_layers_cannot_be_mixed_keeps_them_whatever_the_gain():
    choice = choose(ALL[:2], untuned()[:2], seed=0)
    assert choice.chosen == OWN_WHITE
    assert choice.verdict.answer == "whiten its own vectors"
    assert "other layers cannot stand in" in choice.explanation
    assert choice.explanation.count(". ") == 1


def test_the_rules_constants_decide():
    assert judge(ALL, tuned(), rule=Rule(kept=-1)).winner == 1
    assert judge(ALL, tuned(), rule=Rule(kept=-1, trusted=-1)).winner == 3
    assert judge(ALL, untuned(), rule=Rule(kept=2)).winner == 0
    assert judge(ALL, untuned(), rule=Rule(transform="none")).winner == 2


def test_all_of_it_is_json_and_the_seed_decides():
    choice = choose(ALL, untuned(), seed=0)
    document = json.loads(json.dumps(choice.as_dict()))
    assert [row["candidate"] for row in document["candidates"]] == [item.name for item in ALL]
    assert document["chosen"] == WORDS_WHITE.name
    assert choose(ALL, untuned(), seed=0).as_dict() == choice.as_dict()
    for row in document["candidates"]:
        assert {"grading", "recovery", "uniformity", "competing"} <= row.keys()
