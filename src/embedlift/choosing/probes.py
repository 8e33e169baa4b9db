"""Altered copies of sentences: what they should be near to is known without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Sentences of fewer distinct words have no halves to speak of.
FEWEST_WORDS = 4

#: A "word" longer than this on average is a sentence in a script without spaces: its characters are the words.
_LONGEST_WORDS = 15


@dataclass(frozen=True)
class Probes:
    """Altered copies of n sentences, in equal order.

    Attributes:
        anchors: Places of the sentences in the texts, shape (n,).
        deleted: Each sentence without a share of its words.
        deletion: That share, between 0 and 1, shape (n,).
        odd: One half of its words, in their order: every second distinct word, wherever it stands.
        even: The other half. The two share the sentence's meaning, but not a single word.
    """

    anchors: NDArray[np.int64]
    deleted: list[str]
    deletion: NDArray[np.float64]
    odd: list[str]
    even: list[str]

    def copies(self) -> dict[str, list[str]]:
        """Return the altered copies by name."""
        return {"deleted": self.deleted, "odd": self.odd, "even": self.even}


def make_probes(texts: Sequence[str], count: int, seed: int) -> Probes:
    """Alter ``count`` of the texts, or as many as have ``FEWEST_WORDS`` distinct words.

    Args:
        texts: Distinct sentences.
        count: Most sentences that are altered.
        seed: Of the choice of sentences and of words.
    """
    rng = np.random.default_rng(seed)
    split = [words_of(text) for text in texts]
    long_enough = np.array(
        [i for i, (words, _) in enumerate(split) if len({*map(str.lower, words)}) >= FEWEST_WORDS], dtype=np.int64
    )
    anchors = np.sort(rng.permutation(long_enough)[:count])
    shares = rng.uniform(0.1, 0.9, size=len(anchors))
    deleted: list[str] = []
    odd: list[str] = []
    even: list[str] = []
    deletion: list[float] = []
    for anchor, share in zip(anchors, shares, strict=True):
        words, space = split[anchor]
        dropped = min(max(1, round(share * len(words))), len(words) - 1)
        kept = np.sort(rng.permutation(len(words))[dropped:])
        deleted.append(space.join(words[i] for i in kept))
        deletion.append(dropped / len(words))
        for half, chosen in zip((odd, even), halves(words), strict=True):
            half.append(space.join(chosen))
    return Probes(anchors, deleted, np.array(deletion), odd, even)


def halves(words: list[str]) -> tuple[list[str], list[str]]:
    """Split words into two lists that have no word in common: the distinct ones go left and right by turns."""
    order: dict[str, int] = {}
    turn = [order.setdefault(word.lower(), len(order)) % 2 for word in words]
    left, right = ([word for word, side in zip(words, turn, strict=True) if side == want] for want in (0, 1))
    return left, right


def words_of(text: str) -> tuple[list[str], str]:
    """Return the words of a text and what joins them; characters, where the script puts no spaces."""
    words = text.split()
    if sum(map(len, words)) > _LONGEST_WORDS * len(words):
        return list("".join(words)), ""
    return words, " "
