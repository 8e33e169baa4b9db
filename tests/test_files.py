import json
from pathlib import Path

import pytest

from embedlift.errors import InputError
from embedlift.files import PartialFolder, written_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_in_a_new_folder(tmp_path):
    target = tmp_path / "new" / "file.txt"
    with written_whole(target) as beside:
        beside.write_text("half")
        assert not target.exists()
        beside.write_text("whole")
    assert target.read_text() == "whole"
    assert names(target.parent) == ["file.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), written_whole(target) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_folder_in_the_way_is_said_before_the_work(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="taken is a folder"), written_whole(tmp_path / "taken"):
        pytest.fail("the work has begun")


def finish(work, content="new"):
    folder = work.path / "model"
    folder.mkdir()
    (folder / "modules.json").write_text(content)
    work.finish(folder)


def test_work_becomes_the_output(tmp_path):
    work = PartialFolder(tmp_path / "deep" / "out", {"seed": 0})
    assert names(tmp_path / "deep") == ["out.partial"]
    assert not work.resumed
    finish(work)
    assert names(tmp_path / "deep") == ["out"]
    assert names(tmp_path / "deep" / "out") == ["modules.json"]


def test_the_same_settings_go_on_in_any_order(tmp_path):
    first = PartialFolder(tmp_path / "out", {"seed": 0, "layers": (1, 2)})
    (first.path / "vectors").write_text("work")
    again = PartialFolder(tmp_path / "out", {"layers": (1, 2), "seed": 0})
    assert again.resumed
    assert (again.path / "vectors").read_text() == "work"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 1, "dim": None}, "seed was 0, is 1"),
        ({"seed": 0, "dim": 5}, "dim was None, is 5"),
        ({"seed": 0, "dim": None, "new": "x"}, "new was None, is 'x'"),
    ],
    ids=str,
)
def test_other_settings_are_refused_and_named(tmp_path, settings, message):
    PartialFolder(tmp_path / "out", {"seed": 0, "dim": None})
    with pytest.raises(InputError, match=message):
        PartialFolder(tmp_path / "out", settings)


@pytest.mark.parametrize("damage", ["", "{", "[1, 2]", "null"])
def test_damaged_settings_are_refused(tmp_path, damage):
    work = PartialFolder(tmp_path / "out", {"seed": 0})
    (work.path / "embedlift-settings.json").write_text(damage)
    with pytest.raises(InputError, match="embedlift-settings.json is damaged"):
        PartialFolder(tmp_path / "out", {"seed": 0})


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not unfinished work of embedlift"):
        PartialFolder(tmp_path / "out", {})
    assert (tmp_path / "out.partial" / "thesis.txt").read_text() == "mine"


def test_a_finished_output_needs_overwrite(tmp_path):
    finish(PartialFolder(tmp_path / "out", {}), "old")
    with pytest.raises(InputError, match="exists already: pass --overwrite"):
        PartialFolder(tmp_path / "out", {})
    assert names(tmp_path) == ["out"]
    work = PartialFolder(tmp_path / "out", {}, overwrite=True)
    assert (tmp_path / "out" / "modules.json").read_text() == "old"
    finish(work)
    assert (tmp_path / "out" / "modules.json").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_an_empty_folder_needs_no_overwrite(tmp_path):
    (tmp_path / "out").mkdir()
    finish(PartialFolder(tmp_path / "out", {}))
    assert names(tmp_path / "out") == ["modules.json"]


def test_a_folder_that_is_no_model_is_never_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a saved model"):
        PartialFolder(tmp_path / "out", {}, overwrite=True)
    assert names(tmp_path) == ["out"]


def test_a_file_is_no_output_folder(tmp_path):
    (tmp_path / "out").write_text("file")
    with pytest.raises(InputError, match="out is a file"):
        PartialFolder(tmp_path / "out", {}, overwrite=True)


def test_the_folder_one_stands_in_may_be_the_output(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    finish(PartialFolder(Path(), {}))
    assert names(tmp_path / "out") == ["modules.json"]


def test_discarded_work_leaves_nothing(tmp_path):
    work = PartialFolder(tmp_path / "out", {})
    work.discard()
    assert names(tmp_path) == []


def test_settings_are_readable(tmp_path):
    work = PartialFolder(tmp_path / "out", {"seed": 3})
    assert json.loads((work.path / "embedlift-settings.json").read_text()) == {"seed": 3}
