"""The optimiser of BERT-flow, on one flat vector of parameters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AdamSettings:
    """Settings of :class:`ClippedAdam`; the defaults are those of BERT-flow's released code.

    Attributes:
        betas: Decay of the first and the second moment.
        epsilon: Added to the root of the second moment.
        weight_decay: Decoupled, on every parameter.
        clip_norm: Longest gradient let through; a longer one is shortened to it.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0


class ClippedAdam:
    r"""Adam without bias correction, with decoupled weight decay, on a gradient clipped by its norm.

    .. math::
        g \leftarrow g \min(1, c / \|g\|), \quad
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \eta \left( \frac{m}{\sqrt{v} + \epsilon} + \lambda p \right)

    One flat vector makes each of these a single pass over memory, however many parameters there are.

    Args:
        size: Number of parameters, P.
        settings: All but the learning rate, which each step is given.

    Attributes:
        first: m, shape (P,).
        second: v, shape (P,).

    References:
        Kingma, Ba (2014), Adam, arXiv:1412.6980, algorithm 1. Loshchilov, Hutter (2017), Decoupled Weight
        Decay Regularization, arXiv:1711.05101, algorithm 2.
    """

    def __init__(self, size: int, settings: AdamSettings) -> None:
        self.settings = settings
        self.first = torch.zeros(size)
        self.second = torch.zeros(size)
        self._scratch = torch.empty(size)

    @torch.no_grad()
    def step(self, parameters: Tensor, gradient: Tensor, lr: float) -> None:
        """Change ``parameters``, shape (P,), in place; ``gradient``, shape (P,), is left as it is."""
        settings = self.settings
        beta1, beta2 = settings.betas
        norm = float(torch.linalg.vector_norm(gradient))
        clip = min(1.0, settings.clip_norm / norm) if norm else 1.0
        self.first.mul_(beta1).add_(gradient, alpha=(1 - beta1) * clip)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=(1 - beta2) * clip**2)
        torch.sqrt(self.second, out=self._scratch).add_(settings.epsilon)
        parameters.mul_(1 - lr * settings.weight_decay)
        parameters.addcdiv_(self.first, self._scratch, value=-lr)
