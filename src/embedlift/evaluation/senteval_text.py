"""The text that SentEval's STS figures were made with, for reproducing old tables."""

from __future__ import annotations

from functools import cache
from typing import Any

from embedlift.errors import InputError


def senteval_text(text: str, *, lower: bool = True) -> str:
    """Return ``text`` as SentEval's files have it: tokenised by Moses and in lower case.

    SentEval's script (facebookresearch/SentEval, data/downstream/get_transfer_data.bash) runs Moses' English tokenizer
    and then lowers the case. In the files that are in circulation the tokenizer has been run once more, which makes
    ``it's`` into ``it ' s``; this function does that too. SICK is tokenised but keeps its case.

    Args:
        text: Raw text.
        lower: Whether to lower the case.

    Raises:
        InputError: If sacremoses is not installed.
    """
    tokenizer = _tokenizer()

    def tokenized(text: str) -> str:
        return str(tokenizer.tokenize(text, escape=False, return_str=True))

    once = tokenized(text)
    return tokenized(once.lower() if lower else once)


@cache
def _tokenizer() -> Any:
    try:
        from sacremoses import MosesTokenizer
    except ImportError as error:
        raise InputError("SentEval's text needs the sacremoses package: pip install 'embedlift[senteval]'") from error
    return MosesTokenizer(lang="en")
