"""Models -> scores on tasks with labels, what their fits had seen of the tasks, and which differences are real."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.evaluation import contamination, results
from embedlift.evaluation.comparison import Comparison, compare
from embedlift.evaluation.retrieval import Retrieval, role_prompts
from embedlift.evaluation.tasks import evaluate as score
from embedlift.record import library_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    from embedlift.encoder import Progress
    from embedlift.evaluation.contamination import Contamination
    from embedlift.evaluation.tasks import Encodes, Task


@dataclass(frozen=True)
class Assessment:
    """How good models are on tasks, and what can be said about it.

    Attributes:
        scores: Of every model, model after model; those of a task that a fit has seen say so in their note.
        comparisons: Of every other model with the baseline, by the first metric of each task.
        contamination: Name of a model -> what its fit had seen of each task; only of models that tell.
    """

    scores: list[results.Score]
    comparisons: list[Comparison]
    contamination: dict[str, list[Contamination]]


def evaluate(
    models: Sequence[str | Path | SentenceTransformer],
    tasks: Sequence[Task],
    *,
    baseline: str | None = None,
    prompt: str | None = None,
    seed: int = 0,
    cache: bool = True,
    progress: Progress | None = None,
    **encoder: Any,
) -> Assessment:
    """Score models on tasks and compare them.

    Args:
        models: Hub ids, folders or loaded models; the latter are called ``model 1``, ``model 2`` ... by their place.
        tasks: From :func:`embedlift.evaluation.suites.load`, or made by hand.
        baseline: Name of the model that the others are compared with: the first one, if None.
        prompt: As for :class:`Encoder`. A model's own prompts for queries and documents stand before those in
            retrieval, unless one is given here.
        seed: Of the bootstrap.
        cache: Whether vectors are kept for later runs.
        progress: Called with (texts done, texts in all), model by model.
        **encoder: Other arguments of :class:`Encoder`.

    Raises:
        InputError: If a model cannot be loaded, two have the same name, or the baseline is none of them.
    """
    names = [str(model) if isinstance(model, str | Path) else f"model {i}" for i, model in enumerate(models, 1)]
    if len(set(names)) < len(names):
        raise InputError("each model can be given once")
    if baseline is not None and baseline not in names:
        raise InputError(f"the baseline {baseline!r} is none of the models: {', '.join(names)}")
    scores: list[results.Score] = []
    seen: dict[str, list[Contamination]] = {}
    for name, model in zip(names, models, strict=True):
        options = {"prompt": prompt, **encoder}
        loaded = Encoder(model, **options)
        own = tasks if prompt else [_with_prompts(task, loaded) for task in tasks]
        vectors = _Retrying(CachedEncoder(loaded) if cache else loaded, model, options)
        found = score(vectors, name, own, seed=seed, progress=progress)
        fitted_on = contamination.read(Path(name)) if isinstance(model, str | Path) else None
        if fitted_on is not None:
            seen[name] = [contamination.examine(task, fitted_on) for task in tasks]
            found = contamination.labelled(found, seen[name])
        scores += found
    return Assessment(scores, compare(_headlines(scores), baseline), seen)


class _Retrying:
    """Encodes texts whose vectors are no numbers once more, alone and in float32, and says which they were."""

    def __init__(self, encoder: Encodes, model: Any, options: dict[str, Any]) -> None:
        self._encoder, self._model, self._options = encoder, model, options

    def encode(self, texts: Sequence[str], *, progress: Progress | None = None) -> NDArray[np.float32]:
        """Return the vectors of ``texts``, shape (N, D)."""
        vectors = self._encoder.encode(texts, progress=progress)
        rows = np.flatnonzero(~np.isfinite(vectors).all(axis=1)).tolist()
        if rows:
            alone = Encoder(self._model, **self._options | {"dtype": "float32"})
            vectors[rows] = [alone.encode([texts[row]])[0] for row in rows]
            mended = int(np.isfinite(vectors[rows]).all(axis=1).sum())
            shown = ", ".join(repr(texts[row][:60]) for row in rows[:3])
            warnings.warn(
                f"{len(rows)} of {len(texts)} texts had NaN or infinity in their vectors ({shown}"
                f"{', ...' if len(rows) > 3 else ''}); encoded alone in float32, {mended} of them are finite",
                stacklevel=2,
            )
        return vectors


def _headlines(scores: Sequence[results.Score]) -> list[results.Score]:
    """Return the first metric of each task: more of them say the same again, and would widen corrected intervals."""
    first: dict[tuple[str, str, str], results.Score] = {}
    for found in scores:
        if found.subset is None:
            first.setdefault((found.model, found.task, found.split), found)
    return list(first.values())


def _with_prompts(task: Task, encoder: Encoder) -> Task:
    """Give queries and documents the model's prompts for them, if it has some and no default one."""
    if not isinstance(task, Retrieval) or encoder.prompt:
        return task
    query, document = role_prompts(encoder.model.prompts)
    return replace(task, query_prompt=query, document_prompt=document)


def write_json(path: Path, assessment: Assessment, settings: dict[str, Any]) -> None:
    """Write an assessment with the settings and versions that it depends on."""
    more = {
        "comparisons": [asdict(one) | {"sentence": one.sentence} for one in assessment.comparisons],
        "contamination": [
            {"model": model} | asdict(one) for model, found in assessment.contamination.items() for one in found
        ],
    }
    results.write_json(path, assessment.scores, settings, library_versions(), more)
