import dataclasses

import numpy as np
import pytest
from shared_data import shared
from table_encoder import TableEncoder

from embedlift.errors import InputError
from embedlift.evaluation import logistic_regression, transfer
from embedlift.evaluation.tasks import Vectors, evaluate


@pytest.fixture(autouse=True)
def few_fits(monkeypatch):
    monkeypatch.setattr(logistic_regression, "FOLDS", 3)
    monkeypatch.setitem(logistic_regression.GRIDS, "nested", (0.25, 8.0))
    monkeypatch.setitem(logistic_regression.GRIDS, "k-fold", (0.5, 32.0))


def examples(count, name, sides=1, classes=2):
    """Sentences of 1 to 5 words, with classes in turn."""
    columns = tuple(
        [f"{name}{side}n{number}" + " word" * (number % 5) for number in range(count)] for side in range(sides)
    )
    return transfer.Examples(columns, np.arange(count) % classes)


def table(task, distance=6.0, seed=0):
    """Vectors whose first number tells the class of a sentence."""
    rng = np.random.default_rng(seed)
    found = {}
    for part in (task.train, task.dev, task.test):
        for side in part.sides if part is not None else ():
            for text, label in zip(side, part.labels, strict=True):
                found[text] = rng.normal(size=4) + distance * label * np.eye(4)[0]
    return TableEncoder(found)


NESTED = transfer.TransferTask("CR", examples(80, "a"))
TESTED = transfer.TransferTask("TREC", examples(80, "a"), test=examples(40, "b"))
SPLIT = transfer.TransferTask("SST-2", examples(80, "a"), examples(30, "b"), examples(40, "c"))


@pytest.mark.parametrize(("task", "n"), [(NESTED, 80), (TESTED, 40), (SPLIT, 40)], ids=["nested", "k-fold", "split"])
def test_accuracy_with_interval_and_note(task, n):
    (score,) = evaluate(table(task, distance=2.5), "m", [task])
    assert (score.task, score.split, score.metric, score.n) == (task.name, "test", "accuracy", n)
    assert 0.75 < score.score < 1
    assert score.interval[0] <= score.score <= score.interval[1]
    assert "largest class 50.0 %" in score.note
    assert "scikit-learn" in score.note


def test_the_interval_is_that_of_the_test_examples():
    (score,) = evaluate(table(TESTED, distance=2.0), "m", [TESTED])
    deviation = np.sqrt(score.score * (1 - score.score) / 40)
    assert score.draws.std() == pytest.approx(deviation, rel=0.15)


@pytest.mark.parametrize("mode", ["fast", "as-released"])
def test_other_modes_cannot_be_taken_for_the_protocol(mode):
    (score,) = evaluate(table(NESTED), "m", [dataclasses.replace(NESTED, mode=mode)])
    assert score.metric == f"accuracy_{mode.replace('-', '_')}"


def test_rows_are_in_the_order_of_senteval():
    """By number of tokens, then class, then place; pairs by the tokens of both sides first."""
    part = transfer.Examples((["c d", "b", "a", "e f"],), np.array([0, 1, 0, 0]))
    vectors = Vectors(["a", "b", "c d", "e f"], np.arange(4.0)[:, None])
    assert transfer._in_order(part, vectors).x[:, 0].tolist() == [0, 1, 2, 3]
    pairs = transfer.Examples((["x", "x", "x y"], ["x y", "x", "x"]), np.array([0, 1, 0]))
    found = transfer._in_order(pairs, Vectors(["x", "x y"], np.array([[1.0], [3.0]])))
    assert found.y.tolist() == [1, 0, 0]
    assert found.x.dtype == np.float32


def test_pairs_give_difference_and_product():
    pairs = transfer.Examples((["x"], ["y"]), np.array([1]))
    found = transfer._in_order(pairs, Vectors(["x", "y"], np.array([[1.0, 5.0], [3.0, 2.0]])))
    assert found.x.tolist() == [[2, 3, 3, 10]]


def test_pairs_have_f1_too():
    task = transfer.TransferTask("MRPC", examples(80, "a", 2), test=examples(40, "b", 2))
    accuracy, f1 = evaluate(table(task, distance=2.0), "m", [task])
    assert (accuracy.metric, f1.metric) == ("accuracy", "f1")
    assert f1.interval[0] <= f1.score <= f1.interval[1]


def test_f1_is_that_of_class_one():
    predicted, y = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0])
    outcome = logistic_regression.Outcome(predicted, y, np.full(5, 0.2), [1.0], None, "")
    counts = np.array([[1.0] * 5, [0, 0, 1, 1, 3], [0, 0, 0, 0, 5]])
    assert transfer._f1(outcome)(counts) == pytest.approx([2 / 3, 0, 0])


@pytest.mark.parametrize("vector", [[1.0, 1.0], [0.0, 0.0]], ids=["one vector", "zero"])
@pytest.mark.parametrize("noise", [0, 1e-8], ids=["equal", "equal up to rounding"])
def test_a_collapsed_model_is_called_so(vector, noise):
    rng = np.random.default_rng(0)
    encoder = TableEncoder({text: vector * (1 + noise * rng.normal(size=2)) for text in NESTED.texts()})
    (score,) = evaluate(encoder, "m", [NESTED])
    assert score.score == pytest.approx(0.5, abs=0.02)
    assert "collapsed: all vectors are equal" in score.note


def test_a_regression_that_tells_nothing_apart_is_called_so():
    task = dataclasses.replace(TESTED, train=transfer.Examples(TESTED.train.sides, np.arange(80) % 10 // 9))
    rng = np.random.default_rng(0)
    (score,) = evaluate(TableEncoder({text: 0.01 * rng.normal(size=4) for text in task.texts()}), "m", [task])
    assert score.score == pytest.approx(0.5)
    assert "every example gets the same class" in score.note


def test_nan_is_called_so():
    encoder = table(TESTED)
    encoder.table[next(iter(encoder.table))] = np.full(4, np.nan)
    (score,) = evaluate(encoder, "m", [TESTED])
    assert (score.score, score.interval, score.draws) == (None, None, None)
    assert "undefined: NaN" in score.note


def write(folder, **files):
    (folder / "transfer").mkdir()
    for name, text in files.items():
        (folder / "transfer" / f"{name}.tsv").write_text(text)


def test_files_are_read_as_they_are(tmp_path):
    write(
        tmp_path,
        SUBJ='0\tA "plain" fact\n1\tMy view\n',
        MRPC_train="1\ta\tb\n0\tc\td\n",
        MRPC_test="0\te\tf\n1\tg\th\n",
    )
    subjective = transfer.load_task(tmp_path, "SUBJ")
    assert subjective.train.sides == (['A "plain" fact', "My view"],)
    assert subjective.train.labels.tolist() == [1, 0]  # SentEval's numbers: objective is 1
    pairs = transfer.load_task(tmp_path, "MRPC", "fast")
    assert pairs.train.sides == (["a", "c"], ["b", "d"])
    assert (pairs.dev, pairs.test.labels.tolist(), pairs.mode) == (None, [0, 1], "fast")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\ta\n1\tb\tc\n", "CR.tsv:2: 3 columns where label, sentence were expected"),
        ("0\ta\n2\tb\n", "CR.tsv:2: the label '2' is none of 0, 1"),
        ("0\ta\n0\tb\n", "2 examples of 1 classes"),
        ("0\ta\n1\t \n", "CR.tsv:2: an empty sentence"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    write(tmp_path, CR=text)
    with pytest.raises(InputError, match=message):
        transfer.load_task(tmp_path, "CR")


def test_missing_files_are_named_beside_those_there(tmp_path):
    write(tmp_path, SST2_train="0\ta\n1\tb\n", SST2_dev="0\ta\n1\tb\n")
    with pytest.raises(InputError, match=r"no file .*SST2_test.tsv \(there: .*SST2_train.tsv, .*SST2_dev.tsv\)"):
        transfer.load_task(tmp_path, "SST-2")


@pytest.mark.parametrize("name", transfer.TASKS)
def test_the_files_beside_the_repository_are_read(name):
    task = transfer.load_task(shared("data"), name)
    assert len(task.train.labels) == len(task.train.sides[0]) > 1000
    assert len(task.train.sides) == (2 if name == "MRPC" else 1)
