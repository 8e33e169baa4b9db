import numpy as np

from embedlift.evaluation import sts
from embedlift.evaluation.bootstrap import mean
from embedlift.evaluation.scoring import scored, undefined

TASK = sts.Task("one", "dev", [])


def test_each_statistic_over_all_items_and_over_the_same_resamples():
    values = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    found = scored(
        TASK,
        "m",
        5,
        {"rate": mean(values), "half": mean(values / 2)},
        seed=3,
        unit="queries",
        notes={"rate": "x", "half": None},
    )
    assert [(score.metric, score.score, score.n, score.note) for score in found] == [
        ("rate", 0.6, 5, "x"),
        ("half", 0.3, 5, None),
    ]
    assert np.allclose(found[0].draws, 2 * found[1].draws)
    assert {(score.model, score.task, score.split, score.unit) for score in found} == {("m", "one", "dev", "queries")}


def test_what_is_undefined_says_why():
    (score,) = undefined(TASK, "m", 5, ["rate"], "collapsed", unit="queries")
    assert (score.score, score.interval, score.note) == (None, None, "undefined: collapsed")


def test_tasks_of_equal_size_have_resamples_of_their_own():
    values, notes = np.arange(5.0), {"rate": None}
    one, other = (
        scored(sts.Task(name, "dev", []), "m", 5, {"rate": mean(values)}, seed=3, unit="queries", notes=notes)[0]
        for name in ("one", "other")
    )
    assert not np.array_equal(one.draws, other.draws)
