"""Keep a fine-tuned encoder near its start: squared distance of the weights, without autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from embedlift.errors import InputError
from embedlift.functional.buckets import buckets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor


@torch.no_grad()
def add_weight_regulariser(trained: Iterable[Tensor], frozen: Iterable[Tensor], strength: float = 0.1) -> Tensor:
    r"""Add the regulariser's gradient to ``.grad`` and return its value.

    .. math::
        R = \lambda \sum \| \theta_F - \theta_T \|_2^2, \qquad
        \frac{\partial R}{\partial \theta_T} = 2 \lambda (\theta_T - \theta_F)

    Call it once per optimiser step, after the backward passes (and after their gradients are summed over
    devices and unscaled) and before gradients are clipped. Autograd would keep a difference of the whole
    model until its backward pass; here one portion of the weights at a time is read.

    Args:
        trained: Parameters :math:`\theta_T`; those that need no gradient count in the value alone.
        frozen: Parameters :math:`\theta_F`, of the same shapes in the same order.
        strength: :math:`\lambda`.

    Returns:
        R, a scalar without gradient on the device of the first parameter.

    Raises:
        InputError: If the two do not match, or are empty.

    References:
        Kim, Yoo, Lee (2021), Self-Guided Contrastive Learning for BERT Sentence Representations,
        arXiv:2106.07345, section 3.
    """
    trained, frozen = list(trained), list(frozen)
    if not trained or [tensor.shape for tensor in trained] != [tensor.shape for tensor in frozen]:
        raise InputError(
            "trained and frozen parameters must have the same shapes in the same order, and not be empty, "
            f"got {_sizes(trained)} and {_sizes(frozen)}"
        )
    total = torch.zeros((), device=trained[0].device)
    for part in buckets(trained):
        drift = torch._foreach_sub(trained[part], frozen[part])
        _add_gradients(trained[part], drift, 2 * strength)
        torch._foreach_mul_(drift, drift)  # sum() adds pairwise; norm() loses four digits of a large matrix
        total += torch.stack([squares.sum(dtype=total.dtype) for squares in drift]).sum().to(total.device)
    return strength * total


def _sizes(tensors: Sequence[Tensor]) -> str:
    return f"{len(tensors)} tensors of {sum(tensor.numel() for tensor in tensors)} numbers"


def _add_gradients(parameters: Sequence[Tensor], drift: Sequence[Tensor], factor: float) -> None:
    gradients, steps = [], []
    for parameter, step in zip(parameters, drift, strict=True):
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:  # such as the pooler's, which the contrastive loss does not reach
            parameter.grad = torch.zeros_like(parameter)
        gradients.append(parameter.grad)
        steps.append(step)
    if gradients:
        torch._foreach_add_(gradients, steps, alpha=factor)
