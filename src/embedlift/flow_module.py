"""A flow with affine couplings as one sentence-transformers module.

This very file is copied into the folder of a saved model, where ``trust_remote_code=True`` loads it; so it imports
torch and sentence-transformers only. Flows with additive couplings need no such file: they are saved as stock modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from sentence_transformers.base.modules.module import Module
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor


class FlowStep(nn.Module):
    """One step: an affine map of all channels, then a coupling that shifts and scales the second part of them."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        changed = channels // 2
        self.kept = channels - changed
        self.entry = nn.Linear(channels, channels)
        self.hidden1 = nn.Linear(self.kept, width)
        self.hidden2 = nn.Linear(width, width)
        self.shift = nn.Linear(width, changed)
        self.scale = nn.Linear(width, changed)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, channels) to (N, channels)."""
        x = self.entry(x)
        x1, x2 = x[:, : self.kept], x[:, self.kept :]
        hidden = torch.relu(self.hidden2(torch.relu(self.hidden1(x1))))
        return torch.cat([x1, (x2 + self.shift(hidden)) * torch.sigmoid(self.scale(hidden))], dim=1)


class FlowModule(Module):
    """Map the sentence embedding by a flow, shape (N, D) to (N, D).

    Args:
        dimension: D.
        levels: Levels of the flow; after each but the last, the second half of the channels leaves.
        depth: Steps per level.
        width: Hidden units of the couplings.
    """

    config_keys = ["dimension", "levels", "depth", "width"]

    def __init__(self, dimension: int, levels: int, depth: int, width: int) -> None:
        super().__init__()
        self.dimension, self.levels, self.depth, self.width = dimension, levels, depth, width
        channels = [dimension]
        for _ in range(levels - 1):
            channels.append(channels[-1] - channels[-1] // 2)
        self.steps: Any = nn.ModuleList(nn.ModuleList(FlowStep(size, width) for _ in range(depth)) for size in channels)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Replace ``sentence_embedding``."""
        x, left = features["sentence_embedding"], []
        for number, level in enumerate(self.steps, start=1):
            for step in level:
                x = step(x)
            if number < self.levels:
                staying = x.shape[1] - x.shape[1] // 2
                left.append(x[:, staying:])
                x = x[:, :staying]
        features["sentence_embedding"] = torch.cat([*left, x], dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        """Return D."""
        return self.dimension

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the configuration and the weights."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> FlowModule:
        """Read what :meth:`save` wrote, locally or from a hub."""
        places = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        where = {name: kwargs[name] for name in places if name in kwargs}
        module = cls(**cls.load_config(model_name_or_path, **where))
        return cls.load_torch_weights(model_name_or_path, model=module, **where)
