import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedlift.errors import InputError
from embedlift.inputs import find_inputs, survey


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.txt").write_text("two\nthree\n")
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, ["four", "\ud800"])))
    (tmp_path / "readme.md").write_text("no text")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.txt").write_text("")
    return tmp_path


def names(paths):
    return [path.name for path in paths]


def test_files_folders_and_patterns(folder, monkeypatch):
    assert names(find_inputs([folder])) == ["a.txt", "b.txt", "c.jsonl"]
    assert names(find_inputs([folder / "*.txt"])) == ["a.txt", "b.txt"]
    assert names(find_inputs([folder / "sub", folder / "b.txt"])) == ["d.txt", "b.txt"]
    monkeypatch.chdir(folder)
    assert names(find_inputs([type(folder)("[ab].txt"), type(folder)("**/d.txt")])) == ["a.txt", "b.txt", "d.txt"]


def test_a_file_whose_name_looks_like_a_pattern(folder):
    (folder / "[x].txt").write_text("one\n")
    assert names(find_inputs([folder / "[x].txt"])) == ["[x].txt"]


def test_what_names_no_file_or_one_twice(folder):
    with pytest.raises(InputError, match=r"\*.csv: no file of .txt, .csv"):
        find_inputs([folder / "*.csv"])
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match="empty: no file of"):
        find_inputs([folder / "empty"])
    with pytest.raises(InputError, match="a.txt is named twice"):
        find_inputs([folder, folder / "a.txt"])


def test_a_survey_counts_and_gives_the_texts_in_order(folder):
    found = survey(find_inputs([folder]))
    assert [file.rows for file in found.inputs] == [1, 2, 2]
    assert (found.rows, found.repaired, found.skipped) == (5, 1, [])
    assert list(found.texts()) == ["one", "two", "three", "four", "\ufffd"]


def test_the_digest_is_that_of_the_texts_in_order(folder):
    (folder / "a.csv").write_text("text\none\n")
    one, same = survey([folder / "a.txt"]), survey([folder / "a.csv"])
    assert one.digest == same.digest
    assert one.digest != survey([folder / "b.txt"]).digest
    assert survey([folder / "a.txt", folder / "b.txt"]).digest != survey([folder / "b.txt", folder / "a.txt"]).digest


@pytest.mark.parametrize("change", ["two\nthree\nmore\n", "two\n", "two\nthird\n"])
def test_a_file_that_changes_after_the_survey(folder, change):
    found = survey(find_inputs([folder]))
    (folder / "b.txt").write_text(change)
    with pytest.raises(InputError, match="b.txt was changed while it was read"):
        list(found.texts())


def test_an_unreadable_shard_in_the_middle(tmp_path):
    for number in range(3):
        pq.write_table(pa.table({"text": [f"{number}-{row}" for row in range(4)]}), tmp_path / f"{number}.parquet")
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[:-20])
    paths = find_inputs([tmp_path])
    with pytest.raises(InputError, match="1.parquet: cannot be read as Parquet"):
        survey(paths)
    found = survey(paths, keep_going=True)
    assert list(found.texts()) == [f"{number}-{row}" for number in (0, 2) for row in range(4)]
    ((path, reason),) = found.skipped
    assert path.name == "1.parquet"
    assert "cannot be read as Parquet" in reason


def test_a_file_with_a_bad_row_is_left_out_whole(folder):
    (folder / "b.txt").write_bytes(b"two\ncaf\xe9\n")
    found = survey(find_inputs([folder]), keep_going=True)
    assert list(found.texts()) == ["one", "four", "\ufffd"]
    assert "b.txt:2: not UTF-8" in found.skipped[0][1]


def test_no_readable_file_is_left(folder):
    with pytest.raises(InputError, match=r"no input can be read: .*nothing.txt: no such file"):
        survey([folder / "nothing.txt"], keep_going=True)
