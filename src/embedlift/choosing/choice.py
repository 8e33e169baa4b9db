"""The rule that chooses, and how sure it is of it.

One question, answered from the model's own behaviour on unlabelled text (see :mod:`.evidence`): *does the cosine of its
vectors follow how much of a sentence is kept, and how much better would it follow after a transform of these vectors?*

- *Hardly better.* A model that was trained to compare sentences, at home in this text, or one that no transform helps:
  it is kept.
- *A little better.* Such a model, on text that is foreign to it: its own vectors are whitened.
- *Much better.* A language model, whose output says more about words to come than about what a sentence says. All its
  layers compete: those win in whose whitened vectors a sentence finds its own shortened copy best.

How far to whiten is no question: no figure that we know answers it, and one constant serves best.
benchmarks/label_free_choice has the evidence.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedlift.choosing.candidates import Candidate
    from embedlift.choosing.evidence import Evidence

_RESAMPLES = 100


@dataclass(frozen=True)
class Rule:
    """The constants of the rule; benchmarks/label_free_choice says how the choice depends on them.

    Attributes:
        kept: A model is kept if no transform of its own vectors gains more than this in grading (a correlation).
        trusted: Its own layers are the right ones if none gains more than this.
        transform: What follows the layers if the model is not kept.
    """

    kept: float = 0.025
    trusted: float = 0.04
    transform: str = "whitening exponent=0.75"


RULE = Rule()

Answer = Literal["keep the model", "whiten its own vectors", "choose other layers"]


@dataclass(frozen=True)
class Verdict:
    """What the rule says of one sample of the sentences.

    Attributes:
        answer: To the question above.
        winner: Place of the chosen candidate.
        gain: What the best transform of the model's own vectors gains in grading, at least 0.
        helper: Place of that transform.
        competing: Which candidates competed, shape (c,).
    """

    answer: Answer
    winner: int
    gain: float
    helper: int
    competing: NDArray[np.bool_]


@dataclass(frozen=True)
class Choice:
    """The chosen candidate and how it came to be.

    Attributes:
        candidates: All of them, the plain model first.
        evidence: The figures of each.
        verdict: Of the whole sample.
        same_answer: Share of resamples that give the same answer.
        same_winner: Share of resamples that would choose the same candidate.
        sentences: Number of sentences that were altered.
    """

    candidates: list[Candidate]
    evidence: list[dict[str, float]]
    verdict: Verdict
    same_answer: float
    same_winner: float
    sentences: int

    @property
    def winner(self) -> int:
        """Place of the chosen candidate."""
        return self.verdict.winner

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.winner]

    def ranking(self) -> list[int]:
        """Return the places of all candidates: the chosen one, those that competed with it, the rest by recovery."""
        recovery = [found["recovery"] for found in self.evidence]
        competing = self.verdict.competing
        return sorted(
            range(len(recovery)), key=lambda row: (row != self.winner, not competing[row], -recovery[row], row)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, JSON-able: every candidate with its figures."""
        rows = [
            {"candidate": item.name, "pooling": item.pooling, "transform": item.transform, "competing": bool(competing)}
            | found
            for item, found, competing in zip(self.candidates, self.evidence, self.verdict.competing, strict=True)
        ]
        return {
            "chosen": self.chosen.name,
            "answer": self.verdict.answer,
            "explanation": self.explanation,
            "same_answer": self.same_answer,
            "same_winner": self.same_winner,
            "sentences": self.sentences,
            "resamples": _RESAMPLES,
            "rule": asdict(RULE),
            "gain_in_grading": self.verdict.gain,
            "candidates": rows,
        }

    @property
    def explanation(self) -> str:
        """Why, in two sentences."""
        plain, best = self.evidence[0], self.evidence[self.winner]
        verdict = self.verdict
        helper = self.candidates[verdict.helper].transform
        follows = (
            f"the cosine of its own vectors follows the share of words kept with Spearman's correlation "
            f"{plain['grading']:.3f}"
        )
        sure = (
            f"In {100 * self.same_answer:.0f} % of {_RESAMPLES} resamples of {self.sentences} sentences the answer is"
        )
        if verdict.answer == "keep the model":
            gains = f"no transform of them gains more than {RULE.kept:g} (at best {verdict.gain:.3f})"
            return f"The model is kept as it is: {follows}, and {gains}. {sure} the same."
        why = f"Chosen: {self.chosen.name}; {follows}, to which {helper} would add {verdict.gain:.3f}"
        same = f"{sure} the same, in {100 * self.same_winner:.0f} % with just these layers."
        if verdict.answer == "whiten its own vectors":
            if verdict.gain <= RULE.trusted:
                return f"{why}: enough to whiten them, too little ({RULE.trusted:g}) to doubt the layers. {same}"
            return f"{why}, and other layers cannot stand in for its own. {same}"
        ranks = (np.exp(-found["recovery"]) for found in (best, plain))
        return (
            f"{why}, so all layers competed, and in these a sentence finds its own shortened copy best (geometric mean "
            "rank {:.2f}, in the plain model {:.2f}). ".format(*ranks)
        ) + same


def judge(
    candidates: list[Candidate],
    evidence: list[Evidence],
    rows: NDArray[np.int64] | None = None,
    rule: Rule | None = None,
) -> Verdict:
    """Return the rule's verdict on the candidates, the plain model first, from some of the sentences or all."""
    rule = rule or RULE
    rows = np.arange(len(evidence[0].recovery)) if rows is None else rows
    own = [place for place, candidate in enumerate(candidates) if candidate.mix is None]
    gradings = [evidence[place].grading(rows) for place in own]
    gain = max(gradings) - gradings[0]
    answer: Answer = "choose other layers"
    competing = np.array([candidate.transform == rule.transform for candidate in candidates])
    if gain <= rule.kept:
        answer, competing = "keep the model", np.arange(len(candidates)) == 0
    elif gain <= rule.trusted or len(own) == len(candidates):
        answer = "whiten its own vectors"
        competing &= np.array([candidate.mix is None for candidate in candidates])
    recovery = [
        found.recovery[rows].mean() if competes else -np.inf
        for found, competes in zip(evidence, competing, strict=True)
    ]
    return Verdict(answer, int(np.argmax(recovery)), gain, own[int(np.argmax(gradings))], competing)


def choose(candidates: list[Candidate], evidence: list[Evidence], seed: int) -> Choice:
    """Return the choice, with its uncertainty from resampling the sentences.

    Args:
        candidates: The plain model first.
        evidence: Of each candidate.
        seed: Of the resampling.
    """
    verdict = judge(candidates, evidence)
    n = len(evidence[0].recovery)
    rng = np.random.default_rng(seed)
    draws = [judge(candidates, evidence, rng.integers(n, size=n)) for _ in range(_RESAMPLES)]
    same_answer = float(np.mean([draw.answer == verdict.answer for draw in draws]))
    same = float(np.mean([draw.winner == verdict.winner for draw in draws]))
    return Choice(candidates, [item.summary() for item in evidence], verdict, same_answer, same, n)
