"""Centring: subtract the mean vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedlift.transforms.affine import AffineMap, AffineTransform

if TYPE_CHECKING:
    from embedlift.functional.moments import Moments


class Centering(AffineTransform):
    r"""Subtract the mean of the fitted vectors, the direction that all of them share.

    .. math:: z = x - \mu

    References:
        Mu, Viswanath (2018), All-but-the-Top, arXiv:1702.01417, algorithm 1 without component removal.
    """

    def _solve(self, moments: Moments) -> AffineMap:
        dimension = len(moments.mean)
        return AffineMap(moments.mean, np.eye(dimension), np.empty((0, dimension)), np.empty(0), float("nan"))
