import pytest

from embedlift.errors import InputError
from embedlift.evaluation.labelled_lines import read_labelled


def test_lines_are_split_without_quoting(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("1\tHe said \"no.\n0\tIt's late\n")
    assert [tuple(line) for line in read_labelled(path, 1)] == [
        ("1", ['He said "no.'], f"{path}:1"),
        ("0", ["It's late"], f"{path}:2"),
    ]


@pytest.mark.parametrize(
    ("line", "sentences", "message"),
    [
        ("1\tone\ttwo", 1, ":2: 3 columns where score, sentence were expected"),
        ("1\tone", 2, ":2: 2 columns where score, sentence, sentence were expected"),
        ("1\tone\t ", 2, ":2: an empty sentence: remove the line"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, sentences, message):
    path = tmp_path / "a.tsv"
    path.write_text("\t".join(["0", *["fine"] * sentences]) + f"\n{line}\n")
    with pytest.raises(InputError) as error:
        list(read_labelled(path, sentences, "score"))
    assert str(error.value) == f"{path}{message}"
