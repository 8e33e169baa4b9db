"""The candidates: which layers are averaged, and what is fitted on their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from embedlift.transforms import Centering, Whitening

if TYPE_CHECKING:
    from collections.abc import Callable

#: Most single layers that are tried; deeper models are thinned out in their middle.
_MOST_LAYERS = 12

#: Dimensions that whitening may be cut to, where the vectors have clearly more.
_DIMENSIONS = (64, 128, 256)


@dataclass(frozen=True)
class Candidate:
    """One way to adapt the model.

    Attributes:
        pooling: For :meth:`embedlift.layers.PoolingSpec.parse`; None is the model's own.
        mix: The hidden states that are averaged; None is the model's own vector.
        transform: Its name among :func:`transforms`.
    """

    pooling: str | None
    mix: tuple[int, ...] | None
    transform: str

    @property
    def name(self) -> str:
        """Return it in words."""
        return f"{self.pooling or 'own pooling'}, {self.transform}"


def layer_mixes(layers: int, *, own_is_mean: bool) -> dict[tuple[int, ...] | None, str | None]:
    """Return the layer mixes of a model with ``layers`` layers, and their names; the model's own pooling first.

    Single layers, the averages of the first ones, and the averages of the last layer with the one before, the first
    and the embedding output.
    """
    last = layers
    singles = list(range(layers + 1))
    while len(singles) > _MOST_LAYERS:
        middle = singles[3:-3]
        singles = singles[:3] + middle[1::2] + singles[-3:]
    sets: list[tuple[int, ...]] = [(state,) for state in singles]
    sets += [(0, 1), (0, 1, 2), (0, last), (1, last), (last - 1, last)]
    mixes: dict[tuple[int, ...] | None, str | None] = {None: None}
    for states in sets:
        fits = 0 <= min(states) and max(states) <= last and len(set(states)) == len(states)
        if layers > 0 and fits and not (own_is_mean and states == (last,)):
            mixes[states] = "mean:" + ",".join(map(str, states))
    return mixes


def transforms(dimension: int) -> dict[str, Callable[[], Any] | None]:
    """Return what may follow vectors of ``dimension`` dimensions: name -> maker of an unfitted transform, or None."""
    found: dict[str, Callable[[], Any] | None] = {"none": None, "center": Centering}
    for exponent in (0.5, 0.75, 1.0):
        found[f"whitening exponent={exponent:g}"] = partial(Whitening, exponent=exponent, shrinkage="oas")
    for kept in _DIMENSIONS:
        if kept <= 0.75 * dimension:
            found[f"whitening dim={kept}"] = partial(Whitening, kept, shrinkage="oas")
    return found
