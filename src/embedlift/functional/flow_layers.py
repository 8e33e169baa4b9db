"""The layers of an invertible flow on vectors: ActNorm, mixings of the channels, couplings.

Each maps (N, C) to (N, C) and returns the log-determinant of its Jacobian with the result.
"""

from __future__ import annotations

import math
from typing import Literal, cast

import torch
from torch import Tensor, nn

CouplingKind = Literal["additive", "affine"]

#: Stored log-scales are multiplied by this; it only triples their learning rate.
LOG_SCALE_FACTOR = 3.0
_STD_EPSILON = 1e-6
_ROUNDING = 1e-6


def split_sizes(channels: int) -> tuple[int, int]:
    """Return the sizes of the two halves of ``channels``: the first is larger by one if they are odd."""
    return channels - channels // 2, channels // 2


class ActNorm(nn.Module):
    r"""Shift and scale of each channel.

    .. math:: y = (x + b) \, e^{3 s}, \qquad \log |\det| = \sum_c 3 s_c

    Without :meth:`initialise`, b and s are Glorot-uniform, as in the released code of BERT-flow, where the
    data-dependent initialisation is never reached.

    Args:
        channels: C.
        generator: Source of the random start.

    References:
        arXiv:1807.03039, section 3.1.
    """

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        limit = math.sqrt(6 / (1 + channels))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-limit, limit, generator=generator))
        self.logs = nn.Parameter(torch.empty(channels).uniform_(-limit, limit, generator=generator))

    @property
    def scale(self) -> Tensor:
        """The factor of each channel, shape (C,)."""
        return torch.exp(LOG_SCALE_FACTOR * self.logs)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (N, C) to (N, C), and return the log-determinant, a scalar."""
        return (x + self.bias) * self.scale, LOG_SCALE_FACTOR * self.logs.sum()

    def inverse(self, y: Tensor) -> Tensor:
        """Undo :meth:`forward`: (N, C) to (N, C)."""
        return y / self.scale - self.bias

    @torch.no_grad()
    def initialise(self, x: Tensor, floor: float = 0.0) -> Tensor:
        """Set bias and scale so that this batch, (N, C), gets mean 0 and variance 1; return it so.

        A channel whose standard deviation is below ``floor`` times the typical one (its root mean square
        over channels), or is rounding noise, counts as constant and gets the typical scale. With 0, as
        published, a constant channel is scaled by 1e6, and training blows up.
        """
        wide = x.double()
        mean = wide.mean(0)
        variance = (wide - mean).square().mean(0)
        std, typical = variance.sqrt(), variance.mean().sqrt()
        if floor:
            constant = std <= torch.maximum(floor * typical, _ROUNDING * mean.abs())
            std[constant] = typical if typical > 0 else 1.0
        self.bias.copy_(-mean)
        self.logs.copy_(-torch.log(std + _STD_EPSILON) / LOG_SCALE_FACTOR)
        return cast("Tensor", self(x)[0])


class Permutation(nn.Module):
    """A fixed order of the channels, never trained: y = x[:, order]; its log-determinant is 0."""

    order: Tensor

    def __init__(self, order: Tensor) -> None:
        super().__init__()
        self.register_buffer("order", order)

    @property
    def is_reversal(self) -> bool:
        """Whether the order is the reverse one."""
        return torch.equal(self.order, torch.arange(len(self.order), device=self.order.device).flip(0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (N, C) to (N, C), and return the log-determinant 0."""
        return x.index_select(1, self.order), x.new_zeros(())

    def inverse(self, y: Tensor) -> Tensor:
        """Undo :meth:`forward`: (N, C) to (N, C)."""
        return y.index_select(1, self.order.argsort())


class LULinear(nn.Module):
    r"""A trained mixing of the channels, parametrised so that its log-determinant is a sum.

    .. math::
        y = x W, \qquad W = P \, (\operatorname{strict-lower}(L) + I) \,
        (\operatorname{strict-upper}(U) + \operatorname{diag}(\sigma \odot e^{s})), \qquad
        \log |\det W| = \sum_c s_c

    P and the signs are fixed; L, U and s are trained. The start is a random rotation.

    References:
        arXiv:1807.03039, equations 10 and 11.
    """

    permutation: Tensor
    sign: Tensor

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.rand(channels, channels, generator=generator))[0]
        permutation, lower, upper = torch.linalg.lu(rotation)
        self.register_buffer("permutation", permutation)
        self.register_buffer("sign", upper.diagonal().sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_diagonal = nn.Parameter(upper.diagonal().abs().log())

    @property
    def matrix(self) -> Tensor:
        """W, shape (C, C)."""
        identity = torch.eye(len(self.sign), dtype=self.lower.dtype, device=self.lower.device)
        diagonal = torch.diag(self.sign * self.log_diagonal.exp())
        return self.permutation @ (self.lower.tril(-1) + identity) @ (self.upper.triu(1) + diagonal)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (N, C) to (N, C), and return the log-determinant, a scalar."""
        return x @ self.matrix, self.log_diagonal.sum()

    def inverse(self, y: Tensor) -> Tensor:
        """Undo :meth:`forward`: (N, C) to (N, C)."""
        return cast("Tensor", torch.linalg.solve(self.matrix, y, left=False))


class CouplingNetwork(nn.Module):
    """The network of a coupling: two hidden ReLU layers with ActNorm, and an output that starts at zero.

    Args:
        inputs: Channels in.
        width: Channels of both hidden layers.
        outputs: Channels out.
        generator: Source of the random start.
    """

    def __init__(self, inputs: int, width: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight1 = nn.Parameter(0.05 * torch.randn(inputs, width, generator=generator))
        self.norm1 = ActNorm(width, generator)
        self.weight2 = nn.Parameter(0.05 * torch.randn(width, width, generator=generator))
        self.norm2 = ActNorm(width, generator)
        self.weight3 = nn.Parameter(torch.zeros(width, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.logs = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs) to (N, outputs)."""
        hidden = torch.relu(self.norm1(x @ self.weight1)[0])
        hidden = torch.relu(self.norm2(hidden @ self.weight2)[0])
        return (hidden @ self.weight3 + self.bias) * torch.exp(LOG_SCALE_FACTOR * self.logs)

    @torch.no_grad()
    def initialise(self, x: Tensor, floor: float = 0.0) -> None:
        """Set both ActNorms from a batch, (N, inputs)."""
        hidden = torch.relu(self.norm1.initialise(x @ self.weight1, floor))
        self.norm2.initialise(hidden @ self.weight2, floor)


class Coupling(nn.Module):
    r"""Change the second part of the channels by what the first part says.

    .. math::
        \text{additive:} \quad y_2 = x_2 + h(x_1), \qquad
        \text{affine:} \quad y_2 = (x_2 + t) \odot \sigma(r + 2), \quad t, r = h(x_1)

    with :math:`y_1 = x_1`; t are the even outputs of h and r the odd ones.

    References:
        Dinh, Krueger, Bengio (2014), NICE, arXiv:1410.8516, section 3.2. Dinh, Sohl-Dickstein, Bengio
        (2016), Real NVP, arXiv:1605.08803, section 3.2.
    """

    def __init__(self, channels: int, width: int, kind: CouplingKind, generator: torch.Generator) -> None:
        super().__init__()
        self.kind = kind
        self.sizes = split_sizes(channels)
        outputs = self.sizes[1] if kind == "additive" else 2 * self.sizes[1]
        self.network = CouplingNetwork(self.sizes[0], width, outputs, generator)

    def _shift_and_log_scale(self, x1: Tensor) -> tuple[Tensor, Tensor]:
        out = self.network(x1)
        if self.kind == "additive":
            return out, out.new_zeros(())
        return out[:, 0::2], nn.functional.logsigmoid(out[:, 1::2] + 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (N, C) to (N, C), and return the log-determinant: shape (N,), or a scalar 0 if additive."""
        x1, x2 = x[:, : self.sizes[0]], x[:, self.sizes[0] :]
        shift, log_scale = self._shift_and_log_scale(x1)
        return torch.cat([x1, (x2 + shift) * log_scale.exp()], dim=1), log_scale.sum(-1)

    def inverse(self, y: Tensor) -> Tensor:
        """Undo :meth:`forward`: (N, C) to (N, C)."""
        y1, y2 = y[:, : self.sizes[0]], y[:, self.sizes[0] :]
        shift, log_scale = self._shift_and_log_scale(y1)
        return torch.cat([y1, y2 / log_scale.exp() - shift], dim=1)

    def initialise(self, x: Tensor, floor: float = 0.0) -> Tensor:
        """Set the network's ActNorms from a batch, (N, C); return the coupling's output."""
        self.network.initialise(x[:, : self.sizes[0]], floor)
        return cast("Tensor", self(x)[0])
