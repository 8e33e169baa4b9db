"""Which weights are kept, and input that cannot be trained on."""

import copy
import json

import numpy as np
import pytest
from test_encoder import distance
from training_runs import CORPUS, settings, train, write_dev_pairs

from embedlift.adaptation import run, write_json
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.training import fine_tuning
from embedlift.training.guidance import SelfGuidedObjective, sentence_ids
from embedlift.training.selection import dev_score
from embedlift.training.settings import TrainingSettings


@pytest.fixture
def dev(tmp_path):
    return write_dev_pairs(tmp_path / "dev.tsv")


def test_without_labels_the_last_step_is_kept(tiny_bert, tmp_path):
    record = train(tiny_bert, output=tmp_path / "out")
    assert record.training.selection == "last step, no labels used"
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Weights: last step, no labels used." in card
    assert "No label was used." in card


def test_with_labels_the_best_step_is_kept(tiny_bert, tmp_path, monkeypatch):
    dev = write_dev_pairs(tmp_path / "dev.tsv", sign=-1)  # so that the start is not the best
    scores = []

    def recorded(*arguments):
        score = dev_score(*arguments)
        return lambda: (scores.append(score()), scores[-1])[1]

    monkeypatch.setattr(fine_tuning, "dev_score", recorded)
    record = train(tiny_bert, select_with=dev, output=tmp_path / "out", checkpoint_steps=1, epochs=3)
    trained = record.training.trained
    assert len(scores) == 13, "the start, and every step"
    assert trained.best_score == max(scores) > scores[0]
    assert trained.best_step == scores.index(max(scores))
    assert dev_score(Encoder(tmp_path / "out"), dev)() == pytest.approx(trained.best_score, abs=1e-3)
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"Weights: step {trained.best_step}, the best on the labelled pairs of dev.tsv" in card
    assert "No label was used." not in card


def test_a_collapse_is_noticed_and_the_start_model_kept(tiny_bert, tmp_path):
    start = Encoder(tiny_bert, pooling="cls").encode(CORPUS)
    with pytest.warns(UserWarning, match="training made the model worse.*The start model is kept"):
        record = train(tiny_bert, lr=30.0, epochs=3, output=tmp_path / "out")
    assert distance(record.model.encode(CORPUS), start) < 1e-6
    assert record.after == record.before
    assert "Training made the model worse" in (tmp_path / "out" / "README.md").read_text()
    write_json(tmp_path / "j.json", record)
    assert json.loads((tmp_path / "j.json").read_text())["training"]["collapsed"]


def test_a_batch_of_one(tiny_bert):
    with pytest.raises(InputError, match="--batch-size must be at least 2, got 1"):
        train(tiny_bert, batch_size=1)


def test_a_corpus_smaller_than_a_batch(tiny_bert, tmp_path):
    with pytest.raises(InputError, match="the corpus has 5 rows to train on, fewer than a batch: lower --batch-size"):
        train(tiny_bert, CORPUS[:5], output=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_row_that_is_left_alone_in_its_batch_is_left_out(tiny_bert):
    assert train(tiny_bert, CORPUS[:33]).training.trained.steps == 2
    assert train(tiny_bert, CORPUS[:34]).training.trained.steps == 3


def test_repeated_templates_are_reported_and_no_negatives(tiny_bert):
    corpus = CORPUS[:39] + ["the same words again"] * 27
    with pytest.warns(UserWarning, match="39 % of the rows repeat others"):
        record = train(tiny_bert, corpus)
    assert record.training.trained.steps == 5
    assert all(np.isfinite(loss) for loss in record.training.trained.losses.values())
    assert train(tiny_bert, corpus, distinct=True).training.trained.steps == 3


def test_only_one_sentence(tiny_bert):
    """Nothing can be learned, and nothing breaks."""
    with pytest.warns(UserWarning, match="97 % of the rows repeat"):
        record = train(tiny_bert, ["the same words again"] * 32)
    assert set(record.training.trained.losses.values()) == {0.0}


def test_blank_texts_are_left_out(tiny_bert):
    record = train(tiny_bert, [*CORPUS, "", "  ", "\n"])
    assert record.corpus.blank == 3
    assert record.training.trained.steps == 4


def test_texts_without_tokens_are_left_out(tiny_llama):
    with pytest.warns(UserWarning, match="no token"):
        record = train(tiny_llama, [*CORPUS, "\u200b"])
    assert record.training.trained.steps == 4


def test_what_is_the_same_to_the_model_is_no_negative(tiny_bert):
    model = Encoder(tiny_bert).model
    ids = sentence_ids([model.preprocess(["the word", "The  WORD", "other", "the", "the word the"])])
    assert (ids[:, None] == ids).nonzero().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [3, 3], [4, 4]]


def test_pairs_that_share_a_text_are_no_negatives(tiny_bert):
    model = Encoder(tiny_bert).model
    first, second = ["the", "of", "hot", "by"], ["to", "hot", "word", "with two"]
    ids = sentence_ids([model.preprocess(first), model.preprocess(second)])
    assert (ids[:, None] == ids).int().tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_checkpoint(tiny_bert, tmp_path, monkeypatch):
    forward = SelfGuidedObjective.forward

    def failing(self, *arguments):
        self.calls = getattr(self, "calls", 0) + 1
        return forward(self, *arguments) * (float("nan") if self.calls == 6 else 1)

    monkeypatch.setattr(SelfGuidedObjective, "forward", failing)
    with pytest.raises(InputError, match=r"not a number at step 6 .*: lower --lr .*checkpoint of step 3 is kept"):
        train(tiny_bert, output=tmp_path / "out", epochs=2, checkpoint_steps=3)
    assert (tmp_path / "out.partial" / "checkpoints" / "step-00000003" / "weights.safetensors").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate")], ids=repr)
def test_out_of_memory_names_the_flags(tiny_bert, tmp_path, monkeypatch, error):
    def failing(*_):
        raise error

    monkeypatch.setattr(SelfGuidedObjective, "forward", failing)
    with pytest.raises(InputError, match=r"lower --batch-size \(now 16.*--gradient-checkpointing"):
        train(tiny_bert, output=tmp_path / "out")
    assert not list(tmp_path.iterdir()), "nothing is lost, so other settings must not be refused"


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0},
        {"reg_weight": -1},
        {"lr": 0},
        {"accumulate": 0},
        {"epochs": 0},
        {"max_steps": 0},
        {"warmup": 1},
        {"clip": 0},
        {"guide_pooling": "cls"},
        {"head_width": 0},
        {"checkpoint_steps": 0},
        {"lora": 0},
    ],
    ids=str,
)
def test_settings_out_of_range(wrong):
    with pytest.raises(InputError, match=f"--{next(iter(wrong)).replace('_', '-')} is out of its range"):
        settings(**wrong)


def test_settings_that_do_not_belong_together(tiny_bert, tmp_path):
    with pytest.raises(InputError, match="need a method that trains"):
        run(tiny_bert, CORPUS, method="whitening", training=settings())
    with pytest.raises(InputError, match="--dim, --preset and --set need"):
        run(tiny_bert, CORPUS, method="sg-opt", dim=3)
    with pytest.raises(InputError, match="--bf16 computes in bfloat16"):
        run(tiny_bert, CORPUS, method="sg-opt", dtype="bfloat16")
    with pytest.raises(InputError, match="no such file"):
        run(tiny_bert, CORPUS, method="sg-opt", select_with=tmp_path / "none.tsv")


def test_a_copy_of_the_settings_is_not_needed():
    chosen = TrainingSettings.chosen({"lr": 1e-4, "epochs": None})
    assert (chosen.lr, chosen.epochs) == (1e-4, 1)
    assert copy.copy(chosen) == chosen
