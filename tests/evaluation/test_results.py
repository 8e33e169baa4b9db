import dataclasses
import json

import pytest

from embedlift.evaluation.results import Score, write_json

SCORE = Score("m", "STS12", "test", None, "cosine_spearman", "all", 0.5, 10, (0.4, 0.6))


def test_scores_and_what_they_depend_on_are_written(tmp_path):
    undefined = dataclasses.replace(SCORE, score=None, interval=None, note="undefined: collapsed")
    write_json(tmp_path / "r.json", [SCORE, undefined], {"seed": 0}, {"torch": "2"})
    document = json.loads((tmp_path / "r.json").read_text())
    assert list(document) == ["schema_version", "settings", "versions", "results"]
    assert document["schema_version"] == 1
    assert document["settings"] == {"seed": 0}
    assert document["versions"] == {"torch": "2"}
    assert document["results"][0] | {"note": None} == {
        "model": "m",
        "task": "STS12",
        "split": "test",
        "subset": None,
        "metric": "cosine_spearman",
        "aggregation": "all",
        "score": 0.5,
        "n": 10,
        "interval": [0.4, 0.6],
        "note": None,
        "unit": "pairs",
    }
    assert document["results"][1]["score"] is None


def test_nan_never_gets_into_the_file(tmp_path):
    """JSON has no NaN: an undefined score must be None, or nothing is written."""
    (tmp_path / "r.json").write_text("old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "r.json", [dataclasses.replace(SCORE, score=float("nan"))], {}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]
    assert (tmp_path / "r.json").read_text() == "old"


def test_scores_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SCORE.score = 1.0
