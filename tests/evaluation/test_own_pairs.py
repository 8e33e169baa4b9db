import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedlift.errors import InputError
from embedlift.evaluation import sts
from embedlift.evaluation.own_pairs import own_pairs
from embedlift.evaluation.pair_classification import PairClassification

LEFT, RIGHT = ["A cat sleeps.", "It rains."], ["A dog sleeps.", "The sun shines."]


def write(folder, names, *columns, suffix=".csv"):
    path = folder / f"mine{suffix}"
    rows = list(zip(*columns, strict=True))
    if suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path)
    elif suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
    else:
        separator = "," if suffix == ".csv" else "\t"
        path.write_text("\n".join(separator.join(map(str, row)) for row in [names, *rows] if row))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_pairs_with_scores_are_sts(tmp_path, suffix):
    path = write(tmp_path, ["sentence1", "sentence2", "score"], LEFT, RIGHT, [3.5, 0.5], suffix=suffix)
    task = own_pairs(path)
    assert isinstance(task, sts.Task)
    (pairs,) = task.subsets
    assert (task.name, task.split, pairs.left, pairs.right) == ("mine", "own", LEFT, RIGHT)
    assert pairs.gold.tolist() == [3.5, 0.5]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    "labels",
    [
        [1, 0],
        [1.0, 0.0],
        [True, False],
        ["duplicate", "not duplicate"],
        ["Yes", "no"],
        ["paraphrase", "not_paraphrase"],
    ],
    ids=str,
)
def test_pairs_with_labels_are_classified(tmp_path, suffix, labels):
    task = own_pairs(write(tmp_path, ["text_a", "text_b", "label"], LEFT, RIGHT, labels, suffix=suffix))
    assert isinstance(task, PairClassification)
    assert (task.left, task.right, task.positive.tolist()) == (LEFT, RIGHT, [True, False])


NUMBERS, FLAGS = [1, 2], [0, 1]


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ({"id": NUMBERS, "qid1": NUMBERS, "question1": LEFT, "question2": RIGHT, "is_duplicate": FLAGS}, "pairs"),
        ({"Quality": FLAGS, "#1 ID": NUMBERS, "#1 String": LEFT, "#2 String": RIGHT}, "pairs"),
        ({"sentence_A": LEFT, "sentence_B": RIGHT, "relatedness_score": [4.5, 1], "judgment": ["n", "c"]}, "sts"),
        ({"split": ["test"] * 2, "score": [4.0, 1.5], "sentence1": LEFT, "sentence2": RIGHT}, "sts"),
        ({"first": LEFT, "second": RIGHT, "how close": [0.25, 0.75]}, "sts"),
        ({"Erster Satz": LEFT, "Zweiter Satz": RIGHT, "Note": [3, 1], "id": NUMBERS}, "sts"),
    ],
    ids=["Quora", "MRPC", "SICK", "STS-B", "by content", "by content, with an id"],
)
def test_columns_are_found(tmp_path, table, kind):
    task = own_pairs(write(tmp_path, list(table), *table.values()))
    assert isinstance(task, sts.Task if kind == "sts" else PairClassification)
    assert list(task.texts()) == [*LEFT, *RIGHT]


def test_columns_can_be_named(tmp_path):
    path = write(tmp_path, ["x", "score", "y", "label"], LEFT, [4, 2], RIGHT, FLAGS)
    with pytest.raises(InputError, match=r"cannot tell which column holds the score .* x, score, y, label.*--columns"):
        own_pairs(path)
    assert isinstance(own_pairs(path, ["x", "y", "label"]), PairClassification)
    assert own_pairs(path, ["y", "x", "score"]).subsets[0].left == RIGHT


def test_columns_of_a_file_without_a_header_have_numbers(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"{score}\t{a}\t{b}\n" for score, a, b in zip([4, 2], LEFT, RIGHT, strict=True)))
    task = own_pairs(path, ["2", "3", "1"])
    assert (task.subsets[0].left, task.subsets[0].gold.tolist()) == (LEFT, [4, 2])


def test_texts_that_cannot_be_told_apart_are_asked_for(tmp_path):
    path = write(tmp_path, ["x", "y", "z", "score"], LEFT, RIGHT, LEFT, [3, 2])
    with pytest.raises(InputError, match=r"which columns hold the two texts: the columns are x, y, z, score"):
        own_pairs(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["A", "B", "high"], r"mine.csv:5: 'score' is 'high', neither a number nor a known label"),
        (["A", "B", "nan"], r"mine.csv:5: 'score' is 'nan'"),
        (["A", " ", "2"], r"mine.csv:5: 'sentence2' is empty"),
        (["A", "B"], r"mine.csv:5: 2 columns where the first line has 3"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    good = [["sentence1", "sentence2", "score"], ["A", "B", "1"], ["C", "D", "2"], ["E", "F", "3"]]
    (tmp_path / "mine.csv").write_text("\n".join(",".join(cells) for cells in [*good, row]))
    with pytest.raises(InputError, match=message):
        own_pairs(tmp_path / "mine.csv")


def test_wrong_columns_are_named(tmp_path):
    path = write(tmp_path, ["a", "b", "score"], LEFT, RIGHT, [3, 2])
    with pytest.raises(InputError, match=r"mine.csv:2: no column 'c': there are a, b, score"):
        own_pairs(path, ["a", "c", "score"])
    with pytest.raises(InputError, match=r"three columns, text,text,score: got a,b"):
        own_pairs(path, ["a", "b"])
    (tmp_path / "mine.csv").write_text("a,b,score\n")
    with pytest.raises(InputError, match="no pairs"):
        own_pairs(path)
