import numpy as np
import pyarrow.parquet as pq
import pytest

from embedlift.errors import InputError
from embedlift.vector_files import NpyFiles, ParquetFiles, rounded, vector_files


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32) * np.geomspace(1e-3, 1e3, 20)[:, None]


def test_int8_errs_by_half_a_step_of_the_largest_number_of_its_row(vectors):
    numbers, scales = rounded(vectors, "int8")
    assert numbers.dtype == np.int8
    assert scales.dtype == np.float32
    assert (np.abs(numbers).max(axis=1) == 127).all()
    error = np.abs(scales[:, None] * numbers - vectors)
    assert (error <= np.abs(vectors).max(axis=1, keepdims=True) / 254 * 1.001).all()


def test_a_row_in_int8_depends_on_no_other_row(vectors):
    together, alone = rounded(vectors, "int8"), rounded(vectors[3:4], "int8")
    assert np.array_equal(together[0][3:4], alone[0])
    assert np.array_equal(together[1][3:4], alone[1])


def test_zero_vectors_in_int8():
    numbers, scales = rounded(np.zeros((2, 3), np.float32), "int8")
    assert not numbers.any()
    assert not scales.any()


def test_numbers_too_large_for_float16():
    with pytest.raises(InputError, match="too large for float16"):
        rounded(np.array([[1.0, -70000.0]], np.float32), "float16")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("kind", [NpyFiles, ParquetFiles])
@pytest.mark.parametrize("cuts", [[0, 20], [0, 7, 7, 20]], ids=str)
def test_joined_parts_are_the_whole(tmp_path, vectors, kind, dtype, cuts):
    files = kind(6, dtype)
    texts = [f"text {row}" for row in range(20)]
    stems = []
    for start, stop in zip(cuts, cuts[1:], strict=False):
        stems.append(tmp_path / f"part-{len(stems)}")
        files.write(stems[-1], 100 + start, texts[start:stop], vectors[start:stop])
    files.join(stems, tmp_path / "joined")
    files.write(tmp_path / "whole", 100, texts, vectors)
    assert files.count(tmp_path / "joined", 100) == 20
    for joined, whole in zip(files.files(tmp_path / "joined"), files.files(tmp_path / "whole"), strict=True):
        if kind is NpyFiles:
            assert np.array_equal(np.load(joined, mmap_mode="r"), np.load(whole))
            assert np.load(joined).dtype == np.load(whole).dtype
        else:
            assert pq.read_table(joined).equals(pq.read_table(whole))


def test_the_order_of_the_rows_is_checked(tmp_path, vectors):
    files = ParquetFiles(6, "float32")
    for number, start in enumerate((10, 0)):
        files.write(tmp_path / str(number), start, [""] * 10, vectors[start : start + 10])
    files.join([tmp_path / "0", tmp_path / "1"], tmp_path / "joined")
    assert files.count(tmp_path / "joined", 0) == -1
    assert files.count(tmp_path / "0", 10) == 10
    assert files.count(tmp_path / "0", 0) == -1


def test_scales_of_another_number_are_noticed(tmp_path, vectors):
    files = NpyFiles(6, "int8")
    files.write(tmp_path / "v", 0, [""] * 20, vectors)
    np.save(tmp_path / "v.scale.npy", np.ones(19, np.float32))
    assert files.count(tmp_path / "v", 0) == -1


def test_unknown_kinds(tmp_path):
    with pytest.raises(InputError, match="v.csv: unknown kind of file: use .npy or .parquet"):
        vector_files(tmp_path / "v.csv", 6, "float32")
    with pytest.raises(InputError, match="unknown --output-dtype 'int4'"):
        vector_files(tmp_path / "v.npy", 6, "int4")
