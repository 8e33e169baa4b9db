"""Which rows go together in a training step: drawn once from the seed, so that a resumed run finds the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from embedlift.training.settings import TrainingSettings

#: Batches that are formed together where rows are grouped by length: the groups stay random.
_GROUP = 50


class Batches:
    """The batches of all epochs in order, as lists of rows.

    Every epoch is a new permutation. The last batch of an epoch may be smaller; a row that is left alone is left out
    of that epoch, since it would have nothing to be told from.

    Args:
        lengths: Of each row's text, in any unit, shape (N,).
        settings: ``batch_size``, ``epochs``, ``max_steps``, ``accumulate`` and ``group_by_length`` matter.
        seed: Of the permutations.

    Raises:
        InputError: If there are fewer rows than a batch has.
    """

    def __init__(self, lengths: NDArray[np.int64], settings: TrainingSettings, seed: int = 0) -> None:
        if len(lengths) < settings.batch_size:
            raise InputError(
                f"the corpus has {len(lengths)} rows to train on, fewer than a batch: "
                f"lower --batch-size (now {settings.batch_size}) or give more text"
            )
        self._lengths, self._settings, self._seed = lengths, settings, seed
        full, rest = divmod(len(lengths), settings.batch_size)
        self._per_epoch = full + (rest > 1)

    def __len__(self) -> int:
        total = self._per_epoch * self._settings.epochs
        steps = self._settings.max_steps
        return total if steps is None else min(total, steps * self._settings.accumulate)

    def __iter__(self) -> Iterator[list[int]]:
        left = len(self)
        for epoch in range(self._settings.epochs):
            for batch in self._epoch(np.random.default_rng([self._seed, epoch]))[:left]:
                left -= 1
                yield batch.tolist()

    def _epoch(self, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        size = self._settings.batch_size
        order = rng.permutation(len(self._lengths))
        if self._settings.group_by_length:
            group = size * _GROUP
            parts = [order[start : start + group] for start in range(0, len(order), group)]
            order = np.concatenate([part[np.argsort(self._lengths[part], kind="stable")] for part in parts])
        batches = [order[start : start + size] for start in range(0, len(order), size)][: self._per_epoch]
        if self._settings.group_by_length:
            batches = [batches[place] for place in rng.permutation(len(batches))]
        return batches
