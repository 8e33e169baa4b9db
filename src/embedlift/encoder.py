"""Texts -> vectors: every distinct text once, in batches of equal length, in the order of the input."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from embedlift import backbone
from embedlift.chunks import mean_of_pieces, room_for_text, split_long
from embedlift.corpus import check_texts
from embedlift.errors import InputError
from embedlift.layers import split_after_pooling
from embedlift.read_ahead import read_ahead
from embedlift.windows import read_window

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    from embedlift.chunks import Piece

    Progress = Callable[[int, int], None]

#: Tokens in a batch, padding included, where a processor's cache decides: benchmarks/encode_speed. In float32; 16-bit
#: numbers take half the space, so twice as many tokens fit.
BATCH_TOKENS = 1024

#: The same on an accelerator, which wants to be kept busy.
ACCELERATOR_BATCH_TOKENS = 16_384

#: What becomes of a text that is longer than the model's limit.
LONG = ("truncate", "chunk-mean")

#: Texts that are tokenised and sorted by length together: enough that batches hold equal lengths.
_WINDOW = 8192


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
        batch_tokens: Tokens in a batch, padding included; by default ``BATCH_TOKENS``, in 16 bits twice as many, on an
            accelerator ``ACCELERATOR_BATCH_TOKENS``.
        long: What becomes of texts above the limit: ``truncate`` keeps their beginning, ``chunk-mean`` cuts them
            between words into pieces that fit, and averages the pooled vectors of these by their tokens.
        one_token: Let the default pooling of plain models be ``cls`` or ``last`` (decoders) instead of ``mean``.

    Attributes:
        model: The sentence-transformers model; it gives the same vectors without this class.
        prompt: The text put before every input, or None.
        tokens_read: Tokens that went through the model so far, padding left out.

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
        long: str = "truncate",
        one_token: bool = False,
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"--batch-tokens must be at least 1, got {batch_tokens}")
        if long not in LONG:
            raise InputError(f"unknown --long {long!r}: use one of {', '.join(LONG)}")
        self.model = backbone.load(
            model,
            pooling=pooling,
            layers=layers,
            max_length=max_length,
            dtype=dtype,
            device=device,
            one_token=one_token,
        )
        self.batch_tokens = batch_tokens or _default_batch_tokens(self.model)
        self.prompt = _use_prompt(self.model, prompt)
        self.long = long
        self._room = room_for_text(self.model, self.prompt) if long == "chunk-mean" else None
        self.tokens_read = 0

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
        report = None if progress is None else lambda done: progress(done, len(texts))
        starts = range(0, len(texts), _WINDOW)
        windows = (texts[start : start + _WINDOW] for start in starts)
        with closing(self.encode_windows(windows, progress=report)) as encoded:
            for start, window in zip(starts, encoded, strict=True):
                part = slice(start, start + _WINDOW)
                vectors[part] = window.vectors
                truncated[part], without_tokens[part] = window.truncated, window.without_tokens
        return Encoded(vectors, truncated, without_tokens)

    def encode_windows(
        self, windows: Iterable[list[str]], *, progress: Callable[[int], None] | None = None
    ) -> Generator[Encoded]:
        """Yield the vectors of lists of texts, one list after the other; a thread reads and tokenises the next one.

        Args:
            windows: Each is sorted by length, and takes memory, as a whole. Read in the thread, one ahead; what it
                raises is raised here in its turn.
            progress: Called with the texts done after each batch.
        """
        if self._room is not None:
            yield from self._means_over_pieces(windows, self._room, progress)
            return
        done = 0
        read = (read_window(self.model, texts, self.prompt, self.batch_tokens) for texts in windows)
        with closing(read_ahead(read)) as ready:
            for window in ready:
                vectors = np.empty((len(window.truncated), self.dimension), dtype=np.float32)
                for batch in window.batches:
                    vectors[batch.places] = self._forward(batch.features)
                    done += len(batch.places)
                    self.tokens_read += batch.tokens
                    if progress is not None:
                        progress(done)
                yield Encoded(vectors, window.truncated, window.without_tokens)

    def _means_over_pieces(
        self, windows: Iterable[list[str]], room: int, progress: Callable[[int], None] | None
    ) -> Iterator[Encoded]:
        trunk, head = split_after_pooling(self.model)
        reader = Encoder(trunk, batch_tokens=self.batch_tokens)
        split: deque[list[list[Piece]]] = deque()  # windows that are cut, and not yet encoded

        def pieces_of_windows() -> Iterator[list[str]]:
            for texts in windows:
                split.append(split_long(self.model.tokenizer, texts, room))
                yield [piece.text for own in split[-1] for piece in own]

        done, pieces_done, read_before = 0, 0, self.tokens_read

        def report(pieces: int) -> None:
            self.tokens_read = read_before + reader.tokens_read
            if progress is not None:  # the pieces of the window that are done, in texts
                count = sum(len(own) for own in split[0])
                progress(done + len(split[0]) * (pieces - pieces_done) // count)

        with closing(reader.encode_windows(pieces_of_windows(), progress=report)) as ready:
            for encoded in ready:
                pieces = split.popleft()
                owners = np.array([text for text, own in enumerate(pieces) for _ in own], dtype=np.int64)
                vectors = through_head(self.model, head, mean_of_pieces(encoded.vectors, pieces))
                truncated, without_tokens = np.zeros((2, len(pieces)), dtype=bool)
                np.logical_or.at(truncated, owners, encoded.truncated)
                np.logical_or.at(without_tokens, owners, encoded.without_tokens)
                done, pieces_done = done + len(pieces), pieces_done + len(owners)
                yield Encoded(vectors, truncated, without_tokens)

    def fingerprint(self) -> str:
        """Return a digest of all that decides a vector: weights, modules, tokenizer, prompt, length, versions."""
        digest = hashlib.blake2b(digest_size=16)
        facts = {
            "modules": [[type(module).__name__, _config_of(module)] for module in self.model],
            "prompt": self.prompt,
            "max_length": self.model.max_seq_length,
            "truncate_dim": self.model.truncate_dim,
            "torch": torch.__version__,
        } | ({} if self.long == "truncate" else {"long": self.long})
        tokenizer = getattr(self.model, "tokenizer", None)
        if getattr(tokenizer, "split_special_tokens", False):  # a setting beside the tokenizer's own file
            facts["split_special_tokens"] = True
        digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
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
        return vectors[:, : self.model.truncate_dim].float().cpu().numpy()


def through_head(model: SentenceTransformer, head: list[torch.nn.Module], vectors: Any) -> NDArray[np.float32]:
    """Send pooled ``vectors``, shape (N, D), through the modules of ``model`` that follow its pooling."""
    features = {"sentence_embedding": torch.from_numpy(vectors).to(model.device, model.dtype)}
    with torch.inference_mode():
        for module in head:
            features = module(features)
    return features["sentence_embedding"][:, : model.truncate_dim].float().cpu().numpy()


def refuse_non_finite(vectors: NDArray[np.floating], name: Callable[[int], str]) -> None:
    """Raise an InputError if a vector holds NaN or infinity.

    Args:
        vectors: Shape (N, D).
        name: Says of a row which text it is.
    """
    for start in range(0, len(vectors), _WINDOW):
        finite = np.isfinite(vectors[start : start + _WINDOW]).all(axis=1)
        if not finite.all():
            where = name(start + int(np.argmin(finite)))
            raise InputError(f"{where}: the model gives NaN or infinity for this text: try --dtype float32")


def warn_without_tokens(count: int) -> None:
    """Say how many texts hold nothing that the model can read."""
    if count:
        warnings.warn(
            f"{count} texts hold no token (empty, or unknown to the tokenizer): "
            "they have the vector of the end-of-text token",
            stacklevel=3,
        )


def _default_batch_tokens(model: SentenceTransformer) -> int:
    if model.device.type != "cpu":
        return ACCELERATOR_BATCH_TOKENS
    return BATCH_TOKENS * torch.float32.itemsize // (model.dtype or torch.float32).itemsize


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
