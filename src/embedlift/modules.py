"""Fitted transforms as sentence-transformers modules: stock ones wherever they suffice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from sentence_transformers.base.modules import Dense
from torch import nn

from embedlift import flow_module
from embedlift.flow_module import FlowModule, FlowStep
from embedlift.functional.dense_chain import DenseLayer, enter_step, folded_network

if TYPE_CHECKING:
    from embedlift.functional.glow import Glow

_SOURCE = Path(flow_module.__file__)
#: The name of that source in the folder of a saved model.
BUNDLED = "embedlift_flow.py"


def as_modules(transform: Any, dimension: int) -> list[nn.Module]:
    """Return modules that map the sentence embedding as the fitted ``transform`` does.

    Args:
        transform: With ``to_dense_chain``; a flow with affine couplings becomes a :class:`FlowModule`.
        dimension: Of the vectors that come in; those after the transform's own are left out.
    """
    chain = transform.to_dense_chain()
    if chain is None:
        return [*_cut(transform.n_features_in_, dimension), _flow_module(transform.glow_)]
    first, *rest = chain
    return [_dense(layer) for layer in (_widened(first, dimension), *rest)]


def _widened(layer: DenseLayer, dimension: int) -> DenseLayer:
    surplus = ((0, 0), (0, dimension - layer.weight.shape[1]))
    residual = None if layer.residual is None else np.pad(layer.residual, surplus)
    return DenseLayer(np.pad(layer.weight, surplus), layer.bias, layer.activation, residual)


def _cut(kept: int, dimension: int) -> list[nn.Module]:
    if kept == dimension:
        return []
    return [_dense(DenseLayer(np.eye(kept, dimension, dtype=np.float32), np.zeros(kept, dtype=np.float32)))]


def _dense(layer: DenseLayer) -> Dense:
    outputs, inputs = layer.weight.shape
    dense = Dense(
        inputs,
        outputs,
        activation_function=nn.ReLU() if layer.activation == "relu" else None,
        init_weight=torch.from_numpy(layer.weight),
        init_bias=torch.from_numpy(layer.bias),
        **({} if layer.residual is None else {"use_residual": True}),
    )
    if layer.residual is not None:
        dense.residual.weight = nn.Parameter(torch.from_numpy(layer.residual))
    return dense


def _flow_module(glow: Glow) -> FlowModule:
    steps = glow.steps
    network = steps[0][0].coupling.network
    module = FlowModule(glow.dimension, len(steps), len(steps[0]), network.weight2.shape[1])
    targets = (cast("FlowStep", step) for level in module.steps for step in cast("nn.ModuleList", level))
    for step, target in zip((step for level in steps for step in level), targets, strict=True):
        channels = target.entry.in_features
        folded = folded_network(step.coupling.network)
        _set(target.entry, *enter_step(step, np.eye(channels), np.zeros(channels)))
        _set(target.hidden1, *folded[0])
        _set(target.hidden2, *folded[1])
        weight, bias = folded[2]
        _set(target.shift, weight[0::2], bias[0::2])
        _set(target.scale, weight[1::2], bias[1::2] + 2)  # the flow's scale is sigmoid(r + 2)
    return module


def _set(linear: Any, weight: Any, bias: Any) -> None:
    state = {"weight": torch.from_numpy(np.array(weight)), "bias": torch.from_numpy(np.array(bias))}
    linear.load_state_dict(state)


def bundle_sources(folder: Path) -> None:
    """Put the source of a custom module beside the saved model and name it in ``modules.json``."""
    path = folder / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8"))
    custom = [module for module in modules if module["type"].endswith(f".{FlowModule.__name__}")]
    for module in custom:
        module["type"] = f"{Path(BUNDLED).stem}.{FlowModule.__name__}"
        (folder / module["path"] / BUNDLED).unlink(missing_ok=True)  # where saving a loaded model leaves it
    if custom:
        shutil.copyfile(_SOURCE, folder / BUNDLED)
        path.write_text(json.dumps(modules, indent=2), encoding="utf-8")


def is_own_bundle(folder: Path) -> bool:
    """Whether the only code in a saved model's folder is the source that this package put there."""
    found = [file for file in folder.rglob("*.py")]
    return [file.name for file in found] == [BUNDLED] and found[0].read_bytes() == _SOURCE.read_bytes()
