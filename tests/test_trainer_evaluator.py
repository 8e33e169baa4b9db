import dataclasses

import numpy as np
import pytest
from conftest import sentences
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.evaluation import sts
from embedlift.evaluation.pair_classification import PairClassification
from embedlift.evaluation.tasks import evaluate
from embedlift.trainer_evaluator import TaskEvaluator

TEXTS = sentences(40)
PAIRS = sts.Pairs("a", TEXTS[:20], TEXTS[20:], np.arange(20.0))
TASKS = [
    sts.Task("one", "dev", [PAIRS, dataclasses.replace(PAIRS, name="b", gold=-PAIRS.gold)]),
    PairClassification("two", "test", TEXTS[:20], TEXTS[20:], np.arange(20) % 3 == 0),
]


@pytest.fixture
def model(tiny_bert):
    return Encoder(tiny_bert).model


def test_metrics_are_those_of_the_evaluation(model):
    evaluator = TaskEvaluator(TASKS, "mine")
    found = evaluator(model)
    expected = evaluate(Encoder(model), "m", TASKS)
    assert len(found) == len(expected) + 1
    for score in expected:
        subset = f"_{score.subset}" if score.subset else ""
        assert found[f"mine_{score.task}_{score.split}{subset}_{score.metric}"] == pytest.approx(score.score)
    assert evaluator.primary_metric == "mine_mean"
    first = found["mine_one_dev_cosine_spearman"], found["mine_two_test_cosine_ap"]
    assert found["mine_mean"] == pytest.approx(sum(first) / 2)
    assert TaskEvaluator(TASKS)(model)["mean"] == pytest.approx(found["mine_mean"])


@pytest.mark.parametrize("training", [True, False])
def test_a_model_stays_in_its_mode(model, training):
    model.train(training)
    TaskEvaluator(TASKS)(model)
    assert {module.training for module in model.modules()} == {training}


def test_what_is_undefined_is_left_out_and_wins_nothing(model):
    constant = sts.Task("flat", "test", [dataclasses.replace(PAIRS, gold=np.ones(20))])
    found = TaskEvaluator([constant, TASKS[1]])(model)
    assert not any(name.startswith("flat") for name in found)
    assert found["mean"] == pytest.approx(found["two_test_cosine_ap"] / 2)


def test_an_evaluator_needs_a_task():
    with pytest.raises(InputError, match="at least one task"):
        TaskEvaluator([])


def test_the_trainer_keeps_the_best_checkpoint_by_it(model, tmp_path):
    data = Dataset.from_dict({"anchor": TEXTS[:8], "positive": TEXTS[8:16]})
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="eval_mine_mean",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model, arguments, data, loss=MultipleNegativesRankingLoss(model), evaluator=TaskEvaluator(TASKS, "mine")
    )
    trainer.train()
    logged = [entry["eval_mine_mean"] for entry in trainer.state.log_history if "eval_mine_mean" in entry]
    assert len(logged) == 2
    assert trainer.state.best_metric == pytest.approx(max(logged))
    assert isinstance(trainer.model, SentenceTransformer)
