"""A model that averages its embedding output -> a stock ``StaticEmbedding``, which looks tokens up and averages."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from embedlift.corpus import read_corpus, repair_surrogates
from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.export.own_tokenizer import copied
from embedlift.export.parity import Parity, sample_texts
from embedlift.export.static_table import affine_map, inverse_frequency, split_head, token_rows
from embedlift.files import folder_written_whole
from embedlift.layers import with_modules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

_SAMPLE = 1000
_CHUNK = 8192

_README = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- static-embeddings
- embedlift
---

# Static sentence embeddings

Made by [embedlift](https://pypi.org/project/embedlift/): a table of {tokens} token vectors of {dimension} dimensions,
whose mean is the vector of a text. Word order plays no part. A text without tokens has the zero vector.

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("path/to/this/folder", device="cpu").encode(["A first sentence.", "A second one."])
```

{weights}Against the model it was made from, on {texts} texts: mean cosine {mean_cosine:.4f}, least {least_cosine:.4f}.
{why}
"""


class StaticExport(NamedTuple):
    """A static model, and how near its vectors are to those of the model it was made from.

    Attributes:
        model: The model.
        parity: The comparison.
        exact: Whether the two are equal but for rounding.
    """

    model: SentenceTransformer
    parity: Parity
    exact: bool


def export_static(
    encoder: Encoder,
    output: Path,
    *,
    corpus: Sequence[Path] = (),
    column: str | None = None,
    frequency_weights: float | None = None,
    overwrite: bool = False,
) -> StaticExport:
    """Write the model as a ``StaticEmbedding``, with every affine module behind its pooling folded in.

    Args:
        encoder: A model that averages its embedding output, adapted or not, in float32 on the CPU.
        output: The folder.
        corpus: Files with texts: a sample of them is compared, and gives back the mean that positions and special
            tokens had in the vectors. May be left out where the export is exact.
        column: Column of those files.
        frequency_weights: The a of a / (a + p(token)), p counted in the corpus; None: every token counts the same.
        overwrite: Whether a saved model may be replaced.

    Raises:
        InputError: If the model averages something else, if what follows is not affine, or if a corpus is needed.
    """
    made = static_model(encoder, corpus=corpus, column=column, frequency_weights=frequency_weights)
    with folder_written_whole(output, overwrite=overwrite) as folder:
        made.model.save_pretrained(str(folder), create_model_card=False)
        table = made.model[0].embedding
        text = _README.format(
            tokens=table.num_embeddings,
            dimension=table.embedding_dim,
            weights=f"Tokens weigh {frequency_weights} / ({frequency_weights} + p(token)). "
            if frequency_weights
            else "",
            why="" if made.exact else "Positions, special tokens and weights make the difference.",
            **made.parity._asdict(),
        )
        (folder / "README.md").write_text(text, encoding="utf-8")
    return made


def static_model(
    encoder: Encoder,
    *,
    corpus: Sequence[Path] = (),
    column: str | None = None,
    frequency_weights: float | None = None,
) -> StaticExport:
    """Return what :func:`export_static` writes."""
    model = encoder.model
    if frequency_weights is not None and not (corpus and frequency_weights > 0):
        raise InputError("--frequency-weights needs a number above 0, and --corpus to count tokens in")
    rows, exact = token_rows(model)
    if not exact and not corpus:
        raise InputError(
            "this model adds positions or special tokens to what it averages; their mean must be measured: "
            "give --corpus, the text that the model was adapted to"
        )
    head, ending = split_head(model)
    linear, offset = affine_map(head, rows.shape[1])
    kept = encoder.dimension  # fewer where the model cuts its vectors
    table = rows @ linear[:, :kept] + offset[:kept]
    tokenizer = _tokenizer(model)
    texts = sample_texts(corpus, column, _SAMPLE)
    if not exact:
        before = with_modules(model, list(model)[: len(model) - len(ending)], model.truncate_dim)
        found = Encoder(_assembled(model, tokenizer, table, [])).encode(texts)
        table += (Encoder(before).encode(texts).astype(np.float64) - found).mean(axis=0)
    if frequency_weights is not None:  # last: weighted rows would no longer be those that the transform was fitted on
        counts = _token_counts(tokenizer, read_corpus(corpus, column).texts, encoder.prompt or "", len(table))
        table *= inverse_frequency(counts, frequency_weights)[:, None]
        exact = False
    static = _assembled(model, tokenizer, table, ending)
    return StaticExport(static, Parity.of(encoder.encode(texts), Encoder(static).encode(texts)), exact)


def _assembled(
    model: SentenceTransformer, tokenizer: Tokenizer, table: NDArray[np.float64], ending: list[Any]
) -> SentenceTransformer:
    weights = torch.from_numpy(table.astype(np.float32))
    return with_modules(model, [StaticEmbedding(tokenizer, embedding_weights=weights), *copy.deepcopy(ending)])


def _tokenizer(model: SentenceTransformer) -> Tokenizer:
    """Return a copy of the model's tokenizer that cuts a text where the model does."""
    if isinstance(model[0], StaticEmbedding):
        return Tokenizer.from_str(model[0].tokenizer.to_str())
    source: Any = model.tokenizer
    tokenizer = copied(model)
    limit = model.max_seq_length
    if limit is not None and math.isfinite(limit):  # a static model adds no special tokens
        tokenizer.enable_truncation(int(limit) - source.num_special_tokens_to_add(), direction=source.truncation_side)
    return tokenizer


def _token_counts(tokenizer: Tokenizer, texts: list[str], prompt: str, size: int) -> NDArray[np.int64]:
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, len(texts), _CHUNK):
        chunk = [prompt + repair_surrogates(text) for text in texts[start : start + _CHUNK]]
        encodings = tokenizer.encode_batch(chunk, add_special_tokens=False)
        ids = np.array([token for encoding in encodings for token in encoding.ids], dtype=np.int64)
        counts += np.bincount(ids, minlength=size)
    return counts
