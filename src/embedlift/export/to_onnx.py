"""A model -> a folder that runs with onnxruntime and tokenizers alone."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.errors import InputError
from embedlift.export.own_tokenizer import copied
from embedlift.export.parity import OWN_TEXTS, Parity, sample_texts
from embedlift.files import SAVED_MODEL, Mark, folder_written_whole
from embedlift.layers import reads_plain_text
from embedlift.record import library_versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tokenizers import Tokenizer

    from embedlift.encoder import Encoder

#: What is let through, by ``quantize``: see :func:`export_onnx`.
TOLERANCES = {None: 1e-3, "int8": 0.1}

_SAMPLE = 256

_README = """# Sentence embeddings in ONNX

Made by [embedlift](https://pypi.org/project/embedlift/). One graph holds the whole model, from token ids to the
sentence vector ({dimension} dimensions). It needs onnxruntime, tokenizers and numpy, neither torch nor transformers.

```python
import numpy as np, onnxruntime, tokenizers

tokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")  # knows the model's limit and how to pad
session = onnxruntime.InferenceSession("model.onnx")

texts = [{prompt}"A first sentence.", {prompt}"And a second one."]
encodings = tokenizer.encode_batch(texts)
ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
vectors = session.run(None, {{"input_ids": ids, "attention_mask": mask}})[0]
```

The same for many texts, each distinct one once and in batches of equal length, empty texts included:

```python
from onnx_encoder import OnnxEncoder  # the file in this folder

vectors = OnnxEncoder("path/to/this/folder").encode(texts)
```

Weights: {weights}. Against the model in torch, on {texts} texts: largest difference {largest_difference:.1e} of a
vector's length, mean cosine {mean_cosine:.6f}. More in `onnx_config.json`.
"""


def export_onnx(
    encoder: Encoder,
    output: Path,
    *,
    quantize: str | None = None,
    corpus: Sequence[Path] = (),
    column: str | None = None,
    tolerance: float | None = None,
    overwrite: bool = False,
) -> Parity:
    """Write ``model.onnx``, its tokenizer, configuration, README and :class:`OnnxEncoder` into a folder.

    Args:
        encoder: The model, in float32 on the CPU.
        output: The folder.
        quantize: ``int8`` for weights of a quarter of the size, or None.
        corpus: Files with texts on which the vectors are compared too.
        column: Column of those files.
        tolerance: Largest difference of a vector, relative to its length, that is let through, by default 1e-3; with
            int8, largest difference of the mean cosine from 1, by default 0.1.
        overwrite: Whether an earlier export may be replaced.

    Raises:
        InputError: If the model cannot be exported, or if its vectors would differ by more. Nothing is written then.
    """
    if quantize not in TOLERANCES:
        raise InputError(f"unknown --quantize {quantize!r}: int8 is the only kind")
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"export to ONNX needs {' and '.join(missing)}: pip install 'embedlift[onnx]'")
    tolerance = TOLERANCES[quantize] if tolerance is None else tolerance
    tokenizer = _own_tokenizer(encoder)
    texts = ["", *OWN_TEXTS, *(sample_texts(corpus, column, _SAMPLE) if corpus else ())]
    with folder_written_whole(output, mark=Mark("onnx_config.json", SAVED_MODEL.kind), overwrite=overwrite) as folder:
        _write_model(encoder, folder, quantize)
        tokenizer.save(str(folder / "tokenizer.json"))
        from embedlift.export import onnx_encoder

        shutil.copyfile(str(onnx_encoder.__file__), folder / "onnx_encoder.py")
        config = _config(encoder, tokenizer, quantize)
        _write_json(folder / onnx_encoder.CONFIG, config)
        parity = _compare(encoder, onnx_encoder.OnnxEncoder(folder, threads=1), texts)
        _check(parity, quantize, tolerance)
        _write_json(folder / onnx_encoder.CONFIG, config | {"tolerance": tolerance, "parity": parity._asdict()})
        _write_readme(folder / "README.md", config, parity)
    return parity


def _write_model(encoder: Encoder, folder: Path, quantize: str | None) -> None:
    from embedlift.export import onnx_graph

    path = folder / "model.onnx"
    if quantize is None:
        onnx_graph.write_graph(encoder.model, path)
        return
    whole = folder / "float32"  # a folder, since weights beyond 2 GB come in files of their own
    whole.mkdir()
    onnx_graph.write_graph(encoder.model, whole / path.name)
    onnx_graph.quantize(whole / path.name, path)
    shutil.rmtree(whole)


def _own_tokenizer(encoder: Encoder) -> Tokenizer:
    """Return a copy of the model's tokenizer that cuts and pads as the encoder does."""
    model = encoder.model
    if not reads_plain_text(model):
        raise InputError("export to ONNX needs a transformer model that reads plain text")
    source: Any = model.tokenizer
    tokenizer = copied(model)
    limit = _limit(encoder)
    if limit is not None:
        tokenizer.enable_truncation(limit, direction=source.truncation_side)
    tokenizer.enable_padding(pad_id=source.pad_token_id, pad_token=source.pad_token)
    if any(tokenizer.encode("a").type_ids):
        raise InputError("the model's tokenizer gives token types to single texts, which is not supported here")
    return tokenizer


def _limit(encoder: Encoder) -> int | None:
    limit = encoder.model.max_seq_length
    return int(limit) if limit is not None and math.isfinite(limit) else None


def _config(encoder: Encoder, tokenizer: Tokenizer, quantize: str | None) -> dict[str, Any]:
    source: Any = encoder.model.tokenizer
    fillers = (source.eos_token_id, source.bos_token_id, source.pad_token_id, 0)
    return {
        "format": "embedlift-onnx-1",
        "dimension": encoder.dimension,
        "max_length": _limit(encoder),
        "pad_id": tokenizer.padding["pad_id"] if tokenizer.padding else 0,
        "filler_id": next(token for token in fillers if token is not None),
        "prompts": dict(encoder.model.prompts),
        "default_prompt": encoder.model.default_prompt_name,
        "similarity": encoder.model.similarity_fn_name,
        "quantize": quantize,
        "model_digest": encoder.fingerprint(),
        "versions": library_versions() | {name: version(name) for name in ("onnx", "onnxruntime")},
    }


def _compare(encoder: Encoder, exported: Any, texts: list[str]) -> Parity:
    """Compare on all texts together, where short ones are padded, and on some alone."""
    expected = encoder.encode_distinct(list(dict.fromkeys(texts))).vectors
    together = exported.encode(list(dict.fromkeys(texts)))
    alone = np.concatenate([exported.encode([text]) for text in texts[: 1 + len(OWN_TEXTS)]])
    return Parity.of(np.concatenate([expected, expected[: len(alone)]]), np.concatenate([together, alone]))


def _check(parity: Parity, quantize: str | None, tolerance: float) -> None:
    what, error = "largest difference of a vector, relative to its length,", parity.largest_difference
    if quantize is not None:  # single vectors may go astray, and in the faint directions of a whitening often do
        what, error = "mean cosine's difference from 1", 1 - parity.mean_cosine
    if not error <= tolerance:  # NaN is not
        raise InputError(
            f"the exported vectors are not the model's: the {what} is {error:.1e}, above {tolerance:.1e}. "
            "Nothing was written (--tolerance sets the limit)"
        )


def _write_readme(path: Path, config: dict[str, Any], parity: Parity) -> None:
    prompt = config["prompts"].get(config["default_prompt"])
    text = _README.format(
        dimension=config["dimension"],
        prompt=f"{json.dumps(prompt, ensure_ascii=False)} " if prompt else "",
        weights="int8, activations quantised as they come" if config["quantize"] else "float32",
        **parity._asdict(),
    )
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
