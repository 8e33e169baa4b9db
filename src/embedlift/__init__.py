"""Better sentence embeddings from any pre-trained language model, without labels."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from embedlift._version import __version__

if TYPE_CHECKING:
    from embedlift.adaptation import adapt
    from embedlift.encoder import Encoder
    from embedlift.errors import InputError

_LAZY = {"adapt": "embedlift.adaptation", "Encoder": "embedlift.encoder", "InputError": "embedlift.errors"}

__all__ = ["Encoder", "InputError", "__version__", "adapt"]


def __getattr__(name: str) -> Any:  # heavy names are resolved when asked for, so that --help is instant
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
