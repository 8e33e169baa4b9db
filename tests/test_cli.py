import json
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import command, process
from conftest import WORDS, save_tiny, sentences
from sentence_transformers import SentenceTransformer
from test_encoder import distance


@pytest.fixture
def data(tmp_path):
    """Made-up pairs in the layout of the data folder: the more words two sentences share, the higher their score."""
    rng = random.Random(0)

    def lines(count):
        for _ in range(count):
            first, second = rng.choices(WORDS, k=8), rng.choices(WORDS, k=8)
            shared = rng.randint(0, 8)
            yield f"{shared / 1.6}\t{' '.join(first)}\t{' '.join(first[:shared] + second[shared:])}\n"

    for name, count in {"sts/STS12/a.tsv": 30, "sts/STS12/b.tsv": 12, "stsb/stsb_test.tsv": 40}.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines(count)))
    return tmp_path / "data"


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(sentences(200)) + "\n")
    return path


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_adapt_evaluate_encode(tmp_path, data, corpus, tiny_llama):
    """The main job from end to end."""
    out = tmp_path / "model"
    done = command("adapt", tiny_llama, "--corpus", corpus, "--output", out, "--dim", 16, "--json", tmp_path / "a.json")
    assert done.code == 0, done.err
    assert "200 distinct texts from 200 rows (0 blank, 0 repeated); 0 truncated" in done.out
    assert "cosine of random pairs" in done.out
    assert json.loads((tmp_path / "a.json").read_text())["settings"]["method.n_components"] == 16

    done = command(
        *("evaluate", tiny_llama, out, "--data", data, "--tasks", "STS12,STS-B", "--json", tmp_path / "e.json")
    )
    assert done.code == 0, done.err
    assert "aggregation 'all'" in done.out
    assert "average" in done.out

    done = command("encode", out, corpus, "--output", tmp_path / "v.npy")
    assert done.code == 0, done.err
    assert done.out.strip() == f"{tmp_path / 'v.npy'}: 200 vectors of 16 dimensions"
    expected = SentenceTransformer(str(out)).encode(sentences(200))
    assert distance(np.load(tmp_path / "v.npy"), expected) < 1e-4

    assert command("encode", out, corpus, "--output", tmp_path / "v.parquet").code == 0
    assert pq.read_table(tmp_path / "v.parquet")["text"].to_pylist() == sentences(200)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("a.json", "corpus.txt", "data", "e.json", "model", "v.npy", "v.parquet")
    ]


def test_adapt_by_training(tmp_path, corpus, tiny_bert):
    flags = "--temperature 0.05 --reg-weight 0.2 --lr 1e-4 --batch-size 8 --epochs 2 --warmup 0.2 --guide-layers 1..2 "
    flags += "--guide-pooling max --head-width 16 --train-embeddings --max-steps 4 --checkpoint-steps 2 --accumulate 2 "
    flags += "--gradient-checkpointing --bf16 --distinct --group-by-length --train-length 20 --clip 2 --weight-decay 0"
    arguments = ["--corpus", corpus, "--output", tmp_path / "out", "--json", tmp_path / "a.json", *flags.split()]
    done = command("adapt", tiny_bert, "--method", "sg-opt", *arguments)
    assert done.code == 0, done.err
    assert "4 steps; weights: last step, no labels used" in done.out
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["resumed_from_step"] is None
    assert document["training"]["steps"] == 4
    assert len(document["training"]["losses"]) == 4
    wanted = {
        **{"temperature": 0.05, "reg_weight": 0.2, "lr": 1e-4, "batch_size": 8, "accumulate": 2, "epochs": 2},
        **{"max_steps": 4, "warmup": 0.2, "weight_decay": 0.0, "clip": 2.0, "guide_layers": "1..2", "lora": None},
        **{"guide_pooling": "max", "head_width": 16, "train_embeddings": True, "train_length": 20, "distinct": True},
        **{"group_by_length": True, "checkpoint_steps": 2, "gradient_checkpointing": True, "bf16": True},
    }
    found = {name[7:]: value for name, value in document["settings"].items() if name.startswith("method.")}
    assert found == wanted
    assert len(SentenceTransformer(str(tmp_path / "out")).encode("the word")) == 32


@pytest.mark.parametrize("aggregation", ["all", "mean", "wmean"])
def test_the_json_of_evaluate(tmp_path, data, tiny_bert, aggregation):
    arguments = ["--data", data, "--tasks", "STS12, STS-B,STS12", "--json", tmp_path / "e.json"]
    done = command("evaluate", tiny_bert, tiny_bert, *arguments, "--aggregation", aggregation, "--seed", 3)
    assert done.code == 0, done.err
    document = json.loads((tmp_path / "e.json").read_text())
    assert list(document) == ["schema_version", "settings", "versions", "results", "comparisons", "contamination"]
    assert document["settings"]["aggregation"] == aggregation
    assert document["settings"]["seed"] == 3
    assert {"embedlift", "torch", "transformers", "sentence-transformers", "python"} <= set(document["versions"])
    fields = ["model", "task", "split", "subset", "metric", "aggregation", "score", "n", "interval"]
    for row in document["results"]:
        assert list(row) == [*fields, "note", "unit"]
        assert row["model"] == str(tiny_bert)
        assert row["split"] == "test"
        assert row["metric"] == "cosine_spearman"
        assert -1 <= row["interval"][0] <= row["score"] <= row["interval"][1] <= 1
    wholes = [(row["task"], row["n"], row["aggregation"]) for row in document["results"] if row["subset"] is None]
    assert wholes == [("STS12", 42, aggregation), ("STS-B", 40, aggregation)]
    parts = [(row["task"], row["subset"], row["n"]) for row in document["results"] if row["subset"] is not None]
    assert parts == [("STS12", "a", 30), ("STS12", "b", 12)]


def test_evaluate_is_the_same_with_and_without_the_cache(tmp_path, data, tiny_bert):
    for name in ("cache", "no-cache"):
        done = command(
            *("evaluate", tiny_bert, "--data", data, "--tasks", "STS-B", f"--{name}", "--json", tmp_path / name)
        )
        assert done.code == 0, done.err
    one, two = (json.loads((tmp_path / name).read_text())["results"] for name in ("cache", "no-cache"))
    assert one == two


def test_long_texts_are_averaged_in_evaluate_too(tmp_path, tiny_bert):
    """What follows the model's limit of 9 tokens decides the scores; how it was read stands in the results."""
    start = "time number people water year good hot"
    rows = [f"{start} {text},{start} {text[::-1]} {text},{i % 5}" for i, text in enumerate(sentences(20))]
    (tmp_path / "p.csv").write_text("\n".join(["sentence1,sentence2,score", *rows]) + "\n")
    found = {}
    for long in ("truncate", "chunk-mean"):
        given = ["--pairs", tmp_path / "p.csv", "--max-length", 9, "--long", long, "--json", tmp_path / "e.json"]
        done = command("evaluate", tiny_bert, *given)
        assert done.code == 0, done.err
        found[long] = json.loads((tmp_path / "e.json").read_text())
        assert found[long]["settings"]["long"] == long
    scores = [document["results"][0]["score"] for document in found.values()]
    assert scores[0] is None, "all texts have the same seven words"
    assert -1 <= scores[1] <= 1


def test_a_collapsed_model_is_called_so(tmp_path, data, tiny_bert):
    """USERS: constant scores gave a NaN correlation."""
    from safetensors.torch import load_file, save_file

    folder = save_tiny(tmp_path / "m", "bert")
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.1.output.LayerNorm.weight"].zero_()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    done = command("evaluate", folder, "--data", data, "--tasks", "STS12,STS-B", "--json", tmp_path / "e.json")
    assert done.code == 0, done.err
    assert "undefined: collapsed" in done.out
    assert "average" in done.out
    rows = json.loads((tmp_path / "e.json").read_text())["results"]
    assert {row["score"] for row in rows} == {None}
    assert all(row["note"].startswith("undefined: collapsed") for row in rows)


def test_fit_and_transform(tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 6)) + 5
    np.save(tmp_path / "x.npy", x)
    done = command("fit", "whitening", tmp_path / "x.npy", "-o", tmp_path / "T", "--dim", 3)
    assert done.code == 0, done.err
    assert "6 -> 3 dimensions" in done.out
    done = command("transform", tmp_path / "T", tmp_path / "x.npy", "-o", tmp_path / "z.npy")
    assert (done.code, done.out.strip()) == (0, f"{tmp_path / 'z.npy'}: 100 vectors of 3 dimensions")
    np.testing.assert_allclose(np.cov(np.load(tmp_path / "z.npy").T), np.eye(3), atol=1e-5)
    assert tree(tmp_path) == ["T", "x.npy", "z.npy"]


def test_fit_center(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(4, 3))
    assert command("fit", "center", tmp_path / "x.npy", "-o", tmp_path / "T").code == 0
    assert command("transform", tmp_path / "T", tmp_path / "x.npy", "-o", tmp_path / "z.npy").code == 0
    np.testing.assert_allclose(np.load(tmp_path / "z.npy").mean(axis=0), 0)


@pytest.fixture
def bad_world(tmp_path, tiny_bert, data):
    """Files that are fine and files that are not, by name; other words stand for themselves."""
    write = {
        "fine.txt": "\n".join(sentences(40)),
        "empty.txt": "",
        "blank.txt": "\n \n\n",
        "one.txt": "the word\n",
        "same.txt": "the word\nTHE WORD\nThe Word\n",
        "two.csv": "id,body\n1,a\n",
    }
    for name, text in write.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin1.txt").write_bytes(b"fine\ncaf\xe9\n")
    (tmp_path / "nul.txt").write_bytes(b"fine\nn\x00l\n")
    (tmp_path / "null.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    (tmp_path / "noweights").mkdir()
    (tmp_path / "noweights" / "config.json").write_text("{}")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    (tmp_path / "data" / "sick").mkdir()
    (tmp_path / "data" / "sick" / "sickr_test.tsv").write_text("1.0\ta\tb\n2.0\ta\n")
    x = np.random.default_rng(0).normal(size=(20, 4))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "none.npy", x[:0])
    np.save(tmp_path / "same.npy", x[[0, 0, 0]])
    x[7, 2] = np.nan
    np.save(tmp_path / "nan.npy", x)
    (tmp_path / "model").symlink_to(tiny_bert)
    return tmp_path


ADAPT = "adapt model --output out --corpus "
EVALUATE = "evaluate model --data data "
BAD = [
    (ADAPT + "missing.txt", "missing.txt: no such file"),
    (ADAPT + "empty.txt", "the corpus is empty"),
    (ADAPT + "blank.txt", "the corpus is empty: 3 rows, 3 of them blank"),
    (ADAPT + "one.txt", "at least 2 vectors"),
    (ADAPT + "same.txt", "all 3 vectors are identical"),
    (ADAPT + "latin1.txt", "latin1.txt:2: not UTF-8"),
    (ADAPT + "nul.txt", "nul.txt:2: NUL byte"),
    (ADAPT + "null.jsonl", "null.jsonl:2: 'text' is None"),
    (ADAPT + "two.csv", "two.csv:1: several columns (id, body): say which with --column"),
    (ADAPT + "two.csv --column text", "two.csv:1: no column 'text'"),
    (ADAPT + "fine.txt --method pca", "unknown method 'pca'"),
    (ADAPT + "fine.txt --lr 1", "settings of training need a method that trains: sg, "),
    (ADAPT + "fine.txt --method sg --set a=1", "--dim, --preset and --set need a method given by name that fits"),
    (ADAPT + "fine.txt --method sg-opt --batch-size 1", "--batch-size must be at least 2, got 1"),
    (ADAPT + "fine.txt --method sg-opt --batch-size 41", "40 rows to train on, fewer than a batch: lower --batch-size"),
    (ADAPT + "fine.txt --method sg-opt --guide-layers 0..9", "hidden state 9, but the model has 0 to 2"),
    (ADAPT + "fine.txt --method sg-opt --guide-pooling last", "--guide-pooling is out of its range: got 'last'"),
    (ADAPT + "fine.txt --method sg-opt --select-with x.tsv", "x.tsv: no such file"),
    (ADAPT + "fine.txt --method sg-opt --select-with two.csv", "two.csv:1: 1 columns where score, sentence, sentence"),
    (ADAPT + "fine.txt --method sg-opt --dtype float16", "leave --dtype out; --bf16 computes in bfloat16"),
    (ADAPT + "fine.txt --method sg-opt --long chunk-mean", "trains on the beginning of a text: leave --long out"),
    (ADAPT + "empty.txt --method sg-opt", "the corpus is empty"),
    (ADAPT + "fine.txt --method bt", "fine.txt: bt needs a file of two columns"),
    (ADAPT + "fine.txt --method center --dim 3", "--dim is not for center"),
    (ADAPT + "fine.txt --dim 0", "--dim must be between 1 and the model's 32 dimensions, got 0"),
    (ADAPT + "fine.txt --dim 900", "--dim must be between 1 and the model's 32 dimensions, got 900"),
    (ADAPT + "fine.txt --pooling median", "unknown pooling 'median'"),
    (ADAPT + "fine.txt --layers 9", "--layers must be between 0 and the model's 2, got 9"),
    (ADAPT + "fine.txt --max-length 900", "the model has only 64 positions"),
    (ADAPT + "fine.txt --batch-tokens 0", "--batch-tokens must be at least 1"),
    (ADAPT + "fine.txt --dtype int4", "unknown dtype 'int4'"),
    (ADAPT + "fine.txt --device gpu", "device 'gpu' cannot be used"),
    (ADAPT + "fine.txt --seed -1", "Invalid value for '--seed'"),
    (ADAPT + "fine.txt --json taken", "Invalid value for '--json'"),
    ("adapt noweights --output out --corpus fine.txt", "noweights has no weights"),
    ("adapt ./nowhere --output out --corpus fine.txt", "nowhere: no such model folder"),
    ("adapt packaged:gpt-5 --output out --corpus fine.txt", "unknown packaged model 'gpt-5'"),
    ("adapt model --output taken --corpus fine.txt", "taken exists already: pass --overwrite"),
    ("adapt model --output taken --corpus fine.txt --overwrite", "taken is not a saved model"),
    ("adapt model --output fine.txt --corpus fine.txt", "fine.txt is a file: the output must be a folder"),
    ("adapt model --output fine.txt/out --corpus fine.txt", "fine.txt"),
    ("adapt model --corpus fine.txt", "Missing option '--output'"),
    ("evaluate model", "nothing to score on: give --tasks with --data, or your own --pairs or --retrieval"),
    ("evaluate model --tasks sts", "--tasks needs --data"),
    (EVALUATE, "--data data is of no use without --tasks"),
    (EVALUATE + "--tasks STS12 --baseline other", "the baseline 'other' is none of the models: model"),
    (EVALUATE + "--tasks STS12 --metrics cosine", "cosine"),
    (EVALUATE + "--tasks STS12 --columns a,b,c", "--columns belongs to --pairs"),
    ("evaluate model --pairs two.csv --columns a,b", "--columns must name three columns"),
    ("evaluate model --retrieval taken", "taken"),
    (EVALUATE + "--tasks STS99", "unknown task 'STS99'"),
    (EVALUATE + "--tasks STS13", "STS13: no file"),
    (EVALUATE + "--tasks SICK-R", "sickr_test.tsv:2: 2 columns where score, sentence, sentence"),
    (EVALUATE + "--tasks STS12 --aggregation median", "unknown aggregation 'median'"),
    (EVALUATE + "--tasks STS12 --seed -1", "Invalid value for '--seed'"),
    (EVALUATE + "--tasks STS12 --json taken", "Invalid value for '--"),
    ("encode model latin1.txt --output v.npy", "latin1.txt:2: not UTF-8"),
    ("encode model fine.txt --output v.csv", "v.csv: unknown kind of file"),
    ("encode model fine.txt --output taken", "taken: unknown kind of file: use .npy or .parquet"),
    ("encode model fine.txt --output v.npy --output-dtype int4", "unknown --output-dtype 'int4'"),
    ("encode model fine.txt --output v.npy --shard-rows 0", "--shard-rows must be at least 1, got 0"),
    ("encode model fine.txt --output v.npy --long half", "unknown --long 'half': use one of truncate, chunk-mean"),
    ("encode model fine.txt fine.txt --output v.npy", "fine.txt is named twice"),
    ("encode model fine.txt latin1.txt --output v.npy", "latin1.txt:2: not UTF-8"),
    ("encode model latin1.txt nul.txt --output v.npy --keep-going", "no input can be read: latin1.txt:2: not UTF-8"),
    ("encode model *.md --output v.npy", "*.md: no file of .txt, .csv"),
    ("encode model fine.txt --output fine.txt/v.npy", "fine.txt"),
    ("fit whitening missing.npy -o T", "missing.npy: no such file"),
    ("fit whitening fine.txt -o T", "fine.txt is not a .npy file of numbers"),
    ("fit whitening none.npy -o T", "none.npy holds no vectors"),
    ("fit whitening same.npy -o T", "all 3 vectors are identical"),
    ("fit whitening nan.npy -o T", "NaN in row 7"),
    ("fit whitening x.npy -o T --dim 9", "n_components must be between 1 and the dimension 4"),
    ("fit pca x.npy -o T", "unknown method 'pca'"),
    ("fit center x.npy -o T --dim 2", "--dim is not for center"),
    ("fit whitening x.npy -o taken", "Invalid value for '--"),
    ("transform missing x.npy -o z.npy", "missing: no such file"),
    ("transform fine.txt x.npy -o z.npy", "fine.txt is not a fitted transform"),
    ("unheard-of", "No such command"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_ends_with_one_clear_line_and_leaves_nothing(bad_world, monkeypatch, line, message):
    monkeypatch.chdir(bad_world)
    before = tree(bad_world)
    done = command(*line.split())
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1 or "Usage:" in done.err
    assert tree(bad_world) == before


def test_names_with_square_brackets_are_no_markup(bad_world, monkeypatch, tiny_llama):
    monkeypatch.chdir(bad_world)
    name = "[bold] [/x]"
    done = command("adapt", "model", "--corpus", "fine.txt", "--output", name, "--dim", 3)
    assert done.code == 0, done.err
    assert f"SentenceTransformer('{name}')" in done.out
    assert f"{name}" in command("encode", name, "fine.txt", "--output", f"{name}.npy").out
    assert name in command("evaluate", name, "--data", "data", "--tasks", "STS-B").out
    assert name in command("adapt", name, "--corpus", f"{name}.txt", "--output", "out").err
    assert name in command("fit", "whitening", "x.npy", "-o", name + ".T").out


def test_warnings_are_shown_without_their_source(bad_world, monkeypatch):
    monkeypatch.chdir(bad_world)
    done = command("adapt", "model", "--corpus", "fine.txt", "--output", "out", "--dim", 32)
    assert done.code == 0
    assert "warning: 40 vectors span only 31 directions of 32" in done.err
    assert ".py" not in done.err


def test_truncated_and_repaired_texts_are_reported(tmp_path, tiny_bert):
    lines = [*sentences(40), "long " * 200, "lone \ud800"]
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    done = command("adapt", tiny_bert, "--corpus", tmp_path / "c.jsonl", "--output", tmp_path / "out", "--dim", 4)
    assert done.code == 0, done.err
    assert "42 distinct texts from 42 rows (0 blank, 0 repeated, 1 with repaired surrogates); 1 truncated" in done.out


def test_several_corpus_files_and_a_column(tmp_path, tiny_bert):
    for number in (1, 2):
        rows = [f"{i}\t{text}" for i, text in enumerate(sentences(30, seed=number))]
        (tmp_path / f"{number}.tsv").write_text("\n".join(["id\tbody", *rows]))
    files = ["--corpus", tmp_path / "1.tsv", "--corpus", tmp_path / "2.tsv"]
    done = command("adapt", tiny_bert, *files, "--column", "body", "--output", tmp_path / "out", "--dim", 4)
    assert done.code == 0, done.err
    assert "from 60 rows" in done.out


HELP = """
import sys
from embedlift.cli import main
try:
    main()
finally:
    heavy = {"torch", "transformers", "sentence_transformers", "sklearn", "scipy", "pyarrow", "numpy"} & {*sys.modules}
    assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["adapt", "--help"], ["evaluate", "-h"], ["diagnose", "-h"], ["fit", "--help"]], ids=str
)
def test_help_imports_nothing_heavy(arguments):
    done = process(HELP, *arguments)
    assert (done.code, done.err) == (0, "")
    assert "Usage:" in done.out


FULL_DISK = """
import resource, shlex, sys
limit, *lines = sys.argv[1:]
import torch, sentence_transformers, embedlift.adaptation, embedlift.bulk  # caches of imports are not the matter
from embedlift import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
codes = []
for line in lines:
    sys.argv = ["embedlift", *shlex.split(line)]
    try:
        cli.main()
        codes.append(0)
    except SystemExit as end:
        codes.append(end.code or 0)
print("codes", *codes)
"""


@pytest.mark.parametrize(
    ("limit", "codes"),
    [(512, "2 2 2 2 2"), (20_000, "2 2 2 2 2"), (60_000, "2 0 2 2 2")],  # where the largest file of each meets it
)
def test_a_full_disk(bad_world, monkeypatch, limit, codes):
    """No file may become larger than a limit: whichever meets it first, the message is one clear line."""
    monkeypatch.chdir(bad_world)
    np.save("large.npy", np.random.default_rng(0).normal(size=(40_000, 64)).astype(np.float32))
    (bad_world / "many.txt").write_text("\n".join(sentences(400)))
    assert command("fit", "center", "large.npy", "-o", "fitted").code == 0
    before = tree(bad_world)
    lines = [
        "adapt model --corpus fine.txt --output out --dim 8 --no-cache",
        "encode model many.txt --output v.npy",
        "encode model many.txt --output v.parquet",
        "fit whitening large.npy -o T",
        "transform fitted large.npy -o z.npy",
    ]
    done = process(FULL_DISK, limit, *lines)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"codes {codes}"
    lines_of_errors = [line for line in done.err.splitlines() if line.startswith("error:")]
    assert len(lines_of_errors) == codes.count("2")
    left = {name for name in set(tree(bad_world)) - set(before) if ".partial" not in name}
    assert left <= {"v.npy"}
    assert command(*lines[0].split()).code == 0, "with space, the same command finishes"
    assert not (bad_world / "out.partial").exists()
    assert command(*lines[1].split()).code == 0
    assert not (bad_world / "v.npy.partial").exists()


def test_encode_goes_on_without_what_cannot_be_read_and_its_exit_code_tells(bad_world, monkeypatch):
    monkeypatch.chdir(bad_world)
    done = command("encode", "model", "one.txt", "nul.txt", "same.txt", "--output", "v.npy", "--keep-going")
    assert done.code == 1
    assert "v.npy: 4 vectors of 32 dimensions" in done.out
    assert "left out: nul.txt:2: NUL byte" in done.err
    assert len(np.load("v.npy")) == 4


def test_encode_reports_what_it_met_and_averages_long_texts(tmp_path, tiny_bert):
    lines = ["the word", "long " * 200, "lone \ud800"]
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    done = command("encode", tiny_bert, tmp_path / "c.jsonl", "--output", tmp_path / "v.npy")
    assert "3 vectors of 32 dimensions (1 truncated, 1 with repaired surrogates)" in done.out
    done = command("encode", tiny_bert, tmp_path, "--output", tmp_path / "w", "--shard-rows", 2, "--long", "chunk-mean")
    assert done.code == 2, "the folder's name tells no kind of file"
    done = command("encode", tiny_bert, tmp_path, "--output", tmp_path / "w.npy", "--long", "chunk-mean")
    assert "3 vectors of 32 dimensions (1 with repaired surrogates)" in done.out
    difference = np.abs(np.load(tmp_path / "v.npy") - np.load(tmp_path / "w.npy")).max(axis=1)
    assert (difference > 1e-4).tolist() == [False, True, False]


def test_evaluate_on_ones_own_data(tmp_path, tiny_bert):
    """Pairs with labels and a collection, columns found; what the fit has seen is marked, and differences are said."""
    texts = sentences(60)
    rows = [f"{texts[i]},{texts[30 + i]},{i % 2}" for i in range(30)]
    (tmp_path / "mine.csv").write_text("\n".join(["question1,question2,is_duplicate", *rows]) + "\n")
    folder = tmp_path / "search"
    folder.mkdir()
    (folder / "queries.tsv").write_text("".join(f"q{i}\t{texts[i]}\n" for i in range(12)))
    (folder / "corpus.tsv").write_text("".join(f"d{i}\t\t{texts[i + 20]}\n" for i in range(40)))
    (folder / "qrels.tsv").write_text("".join(f"q{i}\td{i}\t1\n" for i in range(12)))
    (tmp_path / "corpus.txt").write_text("\n".join(texts[:10] + sentences(40, seed=1)))
    command("adapt", tiny_bert, "--corpus", tmp_path / "corpus.txt", "--output", tmp_path / "m", "--method", "center")
    own = ["--pairs", tmp_path / "mine.csv", "--retrieval", folder, "--json", tmp_path / "e.json"]
    done = command("evaluate", tiny_bert, tmp_path / "m", *own)
    assert done.code == 0, done.err
    assert "† mine own: transductive: 10 of 60 texts were in the fitting text (without labels) (m)" in done.out
    assert "cosine_ndcg_at_10: " in done.out
    document = json.loads((tmp_path / "e.json").read_text())
    assert {(one["task"], one["model"]) for one in document["comparisons"]} == {
        ("mine", str(tmp_path / "m")),
        ("search", str(tmp_path / "m")),
    }
