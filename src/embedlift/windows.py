"""A window of texts -> batches of the model's input: tokenised once, sorted by length, cut with hardly any padding."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from embedlift.corpus import repair_surrogates
from embedlift.layers import reads_plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

#: Texts that a model which reads text by itself gets at once.
_TEXTS_AT_ONCE = 64


class Batch(NamedTuple):
    """Texts that go through the model together.

    Attributes:
        places: Of the texts in the window.
        features: The model's input.
        tokens: Of the texts, without padding; 0 if the model reads text by itself.
    """

    places: list[int]
    features: dict[str, Any]
    tokens: int


@dataclass(frozen=True)
class Window:
    """Texts that are tokenised and sorted together.

    Attributes:
        batches: The model's input.
        truncated: Which texts were longer than the model's limit, shape (N,).
        without_tokens: For which texts the tokenizer gives no token, shape (N,).
    """

    batches: list[Batch]
    truncated: NDArray[np.bool_]
    without_tokens: NDArray[np.bool_]


def read_window(model: SentenceTransformer, texts: list[str], prompt: str | None, batch_tokens: int) -> Window:
    """Tokenise ``texts`` once, sort them by token count, and cut them into batches of at most ``batch_tokens``."""
    texts = [repair_surrogates(text) for text in texts]
    truncated, without_tokens = np.zeros((2, len(texts)), dtype=bool)
    if not texts:
        return Window([], truncated, without_tokens)
    if not reads_plain_text(model):
        return Window(list(_text_batches(model, texts, prompt)), truncated, without_tokens)
    tokenizer: Any = model.tokenizer
    prompted = [prompt + text for text in texts] if prompt else texts
    encoded = tokenizer(prompted, truncation="longest_first", padding=False, return_attention_mask=True)
    if encoded.is_fast:
        truncated[:] = [bool(encoding.overflowing) for encoding in encoded.encodings]
    columns = {key: encoded[key] for key in encoded}
    lengths = np.array([len(ids) for ids in columns["input_ids"]])
    without_tokens[:] = lengths == 0
    for place in np.flatnonzero(without_tokens):
        for key, values in columns.items():
            values[place] = [{"input_ids": _filler(tokenizer), "attention_mask": 1}.get(key, 0)]
    batches = _token_batches(model, columns, np.maximum(lengths, 1), prompt, batch_tokens)
    return Window(list(batches), truncated, without_tokens)


def _token_batches(
    model: SentenceTransformer,
    columns: dict[str, Any],
    lengths: NDArray[np.int64],
    prompt: str | None,
    batch_tokens: int,
) -> Iterator[Batch]:
    tokenizer: Any = model.tokenizer
    shared = _shared_features(model, columns, prompt)
    order = np.argsort(-lengths, kind="stable")
    for part in cut_sorted(lengths[order], batch_tokens):
        places = order[part].tolist()
        rows = {key: [values[place] for place in places] for key, values in columns.items()}
        # On the right, whatever the tokenizer's side: absolute positions would count padding on the left.
        padded = tokenizer.pad(rows, padding=True, padding_side="right", return_tensors="pt")
        yield Batch(places, {**padded, **shared}, int(lengths[order[part]].sum()))


def cut_sorted(lengths: NDArray[np.int64], batch_tokens: int) -> Iterator[slice]:
    """Yield the batches of texts that are sorted by length: the cut that costs least.

    A batch costs its tokens, padding included, and as much as ``batch_tokens`` / 64 for being a batch. It holds at most
    ``batch_tokens``, but at least one text. The cheapest cut of the first n texts follows from those of fewer.

    Args:
        lengths: Tokens of each text, longest first, shape (N,).
        batch_tokens: The budget.
    """
    count = len(lengths)
    cost, start_of = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    first = 0
    for stop in range(1, count + 1):
        while first < stop - 1 and lengths[first] * (stop - first) > batch_tokens:
            first += 1
        starts = np.arange(first, stop)
        costs = cost[starts] + lengths[starts] * (stop - starts)
        best = int(costs.argmin())
        cost[stop], start_of[stop] = costs[best] + batch_tokens / 64, first + best
    stops = [count]
    while stops[-1] > 0:
        stops.append(int(start_of[stops[-1]]))
    yield from (slice(start, stop) for start, stop in itertools.pairwise(reversed(stops)))


def _shared_features(model: SentenceTransformer, columns: dict[str, Any], prompt: str | None) -> dict[str, Any]:
    """What sentence-transformers adds to the tokens, such as the length of the prompt for the pooling."""
    probe = model.preprocess(["a"], prompt=prompt)
    return {key: value for key, value in probe.items() if key not in columns}


def _text_batches(model: SentenceTransformer, texts: list[str], prompt: str | None) -> Iterator[Batch]:
    """The way for models that read text by themselves: sort by characters, leave the rest to them."""
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    for start in range(0, len(order), _TEXTS_AT_ONCE):
        places = order[start : start + _TEXTS_AT_ONCE]
        batch = [texts[place] if texts[place].strip() else " " for place in places]
        yield Batch(places, model.preprocess(batch, prompt=prompt), 0)


def _filler(tokenizer: Any) -> int:
    candidates = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id, 0)
    return int(next(token for token in candidates if token is not None))
