"""Where the tests find data that is too large, or not ours, to keep in the repository."""

import os
from pathlib import Path

import pytest


def shared(*parts: str) -> Path:
    """Return a path in the shared folder, or skip the test where the folder is missing."""
    root = Path(os.environ.get("EMBEDLIFT_SHARED", Path(__file__).parents[2] / "shared"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is missing: set EMBEDLIFT_SHARED to the folder that holds {parts[0]}/")
    return path
