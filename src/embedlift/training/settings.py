"""What can be set when an encoder is trained: one place for defaults, limits and the words that explain them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from embedlift.errors import InputError

#: Methods that train the encoder, instead of fitting a map on its vectors.
TRAINING_METHODS = ("sg", "sg-opt1", "sg-opt2", "sg-opt", "bt")

#: Steps between two checkpoints, unless set: the paper's where labels choose between them, else rarer.
_SELECTION_STEPS, _SAFETY_STEPS = 50, 250


def _setting(default: Any, help_text: str, metavar: str | None = None) -> Any:
    return field(default=default, metadata={"help": help_text, "metavar": metavar})


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of self-guided contrastive learning; the defaults are those of the paper.

    Raises:
        InputError: If a setting is out of its range.

    References:
        Kim, Yoo, Lee (2021), Self-Guided Contrastive Learning for BERT Sentence Representations,
        arXiv:2106.07345, appendix.
    """

    temperature: float = _setting(0.01, "Of the contrastive loss.", "T")
    reg_weight: float = _setting(0.1, "Weight of the squared distance from the start model.", "W")
    lr: float = _setting(5e-5, "Highest learning rate.", "R")
    batch_size: int = _setting(16, "Sentences in a batch: each is compared with all others.", "B")
    accumulate: int = _setting(1, "Batches whose gradients are averaged for one step.", "N")
    epochs: int = _setting(1, "Passes over the corpus.", "N")
    max_steps: int | None = _setting(None, "Stop after N steps, before the epochs end.", "N")
    warmup: float = _setting(0.1, "Share of the steps in which the learning rate rises.", "SHARE")
    weight_decay: float = _setting(0.01, "Of the weight matrices.", "W")
    clip: float = _setting(1.0, "Largest norm of all gradients together.", "NORM")
    guide_layers: str = _setting("all", "Frozen layers that guide: all, 0..6 or 0,3,6; 0 is the embedding output.", "K")
    guide_pooling: str = _setting("mean", "Of the frozen layers over tokens: mean or max.", "NAME")
    head_width: int = _setting(4096, "Of the projection head, which is thrown away after training.", "N")
    train_embeddings: bool = _setting(False, "Train the embedding layer too.")
    train_length: int = _setting(128, "Tokens to which texts are cut while training.", "N")
    distinct: bool = _setting(False, "Train on each distinct text once per epoch, not on each row.")
    group_by_length: bool = _setting(False, "Batches of similar lengths: faster, but other negatives.")
    checkpoint_steps: int | None = _setting(
        None, f"Steps between checkpoints (default {_SAFETY_STEPS}; {_SELECTION_STEPS} with --select-with).", "N"
    )
    gradient_checkpointing: bool = _setting(False, "Less memory, more time.")
    bf16: bool = _setting(False, "Compute in bfloat16 where that is safe; weights stay float32.")
    lora: int | None = _setting(None, "Train adapters of rank R instead of all weights (needs peft).", "R")

    def __post_init__(self) -> None:
        limits = {
            "temperature": self.temperature > 0,
            "reg_weight": self.reg_weight >= 0,
            "lr": self.lr > 0,
            "accumulate": self.accumulate >= 1,
            "epochs": self.epochs >= 1,
            "max_steps": self.max_steps is None or self.max_steps >= 1,
            "warmup": 0 <= self.warmup < 1,
            "weight_decay": self.weight_decay >= 0,
            "clip": self.clip > 0,
            "guide_pooling": self.guide_pooling in ("mean", "max"),
            "head_width": self.head_width >= 1,
            "train_length": self.train_length >= 3,
            "checkpoint_steps": self.checkpoint_steps is None or self.checkpoint_steps >= 1,
            "lora": self.lora is None or self.lora >= 1,
        }
        for name, holds in limits.items():
            if not holds:
                raise InputError(f"{flag(name)} is out of its range: got {getattr(self, name)!r}")
        if self.batch_size < 2:
            raise InputError(
                f"--batch-size must be at least 2, got {self.batch_size}: "
                "a sentence is told from the others of its batch, so one alone teaches nothing"
            )
        self.layers(1)  # such as the text of guide_layers

    @classmethod
    def chosen(cls, given: dict[str, Any]) -> TrainingSettings:
        """Return the settings in which all that is not None in ``given`` replaces the default."""
        return cls(**{name: value for name, value in given.items() if value is not None})

    def layers(self, total: int) -> list[int] | None:
        """Return the hidden states, of ``total`` + 1, that guide; None for all.

        Raises:
            InputError: If the text names none, or some that a model of ``total`` layers lacks.
        """
        if self.guide_layers == "all":
            return None
        try:
            ends = [int(end) for end in self.guide_layers.split("..")] if ".." in self.guide_layers else None
            first, last = ends or (0, 0)
            named = [int(item) for item in self.guide_layers.split(",")] if ends is None else [*range(first, last + 1)]
        except ValueError:
            named = []
        if not named or min(named) < 0 or len(set(named)) < len(named):
            raise InputError(f"--guide-layers is {self.guide_layers!r}: write all, 0..6 or 0,3,6")
        if total > 1 and max(named) > total:
            raise InputError(f"--guide-layers names hidden state {max(named)}, but the model has 0 to {total}")
        return named

    def steps_between_checkpoints(self, *, selecting: bool) -> int:
        """Return ``checkpoint_steps`` or its default."""
        return self.checkpoint_steps or (_SELECTION_STEPS if selecting else _SAFETY_STEPS)

    def as_dict(self) -> dict[str, Any]:
        """Return what decides the result, JSON-able."""
        return asdict(self)


def flag(name: str) -> str:
    """Return the command line's name of a setting."""
    return f"--{name.replace('_', '-')}"
