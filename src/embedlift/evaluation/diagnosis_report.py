"""A diagnosis in words: each figure beside that of an even cloud, what stands out, and what to do about it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from scipy.special import hyp0f1

from embedlift.files import written_whole

if TYPE_CHECKING:
    from pathlib import Path

    from embedlift.evaluation.diagnosis import Diagnosis, Hubness, PairFigures
    from embedlift.evaluation.surface import SurfaceCorrelations

SCHEMA_VERSION = 1
#: Percentiles of random pairs whose cosines are shown.
SHOWN_PERCENTILES = (1, 50, 90, 99, 99.9, 99.99)

# From here on, more of a vector's squared length is common to all texts than tells them apart.
_MOSTLY_SHARED = 0.5
# Conventions, not laws: a "medium" correlation (Cohen 1988); three times the hubness of neighbours chosen at random;
# and a mean cosine below which it does not matter which dimension it comes from.
_CORRELATION = 0.3
_HUBNESS = 1.0
_SMALL_COSINE = 0.1
# More near-duplicates than this share of all pairs are too many to be copies of one another.
_MANY = 0.01
# With ten rows per dimension an even cloud has an IsoScore of 1 / (1 + 1 / 10), near enough to 1.
_ENOUGH_ROWS = 10
_CUTS = {99: "1 unrelated pair in 100", 99.9: "1 in 1,000", 99.99: "1 in 10,000"}


@dataclass(frozen=True)
class Figure:
    """A line of the table: name, value, value of an even cloud of the same size, and how to read it."""

    name: str
    value: str
    even: str
    reading: str


@dataclass(frozen=True)
class Finding:
    """Something that a reader should know of: a word, a paragraph, and lines to type, if there is something to do."""

    about: str
    text: str
    commands: tuple[str, ...] = ()


def figures(d: Diagnosis) -> list[Figure]:
    """Return the figures of ``d`` as a reader should see them."""
    # An even sample has a participation ratio near D / (1 + D / N); exp(-4 + 4 cos) averages to 0F1 on the sphere.
    even_isoscore = (d.dimension / (1 + d.dimension / d.rows) - 1) / (d.dimension - 1)
    even_uniformity = -4 + math.log(hyp0f1(d.dimension / 2, 4))
    of, near = d.spectrum, d.near_duplicates
    rank, rankme = (f"<= {min(rows, d.dimension)}" for rows in (d.rows - 1, d.rows))
    return [
        Figure("mean cosine of pairs", _number(d.random_pair_cosine), "0", "1: all point the same way"),
        Figure(
            "uniformity", _number(d.cosines.uniformity, 2), f"{even_uniformity:.2f}", "0: all alike; lower: more even"
        ),
        Figure("IsoScore", _number(of.isoscore), f"{even_isoscore:.3f}", "share of directions in even use"),
        Figure("IsoScore*", _number(of.isoscore_star), "1", "the same, corrected for few rows"),
        Figure("effective rank", _number(of.effective_rank, 1), rank, "directions that carry variance"),
        Figure("RankMe", _number(of.rankme, 1), rankme, "the same; faint ones count more"),
        Figure("isotropy I(W)", _power(of.log_partition_isotropy), "near 1", "0: one direction far heavier"),
        *_hubness_figures(d.cosines.hubness),
        *_surface_figures(d.surface),
        Figure(f"pairs above {near.threshold:.4g}", f"{near.pairs:,}", "0", f"of {_all_pairs(d):,}"),
    ]


def _hubness_figures(hubness: Hubness | None) -> list[Figure]:
    if hubness is None:
        return []
    k = hubness.neighbours
    return [
        Figure(
            f"hubness, k = {k}", f"{hubness.skewness:.2f}", f"{1 / math.sqrt(k):.2f}", "high: few are near very many"
        ),
        Figure(
            "anti-hubs", f"{100 * hubness.antihubs:.1f} %", f"{100 * math.exp(-k):.1g} %", "among nobody's neighbours"
        ),
    ]


def _surface_figures(surface: SurfaceCorrelations | None) -> list[Figure]:
    if surface is None:
        return []
    return [
        Figure("cos ~ length difference", _number(surface.length_difference, 2), "0", "-: like lengths score higher"),
        Figure("cos ~ sum of lengths", _number(surface.length_sum, 2), "0", "+: long texts score higher"),
        Figure(
            "cos ~ frequency diff.", _number(surface.frequency_difference, 2), "0", "-: like commonness scores higher"
        ),
        Figure("cos ~ sum of frequency", _number(surface.frequency_sum, 2), "0", "+: common words score higher"),
    ]


def _number(value: float | None, digits: int = 3) -> str:
    return "undefined" if value is None else f"{value:.{digits}f}"


def _power(log: float) -> str:
    """Write exp(log), too small for a float maybe."""
    return f"{math.exp(log):.3f}" if log > math.log(1e-3) else f"1e{log / math.log(10):.0f}"


def _all_pairs(d: Diagnosis) -> int:
    return d.sample * (d.sample - 1) // 2


def findings(d: Diagnosis, adapt: str, saved: str = "FILE.json") -> list[Finding]:
    """Return what stands out in ``d``, and what to do about it.

    Args:
        d: The diagnosis.
        adapt: The command that would adapt these vectors.
        saved: The file that holds the diagnosis, or the percentiles alone.
    """
    if d.centred is None:
        text = (
            f"All {d.rows:,} vectors are the same, so they tell nothing apart. A training that diverged, a wrong "
            "pooling, or one text in every row looks like this."
        )
        return [Finding("Collapsed", text), *_about_rows(d)]
    return [
        *_about_scores(d, d.centred, adapt, saved),
        *_about_directions(d),
        *_about_hubs(d.cosines.hubness, d.centred.hubness),
        *_about_surface(d),
        *_about_duplicates(d),
        *_about_rows(d),
    ]


def _about_scores(d: Diagnosis, centred: PairFigures, adapt: str, saved: str) -> list[Finding]:
    scale, mean = d.cosines.percentiles, d.random_pair_cosine
    level = f"Two random texts score {mean:.2f} on average; {_middle(d.cosines)}."
    if mean >= _MOSTLY_SHARED:
        level += (
            f" So a cosine of {scale.score_at(99):.2f} does not show that two texts have anything in common. The cause "
            f"is a direction that all vectors share: it makes up {100 * mean:.0f} % of their squared length. High "
            "scores do not prove that rankings are bad; they make fixed thresholds useless."
        )
    cuts = [f"{scale.score_at(p):.3f} lets {n} in" for p, n in _CUTS.items() if scale.is_measured(p)]
    threshold = (
        "A cosine of 0.8 means something else in every model, so set thresholds on the percentile among random pairs: "
        f"{', '.join(cuts) or 'there are too few pairs here to say which cosine'}. That holds for this model and this "
        "kind of text, but not for texts that the model was whitened on. Scores become percentiles in Python, by the "
        "file that --json writes:"
    )
    percentiles = (
        "from embedlift.evaluation.percentiles import ScorePercentiles",
        f"ScorePercentiles.load({saved!r}).percentiles(scores)",
    )
    said = [Finding("Scores", level), Finding("Thresholds", threshold, percentiles)]
    if mean >= _MOSTLY_SHARED:
        remedy = (
            f"With the mean vector subtracted, {_middle(centred)}. Whitening subtracts it and evens out the directions "
            "as well (method center: the mean alone). Wider scores are no proof of better ones: raw language models "
            "mostly gain, models tuned with labels often lose. Compare both with `embedlift evaluate`. The command:"
        )
        said.append(Finding("Remedy", remedy, (adapt,)))
    return said


def _middle(cosines: PairFigures) -> str:
    low, high = (cosines.percentiles.score_at(level) for level in (1, 99))
    return f"98 of 100 random pairs lie between {low:.2f} and {high:.2f}"


def _about_directions(d: Diagnosis) -> list[Finding]:
    said = []
    if d.spectrum.isoscore is not None and d.spectrum.effective_rank is not None:
        even = 1 + d.spectrum.isoscore * (d.dimension - 1)
        text = (
            f"Around their mean, the vectors vary as if evenly in {even:.0f} of {d.dimension} directions (IsoScore); "
            f"counting faint ones too, in {d.spectrum.effective_rank:.0f} (effective rank)."
        )
        said.append(Finding("Directions", text))
    share = sum(item.contribution for item in d.dimensions)
    if d.random_pair_cosine >= _SMALL_COSINE and share >= d.random_pair_cosine / 2:
        named = ", ".join(f"{item.dimension} ({item.contribution:.2f})" for item in d.dimensions)
        text = (
            f"Dimensions {named} alone add {share:.2f} of the mean cosine {d.random_pair_cosine:.2f}: they make all "
            "texts look alike. Subtracting the mean, whitening, or dividing each dimension by its spread mends that."
        )
        said.append(Finding("Rogue dimensions", text))
    return said


def _about_hubs(hubness: Hubness | None, centred: Hubness | None) -> list[Finding]:
    if hubness is None or hubness.skewness <= _HUBNESS:
        return []
    text = (
        f"One text is among the {hubness.neighbours} nearest of {hubness.largest} others, and "
        f"{100 * hubness.antihubs:.1f} % of the texts are among nobody's: search shows the same few for many queries. "
        f"(Skewness {hubness.skewness:.2f}; neighbours by chance have {1 / math.sqrt(hubness.neighbours):.2f}; above "
        f"{_HUBNESS:g} is called high here, a convention.)"
    )
    if centred is not None:
        text += f" With the mean vector subtracted the skewness is {centred.skewness:.2f}."
    return [Finding("Hubs", text)]


def _about_surface(d: Diagnosis) -> list[Finding]:
    if d.surface is None:
        return [Finding("Not looked at", "Length and word frequency: that needs the texts (--corpus).")]
    worded = {
        "how alike two texts are in length": d.surface.length_difference,
        "how long they are": d.surface.length_sum,
        "how alike they are in word frequency": d.surface.frequency_difference,
        "how common their words are": d.surface.frequency_sum,
    }
    strong = [f"{what} ({rho:+.2f})" for what, rho in worded.items() if rho is not None and abs(rho) >= _CORRELATION]
    if not strong:
        return []
    text = (
        f"The cosine of random pairs follows {'; '.join(strong)}, which has little to do with meaning (Spearman's "
        f"correlation; from {_CORRELATION:g} on it is called noticeable here, a convention)."
    )
    return [Finding("Surface", text)]


def _about_duplicates(d: Diagnosis) -> list[Finding]:
    near = d.near_duplicates
    if not near.pairs:
        return []
    if near.share > _MANY:
        text = (
            f"{100 * near.share:.1f} % of all pairs score above {near.threshold:.4g}. So many are hardly duplicates: "
            "raise --duplicates-above, or look again after adapting."
        )
    else:
        closest = "; ".join(f"{first} and {second} ({cosine:.4f})" for first, second, cosine in near.examples[:3])
        text = f"{near.pairs:,} of the sample's pairs above {near.threshold:.4g}. The closest: {closest}."
    return [Finding("Near-duplicates", text)]


def _about_rows(d: Diagnosis) -> list[Finding]:
    said = []
    if d.rows <= d.dimension:
        text = (
            f"{d.rows:,} vectors vary in at most {d.rows - 1:,} of {d.dimension} directions, so IsoScore and the ranks "
            "are bounded by the number of rows, not by the model (IsoScore* makes up for some of it). "
            f"{_ENOUGH_ROWS * d.dimension:,} rows would do."
        )
        said.append(Finding("Few rows", text))
    if d.zero_rows:
        text = (
            f"{d.zero_rows:,} of {d.rows:,} vectors are all zero. They have no cosine: figures of pairs leave them out."
        )
        said.append(Finding("Zero vectors", text))
    return said


def write_json(
    path: Path, d: Diagnosis, said: list[Finding], settings: dict[str, Any], versions: dict[str, str]
) -> None:
    """Write the record, with ``percentiles`` where :meth:`ScorePercentiles.load` finds them."""
    record = asdict(d)
    document = {
        "schema_version": SCHEMA_VERSION,
        "settings": settings,
        "versions": versions,
        "findings": [asdict(finding) for finding in said],
        "percentiles": record["cosines"].pop("percentiles"),
        "figures": record,
    }
    record["spectrum"]["partition_isotropy"] = d.spectrum.partition_isotropy
    with written_whole(path) as beside:
        beside.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
