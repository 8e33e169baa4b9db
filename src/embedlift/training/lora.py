"""Low-rank adapters: train few weights, and have the frozen model for free by switching them off."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embedlift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


def add_adapters(model: nn.Module, rank: int) -> None:
    r"""Give every linear layer of ``model`` a trainable addition, in place; the rest is frozen.

    .. math:: W x \to W x + \frac{\alpha}{r} B A x, \qquad \alpha = 2 r

    Args:
        model: A transformers model.
        rank: r.

    Raises:
        InputError: If peft is not installed.

    References:
        Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models, arXiv:2106.09685.
    """
    peft = _peft()
    model.requires_grad_(False)
    linear = [name for name, module in model.named_modules() if type(module).__name__ == "Linear"]
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=linear)
    peft.inject_adapter_in_model(config, model)


@contextmanager
def adapters_off(model: nn.Module, switch: bool = True) -> Iterator[None]:
    """Let ``model`` be the frozen model inside the block, if ``switch``."""
    layers = _adapted(model) if switch else []
    for _, layer in layers:
        layer._disable_adapters = True  # its method would also change which weights are trained
    try:
        yield
    finally:
        for _, layer in layers:
            layer._disable_adapters = False


def merge_adapters(model: nn.Module, *, keep: bool = True) -> None:
    """Make plain linear layers again: with the adapters added to the weights, or without them."""
    for name, layer in _adapted(model):
        if keep:
            layer.merge()
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, layer.get_base_layer())


def _adapted(model: nn.Module) -> list[tuple[str, Any]]:
    layer_class = _peft().tuners.tuners_utils.BaseTunerLayer
    return [(name, module) for name, module in model.named_modules() if isinstance(module, layer_class)]


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise InputError("--lora needs the peft package: pip install 'embedlift[lora]'") from error
    return peft
