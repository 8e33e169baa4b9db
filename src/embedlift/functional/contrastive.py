"""Contrastive losses from cosines: one matrix product, no (A, K, D) temporaries, float32 inside autocast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from embedlift.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

_SMALLEST_LENGTH = 1e-8  # as in torch.nn.CosineSimilarity


def cosine_logits(anchors: Tensor, candidates: Tensor, temperature: float) -> Tensor:
    r"""Cosine of every anchor with every candidate over the temperature, differentiable once.

    .. math::
        \frac{S_{ij}}{\tau} = \frac{a_i^\top c_j}{\|a_i\| \|c_j\| \tau}, \qquad
        \frac{\partial L}{\partial c_j} = \frac{1}{\|c_j\|} \sum_i G_{ij}
        \Big( \frac{a_i}{\|a_i\|} - S_{ij} \frac{c_j}{\|c_j\|} \Big), \quad G = \frac{\partial L}{\partial S}

    The raw product is divided by the lengths, so the vectors are never copied to be normalised, and the
    gradient needs no memory but its own.

    Args:
        anchors: Shape (A, D).
        candidates: Shape (K, D).
        temperature: :math:`\tau`.

    Returns:
        Shape (A, K), in float32 (float64 for float64 vectors) whatever autocast says: half precision
        would round a cosine to three digits, which a temperature of 0.01 turns into errors of 0.4.

    Raises:
        InputError: If the temperature is not positive.
    """
    if not temperature > 0:
        raise InputError(f"temperature must be positive, got {temperature}")
    cosines: Tensor = _CosineMatrix.apply(anchors, candidates)  # type: ignore[no-untyped-call]
    return cosines / temperature


class _CosineMatrix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, candidates: Tensor) -> Tensor:
        a, c = _in_full_precision(anchors, candidates)
        shrink_a, shrink_c = _inverse_lengths(a), _inverse_lengths(c)
        with _without_autocast(a):
            cosines = (a @ c.T).mul_(shrink_a).mul_(shrink_c.T)
        ctx.save_for_backward(anchors, candidates, shrink_a, shrink_c, cosines)
        return cosines

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        anchors, candidates, shrink_a, shrink_c, cosines = ctx.saved_tensors
        a, c = _in_full_precision(anchors, candidates)
        of_products = (grad * shrink_a).mul_(shrink_c.T)
        of_log_lengths = grad * cosines
        grad_anchors = grad_candidates = None
        with _without_autocast(a):
            if ctx.needs_input_grad[0]:
                along = of_log_lengths.sum(dim=1, keepdim=True) * shrink_a.square()
                grad_anchors = (of_products @ c).addcmul_(a, along, value=-1).to(anchors.dtype)
            if ctx.needs_input_grad[1]:
                along = of_log_lengths.sum(dim=0).unsqueeze(1) * shrink_c.square()
                grad_candidates = (of_products.T @ a).addcmul_(c, along, value=-1).to(candidates.dtype)
        return grad_anchors, grad_candidates


def _in_full_precision(anchors: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(torch.promote_types(anchors.dtype, candidates.dtype), torch.float32)
    return anchors.to(dtype), candidates.to(dtype)


def _inverse_lengths(vectors: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return lengths.clamp_min_(_SMALLEST_LENGTH).reciprocal_()


def _without_autocast(like: Tensor) -> torch.autocast:
    return torch.autocast(like.device.type, enabled=False)


def other_sentences(like: Tensor, sentence_ids: Tensor | None = None) -> Tensor:
    """Which pairs in a batch are different sentences, hence negatives of each other: shape (B, B).

    Args:
        like: Any tensor of the batch, shape (B, ...).
        sentence_ids: Shape (B,), equal where sentences are identical; by default all of them differ.

    Raises:
        InputError: If the batch has one sentence, or the ids have another shape.
    """
    batch = len(like)
    if batch < 2:
        raise InputError(f"a batch of one sentence has no negatives: B must be at least 2, got {tuple(like.shape)}")
    if sentence_ids is None:
        return ~torch.eye(batch, dtype=torch.bool, device=like.device)
    if sentence_ids.shape != (batch,):
        raise InputError(f"sentence_ids must have shape (B,) = ({batch},), got {tuple(sentence_ids.shape)}")
    return sentence_ids.unsqueeze(1) != sentence_ids


def info_nce(positives: Tensor, logits: Tensor, is_negative: Tensor) -> Tensor:
    r"""Cross-entropy of each positive against its anchor's negatives, averaged.

    .. math::
        \frac{1}{A P} \sum_{a, p} -\log \frac{e^{z_{ap}}}{e^{z_{ap}} + \sum_{k \in N_a} e^{z_{ak}}}
        = \frac{1}{A P} \sum_{a, p} \operatorname{softplus}\Big(\log \sum_{k \in N_a} e^{z_{ak}} - z_{ap}\Big)

    An anchor's other positives are not in the denominator. An anchor without negatives adds nothing.

    Args:
        positives: Logits of the positives, shape (A, P).
        logits: Logits of all candidates, shape (A, K).
        is_negative: Which of them are negatives, shape (A, K).

    References:
        van den Oord, Li, Vinyals (2018), Representation Learning with Contrastive Predictive Coding,
        arXiv:1807.03748, equation 4.
    """
    # the lowest finite number: with -inf a row without negatives would pass through nan in backward
    negatives = logits.masked_fill(~is_negative, torch.finfo(logits.dtype).min)
    return softplus(negatives.logsumexp(dim=1, keepdim=True) - positives).mean()
