import pytest

from embedlift.errors import InputError
from embedlift.journal import Journal


@pytest.fixture
def folder(tmp_path):
    """A journal of three parts of ten rows, the first of them joined."""
    for stem in ("a", "b", "c", "d"):
        (tmp_path / f"{stem}.npy").write_text(stem)
    journal = Journal(tmp_path)
    journal.add("a", 10, [tmp_path / "a.npy"], {"truncated": 1})
    journal.replace_waiting("d", [tmp_path / "d.npy"])
    for stem in ("b", "c"):
        journal.add(stem, 10, [tmp_path / f"{stem}.npy"], {"truncated": 2})
    return tmp_path


def test_what_was_noted_is_there_again(folder):
    journal = Journal(folder)
    assert [(part.stem, part.rows, part.joined, part.counts["truncated"]) for part in journal.parts] == [
        ("d", 10, True, 1),
        ("b", 10, False, 2),
        ("c", 10, False, 2),
    ]
    assert journal.rows == 30
    assert [part.stem for part in journal.waiting()] == ["b", "c"]


def test_a_shard_has_the_rows_and_counts_of_its_parts(folder):
    journal = Journal(folder)
    journal.replace_waiting("a", [folder / "a.npy"])
    assert [(part.stem, part.rows, part.counts["truncated"]) for part in Journal(folder).parts] == [
        ("d", 10, 1),
        ("a", 20, 4),
    ]
    assert journal.rows == 30


@pytest.mark.parametrize("stem", ["d", "b", "c"])
@pytest.mark.parametrize("damage", ["remove", "change", "cut"])
def test_all_is_forgotten_from_the_first_damaged_part_on(folder, stem, damage):
    path = folder / f"{stem}.npy"
    path.unlink() if damage == "remove" else path.write_text("x" if damage == "change" else "")
    assert Journal(folder).rows == {"d": 0, "b": 10, "c": 20}[stem]


def test_a_damaged_journal_is_not_guessed_at(folder):
    (folder / "journal.json").write_text("[{")
    with pytest.raises(InputError, match="journal.json is damaged .*: remove .* and start again"):
        Journal(folder)
