"""The methods that are compared: maps of sentence vectors, fitted without labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from embedlift.transforms import Flow, Whitening

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Map(Protocol):
    """Fitted on vectors, maps vectors."""

    def fit(self, X: NDArray[np.float32]) -> object:
        """Fit on (N, D)."""
        ...

    def transform(self, X: NDArray[np.float32]) -> NDArray[np.floating]:
        """Map (N, D) to (N, K)."""
        ...


class Raw:
    """No map."""

    def fit(self, X: NDArray[np.float32]) -> Raw:
        """Do nothing."""
        return self

    def transform(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return ``X``."""
        return X


class Standardised:
    """Each dimension to mean 0 and standard deviation 1: "standard normalisation" in the paper."""

    def fit(self, X: NDArray[np.float32]) -> Standardised:
        """Take mean and deviation."""
        self._mean, std = X.mean(0), X.std(0)
        self._std = np.where(std == 0, 1, std)
        return self

    def transform(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale (N, D)."""
        return (X - self._mean) / self._std


class WithoutTopDirections:
    """Centred, and projected away from the k loudest directions: "nulling away top-k singular vectors".

    References:
        Mu, Viswanath (2018), All-but-the-Top, arXiv:1702.01417, algorithm 1.
    """

    def __init__(self, k: int) -> None:
        self.k = k

    def fit(self, X: NDArray[np.float32]) -> WithoutTopDirections:
        """Find the directions."""
        self._mean = X.mean(0)
        centred = X - self._mean
        self._top = np.linalg.eigh(centred.T @ centred)[1][:, -self.k :]
        return self

    def transform(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Project (N, D)."""
        centred = X - self._mean
        return centred - (centred @ self._top) @ self._top.T


class Method(NamedTuple):
    """A method: its name, how to make it from a seed, and whether the seed matters."""

    name: str
    make: Callable[[int], Map]
    random: bool = False


RAW = Method("raw", lambda _: Raw())
WHITENING = Method("whitening", lambda _: Whitening())
FLOW_PAPER = Method("flow, preset paper", lambda seed: Flow.preset("paper", seed=seed), random=True)
FLOW_DEFAULT = Method("flow, preset default", lambda seed: Flow(seed=seed), random=True)

SHORT = (RAW, WHITENING, FLOW_PAPER, FLOW_DEFAULT)
ALL = (
    RAW,
    Method("standardised", lambda _: Standardised()),
    Method("top 1 nulled", lambda _: WithoutTopDirections(1)),
    Method("top 3 nulled", lambda _: WithoutTopDirections(3)),
    Method("top 10 nulled", lambda _: WithoutTopDirections(10)),
    WHITENING,
    FLOW_PAPER,
    FLOW_DEFAULT,
)
