"""Flows in saved models: a chain of stock modules, or one bundled module where couplings are affine."""

import json

import numpy as np
import pytest
from conftest import sentences
from plain_process import encode_without_embedlift
from sentence_transformers import SentenceTransformer

from embedlift.adaptation import attach, run
from embedlift.encoder import Encoder
from embedlift.modules import BUNDLED, is_own_bundle
from embedlift.transforms import Flow, Whitening

CORPUS = sentences(400)
TEXTS = sentences(64, seed=5)  # 1 to 30 words


def flow(**settings):
    return Flow(levels=2, depth=2, width=8, epochs=2, batch_size=32, **settings)


def relative(found, expected):
    return np.linalg.norm(found - expected, axis=1).max() / np.linalg.norm(expected, axis=1).mean()


@pytest.fixture(scope="module")
def saved(tiny_llama, tmp_path_factory):
    """Folder and native vectors of each kind of flow."""
    kinds = {
        "reversal": flow(),
        "random": flow(permutation="random"),
        "lu": flow(permutation="lu"),
        "affine": flow(coupling="affine"),
    }
    raw = Encoder(tiny_llama).encode(TEXTS)
    made = {}
    for name, transform in kinds.items():
        folder = tmp_path_factory.mktemp("saved") / name
        run(tiny_llama, CORPUS, method=transform, output=folder, cache=False)
        made[name] = folder, transform.transform(raw)
    return made


def test_additive_flows_are_stock_modules_and_load_without_this_package(saved, tmp_path):
    additive = [saved[name] for name in ("reversal", "random", "lu")]
    for folder, _ in additive:
        modules = json.loads((folder / "modules.json").read_text())
        assert all(module["type"].startswith("sentence_transformers.") for module in modules)
        assert not list(folder.rglob("*.py"))
    found = encode_without_embedlift([folder for folder, _ in additive], TEXTS, tmp_path / "elsewhere")
    for vectors, (_, native) in zip(found, additive, strict=True):
        assert relative(vectors, native) < 1e-4


def test_an_affine_flow_loads_with_trust_remote_code_alone(saved, tmp_path):
    folder, native = saved["affine"]
    assert [str(path.relative_to(folder)) for path in folder.rglob("*.py")] == [BUNDLED]
    (found,) = encode_without_embedlift([folder], TEXTS, tmp_path / "elsewhere", trust_remote_code=True)
    assert relative(found, native) < 1e-4


def test_without_trust_an_affine_flow_is_refused_by_sentence_transformers(saved):
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(saved["affine"][0]))


def test_the_own_encoder_trusts_its_own_source_and_no_other(saved, tmp_path):
    folder, native = saved["affine"]
    assert is_own_bundle(folder)
    assert relative(Encoder(folder).encode(TEXTS), native) < 1e-4
    (tmp_path / BUNDLED).write_text("print('another program')")
    assert not is_own_bundle(tmp_path)


def test_an_affine_flow_is_saved_again_with_its_source_in_the_root(saved, tmp_path):
    folder, native = saved["affine"]
    run(folder, CORPUS, method="none", output=tmp_path / "again", cache=False)
    assert [str(path.relative_to(tmp_path / "again")) for path in tmp_path.rglob("*.py")] == [BUNDLED]
    (found,) = encode_without_embedlift([tmp_path / "again"], TEXTS, tmp_path / "elsewhere", trust_remote_code=True)
    assert relative(found, native) < 1e-4


@pytest.mark.parametrize("make", [lambda: Whitening(8), flow, lambda: flow(coupling="affine")])
def test_dimensions_that_a_model_had_cut_off_stay_cut_off(tiny_llama, make):
    model = Encoder(tiny_llama).model
    model.truncate_dim = 16
    vectors = Encoder(model).encode(CORPUS)
    assert vectors.shape[1] == 16
    transform = make().fit(vectors)
    assert relative(Encoder(attach(model, transform)).encode(CORPUS), transform.transform(vectors)) < 1e-4
