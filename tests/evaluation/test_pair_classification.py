import numpy as np
import pytest
from shared_data import shared
from sklearn import metrics
from table_encoder import TableEncoder

from embedlift.errors import InputError
from embedlift.evaluation import pair_classification
from embedlift.evaluation.bootstrap import resample_counts
from embedlift.evaluation.pair_classification import PairClassification, best_f1, best_threshold
from embedlift.evaluation.tasks import evaluate


def made(cosines, positive):
    """A task and vectors that have these cosines."""
    left, right = ([f"{side} {place}" for place in range(len(cosines))] for side in ("left", "right"))
    table = {text: [1.0, 0.0] for text in left}
    table |= {text: [c, np.sqrt(1 - c * c)] for text, c in zip(right, cosines, strict=True)}
    return PairClassification("QNLI", "dev", left, right, np.array(positive, dtype=bool)), TableEncoder(table)


def scores(cosines, positive):
    task, encoder = made(cosines, positive)
    return {score.metric: score for score in evaluate(encoder, "m", [task])}


def random_pairs(n=200, ties=False, seed=0):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    cosines = np.tanh(0.5 * positive + 0.6 * rng.normal(size=n))
    return (cosines.round(1) if ties else cosines), positive


def brute_force(cosines, positive, weights, figure):
    """The best figure over all thresholds, one by one."""
    found = [figure(positive, cosines >= threshold, sample_weight=weights) for threshold in [*cosines, 2]]
    return max(found)


@pytest.mark.parametrize("ties", [False, True])
def test_figures_are_those_of_scikit_learn(ties):
    cosines, positive = random_pairs(ties=ties)
    found = scores(cosines, positive)
    assert list(found) == ["cosine_ap", "cosine_roc_auc", "cosine_accuracy", "cosine_f1"]
    assert found["cosine_ap"].score == pytest.approx(metrics.average_precision_score(positive, cosines))
    assert found["cosine_roc_auc"].score == pytest.approx(metrics.roc_auc_score(positive, cosines))
    once = np.ones(len(positive))
    assert found["cosine_accuracy"].score == pytest.approx(brute_force(cosines, positive, once, metrics.accuracy_score))
    assert found["cosine_f1"].score == pytest.approx(brute_force(cosines, positive, once, metrics.f1_score))
    assert all(score.interval[0] <= score.score <= score.interval[1] for score in found.values())


@pytest.mark.parametrize("ties", [False, True])
def test_the_best_f1_of_resamples_is_that_of_scikit_learn(ties):
    cosines, positive = random_pairs(40, ties)
    counts = resample_counts(40, 5, seed=1)
    expected = [brute_force(cosines, positive, row, metrics.f1_score) for row in counts]
    assert best_f1(cosines, positive)(counts) == pytest.approx(expected)


def test_f1_of_a_resample_without_positives_is_undefined():
    assert np.isnan(best_f1(np.array([0.1, 0.9]), np.array([False, True]))(np.array([[2.0, 0.0]]))).all()


@pytest.mark.parametrize(("metric", "figure"), [("accuracy", metrics.accuracy_score), ("f1", metrics.f1_score)])
@pytest.mark.parametrize("ties", [False, True])
def test_the_threshold_gives_the_best_figure(metric, figure, ties):
    cosines, positive = random_pairs(ties=ties)
    threshold = best_threshold(cosines, positive, metric)
    expected = brute_force(cosines, positive, np.ones(len(positive)), figure)
    assert figure(positive, cosines >= threshold) == pytest.approx(expected)


def test_the_threshold_lies_half_way_and_is_told():
    found = scores([0.9, 0.7, 0.3, 0.1], [True, True, False, False])
    assert found["cosine_accuracy"].score == 1
    assert "at threshold 0.5000, chosen on these labels" in found["cosine_accuracy"].note
    assert "calling the larger class throughout gives 50.0" in found["cosine_accuracy"].note
    assert "calling every pair positive gives 66.7" in found["cosine_f1"].note
    assert found["cosine_ap"].note is None


def test_where_cosine_is_of_no_use_nothing_is_called_positive():
    cosines, positive = np.array([0.9, 0.8, 0.1]), np.array([False, False, True])
    threshold = best_threshold(cosines, positive, "accuracy")
    assert (cosines >= threshold).sum() == 0
    assert scores(cosines, positive)["cosine_accuracy"].score == pytest.approx(2 / 3)


def test_pairs_that_share_a_sentence_are_drawn_together():
    """One sentence beside twenty others, over and over: fewer independent pairs, a wider interval."""
    cosines, positive = random_pairs(200)
    alone, encoder = made(cosines, positive)
    left = [f"left {place - place % 20}" for place in range(200)]
    together = PairClassification("QNLI", "dev", left, alone.right, positive)
    first, second = (evaluate(encoder, "m", [task])[0] for task in (alone, together))
    assert first.score == pytest.approx(second.score)
    assert not np.array_equal(first.draws, second.draws)


@pytest.mark.parametrize(
    ("cosines", "positive", "why"),
    [
        ([0.5, 0.5 + 1e-9, 0.5], [True, False, True], "collapsed"),
        ([0.5, 0.1, 0.3], [True, True, True], "all pairs have the same label"),
        ([0.5, np.nan, 0.3], [True, False, True], "NaN"),
    ],
)
def test_undefined_is_said(cosines, positive, why):
    found = scores(cosines, positive)
    assert len(found) == 4
    for score in found.values():
        assert (score.score, score.interval) == (None, None)
        assert score.note.startswith("undefined")
        assert why in score.note


def test_zero_vectors_are_told():
    task, encoder = made([0.5, 0.1, 0.3], [True, False, True])
    encoder.table["left 1"] = [0.0, 0.0]
    assert all("1 sentence with a zero vector" in score.note for score in evaluate(encoder, "m", [task]))


def test_files_are_read_with_their_labels(tmp_path):
    (tmp_path / "sick").mkdir()
    (tmp_path / "sick" / "sicke_test.tsv").write_text("ENTAILMENT\ta\tb\nNEUTRAL\tc\td\nCONTRADICTION\te\tf\n")
    task = pair_classification.load_task(tmp_path, "SICK-E")
    assert (task.left, task.right, task.positive.tolist()) == (["a", "c", "e"], ["b", "d", "f"], [True, False, False])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\n", r"qnli_dev.tsv:1: 2 columns where label, sentence, sentence were expected"),
        ("1\ta\tb\n2\ta\tb\n", r"qnli_dev.tsv:2: the label '2' is none of 1, 0"),
        ("1\ta\tb\n0\t\tb\n", r"qnli_dev.tsv:2: an empty sentence"),
        ("", r"no pairs: the file is empty"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    (tmp_path / "qnli").mkdir()
    (tmp_path / "qnli" / "qnli_dev.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        pair_classification.load_task(tmp_path, "QNLI")
    with pytest.raises(InputError, match=r"MRPC-pairs: no file .*MRPC_test.tsv"):
        pair_classification.load_task(tmp_path, "MRPC-pairs")


@pytest.mark.parametrize(("name", "positive", "n"), [("QNLI", 2702, 5463), ("MRPC-pairs", 1147, 1725)])
def test_the_files_beside_the_repository_are_read(name, positive, n):
    task = pair_classification.load_task(shared("data"), name)
    assert (int(task.positive.sum()), len(task.positive)) == (positive, n)
