"""How a flow is trained: batches, learning rate, early stopping, and what happens if the loss runs away."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from sklearn.exceptions import ConvergenceWarning

from embedlift.functional.additive_stack import AdditiveStackGradient
from embedlift.functional.flow_gradient import AutogradGradient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from embedlift.functional.adam import ClippedAdam
    from embedlift.functional.flow_gradient import FlowGradient
    from embedlift.functional.glow import Glow
    from embedlift.transforms.rows import RandomBatches

_RUNAWAY_BITS = 1.0
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Plan:
    """How long to train, and how fast.

    Attributes:
        epochs: Most passes over the rows.
        batch_size: Rows per step.
        lr: Highest learning rate.
        warmup: Steps in which it rises from 0, at most half of all steps.
        decay: Whether it falls to 0 at the end of the last epoch.
        patience: Epochs in a row without a better held-out loss that are borne.
    """

    epochs: int
    batch_size: int
    lr: float
    warmup: int
    decay: bool
    patience: int

    def learning_rate(self, ever: int, done: int, total: int) -> float:
        """Return the learning rate after ``done`` of ``total`` steps; ``ever`` counts earlier runs too."""
        rising = min(1.0, (ever + 1) / (min(self.warmup, total // 2) + 1))
        falling = 1 - done / total if self.decay else 1.0
        return self.lr * rising * falling


@dataclass
class Training:
    """A flow on its way.

    Attributes:
        glow: The flow; :meth:`run` leaves the best state in it.
        optimiser: Its moments go on from one run to the next.
        steps: Steps taken so far.
        watched_losses: Bits per dimension before the last run and after each of its epochs, on the held-out
            rows or, if there are none, on the sample.
    """

    glow: Glow
    optimiser: ClippedAdam
    steps: int = 0
    watched_losses: list[float] = field(default_factory=list)

    def run(self, batches: RandomBatches, plan: Plan) -> None:
        """Train and keep the state that is best on held-out rows, or the last one if nothing is held out.

        A loss that runs away ends the training with a warning; the last state before it did is kept.
        """
        stopping = len(batches.held_out) > 0
        watched = torch.from_numpy(batches.held_out if stopping else batches.sample)
        fast = AdditiveStackGradient.supports(self.glow)
        with one_thread() if fast else nullcontext():
            gradient = AdditiveStackGradient(self.glow) if fast else AutogradGradient(self.glow)
            losses = self.watched_losses = [self._loss(watched)]
            kept = self._state(gradient)
            for epoch in range(plan.epochs):
                finite = self._epoch(gradient, batches, plan, epoch)
                gradient.write_to(self.glow)
                losses.append(self._loss(watched) if finite else math.inf)
                if not losses[-1] <= losses[0] + _RUNAWAY_BITS:
                    _warn_of_runaway(epoch, plan)
                    break
                if not stopping or losses[-1] < min(losses[:-1]):
                    kept = self._state(gradient)
                elif len(losses) - 1 - losses.index(min(losses)) > plan.patience:
                    break
            gradient.parameters.copy_(kept[0])
            self.optimiser.first, self.optimiser.second, self.steps = kept[1:]
            gradient.write_to(self.glow)

    def _epoch(self, gradient: FlowGradient, batches: RandomBatches, plan: Plan, epoch: int) -> bool:
        """Take the steps of one epoch; return whether every loss was finite."""
        per_epoch = batches.count // plan.batch_size
        for number, batch in enumerate(batches.epoch(plan.batch_size)):
            loss = gradient.loss_and_gradient(torch.from_numpy(batch))
            if not math.isfinite(loss):
                return False
            lr = plan.learning_rate(self.steps, epoch * per_epoch + number, plan.epochs * per_epoch)
            self.optimiser.step(gradient.parameters, gradient.gradient, lr)
            self.steps += 1
        return True

    def _state(self, gradient: FlowGradient) -> tuple[Tensor, Tensor, Tensor, int]:
        moments = self.optimiser.first.clone(), self.optimiser.second.clone()
        return gradient.parameters.clone(), *moments, self.steps

    @torch.no_grad()
    def _loss(self, rows: Tensor) -> float:
        parts = [self.glow.bits_per_dimension(part).double() for part in torch.split(rows, _ROWS_AT_ONCE)]
        return float(torch.cat(parts).mean())


def _warn_of_runaway(epoch: int, plan: Plan) -> None:
    warnings.warn(
        f"the loss ran away in epoch {epoch + 1}, so training stopped and the state before it was kept: "
        f"lower lr (now {plan.lr:g}) or raise warmup (now {plan.warmup} steps), or, if the numbers in the "
        "vectors are tiny, multiply them all by one factor",
        ConvergenceWarning,
        stacklevel=4,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Products of a batch with 32 columns are too small to share: threads would wait for each other.

    It also makes what is computed inside the same, byte for byte, whatever number of threads is set.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
