"""The main job on a real model and real text, offline: a language model becomes a search model without labels.

Model: SmolLM2-135M-Instruct, which was never trained to compare sentences, cut to its first layers.
Text: the docstrings of Python's standard library.
Test: does a docstring's first paragraph find its own second paragraph among all of them?

Usage: python examples/demo.py [FOLDER]
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TQDM_DISABLE", "1")  # the GGUF reader draws bars of its own

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.feature_extraction.text import TfidfVectorizer
from stdlib_docstrings import read_docstrings

from embedlift.adaptation import Adaptation, run
from embedlift.cache import CachedEncoder
from embedlift.encoder import Encoder
from embedlift.evaluation.bootstrap import draws, interval, mean
from embedlift.evaluation.retrieval import known_item_ranks, ranks_from_scores, reciprocal_ranks
from embedlift.functional.similarity import unit_rows
from embedlift.model_card import FIGURES
from embedlift.transforms import Whitening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    Report = Callable[[int, int], None]
    Pairs = list[tuple[str, str]]
    Ranks = NDArray[np.int64]

MODEL = "packaged:smollm2-135m"
WORDS = "mean:0"  # the mean of the word embeddings: no layer at work
POOLINGS = (WORDS, "mean:1", "mean:0,1", "mean:2")
DEVELOPMENT_PAIRS, DEVELOPMENT_SENTENCES, SENTENCES = 300, 1500, 6000
QUERIES = (
    "Stop a running thread.",
    "Compute the median of a list of numbers.",
    "Parse a date written as a string.",
)

console = Console(width=110)


def main() -> None:
    """Run the demo and print its report."""
    started = time.perf_counter()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["EMBEDLIFT_CACHE"] = str(folder / "cache")  # begun anew: the time below is that of a first run
    with step("Reading the docstrings of Python's standard library"):
        docstrings = read_docstrings()
    rng = np.random.default_rng(0)
    pairs = [docstrings.pairs[i] for i in rng.permutation(len(docstrings.pairs))]
    sentences = [docstrings.sentences[i] for i in rng.permutation(len(docstrings.sentences))]
    console.print(f"{len(pairs):,} pairs of paragraphs and {len(sentences):,} sentences in Python's own docstrings")
    with step(f"Loading {MODEL}"):
        base = Encoder(MODEL, layers=3, max_length=128).model
    ranked = rank_poolings(base, sentences[:DEVELOPMENT_SENTENCES], pairs[:DEVELOPMENT_PAIRS])
    pooling = ranked[0]
    in_context = next(name for name in ranked if name != WORDS)
    adapted = {
        (name, method): adapt(base, name, method, sentences[:SENTENCES], folder / f"{name.replace(':', '-')}-{method}")
        for name in (WORDS, in_context)
        for method in ("whitening", "flow")
    }
    chosen_blindly = adapt_blindly(base, sentences[:SENTENCES], folder / "auto")
    compare(base, adapted, pooling, chosen_blindly, pairs)
    chosen = adapted[pooling, "whitening"]
    show_queries(base, chosen.model, pooling, [second for _, second in pairs])
    show_isotropy(chosen)
    show_use(folder / f"{pooling.replace(':', '-')}-whitening")
    console.print(f"\n{time.perf_counter() - started:.0f} s on {os.cpu_count()} cores, torch {torch.__version__}")


@contextmanager
def step(description: str) -> Iterator[Report]:
    """Show a bar while something takes longer than a second; in a log, a line."""
    if not console.is_terminal:
        console.print(f"{description} ...", style="dim", highlight=False)
        yield lambda done, total: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def rank_poolings(base: SentenceTransformer, sentences: list[str], pairs: Pairs) -> list[str]:
    """Return the layers to pool, those whose whitened vectors are best on the development pairs first."""
    found = {}
    for pooling in POOLINGS:
        with step(f"Choosing the layers on {len(pairs)} development pairs: {pooling}") as report:
            encoder = CachedEncoder(Encoder(base, pooling=pooling))
            whitening = Whitening(shrinkage="oas").fit(encoder.encode(sentences, progress=report))
            first, second = (whitening.transform(encoder.encode(side)) for side in zip(*pairs, strict=True))
            ranks = known_item_ranks(first, second, np.arange(len(pairs)))
            found[pooling] = float(reciprocal_ranks(ranks).mean())
    ranked = sorted(found, key=lambda pooling: -found[pooling])
    shown = ", ".join(f"{pooling} {100 * found[pooling]:.1f}" for pooling in ranked)
    console.print(f"Layers, whitened, on {len(pairs)} development pairs (MRR@10 x 100): {shown}", highlight=False)
    return ranked


def adapt(base: SentenceTransformer, pooling: str, method: str, sentences: list[str], output: Path) -> Adaptation:
    """The main job: what ``embedlift adapt`` does."""
    with step(f"Adapting {pooling} by {method} to {len(sentences):,} sentences without labels") as report:
        return run(base, sentences, method=method, pooling=pooling, output=output, progress=report)


def adapt_blindly(base: SentenceTransformer, sentences: list[str], output: Path) -> Adaptation:
    """The main job without a single pair: layers and transform are chosen from the sentences alone."""
    with step(f"Choosing from {len(sentences):,} sentences without labels") as report:
        record = run(base, sentences, method="auto", output=output, progress=report)
    if record.choice is not None:
        console.print(record.choice.explanation, highlight=False, markup=False)
    return record


def compare(
    base: SentenceTransformer,
    adapted: dict[tuple[str, str], Adaptation],
    chosen: str,
    blind: Adaptation,
    pairs: Pairs,
) -> None:
    """Print how well first paragraphs find their second among all, for the pairs that chose nothing."""
    second = [pair[1] for pair in pairs]
    relevant = np.arange(DEVELOPMENT_PAIRS, len(pairs))
    queries = [pairs[i][0] for i in relevant]

    def search(label: str, model: SentenceTransformer) -> Ranks:
        with step(f"Searching with {label}") as report:
            encoder = CachedEncoder(Encoder(model))
            return known_item_ranks(encoder.encode(queries), encoder.encode(second, progress=report), relevant)

    rows = {"TF-IDF (words, no model)": tf_idf_ranks(queries, second, relevant)}
    for (name, method), record in adapted.items():
        source = f"SmolLM2, {name}{' (word embeddings)' if name == WORDS else ''}"
        if f"{source}, before" not in rows:
            rows[f"{source}, before"] = search(source, Encoder(base, pooling=name).model)
        mark = " <- chosen" if (name, method) == (chosen, "whitening") else ""
        rows[f"{source}, after {method}{mark}"] = search(source, record.model)
    rows[f"SmolLM2, auto, chosen without pairs: {blind.settings['method.chosen']}"] = search("auto", blind.model)
    minilm = "all-MiniLM-L6-v2, an off-the-shelf model tuned with labels"
    rows[minilm] = search(minilm, Encoder("packaged:all-minilm-l6-v2").model)
    title = (
        f"{len(queries):,} first paragraphs search their second among {len(second):,} (x 100, 95 % bootstrap interval)"
    )
    table = Table("", "MRR@10", "recall@1", title=title, title_justify="left")
    for label, ranks in rows.items():
        table.add_row(label, figure(reciprocal_ranks(ranks)), figure((ranks == 1).astype(float)))
    console.print(table)
    console.print(
        "The fit saw sentences of these docstrings, without labels (transductive). The layers were chosen on other "
        "pairs than those of the table."
    )


def tf_idf_ranks(queries: list[str], documents: list[str], relevant: Ranks) -> Ranks:
    """Rank by the cosine of TF-IDF vectors."""
    words = TfidfVectorizer(sublinear_tf=True).fit(documents)
    return ranks_from_scores((words.transform(queries) @ words.transform(documents).T).toarray(), relevant)


def figure(values: NDArray[np.float64]) -> str:
    """Return the mean of ``values`` with its interval, x 100."""
    low, high = interval(draws([mean(values)], len(values))[0]) or (0.0, 0.0)
    return f"{100 * values.mean():.1f} \\[{100 * low:.1f}, {100 * high:.1f}]"


def show_queries(base: SentenceTransformer, after: SentenceTransformer, pooling: str, documents: list[str]) -> None:
    """Print what three made-up queries find before and after."""
    encoders = {"before": CachedEncoder(Encoder(base, pooling=pooling)), "after": CachedEncoder(Encoder(after))}
    scores = {name: unit_rows(e.encode(QUERIES)) @ unit_rows(e.encode(documents)).T for name, e in encoders.items()}
    for place, query in enumerate(QUERIES):
        table = Table(
            "", "", "cosine", title=f"Query: {query}", title_justify="left", title_style="bold", show_header=False
        )
        for name, cosines in scores.items():
            for rank, row in enumerate(np.argsort(-cosines[place])[:3]):
                shown = documents[row] if len(documents[row]) <= 80 else documents[row][:77] + "..."
                table.add_row(name if rank == 0 else "", shown.replace("[", "\\["), f"{cosines[place, row]:.2f}")
        console.print(table)


def show_isotropy(record: Adaptation) -> None:
    """Print the label-free figures before and after."""
    table = Table("label-free figure", "before", "after")
    for name, description in FIGURES.items():
        table.add_row(description, f"{record.before[name]:.3g}", f"{record.after[name]:.3g}")
    console.print(table)


def show_use(folder: Path) -> None:
    """Print how the saved model is loaded, without embedlift."""
    console.print(f"The adapted model lies in {folder}. Plain sentence-transformers loads it:\n", highlight=False)
    console.print("    from sentence_transformers import SentenceTransformer", highlight=False)
    console.print(f'    model = SentenceTransformer("{folder}")', highlight=False)
    console.print('    vectors = model.encode(["Open a file.", "Close it again."])', highlight=False)


if __name__ == "__main__":
    main()
