import dataclasses
import tracemalloc

import numpy as np
import pytest

from embedlift.errors import InputError
from embedlift.evaluation import diagnostics
from embedlift.functional import isotropy
from embedlift.functional.moments import Moments


def diagnose(vectors, texts=None, pairs=20_000, **settings):
    return diagnostics.diagnose(vectors, texts, pairs=pairs, **settings)


def gaussian(count=1500, dimension=32, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dimension))


def test_an_even_cloud():
    found = diagnose(gaussian() / 32**0.5)
    assert found.random_pair_cosine == pytest.approx(0, abs=0.005)
    assert found.cosines.percentiles.score_at(50) == pytest.approx(0, abs=0.01)
    assert found.cosines.uniformity == pytest.approx(-4 + 8 / 32, abs=0.05)
    assert found.spectrum.isoscore == pytest.approx(1 / (1 + 32 / 1500), abs=0.01)
    assert found.spectrum.isoscore_star == pytest.approx(1, abs=0.01)
    assert found.spectrum.partition_isotropy == pytest.approx(1, abs=0.05)
    assert found.spectrum.effective_rank == pytest.approx(32, abs=0.5)
    assert found.spectrum.rankme == pytest.approx(32, abs=0.5)
    assert found.near_duplicates.pairs == 0
    assert found.surface is None


def test_a_cloud_of_rank_one():
    """A line through the origin, all on one side: every cosine is 1, and one direction has all variance."""
    line = np.random.default_rng(0).uniform(1, 2, size=(300, 1)) * np.arange(1.0, 33.0)
    found = diagnose(line)
    assert found.random_pair_cosine == pytest.approx(1)
    assert found.cosines.uniformity == pytest.approx(0, abs=1e-5)
    assert found.spectrum.isoscore == pytest.approx(0, abs=1e-9)
    assert found.spectrum.effective_rank == pytest.approx(1)
    assert found.spectrum.rankme == pytest.approx(1, abs=1e-4)
    lengths = np.linalg.norm(line, axis=1)  # of 100 to 200: Z is a sum of e^length one way, of e^-length the other
    expected = np.log(np.exp(-lengths).sum()) - np.log(np.exp(lengths).sum())
    assert found.spectrum.log_partition_isotropy == pytest.approx(expected)
    assert found.spectrum.partition_isotropy < 1e-100
    assert found.near_duplicates.share == 1
    assert set(np.round(np.abs(found.centred.percentiles.scores), 6)) == {1}


def test_a_shared_mean_is_seen_and_goes_away_by_centring():
    """USERS: unrelated texts all score 0.8 to 0.9. Unit noise around a mean of squared length m: m / (m + D)."""
    found = diagnose(gaussian(500, 200) + 2.0)
    assert found.random_pair_cosine == pytest.approx(4 / 5, abs=0.01)
    assert found.cosines.percentiles.score_at(1) > 0.7
    assert found.centred.percentiles.score_at(50) == pytest.approx(0, abs=0.01)
    assert found.spectrum.isoscore > 0.6  # 1 / (1 + 200 / 500): the mean does not count there
    assert found.cosines.hubness.skewness > found.centred.hubness.skewness


def test_rogue_dimensions_come_first():
    vectors = gaussian()
    vectors[:, 7] += 20
    vectors[:, 3] += 10
    found = diagnose(vectors).dimensions
    assert [item.dimension for item in found[:2]] == [7, 3]
    # Squared shares of the mean vector: 400 and 100 of 400 + 100 + 32.
    assert [item.contribution for item in found[:2]] == pytest.approx([400 / 532, 100 / 532], abs=0.02)
    assert len(found) == 5


def test_the_mean_cosine_is_that_of_all_rows_and_agrees_with_random_pairs():
    vectors = gaussian() + 0.4
    found = diagnose(vectors, sample=200)
    assert found.random_pair_cosine == pytest.approx(isotropy.random_pair_cosine(vectors, pairs=200_000), abs=0.005)
    assert (found.rows, found.sample, found.pairs) == (1500, 200, 19_900)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", ">f4"])
def test_a_memory_map_of_any_numbers_in_pieces(tmp_path, monkeypatch, dtype):
    """The same figures as of the array as a whole, without reading it as a whole."""
    vectors = (10 * gaussian(400, 8) + 5).astype(dtype)
    np.save(tmp_path / "v.npy", vectors)
    whole = diagnose(vectors.astype(np.float64))
    monkeypatch.setattr("embedlift.transforms.rows._CHUNK_BYTES", 8 * 8 * 37)
    pieces = diagnose(np.load(tmp_path / "v.npy", mmap_mode="r"))
    assert pieces.random_pair_cosine == pytest.approx(whole.random_pair_cosine)
    assert vars(pieces.spectrum) == pytest.approx(vars(whole.spectrum), rel=1e-5)
    np.testing.assert_allclose(pieces.cosines.percentiles.scores, whole.cosines.percentiles.scores, rtol=1e-5)
    assert pieces.near_duplicates.pairs == whole.near_duplicates.pairs


def test_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("embedlift.transforms.rows._CHUNK_BYTES", 2**20)
    rows = np.lib.format.open_memmap(tmp_path / "v.npy", mode="w+", dtype=np.float16, shape=(60_000, 16))
    rows[:] = gaussian(60_000, 16)

    def most(count):
        tracemalloc.start()
        diagnose(np.load(tmp_path / "v.npy", mmap_mode="r")[:count], sample=200, pairs=1000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most(20_000)  # imports and the like
    assert most(60_000) < 1.2 * most(20_000)  # 8 MB and more, were the rows read as a whole: seven pieces


def test_figures_do_not_depend_on_rotation_or_on_the_order_of_rows():
    vectors = gaussian(150, 8) * np.arange(1, 9) + 1  # few enough that all pairs are taken, whatever their order
    rotation = np.linalg.qr(gaussian(8, 8))[0]
    one, turned, mixed = (diagnose(v) for v in (vectors, vectors @ rotation, vectors[::-1]))
    for other in (turned, mixed):
        assert vars(other.spectrum) == pytest.approx(vars(one.spectrum))
        assert other.random_pair_cosine == pytest.approx(one.random_pair_cosine)
        assert other.cosines.hubness == one.cosines.hubness
        np.testing.assert_allclose(other.cosines.percentiles.scores, one.cosines.percentiles.scores, atol=1e-6)


def test_the_seed_decides_the_sample():
    vectors = gaussian()
    assert diagnose(vectors, sample=100, seed=1) == diagnose(vectors, sample=100, seed=1)
    one, other = (diagnose(vectors, sample=100, seed=seed) for seed in (1, 2))
    assert one.cosines != other.cosines
    assert one.spectrum == other.spectrum


def test_near_duplicates_are_found_whatever_the_level_of_scores():
    """Two copies with a little noise: far above the rest in an even cloud and in a narrow cone."""
    for shift in (0, 30):
        vectors = gaussian(200) + shift
        vectors[150] = vectors[20] + 0.01
        vectors[90] = vectors[91]
        found = diagnose(vectors).near_duplicates
        assert found.pairs == 2
        assert {pair[:2] for pair in found.examples} == {("row 20", "row 150"), ("row 90", "row 91")}


def test_examples_name_places():
    vectors = gaussian(200)
    vectors[0] = vectors[199]
    found = diagnose(vectors, places=[f"t.txt:{i + 1}" for i in range(200)], duplicate_cosine=0.999)
    assert found.near_duplicates.examples[0][:2] == ("t.txt:1", "t.txt:200")
    assert found.near_duplicates.threshold == 0.999


def test_texts_follow_their_rows_into_the_sample():
    """Vectors whose cosine is made of the length of the texts, rows in the sample or not."""
    texts = ["x" * (1 + (37 * row) % 501) for row in range(600)]
    angle = np.array([len(text) for text in texts]) / 501
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert diagnose(vectors, texts, sample=100).surface.length_difference == pytest.approx(-1, abs=0.001)


def test_a_repeated_text_is_no_near_duplicate_of_itself():
    vectors = gaussian(200)
    vectors[[7, 90]] = vectors[3]
    texts = [f"text {row}" for row in range(200)]
    texts[90] = texts[3]
    found = diagnose(vectors, texts)
    assert found.sample == 199
    assert [pair[:2] for pair in found.near_duplicates.examples] == [("row 3", "row 7")]


def test_identical_rows_are_collapsed_and_their_figures_are_undefined():
    found = diagnose(np.tile(np.arange(1.0, 9.0, dtype=np.float32), (50, 1)), [str(row) for row in range(50)])
    assert found.centred is None
    assert {found.spectrum.isoscore, found.spectrum.isoscore_star, found.spectrum.effective_rank} == {None}
    assert found.random_pair_cosine == pytest.approx(1)
    assert found.near_duplicates.share == 1
    assert set(vars(found.surface).values()) == {None}  # constant cosines correlate with nothing


def test_fewer_rows_than_dimensions():
    found = diagnose(gaussian(20, 100))
    assert found.spectrum.effective_rank <= 19
    assert found.spectrum.rankme < 20.1
    assert found.cosines.hubness is None  # with 10 neighbours of 19, everybody is everybody's
    assert Moments.of(gaussian(20, 100)).count == found.rows


def test_two_vectors_are_enough():
    found = diagnose(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert found.random_pair_cosine == 0
    assert found.cosines.percentiles.scores == (0.0,)


def test_zero_rows_are_counted_and_left_out_of_cosines():
    vectors = np.concatenate([gaussian(100) + 2, np.zeros((7, 32))])
    found = diagnose(vectors)
    assert (found.zero_rows, found.sample) == (7, 100)
    assert found.random_pair_cosine == pytest.approx(diagnose(vectors[:100]).random_pair_cosine)
    assert found.cosines.percentiles == diagnose(vectors[:100]).cosines.percentiles


def nan_in_row_7():
    vectors = gaussian(20, 4)
    vectors[7, 2] = np.nan
    return vectors


@pytest.mark.parametrize(
    ("vectors", "settings", "message"),
    [
        (gaussian(1, 4), {}, r"at least 2 vectors of at least 2 dimensions, got shape \(1, 4\)"),
        (gaussian(0, 4), {}, r"got shape \(0, 4\)"),
        (gaussian(9, 1), {}, r"at least 2 dimensions, got shape \(9, 1\)"),
        (np.arange(9.0), {}, r"numbers of shape \(N, D\), got float64 of shape \(9,\)"),
        (np.array([["a", "b"], ["c", "d"]]), {}, r"must be numbers of shape \(N, D\), got <U1"),
        (nan_in_row_7(), {}, "NaN in row 7"),
        (np.zeros((5, 4)), {}, "5 of 5 vectors are all zero: they have no cosine"),
        (np.eye(5, 4)[3:], {}, "1 of 2 vectors are all zero"),
        (gaussian(9, 4), {"texts": ["a"]}, "1 texts for 9 vectors: row i must be the vector of text i"),
        (gaussian(9, 4), {"places": ["a"]}, "1 places for 9 vectors"),
        (gaussian(9, 4), {"texts": ["a"] * 9}, "a sample of 5000 rows holds 1 distinct texts"),
        (gaussian(9, 4), {"sample": 1}, "--sample must be at least 2, got 1"),
        (gaussian(9, 4), {"duplicate_cosine": 1.5}, "--duplicates-above must be between 0 and 1, got 1.5"),
        (np.eye(500, 4), {"sample": 3}, "a sample of 3 rows holds 0 distinct texts with a vector"),
    ],
)
def test_bad_input(vectors, settings, message):
    with pytest.raises(InputError, match=message):
        diagnose(vectors, **settings)


def test_a_diagnosis_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        diagnose(gaussian(9, 4)).rows = 1
