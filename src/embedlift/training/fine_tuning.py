"""The main job where the encoder itself is trained: texts -> batches -> training -> the trained model, or the start."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.corpus import Corpus, read_corpus
from embedlift.functional.sampling import sample_places
from embedlift.layers import reads_plain_text
from embedlift.training import lora
from embedlift.training.batches import Batches
from embedlift.training.checkpoints import CheckpointFolder
from embedlift.training.guidance import SelfGuidedObjective
from embedlift.training.pairs import read_text_pairs
from embedlift.training.selection import ShortenedCopies, collapse, dev_score, figures, loss
from embedlift.training.trainer import Trained, train

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from embedlift.encoder import Encoder, Progress
    from embedlift.training.settings import TrainingSettings

#: Texts whose vectors are compared before and after.
_SAMPLE = 1000
#: A corpus in which more rows than this repeat others is reported.
_MANY_REPEATS = 0.2


@dataclass(frozen=True)
class TrainingText:
    """What is trained on.

    Attributes:
        corpus: Its distinct texts.
        columns: The rows by column name: one column, or two for pairs.
        digest: Of the rows.
    """

    corpus: Corpus
    columns: dict[str, list[str]]
    digest: str


@dataclass(frozen=True)
class Outcome:
    """What came of training.

    Attributes:
        before: Label-free figures of a fixed sample of the corpus before.
        after: The same after.
        truncated: Texts that were cut while training.
        collapsed: How the model collapsed or got worse, or None; then the start model was kept.
        selection: How the weights were chosen, in words.
        trained: What happened while training.
    """

    before: dict[str, float]
    after: dict[str, float]
    truncated: int
    collapsed: str | None
    selection: str
    trained: Trained

    def as_dict(self) -> dict[str, Any]:
        """Return what is JSON-able and not told elsewhere."""
        return {"selection": self.selection, "collapsed": self.collapsed, **asdict(self.trained)}


def read_training_text(
    source: Sequence[str | Path] | Iterable[str], method: str, settings: TrainingSettings, column: str | None
) -> TrainingText:
    """Read the corpus, or for ``bt`` the pairs; many repeated rows are warned of.

    Raises:
        InputError: If a file or text cannot be used.
    """
    if method == "bt":
        pairs = read_text_pairs([source] if isinstance(source, Path) else list(source), column)  # type: ignore[arg-type]
        corpus = read_corpus([*pairs.first, *pairs.second])
        columns = {"first": pairs.first, "second": pairs.second}
    else:
        corpus = read_corpus(source, column)
        share = corpus.repeated / len(corpus.sequence)
        if share > _MANY_REPEATS and not settings.distinct:
            warnings.warn(
                f"{100 * share:.0f} % of the rows repeat others: they are not taken for negatives of each other, "
                "but weigh more; --distinct trains on each text once",
                stacklevel=2,
            )
        rows = range(len(corpus.texts)) if settings.distinct else corpus.sequence
        columns = {"sentence": [corpus.texts[row] for row in rows]}
    digest = hashlib.sha256("\0".join(text for texts in columns.values() for text in texts).encode())
    return TrainingText(corpus, columns, digest.hexdigest())


def fine_tune(
    encoder: Encoder,
    text: TrainingText,
    method: str,
    settings: TrainingSettings,
    *,
    folder: Path | None,
    select_with: Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """Train ``encoder.model`` in place; if it collapses, it is the start model again.

    Args:
        encoder: The start.
        text: From :func:`read_training_text`.
        method: One of ``TRAINING_METHODS``.
        settings: Of the training.
        folder: For checkpoints; None keeps none for later.
        select_with: Labelled pairs that choose between checkpoints.
        seed: Of all random choices.
        progress: Called with (steps done, steps in all).

    Raises:
        InputError: If something given cannot be used, memory does not suffice or the loss is not a number.
    """
    score = dev_score(encoder, select_with) if select_with is not None else None
    tokens, truncated = _lengths(encoder, text, settings.train_length)
    text = _with_tokens(text, tokens)
    batches = Batches(tokens[tokens > 0], settings, seed)
    sample = [text.corpus.texts[place] for place in sample_places(len(text.corpus.texts), _SAMPLE, seed)]
    before, copies = figures(encoder.encode(sample), seed), ShortenedCopies(sample, seed)
    recovered = copies.recovery(encoder)
    objective = SelfGuidedObjective(encoder.model, settings, method, seed)
    if settings.gradient_checkpointing:
        _save_memory(objective, on=True)
    with TemporaryDirectory() as scratch:
        trained = train(
            encoder.model,
            objective,
            text.columns,
            batches,
            folder=CheckpointFolder((folder or Path(scratch)) / "checkpoints"),
            seed=seed,
            prompt=encoder.prompt,
            score=score,
            progress=progress,
        )
    if settings.gradient_checkpointing:
        _save_memory(objective, on=False)
    after = figures(encoder.encode(sample), seed)
    collapsed = collapse(before, after) or loss(recovered, copies.recovery(encoder))
    _settle(objective, keep=collapsed is None)
    encoder.model.requires_grad_(True)
    if collapsed is not None:
        warnings.warn(
            f"training made the model worse: {collapsed}. The start model is kept. Try a lower --lr, fewer steps, "
            "or a corpus with fewer repeats",
            stacklevel=2,
        )
        after = before
    return Outcome(before, after, truncated, collapsed, _selection(trained, select_with), trained)


def _settle(objective: SelfGuidedObjective, *, keep: bool) -> None:
    """Leave plain layers, with the trained weights or those of the start."""
    if objective.settings.lora is not None:
        lora.merge_adapters(objective.encoder, keep=keep)
    elif not keep:
        objective.encoder.load_state_dict(objective.guide.encoder.model.state_dict())


def _selection(trained: Trained, select_with: Path | None) -> str:
    if select_with is None:
        return "last step, no labels used"
    return (
        f"step {trained.best_step}, the best on the labelled pairs of {select_with.name} "
        f"(Spearman {100 * (trained.best_score or 0):.2f})"
    )


def _save_memory(objective: SelfGuidedObjective, *, on: bool) -> None:
    """Switch gradient checkpointing, whose methods transformers has renamed."""
    model: Any = objective.encoder
    name = f"checkpointing_{'enable' if on else 'disable'}"
    method = getattr(model, f"activation_{name}", None) or getattr(model, f"gradient_{name}")
    method(*([{"use_reentrant": False}] if on else []))


def _lengths(encoder: Encoder, text: TrainingText, longest: int) -> tuple[NDArray[np.int64], int]:
    """Return the tokens of each row, of the longer side in pairs, 0 where one has none; and the rows cut."""
    model, columns = encoder.model, list(text.columns.values())
    if not reads_plain_text(model):
        return np.array([max(map(len, row)) for row in zip(*columns, strict=True)]), 0
    limit = min(longest, model.max_seq_length or longest)
    counts = np.empty((len(columns), len(columns[0])), dtype=np.int64)
    for side, texts in enumerate(columns):
        for start in range(0, len(texts), 1024):
            part = [(encoder.prompt or "") + one for one in texts[start : start + 1024]]
            ids = model.tokenizer(part, truncation=True, max_length=limit + 1, padding=False)["input_ids"]
            counts[side, start : start + 1024] = [len(one) for one in ids]
    truncated = int((counts.max(axis=0) > limit).sum())
    return np.where(counts.min(axis=0) == 0, 0, np.minimum(counts.max(axis=0), limit)), truncated


def _with_tokens(text: TrainingText, tokens: NDArray[np.int64]) -> TrainingText:
    missing = int((tokens == 0).sum())
    if not missing:
        return text
    warnings.warn(f"{missing} rows hold no token that the model knows: they are left out of training", stacklevel=3)
    columns = {
        name: [one for one, count in zip(texts, tokens, strict=True) if count] for name, texts in text.columns.items()
    }
    return TrainingText(text.corpus, columns, text.digest)
