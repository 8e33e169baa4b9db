"""Texts -> vectors: every distinct text once, in batches of equal length, in the order of the input."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from embedlift import backbone
from embedlift.corpus import check_texts, repair_surrogates
from embedlift.errors import InputError
from embedlift.layers import reads_plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    Progress = Callable[[int, int], None]

#: Tokens in a batch, padding included. On two CPU cores larger batches are not faster.
BATCH_TOKENS = 4096

#: Texts that are tokenised and sorted by length together: enough that batches hold equal lengths.
_WINDOW = 8192


class _Batch(NamedTuple):
    """Texts that go through the model together: their places in the window, and the model's input."""

    places: list[int]
    features: dict[str, Any]


@dataclass(frozen=True)
class Encoded:
    """Vectors and what was met while making them.

    Attributes:
        vectors: Float32, shape (N, D).
        truncated: Which texts were longer than the model's limit, shape (N,).
        without_tokens: For which texts the tokenizer gives no token, shape (N,): empty ones, in models without
            special tokens.
    """

    vectors: NDArray[np.float32]
    truncated: NDArray[np.bool_]
    without_tokens: NDArray[np.bool_]


class Encoder:
    """A model that turns texts into vectors, loaded from anywhere.

    The vector of a text depends neither on its batch nor on padding, up to the rounding of the dtype, relative to its
    length: 1e-5 in float32, 5e-3 in float16, 5e-2 in bfloat16. (A whitening that follows makes faint directions louder,
    and their rounding errors with them.) A text without any token gets the vector of the end-of-text token alone.

    Args:
        model: Hub id, local folder, GGUF file, ``packaged:NAME``, or a loaded ``SentenceTransformer``.
        pooling: ``mean``, ``cls``, ``max``, ``last``, ``first-last-avg``, ``embedding-last-avg``, ``last2avg``, or
            a mix of hidden states such as ``mean:0,1,-1``. Default: the model's own, else ``mean``.
        layers: Keep the first K layers only.
        prompt: Name of one of the model's prompts, or a text put before every input. Default: the model's own.
        max_length: Longest input in tokens.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        device: For torch.
        batch_tokens: Tokens in a batch, padding included; by default ``BATCH_TOKENS``.
        one_token: Let the default pooling of plain models be ``cls`` or ``last`` (decoders) instead of ``mean``.

    Attributes:
        model: The sentence-transformers model; it gives the same vectors without this class.
        prompt: The text put before every input, or None.

    Raises:
        InputError: If the model cannot be loaded as asked.
    """

    def __init__(
        self,
        model: str | Path | SentenceTransformer,
        *,
        pooling: str | None = None,
        layers: int | None = None,
        prompt: str | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
        device: str | None = None,
        batch_tokens: int | None = None,
        one_token: bool = False,
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"--batch-tokens must be at least 1, got {batch_tokens}")
        self.model = backbone.load(
            model,
            pooling=pooling,
            layers=layers,
            max_length=max_length,
            dtype=dtype,
            device=device,
            one_token=one_token,
        )
        self.batch_tokens = batch_tokens or BATCH_TOKENS
        self.prompt = _use_prompt(self.model, prompt)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.model.get_embedding_dimension())

    def encode(self, texts: Sequence[str], *, progress: Progress | None = None) -> NDArray[np.float32]:
        """Return the vectors of ``texts`` in their order: float32, shape (N, D); (0, D) for no texts.

        Args:
            texts: List, array, pandas Series or iterable of str.
            progress: Called with (texts done, texts in all) after each batch.

        Raises:
            InputError: Naming the first item that is not a str.
        """
        distinct: dict[str, int] = {}
        rows = [distinct.setdefault(text, len(distinct)) for text in check_texts(texts)]
        encoded = self.encode_distinct(list(distinct), progress=progress)
        warn_without_tokens(int(encoded.without_tokens.sum()))
        return encoded.vectors if len(rows) == len(distinct) else encoded.vectors[rows]

    def encode_distinct(self, texts: list[str], *, progress: Progress | None = None) -> Encoded:
        """Encode ``texts`` one and all, with the record of what was truncated or empty."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        truncated, without_tokens = np.zeros((2, len(texts)), dtype=bool)
        done = 0
        for start in range(0, len(texts), _WINDOW):
            window = slice(start, start + _WINDOW)
            batches = self._batches(
                [repair_surrogates(text) for text in texts[window]], truncated[window], without_tokens[window]
            )
            for batch in batches:
                vectors[start + np.array(batch.places)] = self._forward(batch.features)
                done += len(batch.places)
                if progress is not None:
                    progress(done, len(texts))
        return Encoded(vectors, truncated, without_tokens)

    def fingerprint(self) -> str:
        """Return a digest of all that decides a vector: weights, modules, tokenizer, prompt, length, versions."""
        digest = hashlib.blake2b(digest_size=16)
        facts = {
            "modules": [[type(module).__name__, _config_of(module)] for module in self.model],
            "prompt": self.prompt,
            "max_length": self.model.max_seq_length,
            "truncate_dim": self.model.truncate_dim,
            "torch": torch.__version__,
        }
        digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
        tokenizer = getattr(self.model, "tokenizer", None)
        backend: Any = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if hasattr(backend, "to_str"):
            stable = json.loads(backend.to_str())
            stable["padding"] = stable["truncation"] = None  # left behind by whatever was encoded last
            digest.update(json.dumps(stable, sort_keys=True).encode())
        for name, tensor in self.model.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _forward(self, features: dict[str, Any]) -> NDArray[np.float32]:
        device = self.model.device
        moved = {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in features.items()}
        with torch.inference_mode():
            vectors = self.model(moved)["sentence_embedding"]
        if self.model.truncate_dim is not None:
            vectors = vectors[:, : self.model.truncate_dim]
        return vectors.float().cpu().numpy()

    def _batches(
        self, texts: list[str], truncated: NDArray[np.bool_], without_tokens: NDArray[np.bool_]
    ) -> Iterator[_Batch]:
        if reads_plain_text(self.model):
            return self._token_batches(texts, truncated, without_tokens)
        return self._text_batches(texts)

    def _token_batches(
        self, texts: list[str], truncated: NDArray[np.bool_], without_tokens: NDArray[np.bool_]
    ) -> Iterator[_Batch]:
        """Tokenise once, sort by token count, and cut where the padded batch would exceed its budget."""
        tokenizer = self.model.tokenizer
        prompted = [self.prompt + text for text in texts] if self.prompt else texts
        encoded = tokenizer(prompted, truncation="longest_first", padding=False, return_attention_mask=True)
        if encoded.is_fast:
            truncated[:] = [bool(encoding.overflowing) for encoding in encoded.encodings]
        columns = {key: encoded[key] for key in encoded}
        lengths = np.array([len(ids) for ids in columns["input_ids"]])
        without_tokens[:] = lengths == 0
        for place in np.flatnonzero(without_tokens):
            for key, values in columns.items():
                values[place] = [{"input_ids": _filler(tokenizer), "attention_mask": 1}.get(key, 0)]
        lengths = np.maximum(lengths, 1)
        shared = self._shared_features(columns)
        order = np.argsort(-lengths, kind="stable").tolist()
        start = 0
        while start < len(order):
            size = max(1, self.batch_tokens // int(lengths[order[start]]))
            places = order[start : start + size]
            rows = {key: [values[place] for place in places] for key, values in columns.items()}
            # On the right, whatever the tokenizer's side: absolute positions would count padding on the left.
            padded = tokenizer.pad(rows, padding=True, padding_side="right", return_tensors="pt")
            yield _Batch(places, {**padded, **shared})
            start += size

    def _shared_features(self, columns: dict[str, Any]) -> dict[str, Any]:
        """What sentence-transformers adds to the tokens, such as the length of the prompt for the pooling."""
        probe = self.model.preprocess(["a"], prompt=self.prompt)
        return {key: value for key, value in probe.items() if key not in columns}

    def _text_batches(self, texts: list[str]) -> Iterator[_Batch]:
        """The way for models that read text by themselves: sort by characters, leave the rest to them."""
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        for start in range(0, len(order), 64):
            places = order[start : start + 64]
            batch = [texts[place] if texts[place].strip() else " " for place in places]
            yield _Batch(places, self.model.preprocess(batch, prompt=self.prompt))


def warn_without_tokens(count: int) -> None:
    """Say how many texts hold nothing that the model can read."""
    if count:
        warnings.warn(
            f"{count} texts hold no token (empty, or unknown to the tokenizer): "
            "they have the vector of the end-of-text token",
            stacklevel=3,
        )


def _filler(tokenizer: Any) -> int:
    candidates = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id, 0)
    return int(next(token for token in candidates if token is not None))


def _use_prompt(model: SentenceTransformer, prompt: str | None) -> str | None:
    """Make ``prompt``, a name or a text, the model's default, so that the saved model uses it too."""
    if prompt is None:
        name = model.default_prompt_name
        return model.prompts.get(name) or None if name is not None else None
    if prompt not in model.prompts:
        model.prompts["embedlift"] = prompt
        prompt = "embedlift"
    model.default_prompt_name = prompt
    return model.prompts[prompt] or None


def _config_of(module: Any) -> Any:
    """What decides the vectors, and is the same before and after a model is saved."""
    config = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
    inner = getattr(getattr(module, "model", None), "config", None)
    about_the_file = ("architectures", "transformers_version", "dtype", "torch_dtype")
    kept = inner.to_diff_dict().items() if inner is not None else ()
    return [config, {key: value for key, value in kept if not key.startswith("_") and key not in about_the_file}]
