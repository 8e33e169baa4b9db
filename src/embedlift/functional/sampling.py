"""A seeded sample of rows, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sample_places(count: int, most: int, seed: int) -> NDArray[np.int64]:
    """Return at most ``most`` of the places 0 to ``count`` - 1, drawn without replacement and rising.

    Args:
        count: Number of rows.
        most: Size of the sample; all places if there are no more than that.
        seed: Of the draw.
    """
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
