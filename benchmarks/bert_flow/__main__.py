"""The experiments of the BERT-flow paper, repeated on the models at hand; no label is used in any fit.

Usage: PYTHONPATH=benchmarks python -m bert_flow EXPERIMENT --data ../shared/data [--bert FOLDER] [--json FILE]

EXPERIMENT: seven-sets, poolings, ablation, curve, qnli, edit-distance, anisotropy (these want --bert), minilm, smollm2,
ablation-smollm2, curve-smollm2. Vectors are kept in $EMBEDLIFT_CACHE, so each model reads each sentence once.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("TQDM_DISABLE", "1")  # the GGUF reader draws bars of its own

import transformers

from bert_flow import anisotropy, likelihood, pairs, similarity
from bert_flow.material import Report

WITH_BERT = {
    "seven-sets": similarity.seven_sets,
    "poolings": similarity.poolings,
    "ablation": likelihood.ablation,
    "curve": likelihood.curve,
    "qnli": pairs.qnli,
    "edit-distance": pairs.edit_distance,
    "anisotropy": anisotropy.word_embeddings,
}
WITHOUT_BERT = {
    "minilm": similarity.minilm,
    "smollm2": similarity.smollm2,
    "ablation-smollm2": likelihood.ablation_smollm2,
    "curve-smollm2": likelihood.curve_smollm2,
}


def main() -> None:
    """Run one experiment."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiment", choices=[*WITH_BERT, *WITHOUT_BERT])
    parser.add_argument("--data", type=Path, required=True, help="folder with sts/, stsb/, sick/, qnli/, corpora/")
    parser.add_argument("--bert", help="a BERT-like model: folder or hub id")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    report = Report(given.json)
    if given.experiment in WITHOUT_BERT:
        WITHOUT_BERT[given.experiment](given.data, given.seeds, report)
    elif given.bert is None:
        parser.error(f"{given.experiment} needs --bert")
    else:
        WITH_BERT[given.experiment](given.data, given.bert, given.seeds, report)


if __name__ == "__main__":
    main()
