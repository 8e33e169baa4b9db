"""Where the read-only data beside the repository lie: golden vectors, models, benchmark sets."""

import os
from pathlib import Path

import pytest

_SHARED = Path(os.environ.get("EMBEDLIFT_SHARED", Path(__file__).parents[2] / "shared"))


def shared(path):
    """Return the path of ``path`` inside the shared folder; skip the test if it is not there."""
    found = _SHARED / path
    if not found.exists():
        pytest.skip(f"{found} is missing: set EMBEDLIFT_SHARED to the folder that holds {path}")
    return found
