"""Published figures of BERT-base, Spearman x 100 of cosine: never compare across aggregations.

Sources: Li et al. (2020), arXiv:2011.05864; Su et al. (2021), arXiv:2103.15316; Gao et al. (2021), arXiv:2104.08821.
"""

from __future__ import annotations

from bert_flow.material import SEVEN, Row

_FLOW, _WHITENING, _SIMCSE = "BERT-flow paper", "BERT-whitening paper", "SimCSE paper"

_ROWS = [
    ("first-last-avg, raw", _FLOW, "wmean", "-", (57.86, 61.97, 62.49, 70.96, 69.76, 59.04, 63.75)),
    ("flow", _FLOW, "wmean", "NLI text", (59.54, 64.69, 64.66, 72.92, 71.84, 58.56, 65.44)),
    ("flow", _FLOW, "wmean", "own text, transductive", (63.48, 72.14, 68.42, 73.77, 75.37, 70.72, 63.11)),
    ("whitening", _WHITENING, "wmean", "NLI text", (61.69, 65.70, 66.02, 75.11, 73.11, 68.19, 63.60)),
    ("whitening", _WHITENING, "wmean", "own text, transductive", (63.62, 73.02, 69.23, 74.52, 72.15, 71.34, 60.60)),
    ("first-last-avg, raw", _SIMCSE, "all", "-", (39.70, 59.38, 49.67, 66.03, 66.19, 53.87, 62.06)),
    ("flow", _SIMCSE, "all", "NLI text", (58.40, 67.10, 60.85, 75.16, 71.22, 68.66, 64.47)),
    ("whitening", _SIMCSE, "all", "NLI text", (57.83, 66.90, 60.90, 75.08, 71.31, 68.24, 63.73)),
]


def published_rows() -> list[Row]:
    """Return the rows with their sources."""
    return [
        Row(
            f"published: {method}",
            {"fitted on": text, "aggregation": aggregation, "source": source},
            {
                **{task: [value] for task, value in zip(SEVEN, values, strict=True)},
                "average": [sum(values) / len(values)],
            },
        )
        for method, source, aggregation, text, values in _ROWS
    ]
