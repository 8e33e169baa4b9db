"""Whitening: the linear map after which no direction is louder than another."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.linalg import eigh

from embedlift.errors import InputError
from embedlift.functional.isotropy import effective_rank
from embedlift.functional.shrinkage import oas_weight
from embedlift.transforms.affine import AffineMap, AffineTransform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedlift.functional.moments import Moments

#: Relative spread below which vectors differ by the rounding of float32 alone.
_ROUNDING = 1e-6


class Whitening(AffineTransform):
    r"""Map vectors to zero mean and identity covariance, without labels.

    With the covariance :math:`\Sigma = U \Lambda U^\top`, eigenvalues in falling order:

    .. math::
        z_{\text{pca}} = \Lambda_K^{-1/2} U_K^\top (x - \mu), \qquad
        z_{\text{zca}} = U_K \Lambda_K^{-1/2} U_K^\top (x - \mu)

    Both give the same cosines. With an exponent a below 1, :math:`\Lambda_K^{-a/2}` takes the place of
    :math:`\Lambda_K^{-1/2}`: half-way between the principal components as they are (a = 0) and whitening, loud
    directions stay louder than faint ones. The PCA form has K dimensions; the ZCA form stays in the D dimensions of
    the input, as near to it as a whitened vector can be.

    Directions whose variance is below ``rcond`` times the largest one hold rounding errors only and are
    left out, so fewer vectors than dimensions, constant columns and repeated columns give finite output
    of fewer dimensions.

    Args:
        n_components: K, the number of leading directions kept; ``None`` keeps all of them.
        form: ``"pca"`` or ``"zca"``.
        exponent: a, above 0 and at most 1.
        shrinkage: Between 0 and 1: weight of the sphere :math:`\operatorname{tr}(\Sigma) I / D` mixed
            into the covariance, or ``"oas"`` for the weight that is best for Gaussian data (Chen et al.
            2010, equation 23). Worth its bias when there are few vectors per dimension.
        rcond: Relative eigenvalue cutoff.

    Attributes:
        mean_: Shape (D,).
        components_: Kept directions, rows of :math:`U_K^\top`, shape (K, D).
        explained_variance_: Their variances, falling, shape (K,).
        effective_rank_: Exponential of the entropy of the whole spectrum.
        n_components_: K after the cutoff.

    References:
        Su et al. (2021), Whitening Sentence Representations for Better Semantics and Faster Retrieval,
        arXiv:2103.15316, equations 4-6 and algorithm 1. Huang et al. (2021), WhiteningBERT,
        arXiv:2104.01767. Chen, Wiesel, Eldar, Hero (2010), Shrinkage Algorithms for MMSE Covariance
        Estimation, arXiv:0907.4698.
    """

    _min_samples = 2

    def __init__(
        self,
        n_components: int | None = None,
        *,
        form: Literal["pca", "zca"] = "pca",
        exponent: float = 1.0,
        shrinkage: float | Literal["oas"] = 0.0,
        rcond: float = 1e-9,
    ) -> None:
        self.n_components = n_components
        self.form = form
        self.exponent = exponent
        self.shrinkage = shrinkage
        self.rcond = rcond

    def _solve(self, moments: Moments) -> AffineMap:
        self._check_parameters(moments)
        covariance = _shrunk(moments.covariance(), moments.count, self.shrinkage)
        variances, vectors = eigh(covariance)
        variances, directions = variances[::-1], _fix_signs(vectors.T[::-1])
        kept = self._count_kept(variances, moments)
        directions, loudness = directions[:kept], variances[:kept]
        weight = directions / loudness[:, None] ** (self.exponent / 2)
        if self.form == "zca":
            weight = directions.T @ weight
        return AffineMap(moments.mean, weight, directions, loudness, effective_rank(variances))

    def _check_parameters(self, moments: Moments) -> None:
        if moments.count < self._min_samples:
            raise InputError(f"Whitening needs at least {self._min_samples} vectors, got n_samples = {moments.count}")
        if self.form not in ("pca", "zca"):
            raise InputError(f"form must be 'pca' or 'zca', got {self.form!r}")
        dimension = len(moments.mean)
        if self.n_components is not None and not 1 <= self.n_components <= dimension:
            raise InputError(f"n_components must be between 1 and the dimension {dimension}, got {self.n_components}")
        if not 0 < self.exponent <= 1:
            raise InputError(f"exponent must be above 0 and at most 1, got {self.exponent}")
        if not 0 <= self.rcond < 1:
            raise InputError(f"rcond must be at least 0 and below 1, got {self.rcond}")

    def _count_kept(self, variances: NDArray[np.float64], moments: Moments) -> int:
        if variances[0] <= _ROUNDING**2 * (moments.mean**2).mean():
            raise InputError(f"all {moments.count} vectors are identical: there is nothing to whiten")
        rank = int((variances > self.rcond * variances[0]).sum())
        wanted = self.n_components or len(variances)
        # A direction without variance is usual (a layer norm leaves one) and shows in n_components_; too few
        # vectors, or fewer components than were asked for, the user should know of.
        if rank < wanted and (self.n_components is not None or moments.count <= len(variances)):
            warnings.warn(
                f"{moments.count} vectors span only {rank} directions of {len(variances)}: "
                f"whitening to {rank} dimensions instead of {wanted}",
                stacklevel=2,
            )
        return min(rank, wanted)

    @property
    def mean_(self) -> NDArray[np.float64]:  # noqa: D102 - documented as attributes of the class, like scikit-learn's
        return self._solved().mean

    @property
    def components_(self) -> NDArray[np.float64]:  # noqa: D102
        return self._solved().directions

    @property
    def explained_variance_(self) -> NDArray[np.float64]:  # noqa: D102
        return self._solved().variances

    @property
    def effective_rank_(self) -> float:  # noqa: D102
        return self._solved().effective_rank

    @property
    def n_components_(self) -> int:  # noqa: D102
        return len(self._solved().variances)


def _shrunk(covariance: NDArray[np.float64], count: int, shrinkage: float | str) -> NDArray[np.float64]:
    dimension = len(covariance)
    trace = np.trace(covariance)
    if shrinkage == "oas":
        weight = oas_weight(trace, (covariance**2).sum(), dimension, count)
    elif isinstance(shrinkage, (int, float)) and 0 <= shrinkage <= 1:
        weight = float(shrinkage)
    else:
        raise InputError(f"shrinkage must be 'oas' or a number between 0 and 1, got {shrinkage!r}")
    return (1 - weight) * covariance + weight * trace / dimension * np.eye(dimension)


def _fix_signs(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make the largest entry of each row positive: eigenvectors come with either sign."""
    largest = directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)]
    return directions * np.where(largest < 0, -1.0, 1.0)[:, None]
