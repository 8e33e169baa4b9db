"""What is encoded: distinct texts of three kinds, and made-up ones of one length."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_texts(data: Path, count: int) -> dict[str, list[str]]:
    """Return distinct sentences, abstracts (a twentieth as many: they are long), and both shuffled."""
    sentences: dict[str, None] = {}
    for line in (data / "stsb/stsb_test.tsv").read_text(encoding="utf-8").split("\n"):
        sentences |= dict.fromkeys(line.split("\t")[1:3])
    abstracts = [
        " ".join(line.split("\t")[1:])
        for part in sorted((data / "retrieval/scifact").glob("corpus_part*.tsv"))
        for line in part.read_text(encoding="utf-8").split("\n")
        if line
    ]
    short = [text for text in sentences if text][:count]
    long = list(dict.fromkeys(abstracts))[: max(1, count // 20)]
    mixed = short[: len(short) // 2] + long[: len(long) // 2]
    random.Random(0).shuffle(mixed)
    return {"short": short, "long": long, "mixed": mixed}


def of_length(tokenizer: Any, tokens: int, count: int) -> list[str]:
    """Return ``count`` texts of exactly ``tokens`` tokens, special ones too: random words that are one token each.

    Speed does not depend on what the words are, and random ones come in any length.
    """
    pieces = sorted(piece.lstrip("Ġ▁") for piece in tokenizer.get_vocab())  # the marks of a space before a word
    words = [piece for piece in dict.fromkeys(pieces) if re.fullmatch(r"[a-z]{4,}", piece)]
    draw = random.Random(tokens)
    special = len(tokenizer("")["input_ids"])
    texts = [" ".join(draw.choices(words, k=tokens - special)) for _ in range(2 * count)]
    # A word that only follows others in the vocabulary's merges may be split at a text's beginning.
    fitting = [text for text in texts if len(tokenizer(text)["input_ids"]) == tokens][:count]
    if len(fitting) < count:
        raise SystemExit(f"this tokenizer splits too many of its own words for texts of {tokens} tokens")
    return fitting
