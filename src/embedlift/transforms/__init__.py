"""Maps of sentence vectors that are fitted without labels: one file per method, one contract for all.

Each is a scikit-learn estimator: ``fit(X)`` on an array or memory map, ``partial_fit(batch)`` on a
stream, ``transform(X)``: (N, D) -> (N, K), ``to_module()`` for torch, ``save(path)``, and ``to_dense()``
where the map is affine. None of them needs a language model.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from embedlift.errors import InputError

if TYPE_CHECKING:
    from embedlift.transforms.centering import Centering
    from embedlift.transforms.flow import Flow
    from embedlift.transforms.whitening import Whitening

#: Name on the command line -> module and class. Adding a method is a line here and a file beside this one.
TRANSFORMS = {
    "center": ("embedlift.transforms.centering", "Centering"),
    "flow": ("embedlift.transforms.flow", "Flow"),
    "whitening": ("embedlift.transforms.whitening", "Whitening"),
}

__all__ = ["TRANSFORMS", "Centering", "Flow", "Whitening", "transform_class"]


def transform_class(name: str) -> Any:
    """Return the estimator class called ``name`` on the command line.

    Raises:
        InputError: If there is no such method.
    """
    if name not in TRANSFORMS:
        raise InputError(f"unknown method {name!r}: choose one of {', '.join(TRANSFORMS)}")
    module, attribute = TRANSFORMS[name]
    return getattr(importlib.import_module(module), attribute)


def __getattr__(name: str) -> Any:  # so that the command line can list the methods without importing them
    for module, attribute in TRANSFORMS.values():
        if attribute == name:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
