"""Runs that are interrupted, and go on."""

import json
import random

import pytest
import torch
from command_line import command as adapt_here
from conftest import sentences
from killed_training import Killer
from safetensors.torch import load_file
from training_runs import same, train, weights, write_dev_pairs

from embedlift.errors import InputError
from embedlift.training import trainer


@pytest.fixture
def dev(tmp_path):
    return write_dev_pairs(tmp_path / "dev.tsv")


def command(model, corpus, output):
    flags = {"head-width": 32, "lr": 1e-3, "batch-size": 8, "epochs": 2, "checkpoint-steps": 3}
    extra = [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
    return [str(model), "--corpus", str(corpus), "--method", "sg-opt", "--output", str(output), *extra]


def adapt_on_one_thread(arguments, json_file):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        done = adapt_here("adapt", *arguments, "--json", json_file)
    finally:
        torch.set_num_threads(threads)
    assert done.code == 0, done.err
    return json.loads(json_file.read_text())


@pytest.fixture(scope="module")
def whole(tiny_bert, tmp_path_factory):
    """A corpus, the model that an uninterrupted run makes of it, and its record."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "corpus.txt").write_text("\n".join(sentences(50)) + "\n")
    record = adapt_on_one_thread(command(tiny_bert, folder / "corpus.txt", folder / "out"), folder / "j.json")
    return folder / "corpus.txt", load_file(folder / "out" / "model.safetensors"), record


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    killer = Killer(tmp_path_factory.mktemp("killer") / "log.txt")
    yield killer
    killer.close()


@pytest.mark.parametrize("where", ["step", "step", "save"])
def test_killed_and_started_again(tiny_bert, whole, killer, tmp_path, where):
    """The same bits as an uninterrupted run."""
    step = random.SystemRandom().randint(4, 13)  # of 14
    print("killed at step", step)  # noqa: T201 - shown if the test fails
    corpus, expected, straight = whole
    arguments = command(tiny_bert, corpus, tmp_path / "out")
    assert killer.adapt(arguments, kill_at=step, where=where) == -9
    assert not (tmp_path / "out").exists()
    resumed = adapt_on_one_thread(arguments, tmp_path / "j.json")
    assert same(load_file(tmp_path / "out" / "model.safetensors"), expected)
    assert resumed["resumed_from_step"] == (None if where == "save" else 3 * ((step - 1) // 3))
    assert straight["resumed_from_step"] is None
    assert resumed["training"]["losses"] == straight["training"]["losses"]


class Stopped(Exception):
    pass


def stop_at(monkeypatch, step):
    finish = trainer._Run.finish_gradients

    def stopping(self, now=0):
        finish(self, now)
        if now == step:
            raise Stopped

    monkeypatch.setattr(trainer._Run, "finish_gradients", stopping)


def interrupted(monkeypatch, model, output, step=7, **changes):
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        with pytest.raises(Stopped):
            train(model, output=output, epochs=2, checkpoint_steps=3, **changes)


def test_the_head_is_restored(tiny_bert, tmp_path, monkeypatch):
    interrupted(monkeypatch, tiny_bert, tmp_path / "out")
    saved = load_file(tmp_path / "out.partial" / "checkpoints" / "step-00000006" / "weights.safetensors")
    seen = {}
    before = trainer._Run.on_step_begin

    def look(self, args, state, control, **_):
        seen.setdefault(state.global_step, {name: tensor.detach().clone() for name, tensor in self.state().items()})
        return before(self, args, state, control)

    monkeypatch.setattr(trainer._Run, "on_step_begin", look)
    record = train(tiny_bert, output=tmp_path / "out", epochs=2, checkpoint_steps=3)
    assert record.training.trained.resumed_from_step == 6
    assert min(seen) == 6
    assert [name for name in saved if name.startswith("head.")]
    assert all(torch.equal(saved[name], seen[6][name]) for name in saved)


def test_a_damaged_checkpoint_is_skipped(tiny_bert, tmp_path, monkeypatch):
    interrupted(monkeypatch, tiny_bert, tmp_path / "out")
    newest = tmp_path / "out.partial" / "checkpoints" / "step-00000006"
    content = bytearray((newest / "optimizer.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "optimizer.pt").write_bytes(content)
    with pytest.warns(UserWarning, match=r"step-00000006 is damaged \(optimizer.pt has changed\) and is skipped"):
        record = train(tiny_bert, output=tmp_path / "out", epochs=2, checkpoint_steps=3)
    assert record.training.trained.resumed_from_step == 3
    whole = weights(train(tiny_bert, epochs=2).model)
    assert same(whole, record.model)


def test_selection_goes_on_after_an_interruption(tiny_bert, dev, tmp_path, monkeypatch):
    whole = train(tiny_bert, select_with=dev, epochs=2, checkpoint_steps=3)
    interrupted(monkeypatch, tiny_bert, tmp_path / "out", select_with=dev)
    record = train(tiny_bert, select_with=dev, output=tmp_path / "out", epochs=2, checkpoint_steps=3)
    assert record.training.trained.resumed_from_step == 6
    assert record.training.selection == whole.training.selection
    assert all(torch.equal(one, weights(record.model)[name]) for name, one in weights(whole.model).items())


def test_other_settings_than_those_of_the_unfinished_run(tiny_bert, tmp_path, monkeypatch):
    interrupted(monkeypatch, tiny_bert, tmp_path / "out")
    with pytest.raises(
        InputError, match=r"unfinished work with other settings \(method.temperature was 0.01, is 0.1\)"
    ):
        train(tiny_bert, output=tmp_path / "out", epochs=2, checkpoint_steps=3, temperature=0.1)
