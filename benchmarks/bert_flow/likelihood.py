"""Is the held-out likelihood of a flow, which needs no labels, a fair guide to similarity?

A tenth of the sentences is never shown to the fit. On them the negative log-likelihood is taken, in bits per
dimension; on all pairs of the tasks, Spearman x 100 of cosine (transductive: nine tenths of their sentences were seen).
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from published import SEVEN
from scipy.stats import spearmanr

from bert_flow.material import Report, Row, Scorer, Space, distinct_sentences, load_tasks
from bert_flow.similarity import SMOLLM2
from embedlift.transforms import Flow, Whitening

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.evaluation import sts

BITS, STS = "held-out bits/dim", "STS"
EPOCHS = 20
DEFAULT_RATE, PAPER_RATE = 3e-3, 1e-3

#: What differs from the defaults.
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "levels 1": {"levels": 1},
    "levels 2": {"levels": 2},
    "levels 4": {"levels": 4},
    "depth 1": {"depth": 1},
    "depth 6": {"depth": 6},
    "width 8": {"width": 8},
    "width 64": {"width": 64},
    "width 128": {"width": 128},
    "width 256": {"width": 256},
    "width 128, 30 epochs": {"width": 128, "epochs": 30},
    "affine couplings": {"coupling": "affine"},
    "random permutations": {"permutation": "random"},
    "1 epoch": {"epochs": 1},
    "3 epochs": {"epochs": 3},
    "30 epochs": {"epochs": 30},
    "100 epochs": {"epochs": 100},
    "lr 1e-3": {"lr": 1e-3},
    "lr 1e-2": {"lr": 1e-2},
    "no data init": {"data_init": False},
    "no weight decay": {"weight_decay": 0.0},
    "lu permutations, 1 epoch": {"permutation": "lu", "epochs": 1},
    "lu permutations": {"permutation": "lu"},
}


class Measured(NamedTuple):
    """Likelihood and similarity of one fitted flow."""

    bits: float
    score: float


class Trial:
    """Vectors in two parts, and the tasks that score maps of them."""

    def __init__(self, space: Space, fitted: list[sts.Task], scored: list[sts.Task]) -> None:
        sentences = distinct_sentences(fitted)
        self.vectors = space.vectors(sentences)
        order = np.random.default_rng(0).permutation(len(sentences))
        held_out = len(sentences) // 10
        self.held_out, self.seen = self.vectors[order[:held_out]], self.vectors[np.sort(order[held_out:])]
        self._scorer = Scorer(scored, sentences)

    def score(self, mapped: NDArray[np.floating]) -> float:
        """Return the mean over tasks, aggregation ``all``."""
        return float(np.mean(self._scorer.scores(mapped, "all")))

    def measure(self, flow: Flow | WhitenedFlow) -> Measured:
        """Measure a fitted flow."""
        return Measured(bits_per_dimension(flow.log_prob(self.held_out), self.dimension), self.score_of(flow))

    def score_of(self, flow: Any) -> float:
        """Score a fitted map."""
        return self.score(flow.transform(self.vectors))

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.vectors.shape[1])


class WhitenedFlow:
    """Whitening in the space of the input, then a flow: it starts where whitening ends."""

    def __init__(self, flow: Flow) -> None:
        self._whitening, self._flow = Whitening(form="zca"), flow

    def fit(self, X: NDArray[np.float32]) -> WhitenedFlow:
        """Fit both on (N, D)."""
        self._flow.fit(self._whitening.fit_transform(X))
        self.losses_ = self._flow.losses_
        return self

    def transform(self, X: NDArray[np.float32]) -> NDArray[np.floating]:
        """Map (N, D) to (N, D)."""
        return self._flow.transform(self._whitening.transform(X))

    def log_prob(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the log-density of each row, in nats: (N, D) to (N,)."""
        whitened = self._flow.log_prob(self._whitening.transform(X)).astype(np.float64)
        return whitened + _log_det(self._whitening)


def _log_det(whitening: Whitening) -> float:
    return -0.5 * float(np.log(whitening.explained_variance_).sum())


def bits_per_dimension(log_prob: NDArray[np.floating], dimension: int) -> float:
    """Return the mean negative log-density in bits, divided by D."""
    return -float(log_prob.mean(dtype=np.float64)) / (dimension * math.log(2))


def gaussian_log_prob(whitening: Whitening, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the log-density under the Gaussian whose covariance the whitening removes, shape (N,)."""
    z = whitening.transform(rows).astype(np.float64)
    return -0.5 * ((z**2).sum(1) + z.shape[1] * math.log(2 * math.pi)) + _log_det(whitening)


def _bert(data: Path, bert: str) -> Trial:
    tasks = load_tasks(data, SEVEN)
    return Trial(Space(bert, "first-last-avg"), tasks, tasks)


def _smollm2(data: Path) -> Trial:
    tasks = load_tasks(data, ["STS-B:dev", "STS-B"])
    return Trial(Space(SMOLLM2, "first-last-avg", max_length=64), tasks, tasks[1:])


def ablation(data: Path, bert: str, seeds: int, report: Report) -> None:
    """Settings of the flow for a BERT-like model."""
    _ablation(_bert(data, bert), "BERT-like model, seven sets, first-last-avg", seeds, report)


def ablation_smollm2(data: Path, seeds: int, report: Report) -> None:
    """Settings of the flow for SmolLM2."""
    _ablation(_smollm2(data), "SmolLM2, STS-B, first-last-avg", seeds, report)


def _ablation(trial: Trial, title: str, seeds: int, report: Report) -> None:
    rows = [_gaussian_row(trial)]
    rows.append(_row("preset paper", lambda seed: Flow.preset("paper", seed=seed), trial, seeds))
    rows.append(_row("whitening, then default", lambda seed: WhitenedFlow(Flow(seed=seed)), trial, seeds))
    for name, changed in SETTINGS.items():
        rows.append(_row(name, lambda seed, changed=changed: Flow(**changed, seed=seed), trial, seeds))
        report.console.print(f"{rows[-1].label}: {rows[-1].values}")
    best_first = sorted(rows, key=lambda row: float(np.mean(row.values[BITS])))
    report.table(f"{title}: settings, best likelihood first", best_first, 3)
    flows = rows[1:]
    figures = [[float(np.mean(row.values[column])) for row in flows] for column in (BITS, STS)]
    report.console.print(f"rank correlation of bits with STS over these flows: {spearmanr(*figures).statistic:.2f}")


def _gaussian_row(trial: Trial) -> Row:
    whitening = Whitening().fit(trial.seen)
    bits = bits_per_dimension(gaussian_log_prob(whitening, trial.held_out), trial.dimension)
    return Row("Gaussian (whitening)", {}, {BITS: [bits], STS: [trial.score_of(whitening)]})


def _row(label: str, make: Any, trial: Trial, seeds: int) -> Row:
    start = time.perf_counter()
    flows = [make(seed).fit(trial.seen) for seed in range(seeds)]
    seconds = (time.perf_counter() - start) / seeds
    measured = [trial.measure(flow) for flow in flows]
    epochs = [len(flow.losses_) - 1.0 for flow in flows]
    values = {BITS: [each.bits for each in measured], STS: [each.score for each in measured]}
    return Row(label, {}, values | {"epochs run": epochs, "seconds per fit": [seconds]})


def curve(data: Path, bert: str, seeds: int, report: Report) -> None:
    """Likelihood and similarity after each epoch for a BERT-like model."""
    _curve(_bert(data, bert), "BERT-like model, seven sets, first-last-avg", seeds, report)


def curve_smollm2(data: Path, seeds: int, report: Report) -> None:
    """Likelihood and similarity after each epoch for SmolLM2."""
    _curve(_smollm2(data), "SmolLM2, STS-B, first-last-avg", seeds, report)


def _curve(trial: Trial, title: str, seeds: int, report: Report) -> None:
    for name, rate in {"paper's lr, 1e-3": PAPER_RATE, "default's lr, 3e-3, no decay": DEFAULT_RATE}.items():
        by_seed = [_epochs(trial, rate, seed) for seed in range(seeds)]
        rows = [
            Row(f"epoch {epoch}", {}, {BITS: [each.bits for each in measured], STS: [each.score for each in measured]})
            for epoch, measured in enumerate(zip(*by_seed, strict=True), start=1)
        ]
        report.table(f"{title}: {name}", rows, 3)
        ranks = [spearmanr(*zip(*points, strict=True)).statistic for points in by_seed]
        report.console.print(f"rank correlation of bits with STS over epochs, by seed: {np.round(ranks, 2)}")


def _epochs(trial: Trial, rate: float, seed: int) -> list[Measured]:
    flow = Flow.preset("paper", lr=rate, seed=seed)
    measured = []
    for _ in range(EPOCHS):
        flow.partial_fit(trial.seen)
        measured.append(trial.measure(flow))
    return measured
