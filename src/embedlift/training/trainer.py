"""An objective and texts -> a trained encoder: the only file that knows SentenceTransformerTrainer."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler
from transformers import PrinterCallback, TrainerCallback

from embedlift.errors import InputError
from embedlift.files import written_whole
from embedlift.objectives import PaperAdamW, add_weight_regulariser, decay_groups, linear_warmup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sentence_transformers import SentenceTransformer
    from torch import Tensor

    from embedlift.training.batches import Batches
    from embedlift.training.checkpoints import CheckpointFolder
    from embedlift.training.guidance import SelfGuidedObjective
    from embedlift.training.settings import TrainingSettings

_WEIGHTS = "weights.safetensors"
_LOGGED = 50  # points of the loss curve


@dataclass(frozen=True)
class Trained:
    """What happened while a model was trained.

    Attributes:
        steps: Steps made in all, those of an interrupted run included.
        resumed_from_step: The checkpoint from which this run went on, or None.
        best_step: The step whose weights were kept by labels, or None: those of the last step.
        best_score: Its score.
        losses: Mean contrastive loss by step, over the steps since the one before.
    """

    steps: int
    resumed_from_step: int | None
    best_step: int | None = None
    best_score: float | None = None
    losses: dict[int, float] = field(default_factory=dict)


class Diverged(InputError):
    """Training cannot go on: the loss, or its gradient, is no longer a number."""


def train(
    model: SentenceTransformer,
    objective: SelfGuidedObjective,
    columns: dict[str, list[str]],
    batches: Batches,
    *,
    folder: CheckpointFolder,
    seed: int = 0,
    prompt: str | None = None,
    score: Callable[[], float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Train ``model`` in place, going on from the last whole checkpoint in ``folder`` if there is one.

    Args:
        model: The model that ``objective`` was made for.
        objective: Gives the loss; its settings are those of the run.
        columns: Texts by column name: one, or two for pairs, of equal length.
        batches: Rows of each batch, in order.
        folder: For checkpoints.
        seed: Of dropout and sampled layers.
        prompt: Put before every text.
        score: Judges the model as it is; then the weights with the highest score are kept, not the last.
        progress: Called with (steps done, steps in all).

    Raises:
        Diverged: If the loss is not a number; the last checkpoint stays.
        InputError: If memory does not suffice.
    """
    from datasets import Dataset

    settings = objective.settings
    run = _Run(model, objective, len(batches), folder, score, progress)
    checkpoint = folder.newest()
    longest = model.max_seq_length
    with _own_random_state(), _readable_memory_errors(settings):
        model.max_seq_length = min(settings.train_length, longest or settings.train_length)
        try:
            trainer = _Trainer(
                run,
                batches,
                args=_arguments(model, settings, folder, seed, prompt, run.total, selecting=score is not None),
                train_dataset=Dataset.from_dict(columns),
            )
            if trainer.args.world_size > 1:
                raise InputError("training in several processes is not there yet: start a single one")
            if checkpoint is None:
                run.judge(0)
            trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
        finally:
            model.max_seq_length = longest
            model.eval()
    best = run.restore_best()
    losses = {entry["step"]: entry["loss"] for entry in trainer.state.log_history if "loss" in entry}
    return Trained(run.total, checkpoint.step if checkpoint else None, *best, losses)


class _Run(TrainerCallback):
    """One training run: what must happen around the optimiser's steps."""

    def __init__(
        self,
        model: SentenceTransformer,
        objective: SelfGuidedObjective,
        batches: int,
        folder: CheckpointFolder,
        score: Callable[[], float] | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.model, self.objective, self.folder, self.progress = model, objective, folder, progress
        self.settings = objective.settings
        self.total = -(-batches // self.settings.accumulate)
        self.weights = objective.trained_parameters()
        self.regulariser = torch.zeros(())
        self._score, self._best_file = score, folder.path / "best.safetensors"
        self._every = self.settings.steps_between_checkpoints(selecting=score is not None)

    def optimiser(self) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
        """Return the paper's optimiser over encoder and head, and its schedule."""
        groups = decay_groups(self.weights.values(), self.settings.weight_decay)
        optimiser = PaperAdamW(groups, self.settings.lr)
        return optimiser, linear_warmup(optimiser, self.total, self.settings.warmup)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Add the regulariser's gradient, clip encoder and head together, and stop where there is no number."""
        self.finish_gradients(state.global_step + 1)

    def finish_gradients(self, step: int = 0) -> None:
        """What lies between the backward pass and the optimiser's step."""
        if self.settings.lora is None:  # where the weights themselves stay as they are
            trained, frozen = self.objective.encoder.parameters(), self.objective.guide.parameters()
            self.regulariser = add_weight_regulariser(trained, frozen, self.settings.reg_weight)
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.settings.clip)
        if not bool(torch.isfinite(norm + self.objective.last_loss)):
            raise Diverged(self._divergence(step))

    def _divergence(self, step: int) -> str:
        last, work = self.folder.newest(), self.folder.path.parent
        kept = f" (the checkpoint of step {last.step} is kept; remove {work} to start again)" if last else ""
        what = f"the loss or its gradient is not a number at step {step} (loss {self.objective.last_loss.item():.3g})"
        return f"{what}: lower --lr or raise --temperature{kept}"

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Forget the gradients, and judge the weights where that is due."""
        for tensor in self.weights.values():
            tensor.grad = None
        if state.global_step % self._every == 0 or state.global_step == self.total:
            self.judge(state.global_step)
        if self.progress is not None:
            self.progress(state.global_step, self.total)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Seal what the trainer wrote."""
        self.folder.seal(Path(args.output_dir) / f"checkpoint-{state.global_step}", state.global_step)

    def judge(self, step: int) -> None:
        """Keep the weights as they are if they score higher than any before."""
        if self._score is None:
            return
        self.model.eval()
        score = self._score()
        best = self._best()
        if best is None or score > best[1]:
            with written_whole(self._best_file) as beside:
                save_file(self.state(), beside, metadata={"step": str(step), "score": repr(score)})

    def restore_best(self) -> tuple[int | None, float | None]:
        """Return to the best weights; their step and score, or Nones without scoring."""
        best = self._best() if self._score is not None else None
        if best is None:
            return None, None
        self.load(self._best_file)
        return best

    def _best(self) -> tuple[int, float] | None:
        if not self._best_file.exists():
            return None
        with safe_open(self._best_file, "pt") as file:
            facts = file.metadata()
        return int(facts["step"]), float(facts["score"])

    def state(self) -> dict[str, Tensor]:
        """Return all trained weights, the head's too."""
        return {name: tensor.detach().contiguous() for name, tensor in self.weights.items()}

    @torch.no_grad()
    def load(self, file: Path) -> None:
        """Set all trained weights."""
        for name, tensor in load_file(file).items():
            self.weights[name].copy_(tensor)


class _Trainer(SentenceTransformerTrainer):
    """The stock trainer, with checkpoints of the trained weights alone: those of the head too, which it would lose."""

    def __init__(self, run: _Run, batches: Batches, **options: Any) -> None:
        self._run, self._batches = run, batches
        super().__init__(model=run.model, loss=run.objective, optimizers=run.optimiser(), callbacks=[run], **options)
        self.remove_callback(PrinterCallback)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave the model card to this package, which tells more and asks no hub."""

    def get_batch_sampler(self, dataset: Any, batch_size: int, drop_last: bool, **_: Any) -> DefaultBatchSampler:
        """Return the batches of the run, whatever the trainer would draw."""
        return _Sampler(dataset, batch_size, drop_last, self._batches)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        target = Path(output_dir or self.args.output_dir)
        target.mkdir(parents=True, exist_ok=True)
        save_file(self._run.state(), target / _WEIGHTS)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self._run.load(Path(resume_from_checkpoint) / _WEIGHTS)


class _Sampler(DefaultBatchSampler):
    def __init__(self, dataset: Any, batch_size: int, drop_last: bool, batches: Batches) -> None:
        super().__init__(dataset, batch_size=batch_size, drop_last=drop_last)
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._batches)


def _arguments(
    model: SentenceTransformer,
    settings: TrainingSettings,
    folder: CheckpointFolder,
    seed: int,
    prompt: str | None,
    total: int,
    *,
    selecting: bool,
) -> SentenceTransformerTrainingArguments:
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder.desk),
        num_train_epochs=1,  # the batches of all epochs follow each other: to resume is to skip the first ones
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        max_grad_norm=0.0,  # clipped with the head, after the regulariser
        save_strategy="steps",
        save_steps=settings.steps_between_checkpoints(selecting=selecting),
        logging_steps=max(1, total // _LOGGED),
        logging_nan_inf_filter=False,
        seed=seed,
        prompts=prompt,
        use_cpu=model.device.type == "cpu",
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
    )


@contextmanager
def _own_random_state() -> Iterator[None]:
    """Leave the caller's random generators as they were: the trainer seeds them all."""
    python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(of_numpy)  # noqa: NPY002


@contextmanager
def _readable_memory_errors(settings: TrainingSettings) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # on a CPU torch has no class of its own for it
        words = str(error).lower()
        if not (isinstance(error, MemoryError) or "out of memory" in words or "allocate memory" in words):
            raise
        raise InputError(
            f"out of memory while training: lower --batch-size (now {settings.batch_size}), --train-length (now "
            f"{settings.train_length}) or --head-width (now {settings.head_width}), or pass --gradient-checkpointing"
        ) from error
