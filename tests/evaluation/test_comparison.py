import dataclasses

import numpy as np
import pytest
from scipy.stats import norm

from embedlift.errors import InputError
from embedlift.evaluation.bootstrap import draws, spearman
from embedlift.evaluation.comparison import compare, over_seeds
from embedlift.evaluation.results import Score

#: Draws of standard deviation 1, exactly.
UNIT = np.random.default_rng(0).normal(size=500)
UNIT = (UNIT - UNIT.mean()) / UNIT.std(ddof=1)


def scored(model, value, found=None, task="STS-B", n=100, **fields):
    found = np.full(500, 0.5 if value is None else value) if found is None else found
    return Score(model, task, "test", None, "cosine_spearman", "all", value, n, None, draws=found, **fields)


def beside_a(p_value, difference=0.02, **fields):
    """A score whose difference from model A, which has 0.5, has this p-value before correction."""
    spread = abs(difference) / norm.isf(p_value / 2)
    return scored(value=0.5 + difference, found=0.5 + difference + spread * UNIT, **fields)


A = scored("A", 0.5)


def test_a_better_model_is_called_better():
    (found,) = compare([A, scored("B", 0.521, 0.521 + 0.00357 * UNIT)])
    assert found.sentence == "B is better than A by 2.1 [1.4, 2.8]"
    assert (found.baseline, found.model, found.task, found.level, found.comparisons) == ("A", "B", "STS-B", 0.95, 1)
    assert found.differs


def test_a_worse_model_is_called_worse():
    (found,) = compare([A, scored("B", 0.479, 0.479 + 0.00357 * UNIT)])
    assert found.sentence == "B is worse than A by 2.1 [1.4, 2.8]"
    assert found.difference == pytest.approx(-0.021)


def test_no_difference_is_not_called_equality():
    (found,) = compare([A, scored("B", 0.497, 0.497 + 0.008 * UNIT, unit="pairs")])
    assert found.sentence == "no difference between B and A can be shown with 100 pairs (-0.3 [-1.9, 1.3])"
    assert not found.differs


def test_two_names_of_the_same_vectors_do_not_differ():
    (found,) = compare([A, dataclasses.replace(A, model="B")])
    assert (found.difference, found.interval, found.p_value) == (0, (0, 0), 1)
    assert not found.differs


def test_the_baseline_is_the_first_model_or_the_one_named():
    scores = [A, scored("B", 0.6), scored("C", 0.7)]
    assert [(c.baseline, c.model) for c in compare(scores)] == [("A", "B"), ("A", "C")]
    assert [(c.baseline, c.model) for c in compare(scores, baseline="B")] == [("B", "A"), ("B", "C")]
    with pytest.raises(InputError, match="the baseline 'D' is none of the models scored: A, B, C"):
        compare(scores, baseline="D")


@pytest.mark.parametrize("scores", [[], [A]])
def test_nothing_to_compare(scores):
    assert compare(scores) == []


def test_holms_correction():
    """p-values 0.005, 0.01, 0.03, 0.04 become 0.02, 0.03, 0.06, 0.06: worked by hand."""
    scores = [A, *(beside_a(p, model=f"p{p}") for p in (0.01, 0.04, 0.03, 0.005))]
    found = compare(scores)
    assert [c.p_value for c in found] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert [c.differs for c in found] == [True, False, False, True]
    assert [c.level for c in found] == pytest.approx([1 - 0.05 / 3, 1 - 0.05 / 2, 1 - 0.05 / 2, 1 - 0.05 / 4])
    assert {c.comparisons for c in found} == {4}
    assert "p = 0.06 after Holm's correction for 4 comparisons" in found[1].sentence
    assert "98.8 % interval" in found[3].sentence


def test_an_interval_holds_zero_exactly_where_no_difference_is_shown():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(100):
        p_values = 10.0 ** rng.uniform(-4, 0, size=rng.integers(1, 6))
        for c in compare([A, *(beside_a(p, model=str(i)) for i, p in enumerate(p_values))]):
            assert (c.interval[0] > 0) == c.differs
            seen.add(c.differs)
    assert seen == {True, False}


def test_a_clear_difference_survives_the_correction_for_many():
    """P-values counted from 500 draws could not: the smallest is 0.004, times 40 tasks."""
    scores = [beside_a(1e-6, model="B", task=str(i)) for i in range(40)]
    found = compare([*(scored("A", 0.5, task=str(i)) for i in range(40)), *scores])
    assert [c.differs for c in found] == [True] * 40 + [True]


def test_the_average_of_tasks_has_its_own_family():
    rng = np.random.default_rng(0)
    rows = [scored("A", 0.5, task=task) for task in ("one", "two")]
    rows += [scored("B", 0.51, 0.51 + 0.006 * rng.normal(size=500), task=task) for task in ("one", "two")]
    *tasks, average = compare(rows)
    assert [c.task for c in tasks] == ["one", "two"]
    assert (average.task, average.split, average.n, average.comparisons) == ("average of 2 tasks", None, 200, 1)
    assert not any(c.differs for c in tasks)
    assert average.differs
    assert np.diff(average.interval).item() == pytest.approx(2 * 1.96 * 0.006 / 2**0.5, rel=0.1)


def test_metrics_are_not_averaged_with_each_other_and_subsets_are_left_out():
    rows = [scored(model, value) for model, value in (("A", 0.5), ("B", 0.6))]
    rows += [dataclasses.replace(row, metric="dot_spearman") for row in rows]
    rows += [dataclasses.replace(row, subset="images") for row in rows]
    assert [(c.task, c.metric) for c in compare(rows)] == [("STS-B", "cosine_spearman"), ("STS-B", "dot_spearman")]


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (scored("B", None), "B and A cannot be compared: the score on STS-B is undefined"),
        (scored("B", 0.6, n=99), "B less A: +10.0; whether they differ cannot be told: they were scored on 100 and 99"),
        (dataclasses.replace(A, model="B", draws=None), "B less A: +0.0; whether they differ cannot be told: they sha"),
        (scored("B", 0.6, np.zeros(3)), "B less A: +10.0; whether they differ cannot be told: they share no resamples"),
    ],
)
def test_what_cannot_be_told_is_said(other, sentence):
    found = compare([A, other, beside_a(0.01, model="C")])
    assert found[0].sentence.startswith(sentence)
    assert found[0].p_value is None
    assert found[1].comparisons == 1


def test_few_items_are_not_judged():
    """Draws of eight pairs take few values: often all agree, whatever the truth."""
    (found,) = compare([scored("A", 0.5, n=8), scored("B", 0.9, 0.9 + 0.01 * UNIT, n=8)])
    assert found.sentence.endswith("cannot be told: 8 pairs are too few")


def of_gaussian(r):
    """Spearman's correlation of a Gaussian pair."""
    return 6 / np.pi * np.arcsin(r / 2)


def two_models(rng, n):
    """Scores of two models whose similarities have much in common, as those of a model before and after have."""
    gold, common, *own = rng.normal(size=(4, n))
    systems = [
        r * gold + (1 - r * r) ** 0.5 * (0.95 * common + 0.0975**0.5 * e) for r, e in zip((0.5, 0.6), own, strict=True)
    ]
    found = draws([spearman(system, gold) for system in systems], n, resamples=200)
    whole = [spearman(system, gold)(np.ones((1, n)))[0] for system in systems]
    return [scored(model, value, drawn, n=n) for model, value, drawn in zip("AB", whole, found, strict=True)]


def test_about_95_percent_of_paired_intervals_cover_the_true_difference():
    truth = of_gaussian(0.6) - of_gaussian(0.5)
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        (found,) = compare(two_models(rng, 80))
        covered += found.interval[0] <= truth <= found.interval[1]
    assert 0.91 <= covered / 300 <= 0.985


def test_pairing_makes_the_interval_much_narrower():
    a, b = two_models(np.random.default_rng(0), 200)
    (paired,) = compare([a, b])
    apart = dataclasses.replace(b, draws=np.random.default_rng(0).permutation(b.draws))
    (unpaired,) = compare([a, apart])
    assert np.diff(paired.interval) < 0.5 * np.diff(unpaired.interval)


def test_seeds_are_summed_up():
    runs = [scored("SG-OPT", value) for value in (0.70, 0.72, 0.71)] + [scored("other", 0.5)]
    method, other = over_seeds(runs)
    assert (method.mean, method.deviation, method.number) == (pytest.approx(0.71), pytest.approx(0.01), 3)
    assert str(method) == "71.0 (sd 1.0, 3 seeds)"
    assert (other.deviation, str(other)) == (None, "50.0 (1 seed)")


def test_a_seed_that_collapsed_is_not_forgotten():
    lost, all_lost = over_seeds([scored("m", v) for v in (0.70, None, 0.72)] + [scored("n", None)])
    assert str(lost) == "71.0 (sd 1.4, 2 seeds, undefined in 1 more)"
    assert (all_lost.mean, str(all_lost)) == (None, "undefined in all 1 seeds")
