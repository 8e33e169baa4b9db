"""Two small models that the study trains: one without labels (SimCSE), one with them (STS-B)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from embedlift.encoder import Encoder

if TYPE_CHECKING:
    from pathlib import Path

    from sentence_transformers import SentenceTransformer

_LENGTH, _BATCH, _LR = 40, 32, 5e-5


def train_simcse(shared: Path, output: Path, steps: int = 150) -> None:
    """Train rampart-bert to find a sentence under another dropout mask among the batch (Gao et al. 2021)."""
    lines = (shared / "data/corpora/wikipedia.txt").read_text(encoding="utf-8").splitlines()
    rng = np.random.default_rng(0)
    batches = [[lines[i] for i in rng.integers(len(lines), size=_BATCH)] for _ in range(steps)]

    def loss(model: SentenceTransformer, step: int) -> torch.Tensor:
        first, second = (_vectors(model, batches[step]) for _ in range(2))
        logits = functional.normalize(first) @ functional.normalize(second).T / 0.05
        return functional.cross_entropy(logits, torch.arange(_BATCH))

    _train(shared, output, steps, loss)


def train_on_stsb(shared: Path, output: Path, steps: int = 150) -> None:
    """Regress the cosine of pairs on their label, as supervised Sentence-BERT does (Reimers, Gurevych 2019)."""
    rows = [line.split("\t") for line in (shared / "data/stsb/stsb_train.tsv").read_text(encoding="utf-8").splitlines()]
    order = np.random.default_rng(0).permutation(len(rows))

    def loss(model: SentenceTransformer, step: int) -> torch.Tensor:
        batch = [rows[order[i % len(rows)]] for i in range(step * _BATCH, (step + 1) * _BATCH)]
        gold = torch.tensor([float(row[0]) / 5 for row in batch])
        first, second = (_vectors(model, [row[side] for row in batch]) for side in (1, 2))
        return functional.mse_loss(functional.cosine_similarity(first, second), gold)

    _train(shared, output, steps, loss)


def _vectors(model: SentenceTransformer, texts: list[str]) -> torch.Tensor:
    return model(model.preprocess(texts))["sentence_embedding"]


def _train(shared: Path, output: Path, steps: int, loss: object) -> None:
    torch.manual_seed(0)
    model = Encoder(shared / "models/rampart-bert", max_length=_LENGTH).model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LR)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / 30) * max(0.0, 1 - step / steps)
    )
    for step in range(steps):
        value = loss(model, step)  # type: ignore[operator]
        optimiser.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model.max_seq_length = 128
    model.eval().save_pretrained(str(output), create_model_card=False)
