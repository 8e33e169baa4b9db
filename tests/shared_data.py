"""Files beside the repository that only its developers have; users' runs skip the tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared(*parts: str) -> Path:
    """Return a path below the shared folder, or skip the test where there is none."""
    root = Path(os.environ.get("EMBEDLIFT_SHARED", Path(__file__).parents[2] / "shared"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is missing: it lies beside the repository of the developers and is not for users")
    return path
