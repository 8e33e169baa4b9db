"""Self-guided contrastive learning: the layers of a frozen copy are the positives of [CLS]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import nn

from embedlift.errors import InputError
from embedlift.functional.contrastive import cosine_logits, info_nce, other_sentences

if TYPE_CHECKING:
    from torch import Tensor

Variant = Literal["sg", "sg-opt1", "sg-opt2", "sg-opt"]


def self_guided_loss(
    cls: Tensor,
    hidden: Tensor,
    temperature: float = 0.01,
    variant: Variant = "sg-opt",
    *,
    sentence_ids: Tensor | None = None,
) -> Tensor:
    r"""Pull [CLS] to the layers of its own sentence and away from those of the other sentences.

    With :math:`g(u, v) = \cos(u, v) / \tau`, SG-OPT is

    .. math::
        L = \frac{1}{B L} \sum_{i, k} -\log
        \frac{e^{g(c_i, h_{ik})}}{e^{g(c_i, h_{ik})} + \sum_{m \neq i} \sum_n e^{g(c_i, h_{mn})}}

    and the other variants differ in who is an anchor and which views are candidates:

    ========= ================= ============== =======================================
    variant   anchors           candidates     average over
    ========= ================= ============== =======================================
    sg        c and h           c and h        2 B (NT-Xent; also for two views, BT)
    sg-opt1   c                 c and h        B
    sg-opt2   c                 h              B
    sg-opt    c                 h of L layers  B L
    ========= ================= ============== =======================================

    In all of them an anchor's positives are the other views of its own sentence, its negatives the
    candidates of the other sentences.

    Args:
        cls: Projected sentence vectors of the trained encoder, shape (B, D).
        hidden: Projected pooled layers of the frozen encoder, shape (B, L, D); L = 1 for all variants
            but ``"sg-opt"``, see :func:`sample_layer`. In training the head learns from both sides, so
            detach the layers before the head, not after it.
        temperature: :math:`\tau`.
        variant: ``"sg"``, ``"sg-opt1"``, ``"sg-opt2"`` or ``"sg-opt"``.
        sentence_ids: Shape (B,), equal where sentences are identical: these are then no negatives of
            each other. By default all sentences are taken to differ.

    Returns:
        The mean loss, a scalar in float32 at least.

    Raises:
        InputError: If the shapes do not fit each other or the variant, the batch has one sentence, or the
            temperature is not positive.

    References:
        Kim, Yoo, Lee (2021), Self-Guided Contrastive Learning for BERT Sentence Representations,
        arXiv:2106.07345, section 3.
    """
    _check(cls, hidden, variant)
    differ = other_sentences(hidden, sentence_ids)
    batch, layers, _ = hidden.shape
    views = hidden if variant in ("sg-opt2", "sg-opt") else torch.cat([cls.unsqueeze(1), hidden], dim=1)
    anchors = views if variant == "sg" else cls.unsqueeze(1)
    logits = cosine_logits(anchors.flatten(0, 1), views.flatten(0, 1), temperature)

    blocks = (batch, anchors.shape[1], batch, views.shape[1])
    own = logits.view(blocks).diagonal(dim1=0, dim2=2)  # (anchors, views, B) of the same sentence
    positives = own[0, -layers:].T.repeat_interleave(anchors.shape[1], dim=0)  # cos(h, c) = cos(c, h) in SG
    is_negative = differ[:, None, :, None].expand(blocks).reshape(logits.shape)
    return info_nce(positives, logits, is_negative)


def _check(cls: Tensor, hidden: Tensor, variant: str) -> None:
    shapes = f"got cls {tuple(cls.shape)} and hidden {tuple(hidden.shape)}"
    if variant not in get_args(Variant):
        raise InputError(f"unknown variant {variant!r}: choose one of {', '.join(get_args(Variant))}")
    if cls.ndim != 2 or hidden.ndim != 3 or cls.shape != hidden.shape[::2] or not hidden.shape[1]:
        raise InputError(f"cls must have shape (B, D) and hidden (B, L, D): {shapes}")
    if variant != "sg-opt" and hidden.shape[1] != 1:
        raise InputError(f"{variant} takes one layer per sentence, hidden (B, 1, D), see sample_layer: {shapes}")


def sample_layer(hidden: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw one layer for each sentence, uniformly: (B, L, D) -> (B, 1, D).

    Draw before the projection head: then it projects one layer instead of L.

    Args:
        hidden: Pooled layers, shape (B, L, D).
        generator: On the CPU, so that a seed gives the same layers on every device.

    Raises:
        InputError: If ``hidden`` has another number of dimensions, or no layers.

    References:
        Kim, Yoo, Lee (2021), arXiv:2106.07345, section 3.
    """
    if hidden.ndim != 3 or not hidden.shape[1]:
        raise InputError(f"hidden must have shape (B, L, D) with L at least 1, got {tuple(hidden.shape)}")
    batch, layers, _ = hidden.shape
    drawn = torch.randint(layers, (batch,), generator=generator).to(hidden.device)
    return hidden[torch.arange(batch, device=hidden.device), drawn].unsqueeze(1)


class ProjectionHead(nn.Sequential):
    r"""The map in whose image the loss is taken; it is shared by both sides and not part of the result.

    .. math:: f(x) = \operatorname{GELU}(W_2 \operatorname{GELU}(W_1 x + b_1) + b_2)

    Weights start as :math:`N(0, \sigma^2)` with the encoder's initialiser range, biases at 0.

    Args:
        dimension: d, of the encoder's vectors.
        width: Of both layers.
        initializer_range: :math:`\sigma`.
        generator: Of the weights; torch's global one by default.

    References:
        Kim, Yoo, Lee (2021), arXiv:2106.07345, section 3 and appendix.
    """

    def __init__(
        self,
        dimension: int,
        width: int = 4096,
        *,
        initializer_range: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        for inputs in (dimension, width):
            layer = nn.utils.skip_init(nn.Linear, inputs, width)  # type: ignore[no-untyped-call]
            nn.init.normal_(layer.weight, std=initializer_range, generator=generator)
            nn.init.zeros_(layer.bias)
            self.extend([layer, nn.GELU()])
