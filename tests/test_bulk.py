import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import sentences
from test_encoder import TOLERANCE, distance

from embedlift import bulk
from embedlift.bulk import encode_file, read_vectors, transform_file
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.transforms import Whitening

TEXTS = ["the word", *sentences(40), "", "the word"]


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "in.txt"


@pytest.fixture
def encoder(tiny_bert):
    return Encoder(tiny_bert)


@pytest.mark.parametrize("chunk", [10, 16_384])
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_every_row_has_its_vector_blank_and_repeated_ones_too(tmp_path, source, encoder, monkeypatch, kind, chunk):
    monkeypatch.setattr(bulk, "_CHUNK", chunk)
    target = tmp_path / "deep" / f"out.{kind}"
    assert encode_file(encoder, source, target) == (43, 32)
    if kind == "npy":
        vectors = np.load(target)
        assert vectors.dtype == np.float32
    else:
        table = pq.read_table(target)
        assert table.column_names == ["id", "text", "vector"]
        assert table["id"].to_pylist() == list(range(43))
        assert table["text"].to_pylist() == TEXTS
        vectors = np.array(table["vector"].to_pylist(), dtype=np.float32)
    assert vectors.shape == (43, 32)
    assert distance(vectors, encoder.encode(TEXTS)) < TOLERANCE["float32"]
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_file_without_rows(tmp_path, encoder, kind):
    (tmp_path / "in.txt").write_text("")
    target = tmp_path / f"out.{kind}"
    assert encode_file(encoder, tmp_path / "in.txt", target) == (0, 32)
    if kind == "npy":
        assert np.load(target).shape == (0, 32)
    else:
        assert pq.read_table(target).num_rows == 0


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_lone_surrogates_in_the_input(tmp_path, encoder, kind):
    (tmp_path / "in.jsonl").write_text('"the \\ud800 word"\n"the word"\n')
    target = tmp_path / f"out.{kind}"
    assert encode_file(encoder, tmp_path / "in.jsonl", target) == (2, 32)
    if kind == "parquet":
        assert pq.read_table(target)["text"].to_pylist() == ["the \ufffd word", "the word"]


def test_progress_reaches_the_end(tmp_path, source, encoder, monkeypatch):
    monkeypatch.setattr(bulk, "_CHUNK", 20)
    steps = []
    encode_file(encoder, source, tmp_path / "out.npy", progress=lambda *step: steps.append(step))
    assert steps[-1] == (43, 43)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_a_bad_line_is_found_before_anything_is_encoded(tmp_path, encoder, monkeypatch):
    (tmp_path / "in.txt").write_bytes(b"fine\n" * 5 + b"caf\xe9\n")
    monkeypatch.setattr(Encoder, "encode", lambda *_, **__: pytest.fail("encoded"))
    with pytest.raises(InputError, match="in.txt:6: not UTF-8"):
        encode_file(encoder, tmp_path / "in.txt", tmp_path / "out.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("name", ["out.txt", "out", "out.NPY.gz"])
def test_unknown_kinds_of_output(tmp_path, source, encoder, name):
    with pytest.raises(InputError, match=f"{name}: unknown kind of file: use .npy or .parquet"):
        encode_file(encoder, source, tmp_path / name)
    with pytest.raises(InputError, match=f"{name}: unknown kind of file: use .npy"):
        transform_file(None, source, tmp_path / name)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_failure_in_the_middle_leaves_nothing(tmp_path, source, encoder, monkeypatch, kind):
    monkeypatch.setattr(bulk, "_CHUNK", 10)

    def fail(done, total):
        if done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_file(encoder, source, tmp_path / f"out.{kind}", progress=fail)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def cloud(count=100, dimension=6):
    return np.random.default_rng(0).normal(size=(count, dimension))


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", "<i4", "u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_of_any_number_type_are_transformed_in_pieces(tmp_path, monkeypatch, dtype, order):
    x = np.asarray(10 * cloud() + 50, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setattr(bulk, "_CHUNK", 7)
    whitening = Whitening(3).fit(read_vectors(tmp_path / "x.npy"))
    assert transform_file(whitening, tmp_path / "x.npy", tmp_path / "z.npy") == (100, 3)
    z = np.load(tmp_path / "z.npy")
    assert z.dtype == np.float32
    np.testing.assert_allclose(z, whitening.transform(x.astype(np.float64)), atol=1e-3)


def test_no_vectors_give_no_vectors(tmp_path):
    np.save(tmp_path / "x.npy", np.empty((0, 6), np.float32))
    assert transform_file(Whitening(2).fit(cloud()), tmp_path / "x.npy", tmp_path / "z.npy") == (0, 2)
    assert np.load(tmp_path / "z.npy").shape == (0, 2)


def test_vectors_of_another_dimension(tmp_path):
    np.save(tmp_path / "x.npy", cloud(10, 5))
    with pytest.raises(InputError, match="x.npy has vectors of 5 dimensions, but the transform was fitted on 6"):
        transform_file(Whitening().fit(cloud()), tmp_path / "x.npy", tmp_path / "z.npy")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_row_of_a_bad_vector_is_named(tmp_path, monkeypatch, value):
    x = cloud()
    x[57, 3] = value
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setattr(bulk, "_CHUNK", 10)
    with pytest.raises(InputError, match="x.npy: row 57 holds NaN or infinity"):
        transform_file(Whitening().fit(cloud()), tmp_path / "x.npy", tmp_path / "z.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def save_zip(path):
    with path.open("wb") as file:
        np.savez(file, x=cloud())


def save_objects(path):
    np.save(path, np.array([["a", None]], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "no such file"),
        (lambda path: path.write_bytes(b""), "not a .npy file of numbers, or is damaged"),
        (lambda path: path.write_text("no numbers"), "not a .npy file of numbers, or is damaged"),
        (lambda path: (np.save(path, cloud()), path.write_bytes(path.read_bytes()[:-8])), "or is damaged"),
        (save_objects, "not a .npy file of numbers, or is damaged"),
        (save_zip, r"must hold numbers of shape \(N, D\)"),
        (lambda path: np.save(path, cloud()[0]), r"must hold numbers of shape \(N, D\), got shape \(6,\)"),
        (lambda path: np.save(path, cloud()[None]), r"got shape \(1, 100, 6\)"),
        (lambda path: np.save(path, cloud().astype(complex)), "must hold numbers"),
        (lambda path: np.save(path, cloud().astype(str)), "must hold numbers"),
        (lambda path: np.save(path, cloud()[:, :0]), r"got shape \(100, 0\)"),
    ],
    ids=map(str, range(12)),
)
def test_bad_vector_files(tmp_path, write, message):
    write(tmp_path / "x.npy")
    with pytest.raises(InputError, match=message):
        read_vectors(tmp_path / "x.npy")
