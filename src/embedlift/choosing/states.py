"""One pass of a model over the text, from which the vectors of every layer mix follow."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from sentence_transformers.base.modules import Module, Normalize
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from embedlift.encoder import Encoder
from embedlift.functional.pooling import pool_layers
from embedlift.functional.similarity import unit_rows
from embedlift.layers import required_transformer, transformer_of, with_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer
    from torch import Tensor


@dataclass(frozen=True)
class States:
    """What one pass of a model over N texts gives.

    Attributes:
        pooled: Mean over tokens of each kept hidden state: state -> shape (N, D). 0 is the embedding output.
        own: The model's own vectors, shape (N, K).
        normalised: Whether the model's own vectors have length 1, so that those of a layer mix will have it too.
    """

    pooled: dict[int, NDArray[np.float32]]
    own: NDArray[np.float32]
    normalised: bool

    def vectors(self, mix: tuple[int, ...] | None) -> NDArray[np.floating]:
        """Return the vectors of a layer mix, or the model's own for None, shape (N, D)."""
        if mix is None:
            return self.own
        vectors: NDArray[np.float32] = np.mean([self.pooled[state] for state in mix], axis=0, dtype=np.float32)
        return unit_rows(vectors) if self.normalised else vectors


class AllStates(Module):
    """Hidden states, mean-pooled, and the model's own sentence vector, side by side in one long vector.

    Args:
        head: What follows the transformer in the model.
        kept: The hidden states to keep.
        width: Dimensions of a hidden state.
        dimension: Dimensions of the model's own vector.
    """

    def __init__(self, head: Sequence[nn.Module], kept: tuple[int, ...], width: int, dimension: int) -> None:
        super().__init__()
        self.head = nn.ModuleList(head)
        self.kept, self.width, self.dimension = kept, width, dimension

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add ``sentence_embedding``: shape (B, kept states * width + dimension)."""
        states = [features["all_layer_embeddings"][state] for state in self.kept]
        pooled = pool_layers(states, features["attention_mask"]).flatten(1)
        for module in self.head:
            features = module(features)
        features["sentence_embedding"] = torch.cat([pooled, features["sentence_embedding"]], dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        """Return the length of the long vector."""
        return len(self.kept) * self.width + self.dimension

    def get_config_dict(self) -> dict[str, object]:
        """Return what tells this module from another of its kind."""
        return {"kept": self.kept, "width": self.width, "dimension": self.dimension}

    def save(self, output_path: str, *args: object, **kwargs: object) -> None:
        """Refuse: the long vector serves the choice alone."""
        raise NotImplementedError("the pass over all layers is not a model to keep")


class StatesEncoder:
    """Texts -> :class:`States`, in one pass for all layers.

    Where the layers of a model cannot be mixed, only its own vectors come: in models that do not start with a
    transformer, and in those that map their pooled vectors further (a dense layer trained on the last state would be
    fed with others). Texts above the model's limit are cut at it, whatever the encoder does with them.

    Args:
        encoder: The model.
        kept: The hidden states to keep.
    """

    def __init__(self, encoder: Encoder, kept: tuple[int, ...]) -> None:
        model = encoder.model
        self.kept = kept if mixable_layers(model) else ()
        self._normalised = isinstance(list(model)[-1], Normalize)
        self._encoder, self._width = encoder, 0
        if self.kept:
            self._transformer = required_transformer(model, "a mix of layers")
            self._width = int(self._transformer.get_embedding_dimension())
            pooling = AllStates(list(model)[1:], self.kept, self._width, encoder.dimension)
            together = with_modules(model, [self._transformer, pooling])
            self._encoder = Encoder(together, batch_tokens=encoder.batch_tokens)

    def encode(self, texts: list[str]) -> States:
        """Return the states of ``texts``."""
        with self._all_states_given():
            vectors = self._encoder.encode_distinct(texts).vectors
        width = self._width
        pooled = {
            state: np.ascontiguousarray(vectors[:, place * width : (place + 1) * width])
            for place, state in enumerate(self.kept)
        }
        return States(pooled, np.ascontiguousarray(vectors[:, len(self.kept) * width :]), self._normalised)

    @contextmanager
    def _all_states_given(self) -> Iterator[None]:
        """Let the transformer return its hidden states, for a while: it is the user's."""
        if not self.kept:
            yield
            return
        config = self._transformer.model.config
        before, config.output_hidden_states = config.output_hidden_states, True
        try:
            yield
        finally:
            config.output_hidden_states = before


def mixable_layers(model: SentenceTransformer) -> int:
    """Return the number of layers of a model whose layers can be mixed, else 0."""
    transformer = transformer_of(model)
    rest = list(model)[1:]
    plain = [isinstance(module, (Pooling, Normalize)) for module in rest]
    if transformer is None or not rest or not all(plain) or model.truncate_dim is not None:
        return 0
    return int(transformer.model.config.num_hidden_layers)


def joined(parts: list[States]) -> States:
    """Return the states of several passes as those of one."""
    pooled = {state: np.concatenate([part.pooled[state] for part in parts]) for state in parts[0].pooled}
    return States(pooled, np.concatenate([part.own for part in parts]), parts[0].normalised)
