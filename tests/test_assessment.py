import json

import numpy as np
import pytest
from conftest import sentences
from sentence_transformers import SentenceTransformer

from embedlift import assessment
from embedlift.adaptation import run
from embedlift.errors import InputError
from embedlift.evaluation import sts
from embedlift.evaluation.retrieval import Retrieval

TEXTS = sentences(80)
GOLD = np.random.default_rng(1).integers(0, 6, 40).astype(float)
TASK = sts.Task("mine", "own", [sts.Pairs("mine", TEXTS[:40], TEXTS[40:], GOLD)])
SEARCH = Retrieval(
    "find", "test", {str(i): TEXTS[i] for i in range(12)}, {str(i): TEXTS[20 + i] for i in range(40)},
    {str(i): {str(i): 1} for i in range(12)},
)  # fmt: skip


def test_models_are_scored_compared_and_told_apart(tmp_path, tiny_bert, tiny_llama):
    found = assessment.evaluate([tiny_bert, str(tiny_llama)], [TASK, SEARCH], seed=3)
    assert [score.model for score in found.scores] == [str(tiny_bert)] * 4 + [str(tiny_llama)] * 4
    # the average needs two tasks of one metric; the other metrics of retrieval say the same again
    assert [(one.task, one.metric) for one in found.comparisons] == [
        ("mine", "cosine_spearman"),
        ("find", "cosine_ndcg_at_10"),
    ]
    assert found.contamination == {}
    assessment.write_json(tmp_path / "a.json", found, {"seed": 3})
    document = json.loads((tmp_path / "a.json").read_text())
    assert [one["sentence"] for one in document["comparisons"]] == [one.sentence for one in found.comparisons]


def test_the_same_model_twice_differs_by_nothing(tiny_bert):
    loaded = SentenceTransformer(str(tiny_bert))
    found = assessment.evaluate([loaded, loaded], [TASK], cache=False)
    assert [score.model for score in found.scores] == ["model 1", "model 2"]
    [one] = found.comparisons
    assert one.difference == 0
    assert not one.differs


def test_a_task_that_the_fit_has_seen_is_called_transductive(tmp_path, tiny_bert):
    run(tiny_bert, [*TEXTS[:30], "another word"], method="center", output=tmp_path / "m")
    other = sts.Task("other", "own", [sts.Pairs("other", ["one", "two", "year"], ["good", "man", "hot"], GOLD[:3])])
    found = assessment.evaluate([tiny_bert, tmp_path / "m"], [TASK, other])
    assert list(found.contamination) == [str(tmp_path / "m")]
    assert [(one.seen, one.texts) for one in found.contamination[str(tmp_path / "m")]] == [(30, 80), (0, 6)]
    marked = [(score.model, score.task) for score in found.scores if "transductive" in (score.note or "")]
    assert marked == [(str(tmp_path / "m"), "mine")]


@pytest.mark.parametrize("prompt", [None, "given "])
def test_prompts_for_queries_and_documents_are_used_unless_another_is_given(tmp_path, tiny_bert, prompt):
    model = SentenceTransformer(str(tiny_bert))
    model.prompts = {"query": "give us ", "document": "the number "}
    model.save(str(tmp_path / "m"))
    plain, prompted = (assessment.evaluate([folder], [SEARCH], prompt=prompt) for folder in (tiny_bert, tmp_path / "m"))
    same = [score.score for score in plain.scores] == [score.score for score in prompted.scores]
    assert same == (prompt is not None)


@pytest.mark.parametrize("cache", [True, False])
def test_long_texts_may_be_averaged_over_pieces(tiny_bert, cache):
    """What stands behind the model's limit then counts."""
    start = "time number people water year good hot man"
    pairs = sts.Pairs("ends", [f"{start} {text}" for text in TEXTS[:20]], [start] * 20, GOLD[:20])
    task = sts.Task("ends", "own", [pairs])
    by_long = {
        long: assessment.evaluate([tiny_bert], [task], cache=cache, max_length=10, long=long).scores[0]
        for long in ("truncate", "chunk-mean")
    }
    assert by_long["truncate"].score is None, "all texts are the same eight words"
    assert -1 <= by_long["chunk-mean"].score <= 1


def test_bad_names(tiny_bert):
    with pytest.raises(InputError, match="each model can be given once"):
        assessment.evaluate([tiny_bert, str(tiny_bert)], [TASK])
    with pytest.raises(InputError, match="the baseline 'x' is none of the models"):
        assessment.evaluate([tiny_bert], [TASK], baseline="x")


def test_texts_without_numbers_are_named_and_encoded_alone_once_more(monkeypatch, tiny_bert):
    """As float16 does when activations overflow."""
    encode = assessment.CachedEncoder.encode

    def broken(self, texts, **options):
        vectors = encode(self, texts, **options)
        vectors[[texts.index(TEXTS[3]), texts.index(TEXTS[45])]] = np.nan
        return vectors

    whole = assessment.evaluate([tiny_bert], [TASK])
    monkeypatch.setattr(assessment.CachedEncoder, "encode", broken)
    with pytest.warns(UserWarning, match="2 of 80 texts had NaN or infinity.*2 of them are finite") as caught:
        mended = assessment.evaluate([tiny_bert], [TASK])
    assert repr(TEXTS[3][:60]) in str(caught[0].message)
    assert mended.scores[0].score == pytest.approx(whole.scores[0].score)
    assert mended.scores[0].note is None
