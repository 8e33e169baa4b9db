import hashlib
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedlift.corpus import check_texts, read_corpus, read_rows, repair_surrogates
from embedlift.errors import InputError

TEXTS = ["A first sentence.", "Une deuxième, avec virgule", "", "第三句话", 'and a "quoted" one']


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def parquet(folder, columns, name="c.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def csv_of(texts, header="text"):
    return "\n".join([header, *('"' + text.replace('"', '""') + '"' for text in texts)]) + "\n"


def read(path, column=None):
    return [row.text for row in read_rows(path, column)]


FILES = {
    "plain.txt": "\n".join(TEXTS) + "\n",
    "no-newline-at-the-end.txt": "\n".join(TEXTS),
    "windows.txt": "\r\n".join(TEXTS) + "\r\n",
    "bom.txt": "\ufeff" + "\n".join(TEXTS),
    "UPPER.TXT": "\n".join(TEXTS),
    "one-column.csv": csv_of(TEXTS),
    "bom.csv": "\ufeff" + csv_of(TEXTS),
    "windows.csv": csv_of(TEXTS).replace("\n", "\r\n"),
    "one-column.tsv": "\n".join(["text", *TEXTS]) + "\n",
    "objects.jsonl": "\n".join(json.dumps({"text": text}) for text in TEXTS),
    "strings.jsonl": "\n".join(json.dumps(text, ensure_ascii=False) for text in TEXTS),
    "blank-lines.jsonl": "\n\n".join(json.dumps(text) for text in TEXTS) + "\n\n",
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_texts_blank_ones_too(tmp_path, name):
    assert read(write(tmp_path, name, FILES[name])) == TEXTS


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_parquet_of_any_string_type(tmp_path, kind):
    path = parquet(tmp_path, {"text": pa.array(TEXTS).cast(kind)})
    assert read(path) == TEXTS


def test_rows_say_where_they_are(tmp_path):
    path = write(tmp_path, "c.csv", 'id,text\n1,one\n2,"two\nlines"\n3,three\n')
    assert [(row.text, row.where) for row in read_rows(path)] == [
        ("one", f"{path}:2"),
        ("two\nlines", f"{path}:4"),
        ("three", f"{path}:5"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "column", "texts"),
    [
        ("c.csv", "id,text\n1,a\n", None, ["a"]),
        ("c.csv", "sentence,label\na,1\n", None, ["a"]),
        ("c.csv", "id,body\n1,a\n", "body", ["a"]),
        ("c.csv", "anything\na\nb\n", None, ["a", "b"]),
        ("c.csv", "a,b\nc,d\n", "2", ["b", "d"]),
        ("c.csv", "1,2\nc,d\n", "2", ["d"]),
        ("c.tsv", "id\ttext\n1\tsay \"hi\n", None, ['say "hi']),
        ("c.tsv", "a b\tc d\ne\tf\n", "1", ["a b", "e"]),
        ("c.jsonl", '{"id": 1, "text": "a"}', None, ["a"]),
        ("c.jsonl", '{"id": 1, "body": "a"}', "body", ["a"]),
    ],
)  # fmt: skip
def test_the_column_is_found_by_name_number_or_habit(tmp_path, name, content, column, texts):
    assert read(write(tmp_path, name, content), column) == texts


def test_the_column_of_parquet(tmp_path):
    path = parquet(tmp_path, {"id": [1, 2], "sentence": ["a", "b"], "body": ["c", "d"]})
    assert read(path) == ["a", "b"]
    assert read(path, "body") == ["c", "d"]


@pytest.mark.parametrize("content", ["id,text\n1,a\n\n2,b\n\n", "\nid,text\n1,a\n2,b\n"])
def test_blank_lines_of_csv_are_no_rows(tmp_path, content):
    assert read(write(tmp_path, "c.csv", content)) == ["a", "b"]


BAD = [
    ("c.txt", b"fine\ncaf\xe9\n", None, ":2: not UTF-8 (byte 0xe9 at 4)"),
    ("c.txt", "café\n".encode("utf-16"), None, ":1: the file is UTF-16"),
    ("c.txt", "ab".encode("utf-16-be"), None, ":1: NUL byte"),
    ("c.txt", b"one\ntwo\nth\x00ree\n", None, ":3: NUL byte"),
    ("c.txt", b"\xed\xa0\x80", None, ":1: not UTF-8"),
    ("c.txt", "a\n", "text", ": a .txt file has a text a line and no columns"),
    ("c.csv", b"text\ncaf\xe9\n", None, ":2: not UTF-8"),
    ("c.csv", b"text\na\x00b\n", None, ":2: NUL byte"),
    ("c.csv", "id,text\n1,a\n2,b,c\n", None, ":3: 3 columns where the first line has 2"),
    ("c.csv", "id,text\n1,a\n2\n", None, ":3: 1 columns where the first line has 2"),
    ("c.csv", "id,body\n1,a\n", None, ":1: several columns (id, body): say which with --column"),
    ("c.csv", "id,body\n1,a\n", "text", ":1: no column 'text': the header has id, body"),
    ("c.csv", "id,body\n1,a\n", "3", ":1: no column 3: the line has 2"),
    ("c.csv", "id,body\n1,a\n", "0", ":1: no column 0: the line has 2"),
    ("c.csv", 'id,text\n1,"never closed\n2,b\n3,c\n', None, ":4: unexpected end of data"),
    ("c.tsv", "id\ttext\n1\ta\tb\n", None, ":2: 3 columns where the first line has 2"),
    ("c.jsonl", '{"text": "a"}\n{"text": \n', None, ":2: not JSON"),
    ("c.jsonl", '{"text": "a"}\n[1]\n', None, ":2: a line must be a JSON object or string, got [1] (list)"),
    ("c.jsonl", '{"text": "a"}\n{"txt": "b"}\n', "text", ":2: no field 'text': it has txt"),
    ("c.jsonl", '{"text": "a"}\n{"text": null}\n', None, ":2: 'text' is None, not a string"),
    ("c.jsonl", '{"text": "a"}\n{"text": NaN}\n', None, ":2: 'text' is nan (float), not a string"),
    ("c.jsonl", '{"text": 3.14}\n', None, ":1: 'text' is 3.14 (float), not a string"),
    ("c.jsonl", '{"text": "a\\u0000b"}\n', None, ":1: 'text' holds a NUL character"),
    ("c.jsonl", '{"id": 1, "body": "a"}\n', None, ":1: several columns (id, body)"),
    ("c.jsonl", b'"caf\xe9"', None, ":1: not UTF-8"),
    ("c.parquet", b"PAR1 but not really", None, ": cannot be read as Parquet"),
    ("c.parquet", b"", None, ": cannot be read as Parquet"),
    ("c.docx", "a", None, ": unknown kind of file: use one of .txt, .csv"),
    ("c", "a", None, ": unknown kind of file"),
]


@pytest.mark.parametrize(("name", "content", "column", "message"), BAD, ids=[f"{b[0]} {b[3][:40]}" for b in BAD])
def test_bad_files_are_named_with_the_line(tmp_path, name, content, column, message):
    path = write(tmp_path, name, content)
    with pytest.raises(InputError) as error:
        read(path, column)
    assert str(error.value).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None], ": row 2: 'text' is None, not a string"),
        ([b"a", b"b"], ": row 1: 'text' is b'a' (bytes), not a string"),
        ([1.5, float("nan")], ": row 1: 'text' is 1.5 (float), not a string"),
        (["a", "b\x00c"], ": row 2: 'text' holds a NUL character"),
    ],
    ids=str,
)
def test_bad_rows_of_parquet_are_named(tmp_path, values, message):
    path = parquet(tmp_path, {"text": values})
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}{message}")


def test_parquet_with_bytes_that_are_no_utf8(tmp_path):
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"caf\xe9"], pa.binary()).buffers())
    path = parquet(tmp_path, {"text": broken})
    with pytest.raises(InputError, match="c.parquet: .*UTF-8|c.parquet: .*utf-8"):
        read(path)


@pytest.mark.parametrize(("column", "message"), [(None, "several columns"), ("text", "no column 'text': it has a, b")])
def test_the_missing_column_of_parquet(tmp_path, column, message):
    path = parquet(tmp_path, {"a": ["x"], "b": ["y"]})
    with pytest.raises(InputError, match=message):
        read(path, column)


@pytest.mark.parametrize("name", ["nothing.txt", "nothing.parquet", "folder.txt"])
def test_a_missing_file(tmp_path, name):
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(InputError, match=f"{name}: no such file"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["c.txt", "c.csv", "c.tsv", "c.jsonl"])
def test_a_line_of_150_000_characters_is_read_whole(tmp_path, name):
    long = "word " * 30_000 + "end"
    content = {"c.txt": long, "c.jsonl": json.dumps(long)}.get(name, f"text\n{long}\n")
    assert read(write(tmp_path, name, content)) == [long]


@pytest.mark.parametrize("content", ["", "\n\n", " \n\u2009\n\u3000\n"], ids=repr)
@pytest.mark.parametrize("name", ["c.txt", "c.tsv"])
def test_a_corpus_without_text_is_refused(tmp_path, name, content):
    with pytest.raises(InputError, match="the corpus is empty"):
        read_corpus(write(tmp_path, name, ("text\n" if name == "c.tsv" else "") + content))


@pytest.mark.parametrize("source", [[], (), iter([]), np.array([], dtype=str), pd.Series([], dtype=str), ["", " \n"]])
def test_no_texts_are_refused(source):
    with pytest.raises(InputError, match="the corpus is empty"):
        read_corpus(source)


def test_a_corpus_keeps_distinct_visible_texts_in_order_and_counts_the_rest():
    corpus = read_corpus(["b", "", "a", "b", "  ", "a", "c"])
    assert corpus.texts == ["b", "a", "c"]
    assert (corpus.rows, corpus.blank, corpus.repeated, corpus.repaired) == (7, 2, 2, 0)


def test_the_digest_is_that_of_the_texts_in_order(tmp_path):
    expected = hashlib.sha256(b"\x02" + bytes(7) + "é".encode() + b"\x01" + bytes(7) + b"b").hexdigest()
    assert read_corpus(["é", "b", "é", ""]).digest == expected
    assert read_corpus(write(tmp_path, "c.txt", "é\nb\n")).digest == expected
    assert len({read_corpus(texts).digest for texts in (["é", "b"], ["b", "é"], ["éb"], ["é", "b", "c"])}) == 4


def test_several_files_are_one_corpus(tmp_path):
    paths = [write(tmp_path, "a.txt", "one\ntwo\n"), write(tmp_path, "b.csv", "text\ntwo\nthree\n")]
    assert read_corpus(paths).texts == ["one", "two", "three"]


@pytest.mark.parametrize("source", ["one text", b"bytes"])
def test_a_single_text_is_no_corpus(source):
    with pytest.raises(InputError, match="wrap it in a list"):
        read_corpus(source)


@pytest.mark.parametrize(
    "source", [{"text": "a"}, pd.DataFrame({"text": ["a"]}), 5, None], ids=["dict", "table", "5", "None"]
)
def test_tables_and_mappings_are_no_list_of_texts(source):
    """Their items are the names of columns, which nobody means."""
    with pytest.raises(InputError, match="must be a list of texts, got (dict|DataFrame|int|NoneType)"):
        read_corpus(source)


@pytest.mark.parametrize(
    "texts",
    [
        ("a", "b"),
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"], index=[7, 7]),
        pd.Series(["a", "b"], dtype="string"),
        pd.Series(["a", "b"], dtype="category"),
        (text for text in "ab"),
    ],
    ids=lambda texts: type(texts).__name__,
)
def test_texts_may_come_in_any_sequence(texts):
    assert check_texts(texts) == ["a", "b"]


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        (None, "None"),
        (float("nan"), "nan (float)"),
        (pd.NA, "<NA> (NAType)"),
        (3.14, "3.14 (float)"),
        (b"bytes", "b'bytes' (bytes)"),
        (7, "7 (int)"),
    ],
    ids=str,
)
def test_a_series_with_a_broken_index_and_a_bad_row(bad, shown):
    """USERS: sentence-transformers#3371, BERTopic#525: the row is named by its position."""
    series = pd.Series(["fine", bad, "fine too"], index=[0, 2, 5], dtype=object)
    for use in (check_texts, read_corpus):
        with pytest.raises(InputError) as error:
            use(series)
        assert f"[1] is {shown}, not a str" in str(error.value)
    assert check_texts(series.drop(2)) == ["fine", "fine too"]


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("\ud800", "\ufffd"),
        ("a\udc80b", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("😀 \ud83d", "😀 \ufffd"),
        ("👩‍👩‍👧 é 第", "👩‍👩‍👧 é 第"),
    ],
    ids=ascii,
)
def test_lone_surrogates_are_repaired_and_whole_characters_kept(broken, whole):
    assert repair_surrogates(broken) == whole


def test_repaired_texts_are_counted(tmp_path):
    path = write(tmp_path, "c.jsonl", '"lone \\ud800"\n"pair \\ud83d\\ude00"\n"😀"\n')
    corpus = read_corpus(path)
    assert corpus.texts == ["lone \ufffd", "pair 😀", "😀"]
    assert corpus.repaired == 1
