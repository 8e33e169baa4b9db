r"""A mean over the embedding output, and an affine map behind it, as one table of token vectors.

The mean of affinely mapped rows is the affine map of their mean:

.. math:: A \Big( \frac{1}{n} \sum_t x_t \Big) + b = \frac{1}{n} \sum_t (A x_t + b)
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    StaticEmbedding,
    Transformer,
    WeightedLayerPooling,
)

from embedlift.errors import InputError
from embedlift.layers import layer_stack, reads_plain_text, until_pooling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn

#: Positions over which a token's row is averaged in models with position embeddings, from the second one on.
POSITIONS = 8

_BATCH = 4096  # tokens


class TokenRows(NamedTuple):
    """The embedding output of every token of a vocabulary.

    Attributes:
        rows: Shape (V, D), float32.
        exact: Whether the model's mean is the mean of these rows: no positions, no special tokens.
    """

    rows: NDArray[np.float32]
    exact: bool


def token_rows(model: SentenceTransformer) -> TokenRows:
    """Return what the model averages for each token.

    Raises:
        InputError: If it is not a mean over the embedding output.
    """
    first = model[0]
    if isinstance(first, StaticEmbedding):
        return TokenRows(first.embedding.weight.detach().float().cpu().numpy().copy(), exact=True)
    transformer = _checked_transformer(model)
    tokenizer: Any = transformer.tokenizer
    embed = _embedding_output(transformer)
    count, device = 1 + max(tokenizer.get_vocab().values()), transformer.model.device
    # A tokenizer may know tokens that the model lacks, on which the model itself fails: they get the last row.
    ids = torch.arange(count, device=device).clamp(max=transformer.model.get_input_embeddings().num_embeddings - 1)
    spread = _at_positions(embed, ids[:64])
    positions = 1 if torch.allclose(spread, spread[:, :1], rtol=1e-5, atol=1e-6) else POSITIONS
    parts = [
        _at_positions(embed, few, positions).mean(dim=1) for few in torch.split(ids, max(1, _BATCH // (1 + positions)))
    ]
    special = tokenizer.num_special_tokens_to_add()
    return TokenRows(torch.cat(parts).float().cpu().numpy(), exact=positions == 1 and special == 0)


def _checked_transformer(model: SentenceTransformer) -> Transformer:
    trunk: list[Any] = until_pooling(model)
    if not reads_plain_text(model) or not model.tokenizer.is_fast:
        raise InputError("a static model needs a transformer that reads plain text with a fast tokenizer")
    transformer, *mixes, pooling = trunk if len(trunk) > 1 else [trunk[0], None]
    reads_embeddings = transformer.model.config.num_hidden_layers == 0
    for mix in mixes:
        reads_embeddings = isinstance(mix, WeightedLayerPooling) and _names_state_0_alone(mix)
    means = isinstance(pooling, Pooling) and pooling.pooling_mode == "mean"
    if not means or not reads_embeddings or len(mixes) > 1:
        raise InputError(
            "a static model is a mean over the embedding output, and this model reads more than that: "
            "adapt it with --pooling mean:0, or with --layers 0"
        )
    return transformer


def _names_state_0_alone(mix: WeightedLayerPooling) -> bool:
    weights = mix.layer_weights.detach()
    return mix.layer_start == 0 and bool(weights[0] != 0) and not weights[1:].any()


def _embedding_output(transformer: Transformer) -> Callable[[Tensor], Tensor]:
    """Return a function from ids (B, T) to what the mean is taken of (B, T, D)."""
    model = transformer.model
    if model.config.num_hidden_layers == 0:
        return lambda ids: model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    _, _, stack = layer_stack(model, "static export")

    def until_first_layer(ids: Tensor) -> Tensor:
        hook = stack[0].register_forward_pre_hook(_stop, with_kwargs=True)
        try:
            model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=False)
        except _Reached as reached:
            return reached.state
        finally:
            hook.remove()
        raise InputError(f"static export cannot read the embedding output of {type(model).__name__}")

    return until_first_layer


class _Reached(Exception):  # noqa: N818 - no error: the embedding output is known, so the layers need not run
    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state


def _stop(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    raise _Reached(args[0] if args else kwargs["hidden_states"])


@torch.no_grad()
def _at_positions(embed: Callable[[Tensor], Tensor], ids: Tensor, positions: int = POSITIONS) -> Tensor:
    """Return each token's vector at some positions, the first left out, which is a special token's: (n, P, D)."""
    return embed(ids[:, None].expand(-1, 1 + positions).contiguous())[:, 1:]


def affine_map(modules: Sequence[nn.Module], dimension: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (A, c) of the map x A + c that ``modules`` apply to the sentence embedding: (D, K) and (K,).

    Raises:
        InputError: If one of them is not affine.
    """
    linear, offset = np.eye(dimension), np.zeros(dimension)
    for module in modules:
        width = len(offset)
        probe = np.random.default_rng(0).standard_normal((4, width))
        at_zero, *axes = _apply(module, np.vstack([np.zeros(width), np.eye(width)]))
        step = np.array(axes) - at_zero
        if not np.allclose(_apply(module, probe), probe @ step + at_zero, rtol=1e-4, atol=1e-5 * np.abs(step).max()):
            raise InputError(
                f"a static model cannot hold the {type(module).__name__} behind the pooling, which is not affine: "
                "the mean of mapped rows is then not the map of their mean (whitening and centring are affine; a flow "
                "is not)"
            )
        linear, offset = linear @ step, offset @ step + at_zero
    return linear, offset


@torch.no_grad()
def _apply(module: nn.Module, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    exact = copy.deepcopy(module).double().cpu().eval()
    mapped: Tensor = exact({"sentence_embedding": torch.from_numpy(rows)})["sentence_embedding"]
    return mapped.numpy()


def split_head(model: SentenceTransformer) -> tuple[list[nn.Module], list[nn.Module]]:
    """Return the modules behind the token mean, and the normalisation that ends them, if one does."""
    start = 1 if isinstance(model[0], StaticEmbedding) else len(until_pooling(model))
    head = list(model)[start:]
    ends = bool(head) and isinstance(head[-1], Normalize) and model.truncate_dim is None
    return (head[:-1], head[-1:]) if ends else (head, [])


def inverse_frequency(counts: NDArray[np.int64], smooth: float) -> NDArray[np.float64]:
    r"""Return the weight of each token, shape (V,): :math:`a / (a + p(w))` with p(w) its share of all tokens.

    Source: Arora, Liang, Ma (2017), A Simple but Tough-to-Beat Baseline for Sentence Embeddings, equation 2.
    """
    return smooth / (smooth + counts / counts.sum())
