import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedlift.errors import InputError
from embedlift.training.pairs import read_text_pairs

ROWS = [("one", "eins"), ("two, too", "zwei"), ("", "drei"), ("four", " ")]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "p.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in ROWS))
    (tmp_path / "p.csv").write_text("".join(f'"{one}","{other}"\n' for one, other in ROWS))
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"x": one, "y": other}) + "\n" for one, other in ROWS))
    pq.write_table(pa.table({"x": [one for one, _ in ROWS], "y": [other for _, other in ROWS]}), tmp_path / "p.parquet")
    return tmp_path


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "parquet"])
def test_rows_with_a_blank_side_are_left_out(files, kind):
    assert read_text_pairs([files / f"p.{kind}"]) == (["one", "two, too"], ["eins", "zwei"], 2)


def test_several_files_and_named_columns(files):
    (files / "h.tsv").write_text("score\ta\tb\n1\tfive\tfünf\n")
    found = read_text_pairs([files / "h.tsv"], "a,b")
    assert found == (["five"], ["fünf"], 0)
    assert read_text_pairs([files / "p.jsonl", files / "p.parquet"], "y,x").first == ["eins", "zwei"] * 2


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.txt", "one\n", None, "bt needs a file of two columns"),
        ("a.jsonl", '{"a": "1", "b": "2", "c": "3"}\n', None, "bt needs two columns of paraphrases, got a, b, c"),
        ("a.jsonl", '"one"\n', None, "must be a JSON object with two texts"),
        ("a.jsonl", "", None, "got none"),
        ("a.tsv", "one\ttwo\n", "a", "say which with --column A,B"),
        ("a.tsv", "one\n", None, "no column 2"),
        ("a.parquet", "one\n", None, "cannot be read as Parquet"),
    ],
)
def test_what_cannot_be_read(tmp_path, name, content, columns, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_text_pairs([tmp_path / name], columns)


def test_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_text_pairs([tmp_path / "none.tsv"])
    with pytest.raises(InputError, match="Path objects"):
        read_text_pairs(["one", "two"])
