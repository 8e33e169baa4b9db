"""The invertible map of BERT-flow: Glow on vectors, with additive or affine couplings.

This is the readable form, differentiated by autograd. :mod:`embedlift.functional.additive_stack` computes
the same gradient faster, and :mod:`embedlift.functional.dense_chain` writes the same map as dense layers.

References:
    Kingma, Dhariwal (2018), Glow, arXiv:1807.03039. Li et al. (2020), On the Sentence Embeddings from
    Pre-trained Language Models, arXiv:2011.05864.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, cast, get_args

import torch
from torch import Tensor, nn

from embedlift.errors import InputError
from embedlift.functional.flow_layers import (
    ActNorm,
    Coupling,
    CouplingKind,
    LULinear,
    Permutation,
    split_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PermutationKind = Literal["reversal", "random", "lu"]


def standard_normal_log_prob(z: Tensor) -> Tensor:
    """Return the log-density in nats of each row of ``z``, shape (N, D) -> (N,), under N(0, I)."""
    return -0.5 * ((z * z).sum(1) + z.shape[1] * math.log(2 * math.pi))


class Step(nn.Module):
    """One step of the flow: ActNorm, then a mixing of the channels, then a coupling."""

    def __init__(self, norm: ActNorm, mixing: Permutation | LULinear, coupling: Coupling) -> None:
        super().__init__()
        self.norm = norm
        self.mixing = mixing
        self.coupling = coupling

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (N, C) to (N, C), and return the log-determinant: shape (N,), or a scalar."""
        x, first = self.norm(x)
        x, second = self.mixing(x)
        x, third = self.coupling(x)
        return x, first + second + third

    def inverse(self, y: Tensor) -> Tensor:
        """Undo :meth:`forward`: (N, C) to (N, C)."""
        return self.norm.inverse(self.mixing.inverse(self.coupling.inverse(y)))

    def initialise(self, x: Tensor, floor: float = 0.0) -> Tensor:
        """Set every ActNorm from a batch, (N, C); return the step's output."""
        with torch.no_grad():
            return self.coupling.initialise(self.mixing(self.norm.initialise(x, floor))[0], floor)


class Glow(nn.Module):
    r"""A multi-scale stack of invertible steps: x -> z with a standard normal prior on z.

    .. math:: \log p(x) = \log \mathcal{N}(z; 0, I) + \log \left| \det \frac{\partial z}{\partial x} \right|

    Each of ``levels`` levels is ``depth`` steps. After every level but the last, the second half of the
    channels leaves, and z joins what left in the order in which it left, with the rest at the end.

    An odd number of channels is halved into a larger first and a smaller second part, in couplings and
    between levels alike; the smaller part is the one that is changed, or leaves.

    Args:
        dimension: D, at least 2 ** levels.
        levels: Number of levels.
        depth: Steps per level.
        width: Hidden channels of the coupling networks.
        coupling: ``"additive"`` or ``"affine"``.
        permutation: ``"reversal"``, ``"random"`` (fixed) or ``"lu"`` (trained).
        seed: Of the random start and the random order.

    Raises:
        InputError: If D is too small for the levels, or a setting is unknown.

    References:
        arXiv:1807.03039, section 3 and figure 2b. arXiv:2011.05864, equation 4.
    """

    def __init__(
        self,
        dimension: int,
        levels: int = 3,
        depth: int = 3,
        width: int = 32,
        coupling: CouplingKind = "additive",
        permutation: PermutationKind = "reversal",
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check(dimension, levels, depth, width, coupling, permutation)
        self.dimension = dimension
        generator = torch.Generator().manual_seed(seed)
        mixing = _MIXINGS[permutation]
        self.levels = nn.ModuleList()
        self.leaving = []  # channels that leave after each level
        for number in range(1, levels + 1):
            self.levels.append(
                nn.ModuleList(
                    Step(
                        ActNorm(dimension, generator),
                        mixing(dimension, generator),
                        Coupling(dimension, width, coupling, generator),
                    )
                    for _ in range(depth)
                )
            )
            self.leaving.append(split_sizes(dimension)[1] if number < levels else 0)
            dimension -= self.leaving[-1]

    @property
    def steps(self) -> list[list[Step]]:
        """The steps of each level."""
        return cast("list[list[Step]]", [list(cast("nn.ModuleList", level)) for level in self.levels])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (N, D) to z, (N, D), and return the log-determinant in nats, (N,)."""
        logdet, left = x.new_zeros(len(x)), []
        for level, leaving in zip(self.steps, self.leaving, strict=True):
            for step in level:
                x, term = step(x)
                logdet = logdet + term
            staying = x.shape[1] - leaving
            left.append(x[:, staying:])
            x = x[:, :staying]
        return torch.cat([*left, x], dim=1), logdet

    def inverse(self, z: Tensor) -> Tensor:
        """Undo :meth:`forward`: (N, D) to (N, D)."""
        gone = sum(self.leaving)
        x = z[:, gone:]
        for level, leaving in zip(reversed(self.steps), reversed(self.leaving), strict=True):
            x = torch.cat([x, z[:, gone - leaving : gone]], dim=1)
            gone -= leaving
            for step in reversed(level):
                x = step.inverse(x)
        return x

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density in nats of each row of (N, D): shape (N,)."""
        z, logdet = self(x)
        return standard_normal_log_prob(z) + cast("Tensor", logdet)

    def bits_per_dimension(self, x: Tensor) -> Tensor:
        """Return the negative log-density of each row in bits, divided by D: (N, D) -> (N,)."""
        return -self.log_prob(x) / (self.dimension * math.log(2))

    def initialise(self, x: Tensor, floor: float = 0.0) -> None:
        """Set every ActNorm from a batch, (N, D), each on the output of the ones before it."""
        for level, leaving in zip(self.steps, self.leaving, strict=True):
            for step in level:
                x = step.initialise(x, floor)
            x = x[:, : x.shape[1] - leaving]


class GlowEmbedding(nn.Module):
    """The map of a flow alone, without its log-determinant.

    Args:
        glow: The flow.
    """

    def __init__(self, glow: Glow) -> None:
        super().__init__()
        self.glow = glow

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, D) to (N, D)."""
        return cast("Tensor", self.glow(x)[0])


_MIXINGS: dict[PermutationKind, Callable[[int, torch.Generator], Permutation | LULinear]] = {
    "reversal": lambda channels, _: Permutation(torch.arange(channels).flip(0)),
    "random": lambda channels, generator: Permutation(torch.randperm(channels, generator=generator)),
    "lu": LULinear,
}


def _check(dimension: int, levels: int, depth: int, width: int, coupling: str, permutation: str) -> None:
    for name, value in {"levels": levels, "depth": depth, "width": width}.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    if dimension < 2**levels:
        raise InputError(
            f"Input has {dimension} feature(s), and a flow of {levels} levels needs at least {2**levels}: lower levels"
        )
    if coupling not in get_args(CouplingKind):
        raise InputError(f"coupling must be one of {', '.join(get_args(CouplingKind))}, got {coupling!r}")
    if permutation not in get_args(PermutationKind):
        raise InputError(f"permutation must be one of {', '.join(get_args(PermutationKind))}, got {permutation!r}")
