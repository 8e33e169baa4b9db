"""The rule that chooses, and how sure it is of it.

Two questions, each answered from the model's own behaviour on unlabelled text (see :mod:`.evidence`):

1. *Do the model's own vectors know best what a sentence is about?* They do if, of all layers, one half of a sentence
   finds the other about as well in them as anywhere. A language model's output does not: its word embeddings, or its
   first layers, do better. A model that was trained to compare sentences does, by far.
2. *Does their cosine already follow how much of a sentence is kept?* It does if no transform of these vectors follows
   it clearly better.

Two times yes, and the model is kept as it is. Otherwise the candidates with the right layers are ranked by how well a
sentence finds its own shortened copy, and by their uniformity.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from embedlift.choosing.candidates import LIGHT, Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from embedlift.choosing.evidence import Evidence

_RESAMPLES = 100


@dataclass(frozen=True)
class Rule:
    """The constants of the rule; benchmarks/label_free_choice says how the choice depends on them.

    Attributes:
        layers: Layers whose halves find each other this well, compared with the best layers, count as good as them.
        gain: A transform that is needed follows the deletion of words better by this much, in Spearman's correlation.
        evenness: Weight of uniformity beside that of recovery in the ranking.
        certainty: Share of the resamples that must say "adapt" before the model is changed.
    """

    layers: float = 0.9
    gain: float = 0.03
    evenness: float = 2.0
    certainty: float = 0.95


RULE = Rule()


@dataclass(frozen=True)
class Verdict:
    """What the rule says of one sample of the sentences.

    Attributes:
        winner: Place of the chosen candidate.
        keeps: Whether both answers are yes.
        layers: Whether the model's own vectors are as good as any layers'.
        gain: What the best transform of them gains in grading.
        halves: Evidence of the halves for each layer mix: best of the light transforms.
        scores: Rank score of each candidate, shape (c,); NaN where its layers are not good enough.
    """

    winner: int
    keeps: bool
    layers: bool
    gain: float
    halves: dict[tuple[int, ...] | None, float]
    scores: NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """The chosen candidate and how it came to be.

    Attributes:
        candidates: All of them, the plain model first.
        evidence: The figures of each.
        verdict: Of the whole sample.
        winner: Place of the chosen candidate: the plain model if adapting is not reliably better.
        certainty: Share of resamples that agree whether to adapt at all.
        same_winner: Share of resamples that would choose the same candidate.
        sentences: Number of sentences that were altered.
    """

    candidates: list[Candidate]
    evidence: list[dict[str, float]]
    verdict: Verdict
    winner: int
    certainty: float
    same_winner: float
    sentences: int

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.winner]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, JSON-able: every candidate with its figures."""
        halves = self.verdict.halves
        rows = [
            {
                "candidate": item.name,
                "pooling": item.pooling,
                "transform": item.transform,
                "layers_halves": halves[item.mix],
            }
            | found
            | {"score": None if np.isnan(score) else float(score)}
            for item, found, score in zip(self.candidates, self.evidence, self.verdict.scores, strict=True)
        ]
        return {
            "chosen": self.chosen.name,
            "explanation": self.explanation,
            "certainty": self.certainty,
            "same_winner": self.same_winner,
            "sentences": self.sentences,
            "resamples": _RESAMPLES,
            "rule": asdict(RULE),
            "plain_layers_hold": bool(self.verdict.layers),
            "gain_in_grading": self.verdict.gain,
            "candidates": rows,
        }

    @property
    def explanation(self) -> str:
        """Why, in two sentences."""
        plain, best = self.evidence[0], self.evidence[self.winner]
        word = self.verdict.halves
        top = max(word, key=lambda mix: word[mix])
        place = next(item.pooling for item in self.candidates if item.mix == top) or "its own pooling"
        sure = f"In {100 * self.certainty:.0f} % of {_RESAMPLES} resamples of {self.sentences} sentences"
        if self.winner == 0 and self.verdict.keeps:
            return (
                f"The model is kept as it is: half of a sentence finds the other half as well in its own vectors (MRR "
                f"{word[None]:.3f}) as in the best layers (MRR {word[top]:.3f}, {place}), and no transform follows the "
                f"deletion of words clearly better (gain in Spearman's correlation {self.verdict.gain:.3f}). "
                f"{sure} the rule says the same."
            )
        if self.winner == 0:
            return (
                "The model is kept as it is, because nothing is reliably better. "
                f"{sure} the rule says to change it, which is not enough."
            )
        return (
            f"Chosen: {self.chosen.name}; a sentence finds its own shortened copy at the geometric mean rank "
            f"{np.exp(-best['recovery']):.2f} instead of {np.exp(-plain['recovery']):.2f}, and cosine follows the "
            f"share of words kept with Spearman's correlation {best['grading']:.2f} instead of {plain['grading']:.2f}. "
            f"{sure} the rule says to adapt, in {100 * self.same_winner:.0f} % to just this."
        )


def judge(
    candidates: list[Candidate],
    evidence: list[Evidence],
    rows: NDArray[np.int64] | None = None,
    rule: Rule | None = None,
) -> Verdict:
    """Return the rule's verdict on the candidates, the plain model first, from some of the sentences or all."""
    rule = rule or RULE
    rows = np.arange(len(evidence[0].halves)) if rows is None else rows
    halves: dict[tuple[int, ...] | None, float] = {}
    for candidate, found in zip(candidates, evidence, strict=True):
        if candidate.transform in LIGHT:
            halves[candidate.mix] = max(halves.get(candidate.mix, 0.0), float(found.halves[rows].mean()))
    enough = rule.layers * max(halves.values())
    own = [found for candidate, found in zip(candidates, evidence, strict=True) if candidate.mix is None]
    gain = max(found.grading(rows) for found in own) - evidence[0].grading(rows)
    admitted = np.array([halves[candidate.mix] >= enough for candidate in candidates])
    recovery = np.array([found.recovery[rows].mean() for found in evidence])
    evenness = np.array([found.uniformity for found in evidence])
    scores = np.full(len(candidates), np.nan)
    weights = (1 / (1 + rule.evenness), rule.evenness / (1 + rule.evenness))
    ranks = [rankdata(figure[admitted]) / admitted.sum() for figure in (recovery, evenness)]
    scores[admitted] = weights[0] * ranks[0] + weights[1] * ranks[1]
    layers = halves[None] >= enough
    keeps = layers and gain <= rule.gain
    return Verdict(0 if keeps else int(np.nanargmax(scores)), keeps, layers, gain, halves, scores)


def choose(candidates: list[Candidate], evidence: Mapping[Candidate, Evidence] | list[Evidence], seed: int) -> Choice:
    """Return the choice, with its uncertainty from resampling the sentences.

    Args:
        candidates: The plain model first.
        evidence: Of each candidate.
        seed: Of the resampling.
    """
    found = list(evidence) if isinstance(evidence, list) else [evidence[candidate] for candidate in candidates]
    verdict = judge(candidates, found)
    n = len(found[0].halves)
    rng = np.random.default_rng(seed)
    draws = [judge(candidates, found, rng.integers(n, size=n)) for _ in range(_RESAMPLES)]
    adapting = float(np.mean([not draw.keeps for draw in draws]))
    winner = verdict.winner if adapting >= RULE.certainty else 0
    certainty = adapting if winner or not verdict.keeps else 1 - adapting
    same = float(np.mean([draw.winner == winner for draw in draws]))
    return Choice(candidates, [item.summary() for item in found], verdict, winner, certainty, same, n)
