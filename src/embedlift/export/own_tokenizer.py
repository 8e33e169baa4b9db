"""The tokenizer of a model -> one that runs by itself, in whatever is exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer

from embedlift.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def copied(model: SentenceTransformer) -> Tokenizer:
    """Return a copy of the model's tokenizer that neither cuts nor pads.

    Raises:
        InputError: If the model reads text in a way that ``tokenizer.json`` cannot say.
    """
    source: Any = model.tokenizer
    if not source.is_fast:
        raise InputError(
            f"the model's tokenizer ({type(source).__name__}) has no tokenizer.json: convert it to a fast one first"
        )
    if getattr(source, "split_special_tokens", False):
        raise InputError(
            "the model's tokenizer reads its own signs, such as [SEP], as text (split_special_tokens), which an "
            "exported one cannot: export it without that setting"
        )
    excludes = any(isinstance(module, Pooling) and not module.include_prompt for module in model)
    if excludes and any(model.prompts.values()):
        raise InputError(
            "the model's pooling leaves its prompt out, which an exported model cannot: export it without prompts"
        )
    tokenizer = Tokenizer.from_str(source.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
