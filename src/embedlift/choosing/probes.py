"""Shortened copies of sentences: what they should be near to is known without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Of sentences with fewer distinct words, a copy without some of them says too little.
FEWEST_WORDS = 4

#: A "word" longer than this on average is a sentence in a script without spaces: its characters are the words.
_LONGEST_WORDS = 15


@dataclass(frozen=True)
class Probes:
    """Shortened copies of n sentences, in equal order.

    Attributes:
        anchors: Places of the sentences in the texts, shape (n,).
        shortened: Each sentence without a share of its words.
        deletion: That share, between 0 and 1, shape (n,).
    """

    anchors: NDArray[np.int64]
    shortened: list[str]
    deletion: NDArray[np.float64]


def make_probes(texts: Sequence[str], count: int, seed: int) -> Probes:
    """Shorten ``count`` of the texts, or as many as have ``FEWEST_WORDS`` distinct words.

    Args:
        texts: Distinct sentences.
        count: Most sentences that are shortened.
        seed: Of the choice of sentences and of words.
    """
    rng = np.random.default_rng(seed)
    split = [words_of(text) for text in texts]
    long_enough = np.array(
        [i for i, (words, _) in enumerate(split) if len({*map(str.lower, words)}) >= FEWEST_WORDS], dtype=np.int64
    )
    anchors = np.sort(rng.permutation(long_enough)[:count])
    shares = rng.uniform(0.1, 0.9, size=len(anchors))
    shortened: list[str] = []
    deletion: list[float] = []
    for anchor, share in zip(anchors, shares, strict=True):
        words, space = split[anchor]
        dropped = min(max(1, round(share * len(words))), len(words) - 1)
        kept = np.sort(rng.permutation(len(words))[dropped:])
        shortened.append(space.join(words[i] for i in kept))
        deletion.append(dropped / len(words))
    return Probes(anchors, shortened, np.array(deletion))


def words_of(text: str) -> tuple[list[str], str]:
    """Return the words of a text and what joins them; characters, where the script puts no spaces."""
    words = text.split()
    if sum(map(len, words)) > _LONGEST_WORDS * len(words):
        return list("".join(words)), ""
    return words, " "
