"""Offline: rows as the hub's datasets have them, in place of the hub."""

import datasets
import pytest

from embedlift.errors import InputError
from embedlift.evaluation import hub, sts
from embedlift.evaluation.retrieval import Retrieval

STS_ROWS = [
    {"split": "test", "genre": "news", "score": 4.5, "sentence1": "A cat sleeps.", "sentence2": "A cat is asleep."},
    {"split": "test", "genre": "news", "score": 1.0, "sentence1": "It rains.", "sentence2": "We had lunch."},
]
CORPUS = [{"_id": "7", "title": "Rain", "text": "It falls."}, {"_id": "8", "title": "", "text": "The sun."}]
QUERIES = [{"_id": "1", "text": "wet?"}, {"_id": "2", "text": "of another split"}]
QRELS = [{"query-id": "1", "corpus-id": "7", "score": 1.0}]


@pytest.fixture
def asked(monkeypatch):
    """What was asked of the hub: (path, configuration, split, revision)."""
    calls = []

    def load_dataset(path, name=None, *, split, revision):
        calls.append((path, name, split, revision))
        rows = {"corpus": CORPUS, "queries": QUERIES, "default": QRELS, None: STS_ROWS}[name]
        return datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


def test_pairs_with_scores(asked):
    (task,) = hub.load(["STS-B:dev"], metrics=["cosine_pearson"])
    assert isinstance(task, sts.Task)
    assert (task.name, task.split, task.metrics) == ("STS-B", "dev", ("cosine_pearson",))
    assert list(task.texts()) == ["A cat sleeps.", "It rains.", "A cat is asleep.", "We had lunch."]
    assert task.subsets[0].gold.tolist() == [4.5, 1.0]
    assert asked == [("mteb/stsbenchmark-sts", None, "validation", "b0fddb56ed78048fa8b90373c8a3cfc37b684831")]


def test_retrieval(asked):
    (task,) = hub.load(["SciFact"])
    assert isinstance(task, Retrieval)
    assert (task.queries, task.documents) == ({"1": "wet?"}, {"7": "Rain It falls.", "8": "The sun."})
    assert task.relevance == {"1": {"7": 1}}
    assert [call[:3] for call in asked] == [
        ("mteb/scifact", "corpus", "corpus"),
        ("mteb/scifact", "queries", "queries"),
        ("mteb/scifact", "default", "test"),
    ]


def test_groups(asked):
    tasks = hub.load(["sts"])
    assert [task.name for task in tasks] == [
        "STS12",
        "STS13",
        "STS14",
        "STS15",
        "STS16",
        "STS-B",
        "SICK-R (9,927 pairs)",
    ]
    assert len({revision for *_, revision in asked}) == 7


def test_revisions_are_those_of_mteb():
    import mteb

    names = {"STS-B": "STSBenchmark"}
    for name, source in hub.SOURCES.items():
        wanted = mteb.get_task(names.get(name, name)).metadata.dataset
        assert (source.path, source.revision) == (wanted["path"], wanted["revision"])


def test_unknown_names_list_what_there_is():
    with pytest.raises(InputError, match=r"from the hub: MR: choose from STS12, .*NFCorpus, or the groups"):
        hub.load(["STS12", "MR"])


@pytest.mark.parametrize("name", ["STS12", "SciFact"])
def test_without_a_network_the_message_says_what_to_do(name):
    with pytest.raises(InputError, match=r"cannot fetch mteb/.*give a folder with the data"):
        hub.load([name])
