"""Cosines before and after, as a picture: paragraphs of one docstring against paragraphs of different ones.

Text: docstrings of the Python that runs this. Model: SmolLM2, layer 1 without the final norm (``mean:1``). The maps are
fitted on sentences of docstrings, without knowing which belong together.

Usage: PYTHONPATH=benchmarks:examples python -m bert_flow.histograms docs/bert_flow_similarity.svg
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TQDM_DISABLE", "1")  # the GGUF reader draws bars of its own

import machine
import numpy as np
import transformers
from sklearn.metrics import roc_auc_score
from stdlib_docstrings import read_docstrings

from bert_flow import methods
from bert_flow.material import Space
from bert_flow.similarity import SMOLLM2
from embedlift.functional.similarity import paired_cosine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SENTENCES = 8000
WIDTH, HEIGHT, MARGIN = 250, 150, 20
EDGES = np.linspace(-0.4, 1, 71)
COLOURS = {"different docstrings": "#777777", "the same docstring": "#1f77b4"}


def main() -> None:
    """Encode, fit, draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("svg", type=Path)
    given = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    docstrings = read_docstrings()
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(docstrings.sentences), min(SENTENCES, len(docstrings.sentences)), replace=False)
    space = Space(SMOLLM2, "mean:1", max_length=64)
    fitting = space.vectors([docstrings.sentences[place] for place in np.sort(chosen)])
    first, second = (space.vectors(side) for side in zip(*docstrings.pairs, strict=True))
    other = np.roll(np.arange(len(second)), len(second) // 2)
    print(f"{machine.describe()}; {len(fitting)} sentences to fit, {len(first)} pairs")
    panels = []
    for method in methods.SHORT:
        fitted = method.make(0)
        fitted.fit(fitting)
        left, right = fitted.transform(first), fitted.transform(second)
        cosines = {
            "different docstrings": paired_cosine(left, right[other]),
            "the same docstring": paired_cosine(left, right),
        }
        title, figures = method.name, _describe(cosines)
        print(f"{title}: {figures}")
        panels.append(_panel(title, figures, cosines))
    given.svg.write_text(_picture(panels), encoding="utf-8")


def _describe(cosines: dict[str, NDArray[np.floating]]) -> str:
    different, same = cosines.values()
    auc = roc_auc_score(np.repeat([0, 1], len(same)), np.concatenate([different, same]))
    means = [round(float(values.mean()), 2) + 0.0 for values in (different, same)]  # + 0.0: no minus before a zero
    return f"means {means[0]:.2f} and {means[1]:.2f}, AUC {auc:.3f}"


def _panel(title: str, figures: str, cosines: dict[str, NDArray[np.floating]]) -> list[str]:
    shares = {name: np.histogram(np.clip(values, -0.4, 1), EDGES)[0] / len(values) for name, values in cosines.items()}
    highest = max(share.max() for share in shares.values())
    lines = [f'<text x="0" y="-18" font-weight="bold">{title}</text>', f'<text x="0" y="-5">{figures}</text>']
    for name, share in shares.items():
        points = [f"{_across(EDGES[0]):.1f},{HEIGHT}"]
        for left, right, value in zip(EDGES[:-1], EDGES[1:], share, strict=True):
            top = HEIGHT * (1 - value / highest)
            points += [f"{_across(left):.1f},{top:.1f}", f"{_across(right):.1f},{top:.1f}"]
        points.append(f"{_across(EDGES[-1]):.1f},{HEIGHT}")
        colour = COLOURS[name]
        lines.append(f'<polygon points="{" ".join(points)}" fill="{colour}" fill-opacity="0.4" stroke="{colour}"/>')
    for tick in (0.0, 0.5, 1.0):
        lines.append(f'<text x="{_across(tick):.1f}" y="{HEIGHT + 14}" text-anchor="middle">{tick:g}</text>')
    return [*lines, f'<line x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}" stroke="black"/>']


def _across(cosine: float) -> float:
    return float(WIDTH * (cosine - EDGES[0]) / (EDGES[-1] - EDGES[0]))


def _picture(panels: Sequence[list[str]]) -> str:
    wide, high = 2 * (WIDTH + 3 * MARGIN), 2 * (HEIGHT + 4 * MARGIN) + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = (number % 2) * (WIDTH + 3 * MARGIN) + MARGIN, (number // 2) * (HEIGHT + 4 * MARGIN) + 3 * MARGIN
        lines += [f'<g transform="translate({x},{y})">', *panel, "</g>"]
    for number, (name, colour) in enumerate(COLOURS.items()):
        x, y = MARGIN + 260 * number, high - MARGIN // 2
        lines.append(f'<text x="{x}" y="{y}" fill="{colour}">cosine, paragraphs of {name}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main()
