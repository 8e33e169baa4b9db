"""Draw throughput against the length of the texts. In the peers' venv: python -m encode_speed.plot FOLDER.

FOLDER holds ``encode_speed.json``; ``throughput.svg`` is written beside it: a panel for each model, a line a way.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Draw the picture of one folder."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    folder = Path(sys.argv[1])
    rows = json.loads((folder / "encode_speed.json").read_text(encoding="utf-8"))["throughput by length"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = pyplot.subplots(1, len(models), figsize=(5.5 * len(models), 4.5), squeeze=False, sharey=True)
    for model, axis in zip(models, axes[0], strict=True):
        lines = lines_of([row for row in rows if row["model"] == model])
        lengths = sorted({length for line in lines.values() for length in line})
        for way, line in lines.items():
            axis.plot(lengths, [line[length] for length in lengths], marker="o", markersize=3, label=way)
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [str(length) for length in lengths])
        axis.set_xlabel("tokens of a text")
        axis.set_title(model)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("tokens a second")
    axes[0][0].set_ylim(bottom=0)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    mpl.rcParams["svg.hashsalt"] = "encode_speed"  # the same figures give the same file
    figure.savefig(folder / "throughput.svg", metadata={"Date": None})


def lines_of(rows: list[dict[str, Any]]) -> dict[str, dict[int, float]]:
    """Return the tokens a second at each length, by way: of the batch sizes of a way, the best at that length."""
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        way, *batch = row["way"].split(", batch ")
        line = lines.setdefault(f"{way}, best batch size" if batch else way, {})
        length = row["tokens"] // row["texts"]
        line[length] = max(line.get(length, 0.0), row["tokens"] / row["seconds"])
    return lines


if __name__ == "__main__":
    main()
