import json

import numpy as np
import pytest
from shared_data import shared
from table_encoder import TableEncoder

from embedlift.errors import InputError
from embedlift.evaluation import sts
from embedlift.evaluation.senteval_text import senteval_text
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


def score(*parts, aggregation="all", name="STS12", metrics=("cosine_spearman",)):
    pairs, tables = zip(*parts, strict=True)
    encoder = TableEncoder({text: vector for table in tables for text, vector in table.items()})
    return evaluate(encoder, "m", [sts.Task(name, "test", list(pairs), aggregation, metrics)])


@pytest.mark.parametrize("correlation", ["spearman", "pearson"])
@pytest.mark.parametrize("aggregation", ["all", "mean", "wmean"])
def test_scores_are_those_of_senteval(aggregation, correlation):
    golden = json.loads(shared("golden", "senteval_sts.json").read_text())
    parts = [as_pairs(name, part["system"], part["gold"]) for name, part in golden["subsets"].items()]
    *subsets, whole = score(*parts, aggregation=aggregation, metrics=(f"cosine_{correlation}",))
    assert whole.subset is None
    assert whole.aggregation == aggregation
    assert whole.score == pytest.approx(golden["all"][correlation][aggregation], abs=1e-9)
    assert whole.n == sum(part["nsamples"] for part in golden["subsets"].values())
    assert {row.subset: row.score for row in subsets} == pytest.approx(
        {name: part[correlation] for name, part in golden["subsets"].items()}, abs=1e-9
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


@pytest.mark.parametrize(("aggregation", "points"), [("all", 22.0), ("mean", 75.0), ("wmean", 78.6)])
def test_the_worked_example_of_the_docs(aggregation, points):
    a = as_pairs("A", [0.81, 0.82, 0.83, 0.84], [1.0, 2.0, 3.0, 4.0])
    b = as_pairs("B", [0.51, 0.53, 0.52], [2.0, 3.0, 4.0])
    *_, whole = score(a, b, aggregation=aggregation)
    assert round(100 * whole.score, 1) == points


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


LINES = "4.0\tA dog runs.\tA dog is running.\n1\tA dog runs.\tStocks fell.\n2.5\tIt rains.\tIt pours.\n"


@pytest.mark.parametrize(
    ("name", "task", "split"),
    [
        ("stsb/stsb_test.tsv", "STS-B", "test"),
        ("stsb/stsb_dev.tsv", "STS-B:dev", "dev"),
        ("sick/sickr_trial.tsv", "SICK-R:dev", "dev"),
        ("sick/sickr_test.tsv", "SICK-R", "test"),
        ("domain_bio/biosses.tsv", "BIOSSES", "test"),
        ("stsb_mt/stsb_es_test.tsv", "STS-B-es", "test"),
        ("stsb_mt/stsb_es_dev.tsv", "STS-B-es:dev", "dev"),
    ],
)
def test_tasks_are_found_in_the_layout_of_the_data_folder(tmp_path, name, task, split):
    loaded = sts.load_task(write(tmp_path, {name: LINES}), task)
    assert (loaded.name, loaded.split) == (task.partition(":")[0], split)
    (pairs,) = loaded.subsets
    assert pairs.left == ["A dog runs.", "A dog runs.", "It rains."]
    assert pairs.right == ["A dog is running.", "Stocks fell.", "It pours."]
    assert pairs.gold.tolist() == [4, 1, 2.5]


@pytest.mark.parametrize("name", ["mine.tsv", "{data}/mine.tsv"], ids=["from the folder", "as it is"])
def test_any_file_of_the_same_layout_is_a_task(tmp_path, name):
    data = write(tmp_path, {"mine.tsv": LINES.replace("2.5", "99")})
    task = sts.load_task(data, name.format(data=data))
    assert (task.name, task.split) == ("mine", "test")
    assert task.subsets[0].gold.tolist() == [4, 1, 99]


def test_the_subsets_of_a_year_are_those_of_the_usual_figure(tmp_path):
    """STS13's SMT, where someone has it, is no part of what the papers report."""
    data = write(tmp_path, {f"sts/STS13/{name}.tsv": LINES for name in ("headlines", "FNWN", "OnWN", "SMT")})
    assert [pairs.name for pairs in sts.load_task(data, "STS13").subsets] == ["FNWN", "OnWN", "headlines"]


def test_an_incomplete_year_lists_what_is_there_and_what_is_missing(tmp_path):
    data = write(tmp_path, {f"sts/STS13/{name}.tsv": LINES for name in ("headlines", "FNWN")})
    with pytest.raises(InputError, match=r"missing in .*STS13: OnWN.tsv \(there: FNWN.tsv, headlines.tsv\)"):
        sts.load_task(data, "STS13")


@pytest.mark.parametrize(
    ("year", "pairs"), [("STS12", 3108), ("STS13", 1500), ("STS14", 3750), ("STS15", 3000), ("STS16", 1186)]
)
def test_the_years_have_as_many_pairs_as_in_the_papers(year, pairs):
    """STS13 without SMT, as all of them have it."""
    assert sum(len(subset.gold) for subset in sts.load_task(shared("data"), year).subsets) == pairs


def test_the_texts_of_senteval_are_those_in_circulation():
    """Where they differ, it is by a space before a full stop, which no sub-word tokenizer of BERT's kind sees."""
    pytest.importorskip("sacremoses")
    raw, there = (sts.read_pairs(shared("data", kind, "STS16", "headlines.tsv")) for kind in ("sts", "sts_tok"))
    made = [senteval_text(text) for text in raw.left + raw.right]
    assert [text.replace(" ", "") for text in made] == [text.replace(" ", "") for text in there.left + there.right]
    assert np.mean(np.array(made) == there.left + there.right) > 0.99


def test_sick_keeps_its_case_in_sentevals_text(tmp_path):
    pytest.importorskip("sacremoses")
    lines = {name: LINES.replace("A dog", "Ann's dog") for name in ("sick/sickr_test.tsv", "stsb/stsb_test.tsv")}
    sick, stsb = (
        sts.load_task(write(tmp_path, lines), task, senteval=True).subsets[0].left[0] for task in ("SICK-R", "STS-B")
    )
    assert sick == "Ann ' s dog runs ."
    assert stsb == "ann ' s dog runs ."


@pytest.mark.parametrize(
    "text", ["\ufeff" + LINES, LINES.replace("\n", "\r\n"), LINES[:-1]], ids=["BOM", "CRLF", "end"]
)
def test_line_ends_and_byte_order_marks_are_no_part_of_the_data(tmp_path, text):
    pairs = sts.read_pairs(write(tmp_path, {"p.tsv": text}) / "p.tsv")
    assert pairs.gold.tolist() == [4, 1, 2.5]
    assert pairs.right[-1] == "It pours."


@pytest.mark.parametrize("task", ["STS99", "STS12:dev", "STS-B:all", "", "sts12", "STS-B-", "BIOSSES:dev", "STS-B-*"])
def test_unknown_tasks(tmp_path, task):
    data = write(tmp_path, {"stsb_mt/stsb_fr_test.tsv": LINES})
    with pytest.raises(InputError) as error:
        sts.load_task(data, task)
    assert str(error.value).startswith(f"unknown task {task!r}: choose from STS12")
    assert "STS-B-fr" in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no file mine.tsv"):
        sts.load_task(tmp_path, "mine.tsv")


@pytest.mark.parametrize(
    ("task", "score", "limits"), [("SICK-R", "0.5", "1 to 5"), ("BIOSSES", "4.5", "0 to 4"), ("STS-B", "6", "0 to 5")]
)
def test_gold_scores_outside_of_the_range(tmp_path, task, score, limits):
    """As from a file with another scale."""
    lines = LINES.replace("2.5", score)
    data = write(tmp_path, {sts.TASKS[task].format(split="test"): lines})
    with pytest.raises(InputError, match=f":3: the score {score} is outside of the task's range, {limits}"):
        sts.load_task(data, task)


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
        (LINES + "5.5\ta\tb\n", ":4: the score 5.5 is outside of the task's range, 0 to 5"),
        (LINES + "-1\ta\tb\n", ":4: the score -1 is outside"),
        (LINES + "1.0\ta\t \n", ":4: an empty sentence"),
        (LINES + "1.0\t\tb\n", ":4: an empty sentence"),
        (LINES.encode() + b"1.0\tcaf\xe9\tb\n", ":4: not UTF-8"),
        ("", ": no pairs"),
    ],
    ids=repr,
)
def test_bad_lines_are_named(tmp_path, text, message):
    path = write(tmp_path, {"p.tsv": text}) / "p.tsv"
    with pytest.raises(InputError) as error:
        sts.read_pairs(path, (0, 5))
    assert str(error.value).startswith(f"{path}{message}")


def test_unknown_aggregation():
    assert sts.check_aggregation("wmean") == "wmean"
    with pytest.raises(InputError, match="unknown aggregation 'median': choose one of all, mean, wmean"):
        sts.check_aggregation("median")


def test_resamples_of_files_of_the_same_length_are_not_the_same():
    """Or the interval of their mean would be that of two dependent scores."""
    rows = score(random_pairs("a", 60, 0), random_pairs("b", 60, 1), aggregation="mean")
    a, b = (row.draws - row.draws.mean() for row in rows[:2])
    assert abs(a @ b) < 0.15 * np.sqrt(a @ a * (b @ b))
    width = {row.subset: np.diff(row.interval).item() for row in rows}
    assert width[None] == pytest.approx(np.hypot(width["a"], width["b"]) / 2, rel=0.15)


def test_pairs_that_share_a_sentence_are_resampled_together():
    """Every pair twice: no more is known than from half of them, and the interval must say so."""
    pairs, table = random_pairs("p", 60)
    twice = sts.Pairs("p", pairs.left * 2, pairs.right * 2, np.tile(pairs.gold, 2))
    (once,), (doubled,) = score((pairs, table)), score((twice, table))
    assert doubled.score == pytest.approx(once.score)
    assert doubled.interval == pytest.approx(once.interval)
