"""Which layers of a model work, and how their token vectors become one sentence vector, all in stock modules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WeightedLayerPooling
from torch import nn

from embedlift.errors import InputError

_TOKEN_POOLING = {"mean": "mean", "cls": "cls", "max": "max", "last": "lasttoken"}
_NAMED_MIXES = {
    "first-last-avg": {1: 1.0, -1: 1.0},
    "embedding-last-avg": {0: 1.0, -1: 1.0},
    "last2avg": {-2: 1.0, -1: 1.0},
}
_MIX_ITEM = re.compile(r"(-?\d+)(?:=(\d+(?:\.\d*)?))?")


@dataclass(frozen=True)
class PoolingSpec:
    """How token vectors become one sentence vector.

    Attributes:
        tokens: Stock pooling mode over tokens: ``mean``, ``cls``, ``max`` or ``lasttoken``.
        mix: Weight of each hidden state; 0 is the embedding output, -1 the last layer. Empty: the model's
            output as it is.
    """

    tokens: str
    mix: dict[int, float]

    @classmethod
    def parse(cls, text: str) -> PoolingSpec:
        """Read ``mean``, ``cls``, ``max``, ``last``, a named mix, or a mix such as ``mean:0,1,-1`` or ``cls:0=2,-1=1``.

        The named mixes average two hidden states over all tokens: ``first-last-avg`` the first encoder layer
        and the last, ``embedding-last-avg`` the embedding output and the last, ``last2avg`` the last two.

        Raises:
            InputError: If it is none of these.
        """
        if text in _NAMED_MIXES:
            return cls("mean", _NAMED_MIXES[text])
        tokens, _, states = text.partition(":")
        items = [_MIX_ITEM.fullmatch(item.strip()) for item in states.split(",")] if states else []
        if tokens not in _TOKEN_POOLING or not all(items) or text.endswith(":"):
            known = ", ".join([*_TOKEN_POOLING, *_NAMED_MIXES])
            raise InputError(f"unknown pooling {text!r}: use {known}, or layers such as mean:0,1,-1 or mean:0=2,-1=1")
        mix = {int(item[1]): float(item[2] or 1) for item in items if item}
        if mix and not any(mix.values()):
            raise InputError(f"pooling {text!r} gives every layer the weight 0")
        return cls(_TOKEN_POOLING[tokens], mix)


def with_modules(
    model: SentenceTransformer, modules: list[nn.Module], truncate_dim: int | None = None
) -> SentenceTransformer:
    """Return a model of ``modules`` with the prompts, similarity and device of ``model``."""
    return SentenceTransformer(
        modules=modules,
        device=model.device,
        prompts=dict(model.prompts),
        default_prompt_name=model.default_prompt_name,
        similarity_fn_name=model.similarity_fn_name,
        truncate_dim=truncate_dim,
    ).eval()


def split_after_pooling(model: SentenceTransformer) -> tuple[SentenceTransformer, list[nn.Module]]:
    """Return the costly part of a model, up to its pooling, as a model of its own, and the modules that follow."""
    trunk = until_pooling(model)
    return with_modules(model, trunk), list(model)[len(trunk) :]


def until_pooling(model: SentenceTransformer) -> list[nn.Module]:
    """Return the modules up to the pooling; the first alone if there is none."""
    modules = list(model)
    ends = [index + 1 for index, module in enumerate(modules) if isinstance(module, Pooling)]
    return modules[: ends[-1] if ends else 1]


def pooling_of(model: SentenceTransformer) -> str | None:
    """Return the model's pooling over tokens, in the words of :meth:`PoolingSpec.parse`, or None."""
    modes = [str(module.pooling_mode) for module in model if isinstance(module, Pooling)]
    names = {mode: name for name, mode in _TOKEN_POOLING.items()}
    return names.get(modes[0], modes[0]) if modes else None


def transformer_of(model: SentenceTransformer) -> Transformer | None:
    """Return the stock Transformer module that reads the text, or None (a static embedding, a router)."""
    return model[0] if isinstance(model[0], Transformer) else None


def reads_plain_text(model: SentenceTransformer) -> bool:
    """Whether the model's input is just its tokenizer's output: no chat template, images or own settings."""
    transformer = transformer_of(model)
    if transformer is None or transformer.tokenizer is None or transformer.processor is not transformer.tokenizer:
        return False
    return list(transformer.modality_config) == ["text"] and not transformer.processing_kwargs


def required_transformer(model: SentenceTransformer, flag: str) -> Transformer:
    """Return the Transformer module, or say that ``flag`` needs one."""
    transformer = transformer_of(model)
    if transformer is None:
        raise InputError(f"{flag} needs a transformer model; this one starts with {type(model[0]).__name__}")
    return transformer


def keep_layers(transformer: Transformer, count: int) -> None:
    """Keep the first ``count`` layers of a model, in place.

    Raises:
        InputError: If there are fewer, or if the model has no single stack of layers.
    """
    config, model = transformer.model.config, transformer.model
    total = config.num_hidden_layers
    if not 0 <= count <= total:
        raise InputError(f"--layers must be between 0 and the model's {total}, got {count}")
    if count == total:
        return
    parent, name, stack = layer_stack(model, "--layers")
    setattr(parent, name, stack[:count])
    config.num_hidden_layers = count
    if isinstance(getattr(config, "layer_types", None), list):
        config.layer_types = config.layer_types[:count]


def layer_stack(model: Any, flag: str) -> tuple[nn.Module, str, nn.ModuleList]:
    """Return the stack of layers of a transformers model: its parent, its name there, and itself.

    Raises:
        InputError: Naming ``flag``, if there is no such stack or more than one.
    """
    total = model.config.num_hidden_layers
    stacks = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and len(child) == total
    ]
    if len(stacks) != 1:
        raise InputError(f"{flag} cannot cut {type(model).__name__}: it has no single stack of {total} layers")
    return stacks[0]


def with_pooling(model: SentenceTransformer, spec: PoolingSpec) -> SentenceTransformer:
    """Replace the pooling, and the layer mix before it; what follows (normalisation, dense layers) stays."""
    transformer = required_transformer(model, "--pooling")
    places = [index for index, module in enumerate(model) if isinstance(module, Pooling)]
    if len(places) != 1:
        raise InputError("--pooling needs a model with one pooling module")
    dimension = transformer.get_embedding_dimension()
    head: list[nn.Module] = [transformer]
    if spec.mix:
        head.append(_layer_mix(transformer, spec.mix, dimension))
    transformer.model.config.output_hidden_states = bool(spec.mix)
    modules = [*head, Pooling(dimension, spec.tokens), *list(model)[places[0] + 1 :]]
    return with_modules(model, modules, model.truncate_dim)


def _layer_mix(transformer: Transformer, mix: dict[int, float], dimension: int) -> WeightedLayerPooling:
    total = transformer.model.config.num_hidden_layers
    if total == 0:
        raise InputError("a layer mix needs at least one layer: with --layers 0 use mean, cls, max or last")
    weights = torch.zeros(total + 1, dtype=transformer.model.dtype)
    for state, weight in mix.items():
        if not -total - 1 <= state <= total:
            raise InputError(f"pooling names hidden state {state}, but the model has 0 (embeddings) to {total}")
        weights[state] += weight
    # Layers above the last named state are dropped but for one: in decoders the output of the last layer, and only
    # that, passes a final norm, so state k keeps its value only while it is not the last.
    layers = min(total, int(weights.nonzero().max()) + 1)
    keep_layers(transformer, layers)
    return WeightedLayerPooling(
        dimension,
        num_hidden_layers=layers,
        layer_start=0,
        layer_weights=nn.Parameter(weights[: layers + 1].clone()),
    )


def positions_of(transformer: Transformer) -> int | None:
    """Longest input for which the model has positions; RoBERTa's kind counts them from the padding index."""
    for name, module in transformer.model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    positions = getattr(transformer.model.config, "max_position_embeddings", None)
    return positions if positions is not None and positions > 0 else None


def limit_length(model: SentenceTransformer, max_length: int) -> None:
    """Cut inputs of ``model`` at ``max_length`` tokens, in place.

    Raises:
        InputError: If the model has fewer positions, or if its special tokens alone are as long.
    """
    transformer = required_transformer(model, "--max-length")
    positions = positions_of(transformer)
    special = transformer.tokenizer.num_special_tokens_to_add() if transformer.tokenizer is not None else 0
    if max_length <= special:
        raise InputError(f"--max-length must be above {special}, the model's special tokens; got {max_length}")
    if positions is not None and max_length > positions:
        raise InputError(f"--max-length is {max_length}, but the model has only {positions} positions")
    model.max_seq_length = max_length
