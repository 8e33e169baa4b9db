import pytest
from shared_data import shared

from embedlift.errors import InputError
from embedlift.evaluation import sts, suites
from embedlift.evaluation.pair_classification import PairClassification
from embedlift.evaluation.retrieval import Retrieval
from embedlift.evaluation.transfer import TransferTask


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def data(tmp_path):
    write(tmp_path / "stsb" / "stsb_test.tsv", "1\ta\tb\n4\tc\td\n")
    write(tmp_path / "transfer" / "CR.tsv", "0\ta\n1\tb\n")
    write(tmp_path / "qnli" / "qnli_dev.tsv", "0\ta\tb\n1\tc\td\n")
    write(tmp_path / "retrieval" / "scifact" / "corpus.tsv", "d1\tTitle\ttext\n")
    for split in ("test", "train"):
        write(tmp_path / "retrieval" / "scifact" / f"queries_{split}.tsv", f"q1\tquery of {split}\n")
        write(tmp_path / "retrieval" / "scifact" / f"qrels_{split}.tsv", "q1\td1\t1\n")
    return tmp_path


def test_names_of_all_kinds(data):
    names = ["STS-B", "CR", "QNLI", "SciFact", "SciFact:train"]
    tasks = suites.load(names, data, aggregation="mean", metrics=["dot_pearson"], mode="fast")
    assert [type(task) for task in tasks] == [sts.Task, TransferTask, PairClassification, Retrieval, Retrieval]
    assert [(task.name, task.split) for task in tasks] == [
        ("STS-B", "test"),
        ("CR", "test"),
        ("QNLI", "dev"),
        ("SciFact", "test"),
        ("SciFact", "train"),
    ]
    assert (tasks[0].aggregation, tasks[0].metrics, tasks[1].mode) == ("mean", ("dot_pearson",), "fast")
    assert list(tasks[4].texts()) == ["query of train", "Title text"]


def test_a_file_of_pairs_by_its_path(data):
    (task,) = suites.load(["stsb/stsb_test.tsv"], data)
    assert task.name == "stsb_test"


def test_groups_are_written_out_and_tasks_read_once():
    assert suites.names_of(["STS-B", "sts", "retrieval"]) == [
        *("STS-B", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R"),
        *("SciFact", "PubMedQA"),
    ]
    assert len(suites.names_of(["all"])) == len(set(suites.names_of(["all"]))) == 20
    assert {name for group in suites.GROUPS.values() for name in group} == set(suites.names_of(["all"]))


@pytest.mark.parametrize("name", ["STS17", "CR:dev", "SciFact:dve", "nothing"])
def test_unknown_names_list_what_there_is(data, name):
    with pytest.raises(InputError, match=f"unknown task '{name}'") as caught:
        suites.load(["STS-B", name], data)
    for known in (*suites.names_of(["all"]), "SST-2-sentences", "sts =", "transfer =", "all"):
        assert known in str(caught.value)


def test_what_is_missing_is_said_at_once_beside_what_is_there(data):
    with pytest.raises(InputError) as caught:
        suites.load(["STS-B", "SICK-R", "TREC", "QNLI", "PubMedQA"], data)
    message = str(caught.value)
    for missing in ("sickr_test.tsv", "TREC_train.tsv", "TREC_test.tsv", "pubmedqa"):
        assert missing in message
    assert "3 of 5 tasks cannot be read; those that can: STS-B, QNLI" in message


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        suites.load(["sts"], tmp_path / "nowhere")


def test_the_files_beside_the_repository_are_read():
    """Without transfer tasks, whose files have a test of their own."""
    groups = ("sts", "pairs", "retrieval")
    tasks = suites.load([*groups, "BIOSSES", "STS-B-de", "SciFact:train"], shared("data"))
    assert len(tasks) == sum(len(suites.GROUPS[group]) for group in groups) + 3
    scifact = next(task for task in tasks if task.name == "SciFact")
    assert (len(scifact.queries), len(scifact.documents)) == (300, 5183)
    assert sum(len(grades) for grades in scifact.relevance.values()) == 339
