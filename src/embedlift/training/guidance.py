"""Student and frozen guide: sentences -> the tensors that the objectives take. It knows models, but no trainer."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from embedlift.errors import InputError
from embedlift.functional.pooling import pool_layers
from embedlift.layers import transformer_of, until_pooling
from embedlift.objectives import ProjectionHead, sample_layer, self_guided_loss
from embedlift.training import lora

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer
    from torch import Tensor

    from embedlift.objectives.self_guided import Variant
    from embedlift.training.settings import TrainingSettings


class Guide:
    """The encoder as it was before training: frozen, without dropout and gradients, it gives pooled layers only.

    It is no ``nn.Module``, so that no trainer can find it, move it into training mode, or replace it.

    Args:
        transformer: The student's Transformer module; the guide is a copy, or with LoRA the same weights without
            the adapters.
        settings: ``guide_layers``, ``guide_pooling`` and ``lora`` matter.

    Raises:
        InputError: If the layers named are not there.
    """

    def __init__(self, transformer: Transformer, settings: TrainingSettings) -> None:
        self._adapters = settings.lora is not None
        encoder = transformer if self._adapters else copy.deepcopy(transformer)
        self.encoder: Transformer = encoder if self._adapters else encoder.eval().requires_grad_(False)
        self.layers = settings.layers(encoder.model.config.num_hidden_layers)
        self.pooling = settings.guide_pooling

    def parameters(self) -> list[Tensor]:
        """Return the frozen weights, in the student's order."""
        return list(self.encoder.model.parameters())

    @torch.no_grad()
    def __call__(self, features: dict[str, Any]) -> Tensor:
        """Return the pooled layers of a batch, shape (B, L, D)."""
        config = self.encoder.model.config
        before, trains = config.output_hidden_states, self.encoder.training
        config.output_hidden_states = True
        try:
            with lora.adapters_off(self.encoder.eval(), self._adapters):
                output = self.encoder(dict(features))
        finally:
            config.output_hidden_states = before
            self.encoder.train(trains)
        states = output["all_layer_embeddings"]
        chosen = states if self.layers is None else [states[layer] for layer in self.layers]
        return pool_layers(chosen, features["attention_mask"], self.pooling)  # type: ignore[arg-type]


class SelfGuidedObjective(nn.Module):
    """What a step minimises, but for the regulariser, which enters as a gradient.

    Args:
        model: The model that is trained: all modules up to its pooling make the sentence vector c; modules behind
            it, such as a normalisation, are left as they are.
        settings: See :class:`TrainingSettings`.
        method: ``sg``, ``sg-opt1``, ``sg-opt2``, ``sg-opt`` or ``bt``.
        seed: Of the projection head.

    Attributes:
        head: The projection head.
        guide: The frozen encoder.
        last_loss: Loss of the last batch, a tensor without gradient.

    Raises:
        InputError: If the model is none that can be trained.
    """

    def __init__(self, model: SentenceTransformer, settings: TrainingSettings, method: str, seed: int = 0) -> None:
        super().__init__()
        transformer = transformer_of(model)
        if transformer is None or not hasattr(transformer.model.config, "num_hidden_layers"):
            first = type(model[0]).__name__
            raise InputError(f"--method {method} needs a transformer model; this one starts with {first}")
        self.settings, self.method = settings, method
        self._trunk = tuple(until_pooling(model))  # a tuple hides it: the head alone is this module's own
        self.head = ProjectionHead(
            transformer.get_embedding_dimension(),
            settings.head_width,
            initializer_range=getattr(transformer.model.config, "initializer_range", None) or 0.02,
            generator=torch.Generator().manual_seed(seed),
        ).to(model.device)
        _choose_trained(model, transformer, settings)
        self.guide = Guide(transformer, settings)
        self.last_loss = torch.zeros(())

    @property
    def encoder(self) -> nn.Module:
        """The language model that is trained."""
        return cast("nn.Module", self._trunk[0].model)

    def trained_parameters(self) -> dict[str, Tensor]:
        """Return the trained weights of encoder and head by name: to be optimised, clipped and kept in checkpoints."""
        parts = {"encoder": self.encoder, "head": self.head}
        named = ((f"{part}.{name}", tensor) for part in parts for name, tensor in parts[part].named_parameters())
        return {name: tensor for name, tensor in named if tensor.requires_grad}

    def sentence_vectors(self, features: dict[str, Any]) -> Tensor:
        """Return the student's vectors c of a batch, shape (B, D)."""
        features = dict(features)  # the modules write into it
        for module in self._trunk:
            features = module(features)
        return features["sentence_embedding"]

    def contrast(self, cls: Tensor, hidden: Tensor, same: Tensor) -> Tensor:
        """Return the loss of student vectors (B, D) and views (B, L, D); views without gradient are constants."""
        variant = cast("Variant", "sg" if self.method == "bt" else self.method)
        temperature = self.settings.temperature
        return self_guided_loss(self.head(cls), self.head(hidden), temperature, variant, sentence_ids=same)

    def forward(self, sentence_features: Sequence[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """Return the loss of a batch: one text column, or for ``bt`` two."""
        first = sentence_features[0]
        device = first["input_ids"].device
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.settings.bf16):
            cls = self.sentence_vectors(first)
            if self.method == "bt":
                hidden = self.sentence_vectors(sentence_features[1]).unsqueeze(1)
            else:
                hidden = self.guide(first).detach()  # before the head, which learns from both sides
                hidden = hidden if self.method == "sg-opt" else sample_layer(hidden)
            loss = self.contrast(cls, hidden.to(cls.dtype), sentence_ids(sentence_features))
        self.last_loss = loss.detach()
        return loss


def _choose_trained(model: SentenceTransformer, transformer: Transformer, settings: TrainingSettings) -> None:
    model.requires_grad_(False)
    if settings.lora is not None:
        lora.add_adapters(transformer.model, settings.lora)
        return
    transformer.model.requires_grad_(True)
    if not settings.train_embeddings:
        embeddings = getattr(transformer.model, "embeddings", None)
        if not isinstance(embeddings, nn.Module):  # decoders have no such group: the table of the words alone
            embeddings = transformer.model.get_input_embeddings()
        embeddings.requires_grad_(False)


def sentence_ids(views: Sequence[dict[str, Any]]) -> Tensor:
    """Return numbers that are equal where two rows have a text in common, shape (B,).

    Texts are the same if their tokens are, since then the model cannot tell them apart. Rows that are linked by
    a chain of common texts count as the same.

    Args:
        views: Model inputs of one or more columns, each with ``input_ids`` and ``attention_mask``, (B, T).
    """
    rows = [view["input_ids"].masked_fill(view["attention_mask"] == 0, -1) for view in views]
    width = max(row.shape[1] for row in rows)
    padded = [nn.functional.pad(row, (0, width - row.shape[1]), value=-1) for row in rows]
    texts = torch.unique(torch.cat(padded), dim=0, return_inverse=True)[1].view(len(rows), -1)  # (views, B)
    if len(rows) == 1:
        return texts[0]
    linked = (texts[:, None, :, None] == texts[None, :, None, :]).any(dim=(0, 1)).float()  # (B, B)
    for _ in range(len(linked).bit_length()):
        linked = (linked @ linked).clamp_max(1)
    return (linked > 0).int().argmax(dim=1)
