"""A model that was adapted goes into mteb as it is: here into a task of local data, without a hub."""

import datasets
import mteb
import numpy as np
import pytest
from conftest import sentences
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

from embedlift import Encoder, adapt
from embedlift.evaluation import sts
from embedlift.evaluation.tasks import evaluate

TEXTS = sentences(60)
GOLD = np.random.default_rng(0).uniform(0, 5, 30)


class LocalSTS(AbsTaskSTS):
    metadata = TaskMetadata(
        name="LocalSTS",
        description="Made-up sentences with made-up scores.",
        reference="https://example.org",
        dataset={"path": "local/none", "revision": "1"},
        type="STS",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
        date=("2026-01-01", "2026-01-02"),
        domains=["Written"],
        task_subtypes=[],
        license="cc0-1.0",
        annotations_creators="derived",
        dialect=[],
        sample_creation="created",
        bibtex_citation="",
    )

    def load_data(self, **kwargs):
        rows = datasets.Dataset.from_dict({"sentence1": TEXTS[:30], "sentence2": TEXTS[30:], "score": GOLD.tolist()})
        self.dataset = datasets.DatasetDict(test=rows)
        self.data_loaded = True


@pytest.mark.filterwarnings("ignore:The fill_missing parameter:DeprecationWarning:mteb")
@pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension` method:FutureWarning:mteb")
def test_mteb_gives_an_adapted_model_the_same_score(tiny_bert, tmp_path):
    model = adapt(tiny_bert, sentences(80, seed=1), method="whitening", dim=8)
    results = mteb.evaluate(model, LocalSTS(), cache=None, encode_kwargs={"show_progress_bar": False})
    (score,) = evaluate(
        Encoder(model), "m", [sts.Task("Local", "test", [sts.Pairs("p", TEXTS[:30], TEXTS[30:], GOLD)])]
    )
    assert results.task_results[0].scores["test"][0]["cosine_spearman"] == pytest.approx(score.score, abs=1e-4)
