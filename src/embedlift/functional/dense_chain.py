"""An additive flow as a chain of plain dense layers, for programs that know nothing of flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from embedlift.errors import InputError
from embedlift.functional.flow_layers import LOG_SCALE_FACTOR, LULinear

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from embedlift.functional.flow_layers import CouplingNetwork
    from embedlift.functional.glow import Glow, Step


@dataclass(frozen=True)
class DenseLayer:
    r"""The layer y = activation(W x + b) + R x.

    Attributes:
        weight: W, shape (out, in).
        bias: b, shape (out,).
        activation: ``"relu"``, or ``None`` for the identity.
        residual: R, shape (out, in), or ``None`` if there is no such term.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    activation: Literal["relu"] | None = None
    residual: NDArray[np.float32] | None = None

    @property
    def size(self) -> int:
        """Number of stored values."""
        return sum(part.size for part in (self.weight, self.bias, self.residual) if part is not None)


def dense_chain(glow: Glow) -> list[DenseLayer]:
    r"""Return layers whose composition is x -> z.

    Two layers for each coupling compute the hidden units :math:`h_1, h_2` of its network and carry the
    vector past them in the residual term, where ReLU(0) = 0 adds nothing:

    .. math:: [v; \ldots] \to [v; h_1] \to [v; h_1; h_2]

    Everything else is affine in :math:`u = [v; h_1; h_2]`: the shift that the coupling adds, ActNorm,
    mixings, and what leaves between levels. It is kept as y = A u + c, and A goes into the weights of the
    next coupling's first layer, or, after the last one, becomes a layer of its own. So there are
    2 * couplings + 1 layers.

    Raises:
        InputError: If the couplings are affine: a product of two outputs is no dense layer.
    """
    if any(step.coupling.kind != "additive" for level in glow.steps for step in level):
        raise InputError("a flow with affine couplings cannot be written as dense layers: fit it with additive ones")
    layers: list[DenseLayer] = []
    linear, offset = np.eye(glow.dimension), np.zeros(glow.dimension)
    staying, left = glow.dimension, []
    for level, leaving in zip(glow.steps, glow.leaving, strict=True):
        for step in level:
            linear[:staying], offset[:staying] = enter_step(step, linear[:staying], offset[:staying])
            layers += _hidden_layers(step.coupling.network, linear, offset)
            linear, shift = _with_shift(step, glow.dimension, staying)
            offset = offset + shift
        left.append(np.arange(staying - leaving, staying))
        staying -= leaving
    order = np.concatenate([*left, np.arange(staying)])
    return [*layers, DenseLayer(linear[order].astype(np.float32), offset[order].astype(np.float32))]


def _array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().double().cpu().numpy()


def enter_step(
    step: Step, linear: NDArray[np.float64], offset: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Put a step's ActNorm and mixing after the affine map y = linear u + offset: (C, K), (C,) -> the same shapes."""
    scale = _array(step.norm.scale)
    linear, offset = linear * scale[:, None], (offset + _array(step.norm.bias)) * scale
    if isinstance(step.mixing, LULinear):
        matrix = _array(step.mixing.matrix).T
        return matrix @ linear, matrix @ offset
    order = _array(step.mixing.order).astype(int)
    return linear[order], offset[order]


def folded_network(network: CouplingNetwork) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return (W, b) of a coupling network's three layers, W of shape (out, in), with all scales folded in."""
    scale3 = np.exp(LOG_SCALE_FACTOR * _array(network.logs))
    return [
        (_array(network.weight1 * network.norm1.scale).T, _array(network.norm1.bias * network.norm1.scale)),
        (_array(network.weight2 * network.norm2.scale).T, _array(network.norm2.bias * network.norm2.scale)),
        (_array(network.weight3).T * scale3[:, None], _array(network.bias) * scale3),
    ]


def _hidden_layers(
    network: CouplingNetwork, linear: NDArray[np.float64], offset: NDArray[np.float64]
) -> list[DenseLayer]:
    """Return u -> [linear u; h1] -> [linear u; h1; h2], where the network reads linear u + offset."""
    (weight1, bias1), (weight2, bias2), _ = folded_network(network)
    kept, width, carried = weight1.shape[1], len(weight1), len(linear)
    hidden1 = np.vstack([np.zeros_like(linear), weight1 @ linear[:kept]])
    hidden2 = np.zeros((carried + 2 * width, carried + width))
    hidden2[carried + width :, carried:] = weight2
    return [
        _relu_layer(hidden1, weight1 @ offset[:kept] + bias1, carry=linear),
        _relu_layer(hidden2, bias2, carry=np.eye(carried + width)),
    ]


def _relu_layer(weight: NDArray[np.float64], bias: NDArray[np.float64], carry: NDArray[np.float64]) -> DenseLayer:
    """Return u -> [carry u; relu(weight u + bias)]: rows of ``weight`` beside those of ``carry`` are zero."""
    biases, residual = np.zeros(len(weight)), np.zeros_like(weight)
    biases[len(weight) - len(bias) :] = bias
    residual[: len(carry)] = carry
    single = [part.astype(np.float32) for part in (weight, biases, residual)]
    return DenseLayer(single[0], single[1], "relu", single[2])


def _with_shift(step: Step, dimension: int, staying: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (A, c) of [v; h1; h2] -> v + shift, where the shift reaches only the changed half of what stays."""
    weight3, bias3 = folded_network(step.coupling.network)[2]
    width = weight3.shape[1]
    changed = slice(step.coupling.sizes[0], staying)
    linear, offset = np.eye(dimension, dimension + 2 * width), np.zeros(dimension)
    linear[changed, dimension + width :] = weight3
    offset[changed] = bias3
    return linear, offset
