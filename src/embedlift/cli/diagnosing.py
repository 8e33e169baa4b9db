"""``embedlift diagnose``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from embedlift.cli import console, options
from embedlift.errors import InputError

if TYPE_CHECKING:
    from embedlift.corpus import Row
    from embedlift.evaluation.diagnosis import Diagnosis
    from embedlift.evaluation.diagnosis_report import Finding


@options.with_encoder_flags
def diagnose(
    source: Annotated[
        str, typer.Argument(metavar="MODEL|VECTORS.npy", help="A model, as for adapt, or vectors, shape (N, D).")
    ],
    corpus: Annotated[
        Path | None,
        typer.Option(help="Texts of your kind: .txt, .csv, .tsv, .jsonl or .parquet; of VECTORS.npy, a text a row."),
    ] = None,
    column: options.Column = None,
    sample: Annotated[
        int, typer.Option(help="Texts that a model encodes; rows that pairs are taken from.", metavar="N", min=2)
    ] = 5000,
    duplicates_above: Annotated[
        float | None,
        typer.Option(help="Cosine of near-duplicates; by default 20 times nearer than the median.", metavar="COSINE"),
    ] = None,
    seed: options.Seed = 0,
    cache: options.Cache = True,
    json_file: options.Json = None,
    **encoder: Any,
) -> None:
    """Say what is wrong with a model's vectors, without labels: why all cosines are high, and what to do."""
    from embedlift.evaluation import diagnosis_report, diagnostics
    from embedlift.record import library_versions

    if source.endswith(".npy"):
        if options.any_encoder_flag(encoder):
            raise InputError("--pooling, --layers, --dtype and the like are for a model, not for a file of vectors")
        vectors, rows = _read(Path(source), corpus, column)
        adapt = ["fit", "whitening", source, "-o", "T"]
    else:
        vectors, rows = _encode(source, corpus, column, encoder, sample, seed, cache=cache)
        named = [] if column is None else ["--column", column]
        adapt = ["adapt", source, "--corpus", str(corpus), *named, "--method", "whitening", "--output", "DIR"]
    texts, places = (None, None) if rows is None else zip(*rows, strict=True)
    diagnosis = diagnostics.diagnose(
        vectors, texts, places=places, sample=sample, duplicate_cosine=duplicates_above, seed=seed
    )
    said = diagnosis_report.findings(diagnosis, shlex.join(["embedlift", *adapt]), str(json_file or "FILE.json"))
    if json_file is not None:
        settings = encoder | {"source": source, "corpus": corpus and str(corpus), "column": column}
        settings |= {"sample": sample, "duplicates_above": duplicates_above, "seed": seed}
        diagnosis_report.write_json(json_file, diagnosis, said, settings, library_versions())
    _print(source, diagnosis, said)


def _read(path: Path, corpus: Path | None, column: str | None) -> tuple[Any, list[Row] | None]:
    from embedlift.bulk import read_vectors
    from embedlift.corpus import read_rows

    vectors = read_vectors(path)
    if corpus is None:
        return vectors, None
    rows = list(read_rows(corpus, column))
    if len(rows) != len(vectors):
        raise InputError(
            f"{corpus} has {len(rows)} rows, {path} has {len(vectors)}: row i must be the vector of text i"
        )
    return vectors, rows


def _encode(
    model: str,
    corpus: Path | None,
    column: str | None,
    encoder: dict[str, Any],
    sample: int,
    seed: int,
    *,
    cache: bool,
) -> tuple[Any, list[Row]]:
    """Encode a sample of the distinct texts of the corpus."""
    from embedlift.corpus import read_rows

    if corpus is None:
        raise InputError(f"{model} is a model: give texts of your kind with --corpus (vectors are files *.npy)")
    distinct: dict[str, Row] = {}
    for row in read_rows(corpus, column):
        if row.text.strip():
            distinct.setdefault(row.text, row)
    rows = list(distinct.values())
    if len(rows) < 2:
        raise InputError(f"{corpus}: {len(rows)} distinct texts that are not blank: a diagnosis needs at least 2")
    with console.progress() as progress:
        from embedlift.cache import CachedEncoder
        from embedlift.encoder import Encoder, refuse_non_finite
        from embedlift.functional.sampling import sample_places

        rows = [rows[place] for place in sample_places(len(rows), sample, seed)]
        loaded = Encoder(model, **encoder)
        encodes = CachedEncoder(loaded) if cache else loaded
        vectors = encodes.encode([row.text for row in rows], progress=progress)
    refuse_non_finite(vectors, lambda row: rows[row].where)
    return vectors, rows


def _print(source: str, diagnosis: Diagnosis, said: list[Finding]) -> None:
    from embedlift.evaluation.diagnosis_report import SHOWN_PERCENTILES, figures

    size = f"{diagnosis.rows:,} vectors of {diagnosis.dimension} dimensions"
    console.say(f"{source}: {size}; pairs from {diagnosis.sample:,} of them")
    table = Table("figure", "value", "if even", "how to read it")
    for figure in figures(diagnosis):
        table.add_row(*map(escape, (figure.name, figure.value, figure.even, figure.reading)))
    console.out.print(table)
    scores = Table("percentile", "cosine", "mean subtracted", "of 10,000 random pairs above", title="Random pairs")
    scale, centred = diagnosis.cosines.percentiles, diagnosis.centred
    for level in filter(scale.is_measured, SHOWN_PERCENTILES):
        apart = "undefined" if centred is None else f"{centred.percentiles.score_at(level):.3f}"
        scores.add_row(f"{level:g} %", f"{scale.score_at(level):.3f}", apart, f"{100 * (100 - level):,.0f}")
    console.out.print(scores)
    for finding in said:
        console.out.print(f"[bold]{finding.about}:[/] {escape(finding.text)}", highlight=False)
        for command in finding.commands:
            console.say(f"    {command}")
