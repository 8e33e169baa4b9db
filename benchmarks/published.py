"""Published figures of BERT-base on the seven STS sets, Spearman x 100 of cosine: never compare across aggregations.

Sources: Li et al. (2020), arXiv:2011.05864; Su et al. (2021), arXiv:2103.15316; Gao et al. (2021), arXiv:2104.08821;
Kim et al. (2021), arXiv:2106.07345, of which only SG-OPT's mean and STS12 were compared with the paper.
"""

from __future__ import annotations

from typing import NamedTuple

SEVEN = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


class Published(NamedTuple):
    """A row of a paper's table; the scores are in the order of ``SEVEN``."""

    method: str
    source: str
    aggregation: str
    fitted_on: str
    scores: tuple[float, ...]


_FLOW, _WHITENING, _SIMCSE, _SG = "BERT-flow paper", "BERT-whitening paper", "SimCSE paper", "SG-OPT paper"
_STSB = "STS-B text, means over seeds"

PUBLISHED = (
    Published("first-last-avg, raw", _FLOW, "wmean", "-", (57.86, 61.97, 62.49, 70.96, 69.76, 59.04, 63.75)),
    Published("flow", _FLOW, "wmean", "NLI text", (59.54, 64.69, 64.66, 72.92, 71.84, 58.56, 65.44)),
    Published("flow", _FLOW, "wmean", "own text, transductive", (63.48, 72.14, 68.42, 73.77, 75.37, 70.72, 63.11)),
    Published("whitening", _WHITENING, "wmean", "NLI text", (61.69, 65.70, 66.02, 75.11, 73.11, 68.19, 63.60)),
    Published(
        "whitening", _WHITENING, "wmean", "own text, transductive", (63.62, 73.02, 69.23, 74.52, 72.15, 71.34, 60.60)
    ),
    Published("first-last-avg, raw", _SIMCSE, "all", "-", (39.70, 59.38, 49.67, 66.03, 66.19, 53.87, 62.06)),
    Published("flow", _SIMCSE, "all", "NLI text", (58.40, 67.10, 60.85, 75.16, 71.22, 68.66, 64.47)),
    Published("whitening", _SIMCSE, "all", "NLI text", (57.83, 66.90, 60.90, 75.08, 71.31, 68.24, 63.73)),
    Published("[CLS], raw", _SG, "all", "-", (21.54, 32.11, 21.28, 37.89, 44.24, 20.30, 42.42)),
    Published("mean, raw", _SG, "all", "-", (30.87, 59.89, 47.73, 60.29, 63.73, 47.29, 58.22)),
    Published("BT", _SG, "all", _STSB, (54.26, 64.03, 54.28, 68.19, 67.50, 63.27, 66.91)),
    Published("SG", _SG, "all", _STSB, (63.60, 76.48, 67.57, 79.42, 74.85, 75.08, 68.19)),
    Published("SG-OPT", _SG, "all", _STSB, (66.84, 80.13, 71.23, 81.56, 77.17, 77.23, 68.16)),
)
