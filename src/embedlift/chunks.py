"""Texts longer than a model's limit -> pieces that fit, cut between words, and the mean of their vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from embedlift.corpus import repair_surrogates
from embedlift.errors import InputError
from embedlift.layers import reads_plain_text

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer


class Piece(NamedTuple):
    """A part of a text that fits into the model, and its number of tokens, special ones left out."""

    text: str
    tokens: int


def room_for_text(model: SentenceTransformer, prompt: str | None) -> int:
    """Return how many tokens of a text the model reads at once, beside its special tokens and the prompt.

    Raises:
        InputError: If the model reads text by itself, has a slow tokenizer, or no room is left.
    """
    tokenizer: Any = model.tokenizer if reads_plain_text(model) else None
    if tokenizer is None or not tokenizer.is_fast:
        raise InputError("--long chunk-mean needs a transformer model with a fast tokenizer")
    limit = model.max_seq_length
    if limit is None or not math.isfinite(limit):
        return 2**31
    room = int(limit) - tokenizer.num_special_tokens_to_add()
    if prompt:
        room -= len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    if room < 1:
        raise InputError(f"--long chunk-mean: the prompt leaves no room for text within {limit} tokens")
    return room


def split_long(tokenizer: Any, texts: list[str], room: int) -> list[list[Piece]]:
    """Return the pieces of each text, at most ``room`` tokens each; a text that fits is one piece."""
    if not texts:
        return []
    whole = [repair_surrogates(text) for text in texts]
    encoded = tokenizer(whole, add_special_tokens=False, truncation=False, padding=False, verbose=False)
    return [_pieces(text, encoding, room) for text, encoding in zip(whole, encoded.encodings, strict=True)]


def _pieces(text: str, encoding: Any, room: int) -> list[Piece]:
    count = len(encoding.ids)
    if count <= room:
        return [Piece(text, count)]
    words, ends = encoding.word_ids, [end for _, end in encoding.offsets]
    pieces, start, start_character = [], 0, 0
    while count - start > room:
        stop = start + room
        between_words = next((cut for cut in range(stop, start, -1) if words[cut] != words[cut - 1]), stop)
        pieces.append(Piece(text[start_character : ends[between_words - 1]], between_words - start))
        start, start_character = between_words, ends[between_words - 1]
    pieces.append(Piece(text[start_character:], count - start))
    return pieces


def mean_of_pieces(vectors: NDArray[np.float32], pieces: list[list[Piece]]) -> NDArray[np.float32]:
    r"""Return the vector of each text, :math:`\sum_i n_i v_i / \sum_i n_i` over its pieces of :math:`n_i` tokens.

    Args:
        vectors: Of all pieces in order, shape (P, D).
        pieces: Of each text, at least one.
    """
    if len(vectors) == len(pieces):
        return vectors
    weights = np.array([max(1, piece.tokens) for own in pieces for piece in own], dtype=np.float64)
    starts = np.cumsum([0, *(len(own) for own in pieces[:-1])])
    sums = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
    return (sums / np.add.reduceat(weights, starts)[:, None]).astype(np.float32)
