"""Losses that fine-tune an encoder without labels: one file per method, tensors in, a scalar out.

They know nothing of models: the caller gives sentence vectors ``cls`` (B, D) and, where a method needs
them, the pooled layers ``hidden`` (B, L, D) of a frozen copy of the encoder.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedlift.objectives.paper_adam import PaperAdamW, decay_groups, linear_warmup
    from embedlift.objectives.regulariser import add_weight_regulariser
    from embedlift.objectives.self_guided import ProjectionHead, sample_layer, self_guided_loss
    from embedlift.objectives.simcse import simcse_loss

_LAZY = {
    "PaperAdamW": "paper_adam",
    "ProjectionHead": "self_guided",
    "add_weight_regulariser": "regulariser",
    "decay_groups": "paper_adam",
    "linear_warmup": "paper_adam",
    "sample_layer": "self_guided",
    "self_guided_loss": "self_guided",
    "simcse_loss": "simcse",
}

__all__ = [
    "PaperAdamW",
    "ProjectionHead",
    "add_weight_regulariser",
    "decay_groups",
    "linear_warmup",
    "sample_layer",
    "self_guided_loss",
    "simcse_loss",
]


def __getattr__(name: str) -> Any:  # torch is imported when a loss is asked for, so that --help is instant
    if name in _LAZY:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
