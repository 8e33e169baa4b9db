"""A case of the study: one model on one task, with the evidence and the true quality of every candidate."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from embedlift.choosing.candidates import Candidate, layer_mixes, transforms
from embedlift.choosing.search import fitted, weigh
from embedlift.choosing.states import States
from embedlift.functional.isotropy import effective_rank
from embedlift.functional.moments import Moments
from embedlift.transforms import Flow

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.choosing.evidence import Evidence
    from label_free_choice.encode import Material
    from label_free_choice.tasks import Task

_SEED = 0

#: Passes over about a thousand vectors; the flow stops early by its held-out likelihood.
_FLOW_EPOCHS = 40


@dataclass(frozen=True)
class Case:
    """A model on a task.

    Attributes:
        model: Its name.
        task: Its name.
        candidates: The plain model first.
        evidence: Of each candidate, from unlabelled text.
        spectra: Label-free figures of the literature of each candidate: name -> shape (c,).
        truth: Quality of each candidate by the task's labels, x 100, shape (c,).
        flow: The same of first-last-avg after a flow.
    """

    model: str
    task: str
    candidates: list[Candidate]
    evidence: list[Evidence]
    spectra: dict[str, NDArray[np.float64]]
    truth: NDArray[np.float64]
    flow: float

    def place(self, mix: tuple[int, ...] | None, transform: str) -> int:
        """Return the place of a candidate."""
        return next(i for i, item in enumerate(self.candidates) if (item.mix, item.transform) == (mix, transform))


def case_file(folder: Path, model: str, task: str) -> Path:
    """Return where a case is kept."""
    return folder / f"{model}--{task.replace(' ', '-')}.pickle"


def make_case(model: str, task: Task, found: Material, folder: Path) -> Case:
    """Return the case, from ``folder`` if it was made before."""
    path = case_file(folder, model, task.name)
    if path.exists():
        with path.open("rb") as file:
            return pickle.load(file)  # made by this script a moment ago
    layers = len(found.states.pooled) - 1
    corpus = States(
        {state: vectors[task.corpus] for state, vectors in found.states.pooled.items()},
        found.states.own[task.corpus],
        found.states.normalised,
    )
    evidence: dict[Candidate, Evidence] = {}
    truth: list[float] = []
    spectra: list[tuple[float, float]] = []
    for mix, pooling in layer_mixes(layers, own_is_mean=True).items():
        evidence |= weigh(corpus, found.shortened, found.probes, mix, pooling, _SEED)
        vectors, moments = found.states.vectors(mix), Moments.of(corpus.vectors(mix))
        loudness = np.clip(np.linalg.eigvalsh(moments.covariance()), 0, None)
        for name, make in transforms(vectors.shape[1]).items():
            mapped = vectors if make is None else fitted(make(), moments).transform(vectors)
            truth.append(task.score(mapped))
            # Whitened vectors are uncorrelated: their variances are the eigenvalues.
            whitened = mapped[task.corpus].var(axis=0, dtype=np.float64) if name.startswith("whitening") else loudness
            spectra.append(_spectrum_figures(whitened))
    figures = dict(zip(("RankMe", "IsoScore"), np.array(spectra).T, strict=True))
    first_last = (1, layers)
    flow = Flow(epochs=_FLOW_EPOCHS, seed=_SEED).fit(corpus.vectors(first_last))
    flowed = task.score(flow.transform(found.states.vectors(first_last)))
    case = Case(model, task.name, list(evidence), list(evidence.values()), figures, np.array(truth), flowed)
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pickle.dump(case, file)
    return case


def _spectrum_figures(eigenvalues: NDArray[np.float64]) -> tuple[float, float]:
    """Return RankMe (Garrido et al. 2023, eq. 2) and IsoScore (Rudman et al. 2022, algorithm 1)."""
    dimension = len(eigenvalues)
    scaled = np.sqrt(dimension) * eigenvalues / np.linalg.norm(eigenvalues)
    defect = np.linalg.norm(scaled - 1) / np.sqrt(2 * (dimension - np.sqrt(dimension)))
    used = (dimension - defect**2 * (dimension - np.sqrt(dimension))) ** 2 / dimension**2
    return effective_rank(np.sqrt(eigenvalues)), float((dimension * used - 1) / (dimension - 1))
