"""What the affine transforms share: streaming moments, the map itself, and its forms on disk and in torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from embedlift.errors import InputError
from embedlift.functional.dense_chain import DenseLayer
from embedlift.functional.moments import Moments
from embedlift.transforms.rows import checked_rows, finite_chunks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import nn


@dataclass(frozen=True)
class AffineMap:
    """The map z = W (x - mean), with the spectrum that it came from.

    Attributes:
        mean: Shape (D,).
        weight: W, shape (K, D).
        directions: The kept directions as unit rows, shape (k, D); none where the method looks at none.
        variances: Variances of the fitted vectors along them, largest first, shape (k,).
        effective_rank: Exponential of the entropy of the whole spectrum; NaN where there is none.
    """

    mean: NDArray[np.float64]
    weight: NDArray[np.float64]
    directions: NDArray[np.float64]
    variances: NDArray[np.float64]
    effective_rank: float


class AffineTransform(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A label-free transform that is affine and fitted on first and second moments alone.

    A subclass says in ``_solve`` how the map follows from the moments. The moments are kept, so
    ``partial_fit`` can go on at any time, and the map is solved when it is first needed after new data.

    Attributes:
        moments_: Count, mean and scatter of everything seen.
        n_features_in_: D.
    """

    #: Fewest vectors from which the method can be fitted.
    _min_samples = 1

    moments_: Moments
    n_features_in_: int
    _map: AffineMap | None = None

    @abstractmethod
    def _solve(self, moments: Moments) -> AffineMap:
        """Return the map that the moments call for."""

    def fit(self, X: ArrayLike, y: None = None) -> AffineTransform:
        """Fit on ``X``, shape (N, D): an array, or a memory map, which is read in pieces.

        Raises:
            InputError: If there are too few vectors, or if one holds NaN or infinity (its row is named).
        """
        self.__dict__.pop("moments_", None)
        for _, chunk in finite_chunks(checked_rows(self, X, reset=True)):
            self._accumulate(chunk)
        return self.fit_moments(self.moments_)

    def fit_moments(self, moments: Moments) -> AffineTransform:
        """Fit on vectors whose moments are known: several transforms of the same vectors need them only once.

        Raises:
            InputError: If there are too few vectors.
        """
        if moments.count < self._min_samples:
            raise InputError(
                f"{type(self).__name__} needs at least {self._min_samples} vectors, got n_samples = {moments.count}"
            )
        self.moments_, self.n_features_in_, self._map = moments, len(moments.mean), None
        self._solved()
        return self

    def partial_fit(self, X: ArrayLike, y: None = None) -> AffineTransform:
        """Add a batch of vectors, shape (n, D), to what has been seen; a batch may be a single vector."""
        for _, chunk in finite_chunks(checked_rows(self, X, reset=not hasattr(self, "moments_"))):
            self._accumulate(chunk)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Map ``X``, shape (N, D), to shape (N, K); float32 stays float32."""
        check_is_fitted(self, "moments_")
        parts = []
        for _, chunk in finite_chunks(checked_rows(self, X, reset=False)):
            mapped = (chunk - self._solved().mean.astype(chunk.dtype)) @ self._solved().weight.T.astype(chunk.dtype)
            parts.append(mapped)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def to_dense(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return (weight, bias) of the equal dense layer z = x @ weight.T + bias: shapes (K, D) and (K,)."""
        check_is_fitted(self, "moments_")
        solved = self._solved()
        return solved.weight.astype(np.float32), (-solved.weight @ solved.mean).astype(np.float32)

    def to_dense_chain(self) -> list[DenseLayer]:
        """Return the map as a chain of dense layers: one."""
        return [DenseLayer(*self.to_dense())]

    def to_module(self) -> nn.Module:
        """Return the map as a ``torch.nn.Linear`` in float32: (N, D) -> (N, K)."""
        import torch

        weight, bias = (torch.from_numpy(part) for part in self.to_dense())
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({"weight": weight, "bias": bias})
        return linear

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the fitted state as named arrays: what :func:`embedlift.transforms.storage.save` writes.

        The solved map is part of it: eigenvectors found again on another machine may differ in sign.
        """
        check_is_fitted(self, "moments_")
        solved = self._solved()
        return {
            "moments.count": np.array([self.moments_.count]),
            "moments.mean": self.moments_.mean,
            "moments.scatter": self.moments_.scatter,
            "map.mean": solved.mean,
            "map.weight": solved.weight,
            "map.directions": solved.directions,
            "map.variances": solved.variances,
            "map.effective_rank": np.array([solved.effective_rank]),
        }

    def set_state(self, state: dict[str, NDArray[Any]]) -> AffineTransform:
        """Take the state that :meth:`get_state` returned."""
        self.moments_ = Moments(int(state["moments.count"][0]), state["moments.mean"], state["moments.scatter"])
        self.n_features_in_ = len(self.moments_.mean)
        self._map = AffineMap(
            state["map.mean"],
            state["map.weight"],
            state["map.directions"],
            state["map.variances"],
            float(state["map.effective_rank"][0]),
        )
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self._solved().weight)

    def _solved(self) -> AffineMap:
        if self._map is None:
            self._map = self._solve(self.moments_)
        return self._map

    def _accumulate(self, chunk: NDArray[np.floating]) -> None:
        seen = [self.moments_] if hasattr(self, "moments_") else []
        self.moments_ = reduce(Moments.merge, [*seen, Moments.of(chunk)])
        self._map = None
