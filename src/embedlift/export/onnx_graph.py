"""One graph from token ids to the sentence vector, and its weights in int8."""

from __future__ import annotations

import copy
import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling
from torch import Tensor, nn

from embedlift.errors import InputError
from embedlift.layers import required_transformer, until_pooling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sentence_transformers import SentenceTransformer

INPUTS, OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"

_OPSET = 17  # the first with LayerNormalization; onnxruntime reads it since 1.12


class _Graph(nn.Module):
    """The whole model as a function of two arrays. What follows the pooling is called ``head``: it stays in float32."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        trunk = until_pooling(model)
        self.trunk = nn.ModuleList(
            _UsedStates(module) if isinstance(module, WeightedLayerPooling) else module for module in trunk
        )
        self.head = nn.ModuleList(list(model)[len(trunk) :])
        self.dimension = int(model.get_embedding_dimension())  # below the last module's own where the model cuts

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Map ids and mask, shape (B, T), to vectors, shape (B, D)."""
        features: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        for module in (*self.trunk, *self.head):
            features = module(features)
        vectors: Tensor = features[OUTPUT]
        return vectors[:, : self.dimension]


class _UsedStates(nn.Module):
    """A layer mix that adds only the states with a weight: layers of which none is used leave the graph."""

    def __init__(self, mix: WeightedLayerPooling) -> None:
        super().__init__()
        weights = mix.layer_weights.detach() / mix.layer_weights.detach().sum()
        self.weights = {mix.layer_start + place: float(w) for place, w in enumerate(weights) if w}

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace ``token_embeddings``."""
        states = features["all_layer_embeddings"]
        parts = [weight * states[place] for place, weight in self.weights.items()]
        features["token_embeddings"] = parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)
        return features


def write_graph(model: SentenceTransformer, path: Path) -> None:
    """Trace ``model``, in float32, into an ONNX file of dynamic batch size and length.

    Torch's older exporter, by tracing, is used on purpose: the newer one (torch 2.13) needs a further package and many
    times as long, and its graphs of these models run no faster. The older one warns of every branch of the program
    that a trace fixes; whether one of them mattered is seen by comparing vectors afterwards.

    Raises:
        InputError: If the model holds something that ONNX has no operator for.
    """
    # Two rows of unequal length: a trace over a full batch would leave the mask out.
    ids = torch.ones((2, 6), dtype=torch.int64)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    axes = {0: "batch", 1: "tokens"}
    copied = copy.deepcopy(model).float().cpu()
    # Written out, attention runs a third faster on long text than as the parts of torch's fused operator.
    required_transformer(copied, "--to onnx").model.set_attn_implementation("eager")
    graph = _Graph(copied).eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                graph,
                (ids, mask),
                str(path),
                dynamo=False,
                opset_version=_OPSET,
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                dynamic_axes={**dict.fromkeys(INPUTS, axes), OUTPUT: {0: "batch"}},
            )
        except RuntimeError as error:  # the exporter's own errors are of this kind
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"the model cannot be written as an ONNX graph: {reason[:200]}") from error


def quantize(source: Path, target: Path) -> None:
    """Write the graph with weights of the encoder in int8, activations quantised as they come.

    The head stays in float32: whitening would make the rounding errors of its faint directions as loud as the rest.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    nodes = onnx.load(str(source), load_external_data=False).graph.node
    head = [node.name for node in nodes if node.name.startswith("/head")]
    with _quiet_advice():
        quantize_dynamic(
            str(source),
            str(target),
            per_channel=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=[*head, *(f"{name}_MatMul" for name in head)],  # the name that a Gemm gets on the way
        )


@contextmanager
def _quiet_advice() -> Iterator[None]:
    """Hold back the root logger, on which onnxruntime advises to pre-process models for static quantisation."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
