"""Texts -> vectors with an exported model, on onnxruntime and tokenizers alone.

This very file is copied into the folder of an exported model, so it imports numpy, tokenizers and onnxruntime only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

CONFIG = "onnx_config.json"

_WINDOW = 8192  # texts that are tokenised and sorted by length together


class OnnxEncoder:
    """A model that was exported by ``embedlift export DIR --to onnx``.

    Args:
        folder: What the export wrote; by default the folder in which this file lies.
        prompt: Name of one of the model's prompts, or a text put before every input. Default: the model's own.
        threads: Threads that the model may use; 0 leaves it to onnxruntime.
        providers: Execution providers of onnxruntime, such as ``["CUDAExecutionProvider"]``.
        batch_tokens: Tokens in a batch, padding included; by default 512 on a CPU, whose cache then holds what a layer
            computes, else 4,096.

    Attributes:
        config: What the export recorded: dimension, max_length, prompts, the difference it measured, ...
    """

    def __init__(
        self,
        folder: str | Path = Path(__file__).parent,
        *,
        prompt: str | None = None,
        threads: int = 0,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        batch_tokens: int | None = None,
    ) -> None:
        folder = Path(folder)
        self.config: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        name = self.config["default_prompt"] if prompt is None else prompt
        self.prompt: str = self.config["prompts"].get(name, prompt or "")
        self._batch_tokens = batch_tokens or (512 if list(providers) == ["CPUExecutionProvider"] else 4096)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=list(providers))

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.config["dimension"])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of ``texts`` in their order: float32, shape (N, D); (0, D) for no texts.

        Raises:
            TypeError: Naming the first item that is not a str.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a list of str, got one str")
        distinct: dict[str, int] = {}
        rows = [distinct.setdefault(_checked(text, place), len(distinct)) for place, text in enumerate(texts)]
        vectors = np.empty((len(distinct), self.dimension), dtype=np.float32)
        every = list(distinct)
        for start in range(0, len(every), _WINDOW):
            window = vectors[start : start + _WINDOW]
            for places, tokens in self._batches(every[start : start + _WINDOW]):
                window[places] = self._forward(tokens)
        return vectors[rows]

    def _batches(self, texts: list[str]) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Sort by token count, longest first, and cut where the padded batch would exceed its budget."""
        encodings = self._tokenizer.encode_batch([self.prompt + text for text in texts])
        tokens = [encoding.ids or [self.config["filler_id"]] for encoding in encodings]
        order = sorted(range(len(tokens)), key=lambda place: -len(tokens[place]))
        start = 0
        while start < len(order):
            stop = start + max(1, self._batch_tokens // len(tokens[order[start]]))
            places = order[start:stop]
            yield places, [tokens[place] for place in places]
            start = stop

    def _forward(self, tokens: list[list[int]]) -> NDArray[np.float32]:
        shape = len(tokens), max(map(len, tokens))
        input_ids = np.full(shape, self.config["pad_id"], dtype=np.int64)
        attention_mask = np.zeros(shape, dtype=np.int64)
        for row, ids in enumerate(tokens):
            input_ids[row, : len(ids)] = ids
            attention_mask[row, : len(ids)] = 1
        vectors: Any = self._session.run(None, {"input_ids": input_ids, "attention_mask": attention_mask})[0]
        return vectors


def _checked(text: object, place: int) -> str:
    """Return ``text`` if it is a str, lone surrogates replaced by U+FFFD; halves that belong together are joined."""
    if not isinstance(text, str):
        raise TypeError(f"texts[{place}] is {text!r:.40}, not a str: remove, fill or convert it first")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
