"""The optimiser and schedule with which the published figures were made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from embedlift.errors import InputError
from embedlift.functional.buckets import buckets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor


class PaperAdamW(Optimizer):
    r"""AdamW with its epsilon beside the uncorrected second moment, and the decay after the move.

    .. math::
        m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t, \qquad v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2 \\
        \theta_t &= (1 - \eta_t w) \Big( \theta_{t-1} - \eta_t
        \frac{\sqrt{1 - \beta_2^t}}{1 - \beta_1^t} \frac{m_t}{\sqrt{v_t} + \epsilon} \Big)

    ``torch.optim.AdamW`` adds epsilon to :math:`\sqrt{v_t / (1 - \beta_2^t)}` instead. Where gradients
    are as small as epsilon that is another optimiser: in the first steps the published one moves less.

    Args:
        parameters: Parameters or parameter groups, see :func:`decay_groups`.
        lr: :math:`\eta`.
        betas: :math:`\beta_1, \beta_2`; both are 0.9 in the paper.
        eps: :math:`\epsilon`.
        weight_decay: w.

    Raises:
        InputError: If a setting is out of its range.

    References:
        Loshchilov, Hutter (2019), Decoupled Weight Decay Regularization, arXiv:1711.05101, algorithm 2.
        Kim, Yoo, Lee (2021), arXiv:2106.07345, appendix, for the settings.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 5e-5,
        *,
        betas: tuple[float, float] = (0.9, 0.9),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        if lr < 0 or eps < 0 or weight_decay < 0 or not all(0 <= beta < 1 for beta in betas):
            raise InputError(
                "lr, eps and weight_decay must not be negative and betas must be in [0, 1), "
                f"got lr {lr}, eps {eps}, weight_decay {weight_decay}, betas {betas}"
            )
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move every parameter that has a gradient; return the closure's loss, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            pairs = [(parameter, parameter.grad) for parameter in group["params"] if parameter.grad is not None]
            for part in buckets([parameter for parameter, _ in pairs]):
                self._move(pairs[part], group)
        return loss

    def _move(self, pairs: list[tuple[Tensor, Tensor]], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        parameters, gradients = [parameter for parameter, _ in pairs], [gradient for _, gradient in pairs]
        states = [self._advanced(parameter) for parameter in parameters]
        means = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
        scale = torch._foreach_sqrt(squares)
        torch._foreach_add_(scale, group["eps"])
        steps = [state["step"] for state in states]
        sizes = [-group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step) for step in steps]
        torch._foreach_addcdiv_(parameters, means, scale, sizes)
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])

    def _advanced(self, parameter: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        return state


def decay_groups(parameters: Iterable[Tensor], weight_decay: float = 0.01) -> list[dict[str, Any]]:
    """Return two parameter groups: matrices, which decay, and biases and LayerNorm, which do not.

    They are told apart by their number of dimensions, not by names, which differ between encoders.
    Parameters that need no gradient are left out.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]


def linear_warmup(optimizer: Optimizer, total_steps: int, warmup: float = 0.1) -> LambdaLR:
    r"""Let the learning rate rise linearly from 0, then fall linearly to 0.

    .. math:: \eta_t = \eta \min\Big(\frac{t}{W}, \frac{T - t}{T - W}\Big), \qquad W = \lceil w T \rceil

    The first step has a learning rate of 0, as in the published code.

    Args:
        optimizer: Whose groups hold :math:`\eta`.
        total_steps: T.
        warmup: w, the share of the steps in which the rate rises, at least 0 and below 1.

    Raises:
        InputError: If there are no steps, or the share is out of its range.
    """
    if total_steps < 1 or not 0 <= warmup < 1:
        raise InputError(f"total_steps must be at least 1 and warmup in [0, 1), got {total_steps}, {warmup}")
    rising = math.ceil(warmup * total_steps)

    def factor(step: int) -> float:
        if step < rising:
            return step / rising
        return max(0.0, (total_steps - step) / max(1, total_steps - rising))

    return LambdaLR(optimizer, factor)
