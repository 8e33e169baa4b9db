"""The README.md of a saved model: what was done to it, on what, with what effect, and how to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedlift.files import written_whole

if TYPE_CHECKING:
    from pathlib import Path

    from embedlift.corpus import Corpus

#: Label-free figures: name -> what a reader should know.
FIGURES = {
    "random_pair_cosine": "cosine of random pairs (0: even, 1: all alike)",
    "uniformity": "uniformity (lower is more even)",
    "effective_rank": "effective rank (dimensions in real use)",
    "dimension": "dimension",
}

_CITATIONS = {
    "whitening": "Su et al. (2021), Whitening Sentence Representations for Better Semantics and Faster Retrieval, "
    "arXiv:2103.15316",
    "flow": "Li et al. (2020), On the Sentence Embeddings from Pre-trained Language Models, arXiv:2011.05864",
    "center": "Mu, Viswanath (2018), All-but-the-Top, arXiv:1702.01417",
    **dict.fromkeys(
        ("sg", "bt"),
        "Kim, Yoo, Lee (2021), Self-Guided Contrastive Learning for BERT Sentence Representations, arXiv:2106.07345",
    ),
}

_TEMPLATE = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- feature-extraction
- embedlift
---

# Sentence embeddings from `{model}`, adapted {labels}

Made by [embedlift](https://pypi.org/project/embedlift/) with method **{method}**. {labels_sentence}

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["A first sentence.", "And a second one."])
```

{choice}{training}## Fitted on

{size} distinct texts ({rows} rows read, {blank} blank and {repeated} repeated ones left out; {truncated} texts were
longer than the model's limit and were cut). SHA-256 of the texts: `{digest}`.
Scores on these very texts are transductive: the fit has seen them, without labels. `embedlift_corpus.npy` holds a
64-bit hash of each text, by which `embedlift evaluate` counts them; it lets anyone with the file find out whether a
sentence that they know was among them, so remove it if nobody may.

## Label-free figures on (a sample of) those texts

| figure | before | after |
|---|---|---|
{figures}

They describe the space and do not prove that a task got better: measure on your own data.

## Settings

{settings}

Versions: {versions}.

## Citation

{citation}
"""


def _citation(method: str) -> str:
    """Of a method given by name, or as an object such as ``Whitening(256)``."""
    cited = [text for name, text in _CITATIONS.items() if method.lower().startswith(name)]
    return cited[0] if cited else "See the documentation of embedlift."


def _training_section(training: dict[str, Any] | None) -> str:
    if training is None:
        return ""
    losses = list(training["losses"].values())
    lines = [
        f"- Steps: {training['steps']}"
        + (
            f", interrupted and resumed from step {training['resumed_from_step']}"
            if training["resumed_from_step"]
            else ""
        ),
        f"- Weights: {training['selection']}.",
    ]
    if losses:
        lines.append(f"- Contrastive loss: {losses[0]:.4g} at first, {losses[-1]:.4g} at the end.")
    if training["collapsed"] is not None:
        lines.append(
            f"- **Training made the model worse ({training['collapsed']}): these are the weights of the start model.**"
        )
    return "## Training\n\n" + "\n".join(lines) + "\n\n"


def _labels(training: dict[str, Any] | None) -> dict[str, str]:
    if training is not None and training["best_step"] is not None:
        return {
            "labels": "with labels that chose between checkpoints",
            "labels_sentence": "Training used no labels; labelled pairs chose the step whose weights were kept.",
        }
    return {"labels": "without labels", "labels_sentence": "No label was used."}


def write_model_card(
    path: Path,
    *,
    settings: dict[str, Any],
    corpus: Corpus,
    truncated: int,
    before: dict[str, float],
    after: dict[str, float],
    versions: dict[str, str],
    training: dict[str, Any] | None = None,
    choice: str | None = None,
) -> None:
    """Write the model card to ``path``."""
    rows = [f"| {text} | {before[name]:.4g} | {after[name]:.4g} |" for name, text in FIGURES.items() if name in before]
    text = _TEMPLATE.format(
        model=settings["model"],
        method=settings["method"],
        size=len(corpus.texts),
        rows=corpus.rows,
        blank=corpus.blank,
        repeated=corpus.repeated,
        truncated=truncated,
        digest=corpus.digest,
        figures="\n".join(rows),
        settings="\n".join(f"- {name}: `{value}`" for name, value in settings.items()),
        versions=", ".join(f"{name} {value}" for name, value in versions.items()),
        citation=_citation(settings.get("method.chosen", "").rpartition(", ")[2] or settings["method"]),
        training=_training_section(training),
        choice="" if choice is None else f"## Chosen without labels\n\n{choice}\n\n",
        **_labels(training),
    )
    with written_whole(path) as beside:
        beside.write_text(text, encoding="utf-8")
