r"""The gradient of an additive flow with reversals, written out by hand: no graph, no copies, few passes.

Three facts make it short:

* The channels need not move in memory. After an odd number of reversals the first half of the channels is
  the last half in memory, read backwards; so parameters are reversed once, when they are packed, and the
  data never.
* ReLU commutes with positive factors, so each scale inside a coupling network moves into the next weight:
  :math:`(e^{s} \odot \operatorname{relu}(u)) W = \operatorname{relu}(u) \, W'` with
  :math:`W'_{ij} = e^{s_i} W_{ij}`. Weights are scaled, not batches, and
  :math:`\partial L / \partial s_i = \sum_j W'_{ij} \, \partial L / \partial W'_{ij}`.
* The log-determinant is a sum of ActNorm's log-scales, so its gradient is a constant.

:class:`embedlift.functional.flow_gradient.AutogradGradient` is the reference for every number here.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from embedlift.functional.flow_layers import LOG_SCALE_FACTOR, Permutation

if TYPE_CHECKING:
    from torch import Tensor

    from embedlift.functional.glow import Glow, Step


class _Parts(NamedTuple):
    """The parameters of one step, or of K steps stacked: d channels in halves of i and o, w hidden ones."""

    bias: Tensor  # (K, d)
    logs: Tensor  # (K, d)
    weight1: Tensor  # (K, i, w)
    bias1: Tensor  # (K, w)
    logs1: Tensor  # (K, w)
    weight2: Tensor  # (K, w, w)
    bias2: Tensor  # (K, w)
    logs2: Tensor  # (K, w)
    weight3: Tensor  # (K, w, o)
    bias3: Tensor  # (K, o)
    logs3: Tensor  # (K, o)

    @classmethod
    def of(cls, step: Step) -> _Parts:
        network = step.coupling.network
        hidden1 = (network.weight1, network.norm1.bias, network.norm1.logs)
        hidden2 = (network.weight2, network.norm2.bias, network.norm2.logs)
        return cls(step.norm.bias, step.norm.logs, *hidden1, *hidden2, network.weight3, network.bias, network.logs)

    def in_memory_order(self, flipped: bool) -> _Parts:
        """Exchange a step's own order of its channels and their order in memory.

        ``flipped``: whether the channels that enter the step lie backwards in memory. Its own reversal
        comes before its coupling, whose channels lie backwards if the entering ones do not.
        """
        if flipped:
            return self._replace(bias=self.bias.flip(0), logs=self.logs.flip(0))
        return self._replace(
            weight1=self.weight1.flip(0),
            weight3=self.weight3.flip(1),
            bias3=self.bias3.flip(0),
            logs3=self.logs3.flip(0),
        )


class _Level:
    """The steps of a level: their parameters, and the scaled ones that follow from them.

    Args:
        parameters: Views of the flat vector of parameters.
        gradients: Views of the flat gradient.
        flipped: For each step, whether the channels that enter it lie backwards in memory.
    """

    def __init__(self, parameters: _Parts, gradients: _Parts, flipped: list[bool]) -> None:
        self.parameters, self.gradients = parameters, gradients
        channels = parameters.bias.shape[1]
        kept = parameters.weight1.shape[1]
        #: Where the two halves of each step's coupling lie in memory.
        self.halves = [
            (slice(0, kept), slice(kept, None))
            if backwards
            else (slice(channels - kept, None), slice(0, channels - kept))
            for backwards in flipped
        ]
        self.scale, self.shift = torch.empty_like(parameters.bias), torch.empty_like(parameters.bias)
        self.weight2, self.weight3 = (
            torch.empty_like(parameters.weight2),
            torch.empty_like(parameters.weight3),
        )
        self.gradient_sum, self.product_sum = torch.empty_like(self.scale), torch.empty_like(self.scale)

    def scale_parameters(self) -> None:
        """Turn the parameters into those of plain affine maps."""
        parameters = self.parameters
        torch.mul(parameters.logs, LOG_SCALE_FACTOR, out=self.scale).exp_()
        self.scale1, self.scale2, self.scale3 = (
            (LOG_SCALE_FACTOR * logs).exp_() for logs in (parameters.logs1, parameters.logs2, parameters.logs3)
        )
        torch.mul(parameters.weight2, self.scale1[:, :, None], out=self.weight2)
        torch.mul(parameters.weight3, self.scale2[:, :, None], out=self.weight3).mul_(self.scale3[:, None, :])
        self.bias3 = parameters.bias3 * self.scale3
        torch.mul(parameters.bias, self.scale, out=self.shift)
        for shift, bias3, (_, changed) in zip(self.shift, self.bias3, self.halves, strict=True):
            shift[changed] += bias3

    def finish_gradients(self, logdet_gradient: float) -> None:
        """Turn gradients of the scaled parameters, left by the steps, into gradients of the parameters."""
        gradients, bias = self.gradients, self.parameters.bias
        torch.mul(self.gradient_sum, self.scale, out=gradients.bias)
        torch.addcmul(self.product_sum, bias, self.gradient_sum, out=gradients.logs)
        gradients.logs.mul_(self.scale).add_(logdet_gradient).mul_(LOG_SCALE_FACTOR)

        outer = gradients.weight2 * self.weight2
        torch.sum(outer, 2, out=gradients.logs1).mul_(LOG_SCALE_FACTOR)
        gradients.weight2.mul_(self.scale1[:, :, None])

        outer = gradients.weight3 * self.weight3
        torch.sum(outer, 2, out=gradients.logs2).mul_(LOG_SCALE_FACTOR)
        for row, total, (_, changed) in zip(gradients.bias3, self.gradient_sum, self.halves, strict=True):
            row.copy_(total[changed])
        torch.sum(outer, 1, out=gradients.logs3).addcmul_(gradients.bias3, self.bias3).mul_(LOG_SCALE_FACTOR)
        gradients.weight3.mul_(self.scale2[:, :, None]).mul_(self.scale3[:, None, :])
        gradients.bias3.mul_(self.scale3)


class _StepPass:
    """One step on memory set aside for one batch size; every slice is taken once, here."""

    def __init__(self, level: _Level, k: int, x: Tensor, g: Tensor) -> None:
        parameters, gradients = level.parameters, level.gradients
        first, second = level.halves[k]
        self.scale, self.shift = level.scale[k], level.shift[k]
        self.weight1, self.bias1 = parameters.weight1[k], parameters.bias1[k]
        self.weight2, self.bias2, self.weight3 = level.weight2[k], parameters.bias2[k], level.weight3[k]
        self.d_weight1, self.d_bias1 = gradients.weight1[k], gradients.bias1[k]
        self.d_weight2, self.d_bias2, self.d_weight3 = (
            gradients.weight2[k],
            gradients.bias2[k],
            gradients.weight3[k],
        )
        self.gradient_sum, self.product_sum = level.gradient_sum[k], level.product_sum[k]
        self.x, self.y = x, torch.empty_like(g)
        self.y1, self.y2 = self.y[:, first], self.y[:, second]
        self.g, self.g1, self.g2 = g, g[:, first], g[:, second]
        self.hidden1, self.hidden2 = (
            g.new_empty(len(g), len(self.bias1)),
            g.new_empty(len(g), len(self.bias2)),
        )
        self.d_hidden1, self.d_hidden2 = torch.empty_like(self.hidden1), torch.empty_like(self.hidden2)
        self.product = torch.empty_like(g)

    def forward(self) -> None:
        """Compute y, shape (N, d), from x."""
        torch.addcmul(self.shift, self.x, self.scale, out=self.y)
        torch.addmm(self.bias1, self.y1, self.weight1, out=self.hidden1).relu_()
        torch.addmm(self.bias2, self.hidden1, self.weight2, out=self.hidden2).relu_()
        self.y2.addmm_(self.hidden2, self.weight3)

    def backward(self) -> None:
        """Turn g, shape (N, d), from the gradient of y into that of x, and write those of the parameters."""
        torch.mm(self.hidden2.T, self.g2, out=self.d_weight3)
        torch.mm(self.g2, self.weight3.T, out=self.d_hidden2).mul_(self.hidden2 > 0)
        torch.sum(self.d_hidden2, 0, out=self.d_bias2)
        torch.mm(self.hidden1.T, self.d_hidden2, out=self.d_weight2)
        torch.mm(self.d_hidden2, self.weight2.T, out=self.d_hidden1).mul_(self.hidden1 > 0)
        torch.sum(self.d_hidden1, 0, out=self.d_bias1)
        torch.mm(self.y1.T, self.d_hidden1, out=self.d_weight1)
        self.g1.addmm_(self.d_hidden1, self.weight1.T)
        torch.sum(self.g, 0, out=self.gradient_sum)
        torch.sum(torch.mul(self.g, self.x, out=self.product), 0, out=self.product_sum)
        self.g.mul_(self.scale)


class AdditiveStackGradient:
    """The gradient of a flow with additive couplings and reversals.

    Args:
        glow: The flow; it is copied from, and changes only in :meth:`write_to`.

    Attributes:
        parameters: Shape (P,), changed in place by the optimiser.
        gradient: Shape (P,), written by :meth:`loss_and_gradient`.
    """

    def __init__(self, glow: Glow) -> None:
        self.dimension = glow.dimension
        flipped = _flipped(glow)
        stacks = [
            _stack([_Parts.of(step).in_memory_order(backwards) for step, backwards in zip(*level, strict=True)])
            for level in zip(glow.steps, flipped, strict=True)
        ]
        self.parameters = torch.cat([part.reshape(-1) for stack in stacks for part in stack])
        self.gradient = torch.zeros_like(self.parameters)
        pieces = (_views(self.parameters, stacks), _views(self.gradient, stacks), flipped)
        self._levels = [_Level(*level) for level in zip(*pieces, strict=True)]
        self._passes: list[list[_StepPass]] = []

    @staticmethod
    def supports(glow: Glow) -> bool:
        """Whether all couplings of the flow are additive, and all its mixings reversals."""
        return all(
            step.coupling.kind == "additive" and isinstance(step.mixing, Permutation) and step.mixing.is_reversal
            for level in glow.steps
            for step in level
        )

    @torch.no_grad()
    def loss_and_gradient(self, x: Tensor) -> float:
        """Return the mean bits per dimension of a batch, (N, D), and write its gradient."""
        if not self._passes or len(self._passes[0][0].g) != len(x):
            self._set_memory_aside(len(x))
        per_dimension = 1 / (self.dimension * math.log(2))
        self._passes[0][0].x = x  # read where it is; every other input is the output of a step
        squares, logdet = 0.0, 0.0
        for level, passes in zip(self._levels, self._passes, strict=True):
            level.scale_parameters()
            for step in passes:
                step.forward()
            last = passes is self._passes[-1]
            z, g = (passes[-1].y, passes[-1].g) if last else (passes[-1].y2, passes[-1].g2)
            torch.mul(z, per_dimension / len(x), out=g)
            squares += float(torch.linalg.vector_norm(z)) ** 2
            logdet += LOG_SCALE_FACTOR * float(level.parameters.logs.sum())
        for level, passes in zip(reversed(self._levels), reversed(self._passes), strict=True):
            for step in reversed(passes):
                step.backward()
            level.finish_gradients(-per_dimension)
        return (0.5 * squares / len(x) - logdet) * per_dimension + 0.5 * math.log2(2 * math.pi)

    @torch.no_grad()
    def write_to(self, glow: Glow) -> None:
        """Copy the parameters into a flow of the same shape."""
        for level, steps, flipped in zip(self._levels, glow.steps, _flipped(glow), strict=True):
            for step, backwards, *parts in zip(steps, flipped, *level.parameters, strict=True):
                source = _Parts(*parts).in_memory_order(backwards)
                for parameter, value in zip(_Parts.of(step), source, strict=True):
                    parameter.copy_(value)

    def _set_memory_aside(self, rows: int) -> None:
        self._passes = []
        x = g = self.parameters.new_empty(rows, self.dimension)
        for level in self._levels:
            passes: list[_StepPass] = []
            for k in range(len(level.halves)):
                passes.append(_StepPass(level, k, x, g))
                x = passes[-1].y
            self._passes.append(passes)
            x, g = passes[-1].y1, passes[-1].g1  # only the first half goes on to the next level


def _flipped(glow: Glow) -> list[list[bool]]:
    """Return for each step of each level whether the channels that enter it lie backwards in memory."""
    backwards = itertools.cycle([False, True])
    return [[next(backwards) for _ in level] for level in glow.steps]


def _stack(steps: list[_Parts]) -> _Parts:
    return _Parts(*(torch.stack(parts).detach() for parts in zip(*steps, strict=True)))


def _views(flat: Tensor, stacks: list[_Parts]) -> list[_Parts]:
    sizes = [part.numel() for stack in stacks for part in stack]
    pieces = iter(torch.split(flat, sizes))
    return [_Parts(*(next(pieces).view(part.shape) for part in stack)) for stack in stacks]
