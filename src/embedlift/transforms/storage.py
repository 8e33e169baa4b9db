"""A fitted transform as one safetensors file: no pickle, so loading runs nobody's code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embedlift.errors import InputError
from embedlift.files import written_whole
from embedlift.transforms import transform_class, transform_name

if TYPE_CHECKING:
    from pathlib import Path

_FORMAT = "embedlift-transform-1"


def save(transform: Any, path: Path) -> None:
    """Write a fitted transform to ``path``.

    Raises:
        InputError: If it cannot be written, because the disk is full.
    """
    parameters = json.dumps(transform.get_params())
    metadata = {"format": _FORMAT, "method": transform_name(transform), "parameters": parameters}
    state = {key: np.ascontiguousarray(value) for key, value in transform.get_state().items()}
    with written_whole(path) as beside:
        try:
            save_file(state, beside, metadata=metadata)
        except SafetensorError as error:
            raise InputError(f"{path} cannot be written ({error})") from None


def load(path: Path) -> Any:
    """Read a fitted transform from ``path``.

    Raises:
        InputError: If the file is missing, damaged, or not a transform.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a fitted transform, or is damaged ({error}): fit it again") from None
    if metadata.get("format") != _FORMAT:
        raise InputError(f"{path} is a safetensors file, but not a fitted transform of embedlift")
    try:
        transform = transform_class(metadata["method"])(**json.loads(metadata["parameters"]))
        return transform.set_state(state)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} lacks a part of the transform ({error!r}): fit it again") from None
