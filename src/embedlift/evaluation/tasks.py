"""What every labelled task owes: its texts, and its scores once they have vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from embedlift.evaluation.results import Score


class Encodes(Protocol):
    """What an evaluation needs of a model: texts -> vectors, shape (N, D), in the order of the texts."""

    def encode(
        self, texts: Sequence[str], *, progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """Return the vectors of ``texts``."""
        ...


class Vectors:
    """The vectors of distinct texts, looked up by text.

    Args:
        texts: Distinct texts.
        matrix: Their vectors, shape (N, D).
    """

    def __init__(self, texts: Sequence[str], matrix: NDArray[np.floating]) -> None:
        self._row = {text: row for row, text in enumerate(texts)}
        self._matrix = matrix

    def of(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Return the vectors of ``texts``, shape (n, D), in their order."""
        return self._matrix[[self._row[text] for text in texts]]

    def zeros(self, texts: Iterable[str]) -> int:
        """Return how many distinct ones of ``texts`` have a zero vector, whose cosine counts as 0."""
        rows = list({self._row[text] for text in texts})
        return int((~self._matrix[rows].any(axis=1)).sum())

    def zeros_note(self, texts: Iterable[str]) -> str | None:
        """Return what must stand beside a score by cosine if some of ``texts`` have a zero vector."""
        zeros = self.zeros(texts)
        return f"{zeros} sentence{'s' * (zeros > 1)} with a zero vector, whose cosine counts as 0" if zeros else None


class Task(Protocol):
    """A task with labels: STS, pairs to classify, retrieval, sentences to classify."""

    @property
    def name(self) -> str:
        """Such as ``STS12``."""
        ...

    @property
    def split(self) -> str:
        """Such as ``test``."""
        ...

    def texts(self) -> Iterable[str]:
        """Return every text that the task needs a vector of; repeats are allowed."""
        ...

    def scores(self, vectors: Vectors, model: str, seed: int) -> list[Score]:
        """Return the scores of ``model``, whose vectors are ``vectors``; ``seed`` is that of the bootstrap.

        The same seed must give the same resamples for every model: differences of two models' draws are then the
        draws of a paired bootstrap.
        """
        ...


def evaluate(
    encoder: Encodes,
    model: str,
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Score]:
    """Score a model on ``tasks``; each distinct text is encoded once, however many tasks share it.

    Args:
        encoder: Gives the vectors.
        model: Name for the records.
        tasks: From :mod:`embedlift.evaluation.suites`, or made by hand.
        seed: Of the bootstrap.
        progress: Passed to the encoder.
    """
    texts = list(dict.fromkeys(text for task in tasks for text in task.texts()))
    vectors = Vectors(texts, encoder.encode(texts, progress=progress))
    return [score for task in tasks for score in task.scores(vectors, model, seed)]
