"""Is one model better than another? Paired differences with their uncertainty, said in a plain sentence."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embedlift.evaluation.results import Score

#: Probability of claiming any difference of a family of comparisons that isn't there.
ALPHA = 0.05
#: With fewer items, draws are too coarse to judge by.
_FEWEST = 10


@dataclass(frozen=True)
class Comparison:
    """A model beside the baseline, on one task or on the average of several.

    Attributes:
        baseline: Name of the model compared with.
        model: Name of the other one.
        task: Such as ``STS12`` or ``average of 7 tasks``.
        split: Such as ``test``; of an average, None.
        metric: Such as ``cosine_spearman``.
        difference: Score of the model less that of the baseline, a fraction; None where one is undefined.
        interval: Of the difference at ``level``; None where it cannot be told.
        level: Of the interval: 0.95, higher where several models or tasks are compared.
        p_value: Of no difference, after Holm's correction; None where it cannot be told.
        comparisons: Size of the family that was corrected for.
        n: Number of items.
        unit: What ``n`` counts.
        note: Why something cannot be told.
    """

    baseline: str
    model: str
    task: str
    split: str | None
    metric: str
    difference: float | None
    interval: tuple[float, float] | None
    level: float
    p_value: float | None
    comparisons: int
    n: int
    unit: str
    note: str | None = None

    @property
    def differs(self) -> bool:
        """Whether a difference has been shown."""
        return self.p_value is not None and self.p_value <= ALPHA

    @property
    def sentence(self) -> str:
        """What the comparison says, in points of 100."""
        if self.difference is None:
            return f"{self.model} and {self.baseline} cannot be compared: {self.note}"
        points = 100 * self.difference
        if self.interval is None:
            return f"{self.model} less {self.baseline}: {points:+.1f}; whether they differ cannot be told: {self.note}"
        low, high = (100 * end for end in self.interval)
        corrected = (
            f", {100 * self.level:.1f} % interval, p = {self.p_value:.2g} after Holm's correction for "
            f"{self.comparisons} comparisons"
            if self.comparisons > 1
            else ""
        )
        if not self.differs:
            return (
                f"no difference between {self.model} and {self.baseline} can be shown with {self.n} {self.unit} "
                f"({points:.1f} [{low:.1f}, {high:.1f}]{corrected})"
            )
        if points < 0:
            points, low, high = -points, -high, -low
        better = "better" if self.difference > 0 else "worse"
        return f"{self.model} is {better} than {self.baseline} by {points:.1f} [{low:.1f}, {high:.1f}]{corrected}"


def compare(scores: Sequence[Score], baseline: str | None = None) -> list[Comparison]:
    """Compare every model with the baseline on each task, and on the average of the tasks that share a metric.

    The draws of two models belong to the same resamples, so their differences are the draws of a paired bootstrap: what
    makes a task easy or hard for both cancels. With standard deviation s of those draws, the interval is the difference
    -+ z s and p = 2 Phi(-|difference| / s). The normal curve is used because p-values counted from 1,000 draws end at
    0.002, which no correction for more than 25 comparisons survives.

    Holm's procedure keeps the probability of any false claim below 5 % in each of two families: all models on all
    tasks, and all models on all averages. Each interval has the level at which the procedure tested that difference,
    so it holds 0 exactly where no difference has been shown.

    An average treats its tasks as independent. It ignores that STS-B holds pairs of STS12 to STS16, and that
    translations of a task have the same pairs.

    Args:
        scores: Of two or more models on the same tasks with the same seed; rows of subsets are left out.
        baseline: Name of a model; the first one if None.

    Raises:
        InputError: If the baseline is none of the models.

    References:
        Efron & Tibshirani, An Introduction to the Bootstrap (1993), 12.2. Holm, A simple sequentially rejective
        multiple test procedure (1979).
    """
    by_model: dict[str, dict[tuple[str, str | None, str, str], Score]] = defaultdict(dict)
    for score in scores:
        if score.subset is None:
            by_model[score.model][score.metric, score.aggregation, score.task, score.split] = score
    if not by_model:
        return []
    base = next(iter(by_model)) if baseline is None else baseline
    if base not in by_model:
        raise InputError(f"the baseline {base!r} is none of the models scored: {', '.join(by_model)}")
    tasks, averages = [], []
    for model, found in by_model.items():
        if model == base:
            continue
        pairs = [(by_model[base][key], score) for key, score in found.items() if key in by_model[base]]
        tasks += [_difference([pair]) for pair in pairs]
        for kind in dict.fromkeys((score.metric, score.aggregation) for _, score in pairs):
            same = [pair for pair in pairs if (pair[0].metric, pair[0].aggregation) == kind]
            if len(same) > 1:
                averages.append(_difference(same))
    return [*_corrected(tasks), *_corrected(averages)]


@dataclass(frozen=True)
class _Estimate:
    """A comparison before its correction, and the standard deviation of its draws."""

    comparison: Comparison
    deviation: float | None


def _difference(pairs: Sequence[tuple[Score, Score]]) -> _Estimate:
    """Return the mean difference over tasks; each pair is (score of the baseline, score of the model)."""
    base, other = pairs[0]
    single = len(pairs) == 1
    units = {score.unit for score, _ in pairs}
    known = [two.score - one.score for one, two in pairs if one.score is not None and two.score is not None]
    reason = _why_not(pairs)
    comparison = Comparison(
        baseline=base.model,
        model=other.model,
        task=base.task if single else f"average of {len(pairs)} tasks",
        split=base.split if single else None,
        metric=base.metric,
        difference=float(np.mean(known)) if len(known) == len(pairs) else None,
        interval=None,
        level=1 - ALPHA,
        p_value=None,
        comparisons=1,
        n=sum(score.n for score, _ in pairs),
        unit=units.pop() if len(units) == 1 else "items",
        note=reason,
    )
    if reason:
        return _Estimate(comparison, None)
    draws = [two.draws - one.draws for one, two in pairs if one.draws is not None and two.draws is not None]
    mean = np.mean(draws, axis=0)
    return _Estimate(comparison, float(mean[np.isfinite(mean)].std(ddof=1)))


def _why_not(pairs: Sequence[tuple[Score, Score]]) -> str | None:
    """Return why the difference cannot be judged, if it cannot."""
    for one, two in pairs:
        if one.score is None or two.score is None:
            return f"the score on {one.task} is undefined"
        if one.n != two.n:
            return f"they were scored on {one.n} and {two.n} {one.unit} of {one.task}"
        if one.draws is None or two.draws is None or len(one.draws) != len(two.draws):
            return f"they share no resamples of {one.task}"
        if one.n < _FEWEST:
            return f"{one.n} {one.unit} are too few"
    return None


def _corrected(estimates: Sequence[_Estimate]) -> list[Comparison]:
    """Return the comparisons with Holm's p-values, and with each interval at the level of its test."""
    p_values = {place: _p_value(estimate) for place, estimate in enumerate(estimates) if estimate.deviation is not None}
    order = sorted(p_values, key=p_values.__getitem__)
    size = len(order)
    adjusted = np.maximum.accumulate([min(1.0, (size - rank) * p_values[place]) for rank, place in enumerate(order)])
    shown = int((adjusted <= ALPHA).sum())
    out = [estimate.comparison for estimate in estimates]
    for rank, place in enumerate(order):
        # The procedure stops at the first difference that isn't shown: the later ones stay at its level.
        level = 1 - ALPHA / (size - min(rank, shown))
        out[place] = _with_interval(estimates[place], float(adjusted[rank]), level, size)
    return out


def _p_value(estimate: _Estimate) -> float:
    difference, deviation = estimate.comparison.difference or 0.0, estimate.deviation or 0.0
    return float(2 * norm.sf(abs(difference) / deviation)) if deviation > 0 else float(difference == 0)


def _with_interval(estimate: _Estimate, p_value: float, level: float, size: int) -> Comparison:
    difference, deviation = estimate.comparison.difference or 0.0, estimate.deviation or 0.0
    half = float(norm.ppf((1 + level) / 2)) * deviation
    return replace(
        estimate.comparison,
        interval=(difference - half, difference + half),
        level=level,
        p_value=p_value,
        comparisons=size,
    )


@dataclass(frozen=True)
class OverSeeds:
    """One figure of a method over runs that differ in their seed.

    Attributes:
        model: Name of the method.
        task: Such as ``STS12``.
        split: Such as ``test``.
        subset: Part of the task, or None for the whole.
        metric: Such as ``cosine_spearman``.
        mean: Over the runs whose score is defined; None if there is none.
        deviation: Standard deviation of a run (divisor: number - 1); None with fewer than two.
        number: Of runs with a defined score.
        undefined: Of runs without, such as those that collapsed: they are not in the mean.
    """

    model: str
    task: str
    split: str
    subset: str | None
    metric: str
    mean: float | None
    deviation: float | None
    number: int
    undefined: int

    def __str__(self) -> str:
        if self.mean is None:
            return f"undefined in all {self.undefined} seeds"
        spread = "" if self.deviation is None else f"sd {100 * self.deviation:.1f}, "
        seeds = f"{self.number} seed{'s' * (self.number > 1)}"
        lost = f", undefined in {self.undefined} more" if self.undefined else ""
        return f"{100 * self.mean:.1f} ({spread}{seeds}{lost})"


def over_seeds(scores: Iterable[Score]) -> list[OverSeeds]:
    """Return mean, standard deviation and number of the scores that differ only in the run they come from.

    The deviation says how much the seed of a method matters; the interval of a score says how much the choice of test
    items does. Neither stands for the other.

    Args:
        scores: Of all runs, one after another; the runs of a method bear the same model name.
    """
    groups: dict[tuple[str, str, str, str | None, str], list[float | None]] = defaultdict(list)
    for score in scores:
        groups[score.model, score.task, score.split, score.subset, score.metric].append(score.score)
    out = []
    for key, values in groups.items():
        known = [value for value in values if value is not None]
        mean = float(np.mean(known)) if known else None
        deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
        out.append(OverSeeds(*key, mean, deviation, len(known), len(values) - len(known)))
    return out
