"""The record of an adaptation: what was made, of what, how, and with what effect."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from embedlift._version import __version__
from embedlift.files import written_whole

if TYPE_CHECKING:
    from pathlib import Path

    from sentence_transformers import SentenceTransformer

    from embedlift.choosing.choice import Choice
    from embedlift.corpus import Corpus
    from embedlift.training.fine_tuning import Outcome


def library_versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    libraries = ("torch", "transformers", "sentence-transformers", "numpy", "scipy", "scikit-learn")
    return {"embedlift": __version__, "python": platform.python_version()} | {name: version(name) for name in libraries}


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
        training: What came of training, if the method trains the encoder.
        choice: What was chosen, and from what, if the method is ``auto``.
    """

    model: SentenceTransformer
    settings: dict[str, Any]
    corpus: Corpus
    truncated: int
    before: dict[str, float]
    after: dict[str, float]
    versions: dict[str, str] = field(default_factory=lambda: library_versions())
    resumed: bool = False
    training: Outcome | None = None
    choice: Choice | None = None


def write_json(path: Path, record: Adaptation) -> None:
    """Write the record of an adaptation, without its model."""
    corpus = {key: value for key, value in vars(record.corpus).items() if key not in ("texts", "sequence")}
    document = {
        "schema_version": 1,
        "settings": record.settings,
        "versions": record.versions,
        "corpus": corpus | {"distinct": len(record.corpus.texts), "truncated": record.truncated},
        "figures": {"before": record.before, "after": record.after},
        "resumed": record.resumed,
    }
    if record.training is not None:
        document["training"] = record.training.as_dict()
        document["resumed_from_step"] = record.training.trained.resumed_from_step
    if record.choice is not None:
        document["choice"] = record.choice.as_dict()
    with written_whole(path) as beside:
        beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
