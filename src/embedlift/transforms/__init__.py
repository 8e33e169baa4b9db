"""Maps of sentence vectors that are fitted without labels: one file per method, one contract for all.

Each is a scikit-learn estimator: ``fit(X)`` on an array or memory map, ``partial_fit(batch)`` on a
stream, ``transform(X)``: (N, D) -> (N, K), ``to_module()`` for torch and ``to_dense_chain()`` for a saved model;
``storage.save`` writes it. None of them needs a language model.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embedlift.transforms.centering import Centering
    from embedlift.transforms.flow import Flow
    from embedlift.transforms.whitening import Whitening

#: Name on the command line -> module and class. Adding a method is a line here and a file beside this one.
TRANSFORMS = {
    "center": ("embedlift.transforms.centering", "Centering"),
    "flow": ("embedlift.transforms.flow", "Flow"),
    "whitening": ("embedlift.transforms.whitening", "Whitening"),
}

__all__ = ["TRANSFORMS", "Centering", "Flow", "Whitening", "make_transform", "transform_class", "transform_name"]


def transform_class(name: str) -> Any:
    """Return the estimator class called ``name`` on the command line.

    Raises:
        InputError: If there is no such method.
    """
    if name not in TRANSFORMS:
        raise InputError(f"unknown method {name!r}: choose one of {', '.join(TRANSFORMS)}")
    module, attribute = TRANSFORMS[name]
    return getattr(importlib.import_module(module), attribute)


def transform_name(transform: Any) -> str:
    """Return the name of a transform's method on the command line, or that of its class if it has none there."""
    kind = type(transform).__name__
    return next((name for name, (_, attribute) in TRANSFORMS.items() if attribute == kind), kind)


def make_transform(
    name: str,
    *,
    dim: int | None = None,
    preset: str | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """Return an unfitted transform.

    Args:
        name: The method.
        dim: Dimensions of the new vectors, for methods that can choose them.
        preset: Name of a set of settings, for methods that have such.
        seed: Of its random choices, if it makes any.
        settings: Arguments of its class.

    Raises:
        InputError: If there is no such method, or if it does not take what is given.
    """
    kind = transform_class(name)
    accepted = inspect.signature(kind).parameters
    given = dict(settings or {})
    unknown = sorted(given.keys() - accepted.keys())
    if unknown:
        raise InputError(f"{name} has no setting {', '.join(unknown)}: it has {', '.join(accepted) or 'none'}")
    if dim is not None:
        if "n_components" not in accepted:
            raise InputError(f"--dim is not for {name}: it keeps the dimension of the vectors")
        given["n_components"] = dim
    if "seed" in accepted:
        given.setdefault("seed", seed)
    if preset is None:
        return kind(**given)
    if not hasattr(kind, "preset"):
        raise InputError(f"--preset is not for {name}: it has none")
    return kind.preset(preset, **given)


def __getattr__(name: str) -> Any:  # so that the command line can list the methods without importing them
    for module, attribute in TRANSFORMS.values():
        if attribute == name:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
