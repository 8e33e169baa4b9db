"""The main job: unlabelled text and a model -> a better sentence-embedding model."""

from __future__ import annotations

import copy
import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from embedlift._version import __version__
from embedlift.cache import CachedEncoder
from embedlift.choosing.search import BUDGET, decide
from embedlift.corpus import Corpus, read_corpus
from embedlift.encoder import Encoder, refuse_non_finite
from embedlift.errors import InputError
from embedlift.files import PartialFolder, check_folder
from embedlift.functional import isotropy
from embedlift.functional.sampling import sample_places
from embedlift.layers import pooling_of, with_modules
from embedlift.modules import as_modules
from embedlift.record import Adaptation, library_versions, write_json
from embedlift.saving import save
from embedlift.training.settings import TRAINING_METHODS, TrainingSettings
from embedlift.transforms import TRANSFORMS, make_transform, transform_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from embedlift.encoder import Progress
    from embedlift.training.fine_tuning import TrainingText

__all__ = ["METHODS", "Adaptation", "adapt", "attach", "library_versions", "run", "write_json"]

#: What ``method`` may be by name; ``none`` keeps the pooled vectors as they are, ``auto`` chooses without labels.
METHODS = ("none", "auto", *TRANSFORMS, *TRAINING_METHODS)

_FIGURES_SAMPLE = 5000


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
    training: TrainingSettings | None = None,
    select_with: Path | None = None,
    max_length: int | None = None,
    long: str = "truncate",
    prompt: str | None = None,
    dtype: str = "float32",
    device: str | None = None,
    batch_tokens: int | None = None,
    seed: int = 0,
    cache: bool = True,
    overwrite: bool = False,
    budget: float = BUDGET,
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
        pooling: See :class:`embedlift.Encoder`; likewise ``layers``, ``max_length``, ``long``, ``prompt``, ``dtype``,
            ``device`` and ``batch_tokens``.
        layers: Keep the first K layers only.
        dim: Dimensions of the new vectors (whitening).
        preset: Name of a set of settings of the method, such as ``paper`` for the flow.
        method_settings: Arguments of the method's class, such as ``{"shrinkage": "oas"}``.
        training: Settings of ``TRAINING_METHODS``.
        select_with: File of labelled pairs (score, sentence, sentence) that choose between checkpoints in training.
        max_length: Longest input in tokens.
        long: What becomes of longer ones while the transform is fitted.
        prompt: Name of a prompt or its text.
        dtype: Of the weights.
        device: For torch.
        batch_tokens: Tokens in a batch.
        seed: Of all random choices.
        cache: Whether vectors are kept in the user's cache folder for later runs.
        overwrite: Whether a finished ``output`` may be replaced.
        budget: Seconds that ``auto`` may take to choose.
        progress: Called with (texts done, texts to encode).

    Raises:
        InputError: If something given cannot be used.
    """
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    if isinstance(method, str) and method not in METHODS:
        raise InputError(f"unknown method {method!r}: choose one of {', '.join(METHODS)}")
    trains = isinstance(method, str) and method in TRAINING_METHODS
    training = _training_settings(method, training, select_with, dtype, long) if trains else training
    if not trains and (training is not None or select_with is not None):
        raise InputError(f"settings of training need a method that trains: {', '.join(TRAINING_METHODS)}")
    _check_auto(method, pooling, output, overwrite=overwrite)
    transform = _transform(method, dim, preset, seed, method_settings)
    texts, rows = _read(corpus, method, training, column)
    encoder = Encoder(
        copy.deepcopy(model) if trains and isinstance(model, SentenceTransformer) else model,
        pooling=pooling,
        layers=layers,
        prompt=prompt,
        max_length=max_length,
        long=long,
        dtype=dtype,
        device=device,
        batch_tokens=batch_tokens,
        one_token=trains,
    )
    if dim is not None and not 1 <= dim <= encoder.dimension:
        raise InputError(f"--dim must be between 1 and the model's {encoder.dimension} dimensions, got {dim}")
    choice = None
    if method == "auto":
        choice, encoder, transform = decide(encoder, texts.texts, seed=seed, budget=budget, progress=progress)
    pooling = pooling or (pooling_of(encoder.model) if trains else None)
    settings = _settings(
        model, method, transform, encoder, texts, pooling=pooling, layers=layers, dtype=dtype, seed=seed
    )
    if choice is not None:
        settings |= {"method.chosen": choice.chosen.name, "pooling": choice.chosen.pooling}
    if training is not None and rows is not None:
        settings |= {f"method.{name}": value for name, value in training.as_dict().items()}
        settings |= {"rows_digest": rows.digest, "select_with": _digest(select_with)}
    work = PartialFolder(output, settings, overwrite=overwrite) if output is not None else None
    if training is not None and rows is not None:
        record = _trained(encoder, rows, settings, training, work, select_with, progress)
    else:
        record = _fitted(encoder, texts, settings, transform, work, cache=cache, progress=progress)
    record = replace(record, choice=choice)
    if work is not None:
        save(record, work)
    return record


def _settings(
    model: str | Path | SentenceTransformer,
    method: Any,
    transform: Any,
    encoder: Encoder,
    texts: Corpus,
    *,
    pooling: str | None,
    layers: int | None,
    dtype: str,
    seed: int,
) -> dict[str, Any]:
    """Return what decides the result: it stands in the record, and unfinished work is only continued with the same."""
    longest = encoder.model.max_seq_length  # none or infinity in models without positions
    return {
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


def _check_auto(method: Any, pooling: str | None, output: Path | None, *, overwrite: bool) -> None:
    if method != "auto":
        return
    if pooling is not None:
        raise InputError("--method auto chooses the pooling: leave --pooling out")
    if output is not None:
        check_folder(output, overwrite=overwrite)  # now, not when minutes have gone into the choice


def _transform(
    method: Any, dim: int | None, preset: str | None, seed: int, settings: Mapping[str, Any] | None
) -> Any | None:
    """Return the unfitted transform that ``method`` names or is; None where there is none, or none yet."""
    if isinstance(method, str) and method in TRANSFORMS:
        return make_transform(method, dim=dim, preset=preset, seed=seed, settings=settings)
    if (dim, preset, settings or None) != (None, None, None):
        raise InputError("--dim, --preset and --set need a method given by name that fits a transform")
    return None if isinstance(method, str) else method


def _read(
    corpus: Sequence[str | Path] | Iterable[str], method: Any, training: TrainingSettings | None, column: str | None
) -> tuple[Corpus, TrainingText | None]:
    """Return the corpus and, for methods that train, the rows in their order."""
    if training is None:
        return read_corpus(corpus, column), None
    from embedlift.training.fine_tuning import read_training_text

    rows = read_training_text(corpus, method, training, column)
    return rows.corpus, rows


def _fitted(
    encoder: Encoder,
    texts: Corpus,
    settings: dict[str, Any],
    transform: Any,
    work: PartialFolder | None,
    *,
    cache: bool,
    progress: Progress | None,
) -> Adaptation:
    """Fit a transform on the encoder's vectors, and put it behind the encoder."""
    seed = settings["seed"]
    vectors, truncated = _encode(encoder, texts, work, cache=cache, progress=progress)
    refuse_non_finite(vectors, lambda row: repr(texts.texts[row])[:60])
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
    return Adaptation(adapted, settings, texts, truncated, before, after, resumed=bool(work and work.resumed))


def _trained(
    encoder: Encoder,
    rows: TrainingText,
    settings: dict[str, Any],
    training: TrainingSettings,
    work: PartialFolder | None,
    select_with: Path | None,
    progress: Progress | None,
) -> Adaptation:
    """Train the encoder itself."""
    from embedlift.training.fine_tuning import fine_tune

    folder = None if work is None else work.path
    options: dict[str, Any] = {"select_with": select_with, "seed": settings["seed"], "progress": progress}
    try:
        outcome = fine_tune(encoder, rows, settings["method"], training, folder=folder, **options)
    except InputError:
        if work is not None and not any(work.path.glob("checkpoints/step-*")):
            work.discard()  # nothing is lost, and a command with other settings must not be refused
        raise
    figures = (outcome.truncated, outcome.before, outcome.after)
    resumed = outcome.trained.resumed_from_step is not None
    return Adaptation(encoder.model, settings, rows.corpus, *figures, resumed=resumed, training=outcome)


def _training_settings(
    method: str, training: TrainingSettings | None, select_with: Path | None, dtype: str, long: str
) -> TrainingSettings:
    if dtype != "float32":
        raise InputError(f"--method {method} trains float32 weights: leave --dtype out; --bf16 computes in bfloat16")
    if long != "truncate":
        raise InputError(f"--method {method} trains on the beginning of a text: leave --long out")
    if select_with is not None and not select_with.is_file():
        raise InputError(f"{select_with}: no such file")
    return training or TrainingSettings()


def _digest(file: Path | None) -> str | None:
    return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()


def attach(model: SentenceTransformer, transform: Any) -> SentenceTransformer:
    """Return ``model`` followed by a fitted transform.

    A model that ends in normalised vectors ends in normalised vectors again.
    """
    last = list(model)[-1]
    before_truncation = with_modules(model, list(model)).get_embedding_dimension()
    again = [Normalize()] if isinstance(last, Normalize) else []
    return with_modules(model, [*model, *as_modules(transform, int(before_truncation)), *again])


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
    if len(vectors) <= _FIGURES_SAMPLE:  # without a copy
        return np.asarray(vectors)
    return np.asarray(vectors[sample_places(len(vectors), _FIGURES_SAMPLE, seed)])
