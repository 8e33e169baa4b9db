import subprocess
import sys

import pytest

from embedlift import objectives


def test_every_exported_name_is_there():
    for name in objectives.__all__:
        assert getattr(objectives, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'sgopt'"):
        objectives.sgopt  # noqa: B018


def test_torch_is_imported_when_a_loss_is_asked_for():
    program = "import sys, embedlift.objectives; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
