import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedlift.errors import InputError
from embedlift.evaluation.retrieval_data import read_collection


def lines(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row + "\n" for row in rows))


def beir(folder):
    """BEIR's own layout."""
    documents = [("1", "Rain", "It falls."), ("2", "", "The sun."), ("3", "Moon", "")]
    lines(
        folder / "corpus.jsonl",
        *(json.dumps({"_id": i, "title": title, "text": text, "metadata": {}}) for i, title, text in documents),
    )
    queries = (("q1", "wet?"), ("q2", "hot?"))
    lines(folder / "queries.jsonl", *(json.dumps({"_id": i, "text": text}) for i, text in queries))
    lines(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore", "q1\t1\t2", "q1\t3\t0", "q2\t2\t1")
    lines(folder / "qrels" / "train.tsv", "query-id\tcorpus-id\tscore", "q1\t2\t1")


def tsv(folder):
    """The layout without a header, the corpus in parts."""
    lines(folder / "corpus_part1.tsv", "1\tRain\tIt falls.", "2\t\tThe sun.")
    lines(folder / "corpus_part2.tsv", "3\tMoon\t")
    lines(folder / "queries_test.tsv", "q1\twet?", "q2\thot?")
    lines(folder / "qrels_test.tsv", "q1\t1\t2", "q1\t3\t0", "q2\t2\t1")
    lines(folder / "queries_train.tsv", "q1\twet?")
    lines(folder / "qrels_train.tsv", "q1\t2\t1")


def own(folder):
    """Files of different kinds with other names for their columns."""
    pq.write_table(
        pa.table({"doc_id": [1, 2, 3], "title": ["Rain", None, "Moon"], "content": ["It falls.", "The sun.", ""]}),
        folder / "corpus.parquet",
    )
    lines(folder / "queries.csv", "question,qid", "wet?,q1", "hot?,q2")
    lines(
        folder / "qrels.jsonl",
        *(json.dumps({"qid": q, "doc_id": d, "grade": g}) for q, d, g in (("q1", 1, 2), ("q1", 3, 0), ("q2", 2, 1))),
    )


@pytest.mark.parametrize("layout", [beir, tsv, own])
def test_layouts_give_the_same_task(tmp_path, layout):
    layout(tmp_path)
    task = read_collection(tmp_path, "mine")
    assert (task.name, task.split) == ("mine", "test")
    assert task.queries == {"q1": "wet?", "q2": "hot?"}
    assert task.documents == {"1": "Rain It falls.", "2": "The sun.", "3": "Moon"}
    assert task.relevance == {"q1": {"1": 2, "3": 0}, "q2": {"2": 1}}


@pytest.mark.parametrize("layout", [beir, tsv])
def test_other_splits(tmp_path, layout):
    layout(tmp_path)
    task = read_collection(tmp_path, split="train")
    assert (task.name, task.split, task.relevance) == (tmp_path.name, "train", {"q1": {"2": 1}})


def test_judgements_without_grades_count_one(tmp_path):
    own(tmp_path)
    (tmp_path / "qrels.jsonl").unlink()
    lines(tmp_path / "qrels.tsv", "q1\t1", "q2\t2")
    assert read_collection(tmp_path).relevance == {"q1": {"1": 1}, "q2": {"2": 1}}


def test_missing_files_are_named_beside_those_there(tmp_path):
    tsv(tmp_path)
    (tmp_path / "qrels_test.tsv").unlink()
    with pytest.raises(InputError, match=r"no file for qrels \(there: corpus_part1.tsv, .*; a retrieval set has"):
        read_collection(tmp_path)
    with pytest.raises(InputError, match=r"no file for corpus, queries, qrels \(there: no such folder\)"):
        read_collection(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("qrels_test.tsv", ["q1\t1\thigh"], r"qrels_test.tsv:1: the grade 'high' is not a whole number"),
        ("qrels_test.tsv", ["q1\t9\t1"], r"judgements of unknown documents: '9'"),
        ("qrels_test.tsv", ["q1\t \t1"], r"qrels_test.tsv:1: '2' is empty: every row needs an id"),
        ("queries_test.tsv", ["q1\t "], r"queries_test.tsv:1: '2' is empty"),
        ("queries_test.tsv", ["id\tcaption", "q1\twet?"], r"no column for text: there are id, caption"),
        ("queries_test.tsv", ["a\tb\tc\td"], r"no column for id, text: there are 1, 2, 3, 4"),
        ("corpus_part2.tsv", ["2\tRain\tagain"], r"corpus_part2.tsv:1: the id '2' came before"),
        ("queries_test.tsv", [], r"queries_test.tsv: nothing in it"),
    ],
)
def test_bad_rows_are_named(tmp_path, file, rows, message):
    tsv(tmp_path)
    lines(tmp_path / file, *rows)
    with pytest.raises(InputError, match=message):
        read_collection(tmp_path)
