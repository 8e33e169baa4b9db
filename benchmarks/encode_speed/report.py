"""The rows as a table in markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from encode_speed.contenders import OWN

if TYPE_CHECKING:
    from pathlib import Path

    from encode_speed.measure import Row

_HEAD = ("model", "texts", "way", "seconds", "texts/s", "tokens/s", "speed", "padding", "GEMM", "cosine", "difference")

#: A first round that took so many times the median, and seconds more, is worth a line.
_SLOW_START, _SLOW_SECONDS = 2, 2

#: Least speed, by the least mean cosine at which it is to be had: what the frontier is asked for.
_GOALS = {2.0: 0.999, 3.0: 0.99}


def table(rows: list[Row]) -> str:
    """Return all rows in markdown; "speed" is against the fastest of sentence-transformers in float32."""
    lines = [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
    for row in rows:
        cells = (
            row.model,
            f"{row.kind}: {row.texts}, {row.tokens / row.texts:.0f} tokens each",
            row.way,
            f"{row.seconds:.2f}",
            f"{row.texts / row.seconds:.0f}",
            f"{row.tokens / row.seconds:.0f}",
            f"{row.speed:.2f}",
            "" if row.padding is None else f"{100 * row.padding:.1f} %",
            f"{100 * row.of_gemm:.0f} %",
            f"{row.cosine:.6f}",
            f"{row.difference:.0e}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def notes(rows: list[Row]) -> list[str]:
    """Return which goals are met on each kind of text, and what took much longer in its first round."""
    found = []
    for model, kind in dict.fromkeys((row.model, row.kind) for row in rows):
        here = [row for row in rows if (row.model, row.kind) == (model, kind)]
        own = [row for row in here if row.way.startswith(OWN)]
        exact = [row for row in own if row.way in (OWN, f"{OWN} export, float32")]
        parts = [f"{row.way} {row.speed:.2f} times in float32" for row in exact]
        parts.append(f"padding {100 * (own[0].padding or 0):.1f} %")
        for speed, cosine in _GOALS.items() if len(own) > 1 else ():
            best = max((row for row in own if row.cosine >= cosine), key=lambda row: row.speed)
            verdict = "met" if best.speed >= speed else "missed"
            parts.append(f"{speed:.0f} times at {cosine} {verdict}: {best.speed:.2f}, {best.way}, {best.cosine:.5f}")
        found.append(f"{model}, {kind}: {'; '.join(parts)}")
        found += [
            f"{model}, {kind}: {row.way} took {row.first:.0f} s in its first round (compilation)"
            for row in here
            if row.first > _SLOW_START * row.seconds and row.first - row.seconds > _SLOW_SECONDS
        ]
    return found


def write(folder: Path, facts: dict[str, str], lines: list[str], rows: list[Row], curve: list[Row]) -> None:
    """Write ``encode_speed.md`` and ``encode_speed.json``: both hold figures and no text that was encoded."""
    head = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    tail = "\n".join(f"- {line}" for line in lines)
    (folder / "encode_speed.md").write_text(f"{head}\n\n{table(rows)}\n\n{tail}\n", encoding="utf-8")
    document = {
        "facts": facts,
        "rows": [asdict(row) for row in rows],
        "throughput by length": [asdict(row) for row in curve],
        "notes": lines,
    }
    (folder / "encode_speed.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
