import errno
import json
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import sentences
from killed_encoding import encoding_killer, kill_and_repeat
from test_encoder import TOLERANCE, distance

from embedlift import bulk
from embedlift.bulk import EncodedFiles, encode_files, read_vectors, transform_file
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.transforms import Whitening
from embedlift.vector_files import NpyFiles

TEXTS = ["the word", *sentences(40), "", "the word"]


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "in.txt"


@pytest.fixture
def encoder(tiny_bert):
    return Encoder(tiny_bert)


def read_back(path):
    """Return the vectors in ``path``, a file or a folder of shards, as they were before they were rounded."""
    if path.is_dir():
        return np.concatenate([read_back(file) for file in shards(path)])
    if path.suffix == ".npy":
        scales = path.with_suffix(".scale.npy")
        return np.load(path) * (np.load(scales)[:, None] if scales.exists() else np.float32(1))
    table = pq.read_table(path, partitioning=None)
    vectors = np.array(table["vector"].to_pylist(), dtype=np.float32).reshape(len(table), -1)
    return vectors * table["scale"].to_numpy()[:, None] if "scale" in table.column_names else vectors


def shards(folder):
    return sorted(file for file in folder.iterdir() if not file.name.endswith((".json", ".scale.npy")))


@pytest.mark.parametrize("rows", [10, 4096])
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_every_row_has_its_vector_blank_and_repeated_ones_too(tmp_path, source, encoder, monkeypatch, kind, rows):
    monkeypatch.setattr(bulk, "_PART_ROWS", rows)
    target = tmp_path / "deep" / f"out.{kind}"
    done = encode_files(encoder, [source], target)
    assert done == EncodedFiles(43, 32, 0, 0, 0, [], 0)
    if kind == "npy":
        vectors = np.load(target, mmap_mode="r")
        assert vectors.dtype == np.float32
    else:
        table = pq.read_table(target)
        assert table.column_names == ["id", "text", "vector"]
        assert table["id"].to_pylist() == list(range(43))
        assert table["text"].to_pylist() == TEXTS
        vectors = read_back(target)
    assert vectors.shape == (43, 32)
    assert distance(vectors, encoder.encode(TEXTS)) < TOLERANCE["float32"]
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0), ("float16", 1e-3), ("int8", 2e-2)])
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_shards_in_every_dtype(tmp_path, source, encoder, monkeypatch, kind, dtype, tolerance):
    monkeypatch.setattr(bulk, "_PART_ROWS", 7)
    encode_files(encoder, [source], tmp_path / "whole.npy")
    target = tmp_path / f"out.{kind}"
    encode_files(encoder, [source], target, output_dtype=dtype, shard_rows=20)
    assert [file.name for file in shards(target)] == [f"0000{number}.{kind}" for number in range(3)]
    assert [len(read_back(file)) for file in shards(target)] == [20, 20, 3]
    assert distance(read_back(target), read_back(tmp_path / "whole.npy")) <= 1e-5 + tolerance
    manifest = json.loads((target / "_manifest.json").read_text())
    assert [shard["rows"] for shard in manifest["shards"]] == [20, 20, 3]
    assert (manifest["output_dtype"], manifest["dimension"], manifest["input_rows"]) == (dtype, 32, 43)
    assert manifest["inputs"] == [{"path": str(source), "rows": 43}]
    if kind == "parquet":
        table = pq.read_table(target)
        assert table["id"].to_pylist() == list(range(43)), "the folder is a Parquet data set"
        assert table["text"].to_pylist() == TEXTS
        assert str(table.schema.field("vector").type.value_type) == {"float32": "float", "float16": "halffloat"}.get(
            dtype, dtype
        )


def test_int8_in_one_file_has_its_scales_beside_it(tmp_path, source, encoder):
    encode_files(encoder, [source], tmp_path / "v.npy", output_dtype="int8")
    assert np.load(tmp_path / "v.npy").dtype == np.int8
    assert distance(read_back(tmp_path / "v.npy"), encoder.encode(TEXTS)) < 2e-2
    with pytest.raises(InputError, match="v.npy holds int8 numbers, with scales in .*v.scale.npy"):
        read_vectors(tmp_path / "v.npy")
    encode_files(encoder, [source], tmp_path / "v.npy", output_dtype="float16")
    assert read_vectors(tmp_path / "v.npy").dtype == np.float16


@pytest.mark.parametrize("shard_rows", [None, 5])
@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("long", ["truncate", "chunk-mean"])
def test_a_file_without_rows(tmp_path, encoder, kind, shard_rows, long):
    (tmp_path / "in.txt").write_text("")
    encoder = Encoder(encoder.model, long=long)
    target = tmp_path / f"out.{kind}"
    assert encode_files(encoder, [tmp_path / "in.txt"], target, shard_rows=shard_rows).rows == 0
    file = target if shard_rows is None else target / f"00000.{kind}"
    if kind == "npy":
        assert np.load(file).shape == (0, 32)
    else:
        assert pq.read_table(file).num_rows == 0


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_lone_surrogates_in_the_input(tmp_path, encoder, kind):
    (tmp_path / "in.jsonl").write_text('"the \\ud800 word"\n"the word"\n"the \\ud83d\\ude00"\n')
    target = tmp_path / f"out.{kind}"
    done = encode_files(encoder, [tmp_path / "in.jsonl"], target)
    assert (done.rows, done.repaired) == (3, 1)
    if kind == "parquet":
        assert pq.read_table(target)["text"].to_pylist() == ["the \ufffd word", "the word", "the \U0001f600"]


def test_special_tokens_are_plain_text(tmp_path, encoder):
    """A text may hold what the tokenizer takes for its own signs: it has a vector like any other."""
    (tmp_path / "in.txt").write_text("[SEP] the [PAD] word [MASK]\n[CLS]\n")
    encode_files(encoder, [tmp_path / "in.txt"], tmp_path / "v.npy")
    assert np.isfinite(np.load(tmp_path / "v.npy")).all()


def test_long_texts_and_texts_without_a_token_are_counted_by_row(tmp_path, tiny_llama):
    (tmp_path / "in.txt").write_text("the word\n" + 2 * ("word " * 9 + "\n") + "\n\n\n")
    done = encode_files(Encoder(tiny_llama, max_length=8), [tmp_path / "in.txt"], tmp_path / "v.npy")
    assert (done.rows, done.truncated, done.without_tokens) == (6, 2, 3)


@pytest.mark.parametrize("characters", [1, 300])
def test_parts_of_long_texts_are_smaller(tmp_path, source, encoder, monkeypatch, characters):
    monkeypatch.setattr(bulk, "_PART_CHARACTERS", characters)
    sizes = []
    write = NpyFiles.write
    monkeypatch.setattr(NpyFiles, "write", lambda *given: sizes.append(given[3]) or write(*given))
    encode_files(encoder, [source], tmp_path / "v.npy")
    assert max(sum(map(len, texts[:-1])) for texts in sizes) < characters
    assert len(np.load(tmp_path / "v.npy")) == 43


def test_progress_reaches_the_end(tmp_path, source, encoder, monkeypatch):
    monkeypatch.setattr(bulk, "_PART_ROWS", 20)
    steps = []
    encode_files(encoder, [source], tmp_path / "out.npy", progress=lambda *step: steps.append(step))
    assert steps[-1] == (43, 43)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_a_bad_line_is_found_before_anything_is_encoded(tmp_path, encoder, monkeypatch):
    (tmp_path / "in.txt").write_bytes(b"fine\n" * 5 + b"caf\xe9\n")
    monkeypatch.setattr(Encoder, "_forward", lambda *_: pytest.fail("encoded"))
    with pytest.raises(InputError, match="in.txt:6: not UTF-8"):
        encode_files(encoder, [tmp_path / "in.txt"], tmp_path / "out.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("name", ["out.txt", "out", "out.NPY.gz"])
def test_unknown_kinds_of_output(tmp_path, source, encoder, name):
    with pytest.raises(InputError, match=f"{name}: unknown kind of file: use .npy or .parquet"):
        encode_files(encoder, [source], tmp_path / name)
    with pytest.raises(InputError, match=f"{name}: unknown kind of file: use .npy"):
        transform_file(None, source, tmp_path / name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output_dtype": "int4"}, "unknown --output-dtype 'int4': use one of float32, float16, int8"),
        ({"shard_rows": 0}, "--shard-rows must be at least 1, got 0"),
    ],
    ids=str,
)
def test_unknown_settings(tmp_path, source, encoder, settings, message):
    with pytest.raises(InputError, match=message):
        encode_files(encoder, [source], tmp_path / "v.npy", **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def stop_after(rows):
    def progress(done, total):
        if done > rows:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_the_same_call_goes_on_where_it_stopped_and_another_is_refused(tmp_path, source, encoder, monkeypatch, kind):
    monkeypatch.setattr(bulk, "_PART_ROWS", 10)
    target, whole = tmp_path / f"out.{kind}", tmp_path / f"whole.{kind}"
    encode_files(encoder, [source], whole)
    with pytest.raises(KeyboardInterrupt):
        encode_files(encoder, [source], target, progress=stop_after(25))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", f"out.{kind}.partial", whole.name]
    with pytest.raises(InputError, match="unfinished work with other settings .output_dtype was 'float32', is 'int8'"):
        encode_files(encoder, [source], target, output_dtype="int8")
    with pytest.raises(InputError, match="unfinished work with other settings .model was "):
        encode_files(Encoder(encoder.model, pooling="cls"), [source], target)
    source.write_text(source.read_text() + "more\n")
    with pytest.raises(InputError, match="unfinished work with other settings .*input_rows was 43, is 44"):
        encode_files(encoder, [source], target)
    source.write_text(source.read_text().removesuffix("more\n"))
    seen = []
    done = encode_files(encoder, [source], target, progress=lambda *step: seen.append(step[0]))
    assert done.resumed_at == 20
    assert min(seen) > 20
    assert target.read_bytes() == whole.read_bytes()
    assert not (tmp_path / f"out.{kind}.partial").exists()


@pytest.mark.parametrize("damage", [b"", b"other bytes"], ids=str)
def test_a_damaged_part_and_those_after_it_are_made_again(tmp_path, source, encoder, monkeypatch, damage):
    monkeypatch.setattr(bulk, "_PART_ROWS", 10)
    encode_files(encoder, [source], tmp_path / "whole.npy")
    with pytest.raises(KeyboardInterrupt):
        encode_files(encoder, [source], tmp_path / "out.npy", progress=stop_after(30))
    (tmp_path / "out.npy.partial" / "parts" / f"{10:012d}.npy").write_bytes(damage)
    assert encode_files(encoder, [source], tmp_path / "out.npy").resumed_at == 10
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


@pytest.mark.parametrize("method", ["write", "join"])
def test_a_full_disk_is_said_and_the_same_call_goes_on(tmp_path, source, encoder, monkeypatch, method):
    monkeypatch.setattr(bulk, "_PART_ROWS", 10)
    encode_files(encoder, [source], tmp_path / "whole.npy")
    calls = []
    original = getattr(NpyFiles, method)

    def full(self, *given):
        calls.append(given)
        if len(calls) == (3 if method == "write" else 1):
            raise OSError(errno.ENOSPC, "No space left on device")
        original(self, *given)

    monkeypatch.setattr(NpyFiles, method, full)
    with pytest.raises(InputError, match="out.npy cannot be written .*No space left on device.: free some space and"):
        encode_files(encoder, [source], tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()
    assert encode_files(encoder, [source], tmp_path / "out.npy").resumed_at == (20 if method == "write" else 43)
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_a_source_that_changes_meanwhile(tmp_path, source, encoder, monkeypatch):
    monkeypatch.setattr(bulk, "_PART_ROWS", 10)

    def change(done, total):
        if done == 20:
            source.write_text(source.read_text() + "one more\n")

    with pytest.raises(InputError, match="in.txt was changed while it was read"):
        encode_files(encoder, [source], tmp_path / "out.npy", progress=change)
    assert not (tmp_path / "out.npy").exists()


def test_a_finished_folder_is_replaced_only_when_asked_and_only_if_it_is_ours(tmp_path, source, encoder):
    target = tmp_path / "v.npy"
    encode_files(encoder, [source], target, shard_rows=20)
    with pytest.raises(InputError, match="v.npy exists already: pass --overwrite"):
        encode_files(encoder, [source], target, shard_rows=30)
    with pytest.raises(InputError, match="v.npy is a folder: give the name of a file"):
        encode_files(encoder, [source], target)
    encode_files(encoder, [source], target, shard_rows=30, overwrite=True)
    assert [len(np.load(file)) for file in shards(target)] == [30, 13]
    (target / "_manifest.json").unlink()
    with pytest.raises(InputError, match=r"v.npy is not a folder of vectors \(no _manifest.json\)"):
        encode_files(encoder, [source], target, shard_rows=30, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "v.npy"]


@pytest.mark.parametrize("arguments", [["out.npy"], ["out.parquet", "--shard-rows", "30", "--output-dtype", "int8"]])
def test_killed_three_times_the_same_command_gives_the_same_bytes(tmp_path, source, tiny_bert, arguments):
    """SIGKILL at random events; benchmarks/kill_and_resume_encode.py does the same more often, and at any moment."""
    name, *options = arguments
    killer = encoding_killer(tmp_path / "log.txt")
    base = [str(tiny_bert), str(source), *options, "--batch-tokens", "60", "--output"]
    killer.run(["encode", *base, str(tmp_path / f"whole-{name}")])
    killed = kill_and_repeat(killer, [*base, str(tmp_path / name)], random.Random(0), kills=3, events=12)
    killer.close()
    assert killed == 3
    assert contents(tmp_path / name) == contents(tmp_path / f"whole-{name}")
    assert not (tmp_path / f"{name}.partial").exists()


def contents(path):
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [(file.name if path.is_dir() else "", file.read_bytes()) for file in files]


def cloud(count=100, dimension=6):
    return np.random.default_rng(0).normal(size=(count, dimension))


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", "<i4", "u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_of_any_number_type_are_transformed_in_pieces(tmp_path, monkeypatch, dtype, order):
    x = np.asarray(10 * cloud() + 50, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setattr("embedlift.transforms.rows._CHUNK_BYTES", 7 * 8 * 6)
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


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_the_row_of_a_bad_vector_is_named(tmp_path, monkeypatch, value, name):
    x = cloud()
    x[57, 3] = value
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setattr("embedlift.transforms.rows._CHUNK_BYTES", 10 * 8 * 6)
    with pytest.raises(InputError, match=f"x.npy: Input X contains {name} in row 57"):
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


def test_progress_counts_repeated_texts_when_their_part_is_encoded(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr(bulk, "_PART_ROWS", 10)
    texts = [*sentences(10, seed=5), *["the same text"] * 10, *sentences(10, seed=6)]
    (tmp_path / "in.txt").write_text("\n".join(texts))
    seen = []
    encode_files(encoder, [tmp_path / "in.txt"], tmp_path / "v.npy", progress=lambda *counts: seen.append(counts))
    assert {total for _, total in seen} == {30}
    done = [count for count, _ in seen]
    assert done == sorted(done)
    assert {10, 20, 30} <= {*done}
