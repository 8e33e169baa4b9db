import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedlift.errors import InputError
from embedlift.evaluation.tables import Record, read_table, text_of, value_of

ROWS = [{"a": 'one, "1"', "b": "x"}, {"a": "two", "b": "y"}]


def write(folder, suffix):
    path = folder / f"t{suffix}"
    if suffix == ".csv":
        path.write_text('a,b\n"one, ""1""",x\ntwo,y\n')
    elif suffix == ".tsv":
        path.write_text('a\tb\none, "1"\tx\n\ntwo\ty\n')
    elif suffix == ".jsonl":
        path.write_text("\n\n".join(json.dumps(row) for row in ROWS))
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize(
    ("suffix", "places"),
    [(".csv", (":2", ":3")), (".tsv", (":2", ":4")), (".jsonl", (":1", ":3")), (".parquet", (": row 1", ": row 2"))],
)
def test_every_kind_of_file_gives_the_same_rows(tmp_path, suffix, places):
    path = write(tmp_path, suffix)
    found = list(read_table(path))
    assert [record.values for record in found] == ROWS
    assert [record.where for record in found] == [f"{path}{place}" for place in places]


def test_without_a_header_columns_have_numbers(tmp_path):
    (tmp_path / "t.tsv").write_text("p\tq\nr\ts\n")
    found = read_table(tmp_path / "t.tsv", lambda first: "a" in first)
    assert [record.values for record in found] == [{"1": "p", "2": "q"}, {"1": "r", "2": "s"}]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "a,b\nc\n", r"t.csv:2: 1 columns where the first line has 2"),
        ("t.csv", 'a,b\n"c,d\n', r"t.csv:2: unexpected end of data"),
        ("t.csv", "a,a\nc,d\n", r"t.csv:1: several columns are called 'a'"),
        ("t.jsonl", '{"a": 1}\n{a}\n', r"t.jsonl:2: not JSON"),
        ("t.jsonl", "[1]\n", r"t.jsonl:1: a line must be a JSON object, got list"),
        ("t.parquet", "no", r"t.parquet: cannot be read as Parquet"),
        ("t.xlsx", "", r"unknown kind of file: use one of .csv, .tsv, .jsonl, .parquet"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_table(tmp_path / name))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"t.csv: no such file"):
        list(read_table(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"b": "x"}, "t:1: no column 'a': there are b"),
        ({"a": None}, r"t:1: 'a' is None \(NoneType\), not a text"),
        ({"a": 3.14}, r"t:1: 'a' is 3.14 \(float\), not a text"),
        ({"a": " \t"}, "t:1: 'a' is empty"),
    ],
)
def test_what_is_no_text_is_named(values, message):
    with pytest.raises(InputError, match=message):
        text_of(Record(values, "t:1"), "a")


def test_values_are_given_as_they_are():
    record = Record({"a": "x ", "b": None}, "t:1")
    assert text_of(record, "a") == "x "
    assert value_of(record, "b") is None
