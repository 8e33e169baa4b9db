"""SimCSE: two dropout passes of a sentence are each other's positives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from embedlift.errors import InputError
from embedlift.functional.contrastive import cosine_logits, info_nce, other_sentences

if TYPE_CHECKING:
    from torch import Tensor


def simcse_loss(
    first: Tensor,
    second: Tensor,
    temperature: float = 0.05,
    *,
    hard_negatives: Tensor | None = None,
    hard_negative_weight: float = 0.0,
    sentence_ids: Tensor | None = None,
) -> Tensor:
    r"""Tell the second view of a sentence from those of the others, in one direction.

    .. math::
        L = \frac{1}{B} \sum_i -\log \frac{e^{\cos(z_i, z_i') / \tau}}{\sum_j e^{\cos(z_i, z_j') / \tau}}

    Args:
        first: Vectors z of the first pass, shape (B, D).
        second: Vectors z' of the second pass, shape (B, D).
        temperature: :math:`\tau`.
        hard_negatives: One more candidate for each sentence, shape (B, D); never a positive.
        hard_negative_weight: Added to the logit of a sentence with its own hard negative.
        sentence_ids: Shape (B,), equal where sentences are identical: these are then no negatives of
            each other. By default all sentences are taken to differ.

    Returns:
        The mean loss, a scalar in float32 at least.

    Raises:
        InputError: If the shapes do not fit each other, the batch has one sentence, or the temperature is
            not positive.

    References:
        Gao, Yao, Chen (2021), SimCSE: Simple Contrastive Learning of Sentence Embeddings,
        arXiv:2104.08821, equations 4 and 5.
    """
    views = [first, second] if hard_negatives is None else [first, second, hard_negatives]
    if first.ndim != 2 or any(view.shape != first.shape for view in views):
        shapes = " and ".join(str(tuple(view.shape)) for view in views)
        raise InputError(f"all views must have one shape (B, D), got {shapes}")
    is_negative = other_sentences(first, sentence_ids)
    logits = cosine_logits(first, torch.cat(views[1:]), temperature)
    positives = logits.diagonal().unsqueeze(1)
    if hard_negatives is not None:
        weights = torch.zeros_like(logits)
        weights.diagonal(len(first)).fill_(hard_negative_weight)
        logits = logits + weights
        is_negative = torch.cat([is_negative, torch.ones_like(is_negative)], dim=1)
    return info_nce(positives, logits, is_negative)
