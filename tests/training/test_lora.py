"""Low-rank adapters."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from test_encoder import distance
from training_runs import CORPUS, settings, train

from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.training.guidance import SelfGuidedObjective


def test_lora_trains_adapters_and_saves_a_plain_model(tiny_llama, tmp_path):
    pytest.importorskip("peft")
    record = train(tiny_llama, output=tmp_path / "out", lora=4, lr=1e-2, epochs=4, temperature=0.1)
    losses = list(record.training.trained.losses.values())
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    saved = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert not [name for name in saved.state_dict() if "lora" in name]
    assert distance(saved.encode(CORPUS[:8]), record.model.encode(CORPUS[:8])) < 1e-5
    assert distance(saved.encode(CORPUS[:8]), Encoder(tiny_llama, pooling="last").encode(CORPUS[:8])) > 1e-3


def test_loras_guide_is_the_model_without_adapters(tiny_bert):
    pytest.importorskip("peft")
    model, plain = (Encoder(tiny_bert, pooling="cls").model for _ in range(2))
    objective = SelfGuidedObjective(model, settings(lora=4), "sg-opt")
    with torch.no_grad():
        for tensor in objective.trained_parameters().values():
            tensor.add_(0.1)
    features = model.preprocess(CORPUS[:4])
    wanted = SelfGuidedObjective(plain, settings(), "sg-opt").guide(features)
    model.train()
    torch.testing.assert_close(objective.guide(features), wanted)
    assert model.training
    assert not torch.allclose(
        model.eval()(dict(features))["sentence_embedding"], plain(dict(features))["sentence_embedding"]
    )


def test_lora_without_peft_names_the_extra(tiny_bert, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match=r"pip install 'embedlift\[lora\]'"):
        train(tiny_bert, lora=4)
