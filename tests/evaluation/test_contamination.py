import dataclasses

import numpy as np
import pytest

from embedlift.errors import InputError
from embedlift.evaluation import contamination, sts
from embedlift.evaluation.contamination import Contamination, examine, fingerprints, labelled, normalised
from embedlift.evaluation.results import Score

TASK = sts.Task("STS-B", "dev", [sts.Pairs("p", ["It rains.", "A b"], ["The sun shines.", "It rains."], np.ones(2))])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It doesn't rain.", "it does n't rain ."),
        ("A  tab\tand  a line\n", "a tab and a line"),
        ("«Straße»", "STRASSE"),
        ("ﬁne ①", "Fine 1"),
        ("cafe\u0301", "café"),
        ("-- !?", "--!?"),
    ],
)
def test_what_counts_as_the_same_sentence(one, other):
    assert normalised(one) == normalised(other)
    assert np.array_equal(fingerprints([one]), fingerprints([other]))


@pytest.mark.parametrize(("one", "other"), [("It rains", "It rained"), ("कि", "की"), ("room 1", "room 2"), ("!", "?")])
def test_what_counts_as_another_sentence(one, other):
    assert not np.array_equal(fingerprints([one]), fingerprints([other]))


def test_fingerprints_are_sorted_and_distinct():
    found = fingerprints(["b", "a", "B!", "c"])
    assert (found.dtype, len(found)) == (np.uint64, 3)
    assert np.all(np.diff(found.astype(object)) > 0)
    assert fingerprints([]).shape == (0,)


def test_distinct_texts_are_counted():
    found = examine(TASK, fingerprints(["it rains", "something else", "A B."]))
    assert found == Contamination("STS-B", "dev", seen=2, texts=3)
    assert found.note == "transductive: 2 of 3 texts were in the fitting text (without labels)"
    assert examine(TASK, fingerprints(["something else"])).note is None


def test_scores_of_seen_tasks_are_labelled():
    score = Score("m", "STS-B", "dev", None, "cosine_spearman", "all", 0.5, 2, (0.4, 0.6), "a zero vector")
    other = dataclasses.replace(score, split="test")
    first, second = labelled([score, other], [examine(TASK, fingerprints(["It rains."]))])
    assert first.note == "a zero vector; transductive: 1 of 3 texts were in the fitting text (without labels)"
    assert second == other


def test_a_model_s_folder_keeps_eight_bytes_a_text(tmp_path):
    assert contamination.read(tmp_path) is None
    contamination.write(tmp_path, [f"text {number}" for number in range(1000)])
    assert (tmp_path / contamination.FILE).stat().st_size == 8 * 1000 + 128
    assert np.array_equal(contamination.read(tmp_path), fingerprints(f"text {number}" for number in range(1000)))


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / contamination.FILE
    if content is None:
        np.save(path, np.zeros((2, 2)))
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{contamination.FILE} is damaged"):
        contamination.read(tmp_path)
