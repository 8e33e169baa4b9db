"""Loss and gradient of a flow with respect to one flat vector of parameters."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from embedlift.functional.glow import Glow


class FlowGradient(Protocol):
    """What training needs of a flow.

    Attributes:
        parameters: Shape (P,), changed in place by the optimiser.
        gradient: Shape (P,), written by :meth:`loss_and_gradient`.
    """

    parameters: Tensor
    gradient: Tensor

    def loss_and_gradient(self, x: Tensor) -> float:
        """Return the mean bits per dimension of a batch, (N, D), and write its gradient."""

    def write_to(self, glow: Glow) -> None:
        """Copy the parameters into a flow of the same shape."""


class AutogradGradient:
    """The gradient by autograd, for every kind of flow.

    Args:
        glow: The flow; it is copied, and changes only in :meth:`write_to`.
    """

    def __init__(self, glow: Glow) -> None:
        self._glow = glow = copy.deepcopy(glow)  # its parameters become views of the flat vector
        self.parameters = torch.cat([parameter.detach().reshape(-1) for parameter in glow.parameters()])
        self.gradient = torch.zeros_like(self.parameters)
        start = 0
        for parameter in glow.parameters():
            here = slice(start, start + parameter.numel())
            parameter.data = self.parameters[here].view(parameter.shape)
            parameter.grad = self.gradient[here].view(parameter.shape)
            start = here.stop

    def loss_and_gradient(self, x: Tensor) -> float:
        """Return the mean bits per dimension of a batch, (N, D), and write its gradient."""
        self.gradient.zero_()
        loss = self._glow.bits_per_dimension(x).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def write_to(self, glow: Glow) -> None:
        """Copy the parameters into a flow of the same shape."""
        glow.load_state_dict(self._glow.state_dict())
