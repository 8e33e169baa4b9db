import json

import numpy as np
import pytest
from shared_data import shared
from table_encoder import TableEncoder

from embedlift.errors import InputError
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import evaluate


def angle(cosine):
    return [cosine, np.sqrt(1 - cosine**2)]


def as_pairs(name, system, gold):
    """Pairs of made-up sentences, and vectors whose cosines are ``system``."""
    left = [f"{name} left {i}" for i in range(len(gold))]
    right = [f"{name} right {i}" for i in range(len(gold))]
    table = {text: [1.0, 0.0] for text in left} | {text: angle(c) for text, c in zip(right, system, strict=True)}
    return sts.Pairs(name, left, right, np.array(gold)), table


def random_pairs(name, count, seed=0):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 6, count).astype(float)
    return as_pairs(name, np.tanh(gold / 5 + rng.normal(size=count)), gold)


def score(*parts, aggregation="all", name="STS12"):
    pairs, tables = zip(*parts, strict=True)
    encoder = TableEncoder({text: vector for table in tables for text, vector in table.items()})
    return evaluate(encoder, "m", [sts.Task(name, "test", list(pairs), aggregation)])


@pytest.mark.parametrize("aggregation", ["all", "mean", "wmean"])
def test_scores_are_those_of_senteval(aggregation):
    golden = json.loads(shared("golden", "senteval_sts.json").read_text())
    parts = [as_pairs(name, part["system"], part["gold"]) for name, part in golden["subsets"].items()]
    *subsets, whole = score(*parts, aggregation=aggregation)
    assert whole.subset is None
    assert whole.aggregation == aggregation
    assert whole.score == pytest.approx(golden["all"]["spearman"][aggregation], abs=1e-9)
    assert whole.n == sum(part["nsamples"] for part in golden["subsets"].values())
    assert {row.subset: row.score for row in subsets} == pytest.approx(
        {name: part["spearman"] for name, part in golden["subsets"].items()}, abs=1e-9
    )


def test_subsets_of_unequal_size_show_why_the_aggregation_is_named():
    """USERS: the same method differs by 5 points between papers."""
    parts = [random_pairs("small", 12, 1), random_pairs("large", 300, 2)]
    rows = {aggregation: score(*parts, aggregation=aggregation) for aggregation in sts.AGGREGATIONS}
    small, large, _ = rows["all"]
    whole = {aggregation: found[-1].score for aggregation, found in rows.items()}
    assert whole["mean"] == pytest.approx((small.score + large.score) / 2)
    assert whole["wmean"] == pytest.approx((12 * small.score + 300 * large.score) / 312)
    assert len(set(whole.values())) == 3
    assert all(row.aggregation is None for found in rows.values() for row in found[:-1])


@pytest.mark.parametrize("parts", [1, 3])
def test_exactly_one_row_stands_for_the_whole(parts):
    rows = score(*[random_pairs(f"p{i}", 20, i) for i in range(parts)])
    assert [row.subset for row in rows].count(None) == 1
    assert len(rows) == (1 if parts == 1 else parts + 1)
    assert all(row.metric == "cosine_spearman" and -1 <= row.score <= 1 for row in rows)
    assert all(row.interval[0] <= row.score <= row.interval[1] for row in rows)


@pytest.mark.parametrize("noise", [0, 1e-8], ids=["equal", "equal up to rounding"])
def test_a_collapsed_encoder_is_called_so(noise):
    rng = np.random.default_rng(0)
    rows = score(as_pairs("p", 0.5 + noise * rng.normal(size=20), list(range(20))))
    assert [(row.score, row.interval) for row in rows] == [(None, None)]
    assert "undefined: collapsed" in rows[0].note


def test_constant_gold_scores_are_called_so():
    (row,) = score(as_pairs("p", np.linspace(0, 0.9, 10), [2.0] * 10))
    assert row.score is None
    assert "undefined: collapsed" in row.note


@pytest.mark.parametrize("aggregation", ["mean", "wmean"])
def test_a_collapsed_subset_makes_the_mean_undefined(aggregation):
    rows = score(random_pairs("fine", 20), as_pairs("flat", [0.5] * 10, list(range(10))), aggregation=aggregation)
    assert [row.score is None for row in rows] == [False, True, True]


def test_a_zero_vector_has_cosine_zero_and_is_reported():
    """USERS: one zero row gave a NaN correlation."""
    pairs, table = as_pairs("p", [0.9, 0.5, 0.1, -0.3], [4.0, 3.0, 2.0, 1.0])
    table["p right 2"] = [0.0, 0.0]
    (row,) = score((pairs, table))
    assert row.score == pytest.approx(1)
    assert "1 sentence" in row.note
    assert "zero vector" in row.note


def test_vectors_with_nan_are_not_called_collapsed():
    pairs, table = as_pairs("p", [0.9, 0.5, 0.1, -0.3], [4.0, 3.0, 2.0, 1.0])
    table["p right 2"] = [np.nan, 0.0]
    (row,) = score((pairs, table))
    assert row.score is None
    assert "undefined: NaN" in row.note


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


LINES = "5.0\tA dog runs.\tA dog is running.\n0\tA dog runs.\tStocks fell.\n2.5\tIt rains.\tIt pours.\n"


@pytest.mark.parametrize(
    ("name", "task", "split"),
    [
        ("stsb/stsb_test.tsv", "STS-B", "test"),
        ("stsb/stsb_dev.tsv", "STS-B:dev", "dev"),
        ("sick/sickr_trial.tsv", "SICK-R:dev", "dev"),
        ("sick/sickr_test.tsv", "SICK-R", "test"),
        ("sts/STS14/images.tsv", "STS14", "test"),
    ],
)
def test_tasks_are_found_in_the_layout_of_the_data_folder(tmp_path, name, task, split):
    loaded = sts.load_task(write(tmp_path, {name: LINES}), task)
    assert (loaded.name, loaded.split) == (task.partition(":")[0], split)
    (pairs,) = loaded.subsets
    assert pairs.left == ["A dog runs.", "A dog runs.", "It rains."]
    assert pairs.right == ["A dog is running.", "Stocks fell.", "It pours."]
    assert pairs.gold.tolist() == [5, 0, 2.5]


def test_the_subsets_of_a_year_are_its_files(tmp_path):
    data = write(tmp_path, {f"sts/STS13/{name}.tsv": LINES for name in ("b", "a")})
    assert [pairs.name for pairs in sts.load_task(data, "STS13").subsets] == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["\ufeff" + LINES, LINES.replace("\n", "\r\n"), LINES[:-1]], ids=["BOM", "CRLF", "end"]
)
def test_line_ends_and_byte_order_marks_are_no_part_of_the_data(tmp_path, text):
    pairs = sts.read_pairs(write(tmp_path, {"p.tsv": text}) / "p.tsv")
    assert pairs.gold.tolist() == [5, 0, 2.5]
    assert pairs.right[-1] == "It pours."


@pytest.mark.parametrize("task", ["STS99", "STS12:dev", "STS-B:all", "", "sts12"])
def test_unknown_tasks(tmp_path, task):
    with pytest.raises(InputError, match=f"unknown task {task!r}: choose from STS12"):
        sts.load_task(tmp_path, task)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"STS-B: no file .*stsb/stsb_test.tsv"):
        sts.load_task(tmp_path, "STS-B")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LINES + "1.0\tonly one\n", ":4: 2 columns where score, sentence, sentence"),
        (LINES + "1.0\ta\tb\tc\n", ":4: 4 columns"),
        (LINES + "\n" + LINES, ":4: 1 columns"),
        ("score\ta\tb\n" + LINES, ":1: the score 'score' is not a number"),
        (LINES + "\ta\tb\n", ":4: the score '' is not a number"),
        (LINES + "nan\ta\tb\n", ":4: the score 'nan' is not a number"),
        (LINES + "inf\ta\tb\n", ":4: the score 'inf' is not a number"),
        (LINES.encode() + b"1.0\tcaf\xe9\tb\n", ":4: not UTF-8"),
        ("", ": no pairs"),
    ],
    ids=repr,
)
def test_bad_lines_are_named(tmp_path, text, message):
    path = write(tmp_path, {"p.tsv": text}) / "p.tsv"
    with pytest.raises(InputError) as error:
        sts.read_pairs(path)
    assert str(error.value).startswith(f"{path}{message}")


def test_unknown_aggregation():
    assert sts.check_aggregation("wmean") == "wmean"
    with pytest.raises(InputError, match="unknown aggregation 'median': choose one of all, mean, wmean"):
        sts.check_aggregation("median")
