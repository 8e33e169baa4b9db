"""One pass over all layers of a model, for a task's sentences and their shortened copies; kept on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from embedlift.choosing.probes import Probes, make_probes
from embedlift.choosing.states import States, StatesEncoder, mixable_layers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from embedlift.encoder import Encoder
    from label_free_choice.tasks import Task

_SEED = 0


@dataclass(frozen=True)
class Material:
    """What is known of a task's sentences in a model.

    Attributes:
        states: Of the task's texts.
        probes: The shortened copies; ``anchors`` are places in the task's corpus.
        shortened: States of the copies.
    """

    states: States
    probes: Probes
    shortened: States


def material(name: str, load: Callable[[], Encoder], task: Task, anchors: int, folder: Path) -> Material:
    """Return a task's material from ``folder``, or make it with the model that ``load`` gives."""
    probes = make_probes([task.texts[place] for place in task.corpus], anchors, _SEED)
    groups = {"texts": task.texts, "shortened": probes.shortened}
    path = folder / f"{name}--{task.name.replace(' ', '-')}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        arrays = _encoded(load(), groups)
        beside = path.with_suffix(".partial.npz")
        np.savez(beside, **arrays)  # type: ignore[arg-type]
        beside.rename(path)
    with np.load(path) as found:
        states = {kind: _states(found, kind) for kind in groups}
    if len(states["texts"].own) != len(task.texts) or len(states["shortened"].own) != len(probes.shortened):
        raise SystemExit(f"{path} was made with other settings: remove it")
    return Material(states["texts"], probes, states["shortened"])


def _encoded(encoder: Encoder, groups: dict[str, list[str]]) -> dict[str, NDArray[np.generic]]:
    states = StatesEncoder(encoder, tuple(range(mixable_layers(encoder.model) + 1)))
    arrays: dict[str, NDArray[np.generic]] = {}
    for kind, texts in groups.items():
        found = states.encode(texts)
        arrays[f"{kind}.states"] = np.stack([found.pooled[state] for state in states.kept], axis=1)
        arrays[f"{kind}.own"] = found.own
        arrays["normalises"] = np.array(found.normalised)
    return arrays


def _states(found: dict[str, NDArray[np.float32]], kind: str) -> States:
    layers = found[f"{kind}.states"]
    return States(
        {state: layers[:, state] for state in range(layers.shape[1])}, found[f"{kind}.own"], bool(found["normalises"])
    )
