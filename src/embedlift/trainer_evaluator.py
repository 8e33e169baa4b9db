"""Tasks with labels as an evaluator for sentence-transformers' trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator

from embedlift.encoder import Encoder
from embedlift.errors import InputError
from embedlift.evaluation.tasks import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentence_transformers import SentenceTransformer

    from embedlift.evaluation.tasks import Task


class TaskEvaluator(SentenceEvaluator):
    """Scores a model in training, or a finished one, on tasks; each distinct text is encoded once for all of them.

    The metrics are named ``NAME_TASK_SPLIT_METRIC``, with the subset before the metric where a task has several. The
    primary metric, ``NAME_mean``, is the mean over tasks of each one's first metric. An undefined score, such as that
    of a collapsed model, is left out, and counts as 0 in the mean: it must not win a comparison of checkpoints.

    Args:
        tasks: From :func:`embedlift.evaluation.suites.load`, or made by hand.
        name: Put before the metrics.
        seed: Of the bootstrap behind the intervals, which the trainer does not ask for.

    Raises:
        InputError: If there is no task.
    """

    def __init__(self, tasks: Sequence[Task], name: str = "", *, seed: int = 0) -> None:
        super().__init__()
        if not tasks:
            raise InputError("an evaluator needs at least one task")
        self.tasks = list(tasks)
        self.name = name
        self.seed = seed
        self.primary_metric = "mean"

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the metrics, and keep them for the model card; a model in training goes on training."""
        training = model.training
        scores = evaluate(Encoder(model), "model", self.tasks, seed=self.seed)
        model.train(training)
        metrics: dict[str, Any] = {}
        first: dict[tuple[str, str], float] = {}
        for score in scores:
            parts = [score.task, score.split, score.subset, score.metric]
            if score.score is not None:
                metrics["_".join(part for part in parts if part)] = score.score
            if score.subset is None:
                first.setdefault((score.task, score.split), score.score or 0.0)
        metrics["mean"] = sum(first.values()) / len(first)
        found: dict[str, float] = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(model, found, epoch, steps)
        return found
