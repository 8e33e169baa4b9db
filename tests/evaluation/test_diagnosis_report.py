import json
import re

import numpy as np
import pytest

from embedlift.evaluation.diagnosis_report import figures, findings, write_json
from embedlift.evaluation.diagnostics import diagnose
from embedlift.evaluation.percentiles import ScorePercentiles

ADAPT = "embedlift adapt m --corpus c.txt"


def gaussian(count=400, dimension=16, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dimension))


def told(vectors, texts=None, **settings):
    """Findings by what they are about."""
    said = findings(diagnose(vectors, texts, pairs=20_000, **settings), ADAPT, "d.json")
    assert len({finding.about for finding in said}) == len(said)
    return {finding.about: "\n".join([finding.text, *finding.commands]) for finding in said}


def test_an_even_cloud_has_scores_and_directions_and_nothing_to_mend():
    said = told(gaussian())
    assert list(said) == ["Scores", "Thresholds", "Directions", "Not looked at"]
    assert said["Scores"].startswith("Two random texts score 0.00 on average; 98 of 100 random pairs lie between -0.5")
    assert "vary as if evenly in 15 of 16 directions" in said["Directions"]


def test_scores_that_are_all_high_are_explained_with_a_remedy():
    """USERS: all cosine similarities are above 0.8."""
    vectors = gaussian(dimension=200) + 3.0
    said = told(vectors)
    assert "score 0.90 on average" in said["Scores"]
    assert "a direction that all vectors share: it makes up 90 % of their squared length" in said["Scores"]
    assert said["Remedy"].endswith(f"\n{ADAPT}")
    low, high = map(float, re.search(r"between (-?\d.\d+) and (-?\d.\d+)", said["Remedy"]).groups())
    assert -0.3 < low < 0 < high < 0.3


def test_the_thresholds_that_are_told_do_what_is_told():
    vectors = gaussian(dimension=64) + 1.0
    text = told(vectors)["Thresholds"]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(400, 1)]
    for words, share in (("1 unrelated pair in 100", 0.01), ("1 in 1,000", 0.001)):
        (threshold,) = re.findall(rf"([\d.]+) lets {words} in", text)
        assert (cosines > float(threshold)).mean() == pytest.approx(share, rel=0.4)
    assert "1 in 10,000" not in text  # 20,000 pairs cannot say
    assert "ScorePercentiles.load('d.json')" in text


def test_few_pairs_give_no_threshold():
    assert "too few pairs here" in told(gaussian(10))["Thresholds"]


def test_rogue_dimensions_are_named():
    vectors = gaussian(dimension=64)
    vectors[:, 11] += 20
    said = told(vectors)
    assert said["Rogue dimensions"].startswith("Dimensions 11 (0.8")
    assert "Rogue dimensions" not in told(gaussian(dimension=64) + 2)  # the same shift, shared by all dimensions


def test_hubs_are_told_with_what_centring_does():
    said = told(gaussian(dimension=200) + 3.0)
    assert "One text is among the 10 nearest of" in said["Hubs"]
    assert "With the mean vector subtracted the skewness is 0." in said["Hubs"]


def test_surface():
    texts = ["x" * (1 + (37 * row) % 401) for row in range(400)]
    angle = np.array([len(text) for text in texts]) / 401
    said = told(np.stack([np.cos(angle), np.sin(angle)], axis=1), texts)
    assert "how alike two texts are in length (-1.00)" in said["Surface"]
    assert "Not looked at" not in said
    assert "Surface" not in told(gaussian(), texts)


def test_near_duplicates():
    vectors = gaussian()
    vectors[5] = vectors[300]
    assert told(vectors)["Near-duplicates"].startswith("1 of the sample's pairs above 0.9")
    assert "row 5 and row 300 (1.0000)" in told(vectors)["Near-duplicates"]
    narrow = told(gaussian() + 30, duplicate_cosine=0.99)
    assert "So many are hardly duplicates" in narrow["Near-duplicates"]


def test_rows():
    few = told(gaussian(10))
    assert "10 vectors vary in at most 9 of 16 directions" in few["Few rows"]
    zeros = told(np.concatenate([gaussian(), np.zeros((3, 16))]))
    assert zeros["Zero vectors"].startswith("3 of 403 vectors are all zero")


def test_collapsed():
    said = told(np.ones((20, 16)))
    assert list(said) == ["Collapsed"]
    assert said["Collapsed"].startswith("All 20 vectors are the same")


@pytest.mark.parametrize("vectors", [gaussian(), gaussian(5) + 9, np.ones((9, 4))], ids=["even", "few", "collapsed"])
def test_each_figure_has_a_value_a_reference_and_a_reading(vectors):
    lines = figures(diagnose(vectors, [f"a {row}" for row in range(len(vectors))], pairs=2000))
    assert len({line.name for line in lines}) == len(lines) >= 12
    for line in lines:
        assert all((line.value, line.even, line.reading)), line
        assert "nan" not in line.value.lower()
        assert sum(map(len, (line.name, line.value, line.even, line.reading))) <= 67, "80 columns with their borders"


def test_values_of_an_even_cloud_are_near_their_references():
    lines = {line.name: line for line in figures(diagnose(gaussian(4000, 16)))}
    for name, tolerance in {
        "mean cosine of pairs": 0.01,
        "uniformity": 0.05,
        "IsoScore": 0.01,
        "IsoScore*": 0.01,
    }.items():
        assert float(lines[name].value) == pytest.approx(float(lines[name].even), abs=tolerance)


def test_a_tiny_isotropy_is_written_as_a_power_of_ten():
    """Equal vectors of length 500: I = e^-1000, which no float holds."""
    lines = {line.name: line.value for line in figures(diagnose(np.full((9, 4), 250.0)))}
    assert lines["isotropy I(W)"] == "1e-434"


@pytest.mark.parametrize("vectors", [gaussian(), np.ones((9, 4))], ids=["even", "collapsed"])
def test_json(tmp_path, vectors):
    found = diagnose(vectors, pairs=2000)
    said = findings(found, ADAPT)
    write_json(tmp_path / "d.json", found, said, {"seed": 0}, {"numpy": "2"})
    document = json.loads((tmp_path / "d.json").read_text())
    assert list(document) == ["schema_version", "settings", "versions", "findings", "percentiles", "figures"]
    assert document["figures"]["random_pair_cosine"] == found.random_pair_cosine
    assert document["figures"]["spectrum"]["isoscore"] == found.spectrum.isoscore
    assert document["figures"]["spectrum"]["partition_isotropy"] == found.spectrum.partition_isotropy
    assert [item["about"] for item in document["findings"]] == [finding.about for finding in said]
    assert ScorePercentiles.load(tmp_path / "d.json") == found.cosines.percentiles
