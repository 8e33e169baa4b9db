"""Token vectors of several layers -> one vector per sentence and layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def pool_layers(states: Sequence[Tensor], mask: Tensor, over_tokens: Literal["mean", "max"] = "mean") -> Tensor:
    r"""Pool each hidden state over the real tokens of a sentence.

    .. math:: h_{ik} = \frac{\sum_t m_{it} x_{ikt}}{\sum_t m_{it}} \quad\text{or}\quad \max_{t: m_{it} = 1} x_{ikt}

    Layer by layer, so that the layers' tokens are never copied together. A sentence without tokens gets zeros.

    Args:
        states: Hidden states x, L tensors of shape (B, T, D).
        mask: m, 1 for real tokens and 0 for padding, shape (B, T).
        over_tokens: ``"mean"`` or ``"max"``.

    Returns:
        Shape (B, L, D).
    """
    real = mask.to(states[0].dtype)
    if over_tokens == "mean":
        weights = (real / real.sum(dim=1, keepdim=True).clamp_min(1)).unsqueeze(1)  # (B, 1, T)
        return torch.cat([weights @ state for state in states], dim=1)
    padding = (real == 0).unsqueeze(2)
    lowest = torch.finfo(states[0].dtype).min
    pooled = [state.masked_fill(padding, lowest).amax(dim=1) for state in states]
    return torch.stack(pooled, dim=1).masked_fill((real.sum(dim=1) == 0)[:, None, None], 0)
