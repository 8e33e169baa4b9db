import json
import re

import numpy as np
import pytest
from shared_data import shared

from embedlift.evaluation import logistic_regression
from embedlift.evaluation.logistic_regression import Part


def golden_part(name):
    """Vectors that SentEval's own code was run on, in its order: stably by number of tokens and class."""
    found = np.load(shared("golden", "senteval", f"vectors_{name}.npz"))
    order = np.lexsort((found["y"], found["ntok"]))
    return Part(found["x"].astype(np.float32), found["y"].astype(np.int64)).rows(order), order


def golden_run(task, path="sklearn"):
    document = json.loads(shared("golden", "senteval", "senteval_transfer.json").read_text())
    return next(
        run
        for run in document["runs"]
        if run["task"] == task and run["path"] == path and run["vectors"].startswith("rounded")
    )


def clouds(count=60, distance=6.0, shift=0.0, seed=0, classes=2):
    """Clouds of points, one for each class, in turn."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % classes
    centres = distance * np.eye(classes, 8)
    return Part((rng.normal(size=(count, 8)) + centres[y] + shift).astype(np.float32), y)


@pytest.fixture
def few_fits(monkeypatch):
    """Three folds and two strengths: 21 fits in place of 610."""
    monkeypatch.setattr(logistic_regression, "FOLDS", 3)
    monkeypatch.setitem(logistic_regression.GRIDS, "nested", (0.25, 8.0))
    monkeypatch.setitem(logistic_regression.GRIDS, "k-fold", (0.5, 32.0))


def accuracy(outcome):
    return float((outcome.weights * (outcome.predicted == outcome.y)).sum())


def test_folds_are_those_of_senteval():
    part, order = golden_part("CR")
    document = json.loads(shared("golden", "senteval", "senteval_transfer.json").read_text())
    digits = document["outer_fold_of_each_row_file_order_k10"]["CR"]
    found = np.empty(len(order), dtype=int)
    for number, (_, held) in enumerate(logistic_regression._folds(10, part)):
        found[order[held]] = number
    assert "".join(map(str, found)) == digits


@pytest.mark.parametrize(("mode", "figure", "tolerance"), [("converged", 79.2, 0.4), ("as-released", 71.4, 1.5)])
def test_single_fits_on_trec_are_those_of_senteval(monkeypatch, mode, figure, tolerance):
    """The figure as released is where the solver happens to stop, so it depends on the machine."""
    monkeypatch.setitem(logistic_regression.GRIDS, "split", (1.0,))
    train, test = golden_part("TREC_train")[0], golden_part("TREC_test")[0]
    outcome = logistic_regression.split(train, test, test, mode)
    assert 100 * accuracy(outcome) == pytest.approx(figure, abs=tolerance)
    assert (" 0 of 2 fits" in outcome.note) == (mode == "converged")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["converged", "as-released"])
def test_nested_cross_validation_on_cr_is_that_of_senteval(mode):
    run = golden_run("CR")
    outcome = logistic_regression.nested(golden_part("CR")[0], mode)
    assert 100 * accuracy(outcome) == pytest.approx(run["test_acc"], abs=0.3)
    assert outcome.dev == pytest.approx(run["dev_acc"], abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "figure", "tolerance"), [("converged", 80.0, 0.8), ("as-released", 70.4, 1.5)])
def test_cross_validation_on_trec_is_that_of_senteval(mode, figure, tolerance):
    outcome = logistic_regression.k_fold(golden_part("TREC_train")[0], golden_part("TREC_test")[0], mode)
    assert 100 * accuracy(outcome) == pytest.approx(figure, abs=tolerance)
    if mode == "as-released":
        assert outcome.dev == pytest.approx(golden_run("TREC")["dev_acc"], abs=0.4)


@pytest.mark.usefixtures("few_fits")
def test_of_equally_good_penalties_the_strongest_is_taken():
    outcome = logistic_regression.nested(clouds(distance=40), "converged")
    assert accuracy(outcome) == pytest.approx(1)
    assert outcome.chosen == [0.25] * 3
    assert outcome.dev == 100


def test_means_are_rounded_before_they_are_compared():
    assert logistic_regression._best([[0.5, 0.500004]], [1.0, 2.0]) == (1.0, 50.0)
    assert logistic_regression._best([[0.5, 0.5002]], [1.0, 2.0]) == (2.0, 50.02)


@pytest.mark.usefixtures("few_fits")
@pytest.mark.parametrize("mode", ["converged", "fast"])
def test_where_the_cloud_lies_does_not_matter(mode):
    """The intercept bears no penalty, so the optimum moves along."""
    near, far = (logistic_regression.nested(clouds(distance=2, shift=shift), mode) for shift in (0, 50))
    assert near.predicted.tolist() == far.predicted.tolist()
    assert near.chosen == far.chosen


@pytest.mark.usefixtures("few_fits")
def test_fits_that_do_not_converge_are_counted_and_said():
    part = clouds(distance=1, classes=3)
    part = Part((part.x * 10.0 ** np.arange(-3, 5)).astype(np.float32), part.y)
    outcome = logistic_regression.nested(part, "as-released")
    unconverged, fits = map(int, re.search(r"(\d+) of (\d+) fits not converged", outcome.note).groups())
    assert fits == 3 * (3 * 2 + 1)
    assert 0 < unconverged <= fits


@pytest.mark.usefixtures("few_fits")
@pytest.mark.parametrize(
    ("outcome", "fits"),
    [
        (lambda mode: logistic_regression.nested(clouds(), mode), 5),
        (lambda mode: logistic_regression.k_fold(clouds(), clouds(seed=1), mode), 1),
        (lambda mode: logistic_regression.split(clouds(), clouds(seed=1), clouds(seed=2), mode), 1),
    ],
    ids=["nested", "k-fold", "split"],
)
def test_the_fast_mode_says_that_it_is_not_the_protocol(outcome, fits):
    found = outcome("fast")
    assert found.note.startswith("fast, not SentEval's protocol")
    assert f" of {fits} fits" in found.note
    assert found.dev is None
    assert set(found.chosen) == {0.1}
    assert "fast" not in outcome("converged").note


def test_the_penalty_is_chosen_on_dev_and_dev_is_not_fitted():
    """Dev labels that are all wrong make every strength equally bad, and do not spoil the fit."""
    train, dev, test = clouds(distance=40), clouds(distance=40, seed=1), clouds(distance=40, seed=2)
    outcome = logistic_regression.split(train, Part(dev.x, 1 - dev.y), test, "converged")
    assert (outcome.dev, outcome.chosen) == (0, [0.25])
    assert accuracy(outcome) == pytest.approx(1)


@pytest.mark.usefixtures("few_fits")
def test_folds_of_unequal_size_weigh_the_same():
    outcome = logistic_regression.nested(clouds(65), "converged")
    assert outcome.weights.sum() == pytest.approx(1)
    assert len(set(outcome.weights.round(9))) == 2
