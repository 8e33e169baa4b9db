"""The main job: unlabelled text and a model -> a better sentence-embedding model."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sentence_transformers.base.modules import Normalize

from embedlift._version import __version__
from embedlift.cache import CachedEncoder
from embedlift.corpus import Corpus, read_corpus
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.files import PartialFolder, written_whole
from embedlift.functional import isotropy
from embedlift.layers import with_modules
from embedlift.model_card import write_model_card
from embedlift.modules import as_modules, bundle_sources
from embedlift.transforms import TRANSFORMS, make_transform, transform_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    from embedlift.encoder import Progress

#: What ``method`` may be by name; ``none`` keeps the pooled vectors as they are.
METHODS = ("none", *TRANSFORMS)

_FIGURES_SAMPLE = 5000


@dataclass(frozen=True)
class Adaptation:
    """A model that was adapted, and the record of how.

    Attributes:
        model: The sentence-transformers model.
        settings: What decided the result, JSON-able.
        corpus: What it was fitted on.
        truncated: Texts of the corpus that were longer than the model's limit.
        before: Label-free figures of the corpus's vectors before.
        after: The same figures after.
        versions: Of Python and of the libraries that took part.
        resumed: Whether unfinished work of an earlier run was continued.
    """

    model: SentenceTransformer
    settings: dict[str, Any]
    corpus: Corpus
    truncated: int
    before: dict[str, float]
    after: dict[str, float]
    versions: dict[str, str] = field(default_factory=lambda: library_versions())
    resumed: bool = False


def adapt(
    model: str | Path | SentenceTransformer, corpus: Sequence[str | Path] | Iterable[str], **settings: Any
) -> SentenceTransformer:
    """Return ``model``, adapted to ``corpus`` without labels: the model that ``embedlift adapt`` would save.

    It is made of stock sentence-transformers modules: ``save_pretrained`` it, and it loads without embedlift.

    Args:
        model: Hub id, local folder, GGUF file, ``packaged:NAME``, or a loaded ``SentenceTransformer``.
        corpus: Texts, or ``Path`` objects of files with texts.
        **settings: See :func:`run`.

    Raises:
        InputError: If something given cannot be used.
    """
    return run(model, corpus, **settings).model


def run(
    model: str | Path | SentenceTransformer,
    corpus: Sequence[str | Path] | Iterable[str],
    *,
    method: str | Any = "whitening",
    output: Path | None = None,
    column: str | None = None,
    pooling: str | None = None,
    layers: int | None = None,
    dim: int | None = None,
    preset: str | None = None,
    method_settings: Mapping[str, Any] | None = None,
    max_length: int | None = None,
    prompt: str | None = None,
    dtype: str = "float32",
    device: str | None = None,
    batch_tokens: int | None = None,
    seed: int = 0,
    cache: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Adaptation:
    """Adapt ``model`` to ``corpus`` and return the model with the record of how.

    Args:
        model: As for :func:`adapt`.
        corpus: As for :func:`adapt`.
        method: One of ``METHODS``, or an unfitted transform such as ``Whitening(256, shrinkage="oas")``.
        output: Folder to save the model in. Unfinished work lies in ``OUTPUT.partial`` and is continued by the
            same call.
        column: Column of the corpus files.
        pooling: See :class:`embedlift.Encoder`; likewise ``layers``, ``max_length``, ``prompt``, ``dtype``,
            ``device`` and ``batch_tokens``.
        layers: Keep the first K layers only.
        dim: Dimensions of the new vectors (whitening).
        preset: Name of a set of settings of the method, such as ``paper`` for the flow.
        method_settings: Arguments of the method's class, such as ``{"shrinkage": "oas"}``.
        max_length: Longest input in tokens.
        prompt: Name of a prompt or its text.
        dtype: Of the weights.
        device: For torch.
        batch_tokens: Tokens in a batch.
        seed: Of all random choices.
        cache: Whether vectors are kept in the user's cache folder for later runs.
        overwrite: Whether a finished ``output`` may be replaced.
        progress: Called with (texts done, texts to encode).

    Raises:
        InputError: If something given cannot be used.
    """
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    if isinstance(method, str) and method not in METHODS:
        raise InputError(f"unknown method {method!r}: choose one of {', '.join(METHODS)}")
    transform = None if method == "none" else method
    if isinstance(transform, str):
        transform = make_transform(transform, dim=dim, preset=preset, seed=seed, settings=method_settings)
    elif dim is not None or preset is not None or method_settings:
        raise InputError("--dim, --preset and --set need a method given by name that is not none")
    texts = read_corpus(corpus, column)
    encoder = Encoder(
        model,
        pooling=pooling,
        layers=layers,
        prompt=prompt,
        max_length=max_length,
        dtype=dtype,
        device=device,
        batch_tokens=batch_tokens,
    )
    if dim is not None and not 1 <= dim <= encoder.dimension:
        raise InputError(f"--dim must be between 1 and the model's {encoder.dimension} dimensions, got {dim}")
    longest = encoder.model.max_seq_length  # none or infinity in models without positions
    settings = {
        "model": model if isinstance(model, str) else str(model) if isinstance(model, Path) else type(model).__name__,
        "model_digest": encoder.fingerprint(),
        "method": method if isinstance(method, str) else transform_name(method),
        "pooling": pooling,
        "layers": layers,
        "max_length": int(longest) if longest and math.isfinite(longest) else None,
        "prompt": encoder.prompt,
        "dtype": dtype,
        "seed": seed,
        "corpus_digest": texts.digest,
        "embedlift": __version__,
    } | {f"method.{name}": value for name, value in (transform.get_params() if transform else {}).items()}
    work = PartialFolder(output, settings, overwrite=overwrite) if output is not None else None
    vectors, truncated = _encode(encoder, texts, work, cache=cache, progress=progress)
    sample = _sample(vectors, seed)
    before = isotropy.summary(sample, seed) if len(sample) > 1 else {}
    adapted, after = encoder.model, before
    if transform is not None:
        try:
            transform.fit(vectors)
        except InputError:
            if work is not None:
                work.discard()  # the same command would fail again, and another one must not be refused
            raise
        adapted = attach(encoder.model, transform)
        after = isotropy.summary(transform.transform(sample), seed) if len(sample) > 1 else {}
    record = Adaptation(adapted, settings, texts, truncated, before, after, resumed=bool(work and work.resumed))
    if work is not None:
        _save(record, work)
    return record


def attach(model: SentenceTransformer, transform: Any) -> SentenceTransformer:
    """Return ``model`` followed by a fitted transform.

    A model that ends in normalised vectors ends in normalised vectors again.
    """
    last = list(model)[-1]
    before_truncation = with_modules(model, list(model)).get_embedding_dimension()
    again = [Normalize()] if isinstance(last, Normalize) else []
    return with_modules(model, [*model, *as_modules(transform, int(before_truncation)), *again])


def library_versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    libraries = ("torch", "transformers", "sentence-transformers", "numpy", "scipy", "scikit-learn")
    return {"embedlift": __version__, "python": platform.python_version()} | {name: version(name) for name in libraries}


def _encode(
    encoder: Encoder, texts: Corpus, work: PartialFolder | None, *, cache: bool, progress: Progress | None
) -> tuple[NDArray[np.float32], int]:
    if work is None and not cache:
        encoded = encoder.encode_distinct(texts.texts, progress=progress)
        return encoded.vectors, int(encoded.truncated.sum())
    cached = CachedEncoder(encoder, None if cache or work is None else work.path)
    out = None if work is None else work.path / "vectors.npy"
    return cached.encode(texts.texts, progress=progress, out=out), cached.truncated


def _sample(vectors: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    if len(vectors) <= _FIGURES_SAMPLE:
        return np.asarray(vectors)
    rows = np.random.default_rng(seed).choice(len(vectors), _FIGURES_SAMPLE, replace=False)
    return np.asarray(vectors[np.sort(rows)])


def _save(record: Adaptation, work: PartialFolder) -> None:
    folder = work.path / "model"
    try:
        record.model.save_pretrained(str(folder), create_model_card=False)
        bundle_sources(folder)
    except Exception as error:  # the libraries in Rust that write weights and tokenizer share no class for a full disk
        if "os error" not in str(error):
            raise
        raise InputError(f"{folder} cannot be written ({error}): free some space and repeat the command") from error
    write_model_card(
        folder / "README.md",
        settings=record.settings,
        corpus=record.corpus,
        truncated=record.truncated,
        before=record.before,
        after=record.after,
        versions=record.versions,
    )
    work.finish(folder)


def write_json(path: Path, record: Adaptation) -> None:
    """Write the record of an adaptation, without its model."""
    corpus = {key: value for key, value in asdict(record.corpus).items() if key != "texts"}
    document = {
        "schema_version": 1,
        "settings": record.settings,
        "versions": record.versions,
        "corpus": corpus | {"distinct": len(record.corpus.texts), "truncated": record.truncated},
        "figures": {"before": record.before, "after": record.after},
        "resumed": record.resumed,
    }
    with written_whole(path) as beside:
        beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
