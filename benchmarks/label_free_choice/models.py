"""The study's models: plain ones, ones tuned with labels, ones trained here, and one that knows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import AutoConfig, AutoModel

from embedlift.encoder import Encoder
from embedlift.layers import required_transformer
from label_free_choice.wheel_e5 import load_e5

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LENGTH = 128

#: Name -> what it is, for the tables.
MODELS = {
    "rampart": "rampart-bert: 6 layers, masked language model",
    "minilm": "all-MiniLM-L6-v2: tuned with labels",
    "e5": "multilingual-e5-small (4-bit weights): tuned with labels",
    "smollm2": "SmolLM2-135M: a decoder of 30 layers",
    "smollm5": "SmolLM2-135M: its first 5 layers",
    "minilm2": "all-MiniLM-L6-v2: its first 2 layers",
    "simcse": "rampart-bert after 150 steps of SimCSE on Wikipedia",
    "stsb-tuned": "rampart-bert tuned on the labels of STS-B's training part",
    "random": "rampart-bert with random weights",
}


def load(name: str, shared: Path, work: Path) -> Encoder:
    """Return a model of the study.

    Args:
        name: Of ``MODELS``.
        shared: Folder of the data and models that are given.
        work: Folder of what the study makes.
    """
    rampart = shared / "models/rampart-bert"
    loaders: dict[str, Callable[[], Encoder]] = {
        "rampart": lambda: Encoder(rampart, max_length=_LENGTH),
        "minilm": lambda: Encoder("packaged:all-minilm-l6-v2", max_length=_LENGTH),
        "e5": lambda: Encoder(load_e5(_LENGTH)),
        "smollm2": lambda: Encoder("packaged:smollm2-135m", max_length=_LENGTH),
        "smollm5": lambda: Encoder("packaged:smollm2-135m", layers=5, max_length=_LENGTH),
        "minilm2": lambda: Encoder("packaged:all-minilm-l6-v2", layers=2, max_length=_LENGTH),
        "simcse": lambda: Encoder(work / "simcse"),
        "stsb-tuned": lambda: Encoder(work / "stsb-tuned"),
        "random": lambda: _random(rampart),
    }
    return loaders[name]()


def _random(folder: Path) -> Encoder:
    torch.manual_seed(0)
    model = Encoder(folder, max_length=_LENGTH).model
    untrained = AutoModel.from_config(AutoConfig.from_pretrained(folder)).eval()
    transformer = required_transformer(model, "the study")
    transformer.model.load_state_dict(untrained.state_dict(), strict=False)
    return Encoder(model)
