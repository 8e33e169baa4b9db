import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedlift.errors import InputError
from embedlift.transforms import Centering, Whitening, storage


def cloud(count=100, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 5)) @ np.diag([1, 2, 3, 4, 5]) + 2


@pytest.fixture
def saved(tmp_path):
    storage.save(Whitening(3).fit(cloud()), tmp_path / "T")
    return tmp_path / "T"


@pytest.mark.parametrize("estimator", [Whitening(3), Whitening(form="zca", shrinkage="oas"), Centering()], ids=str)
def test_a_saved_transform_is_the_same_transform(tmp_path, estimator):
    storage.save(estimator.fit(cloud()), tmp_path / "deep" / "T")
    loaded = storage.load(tmp_path / "deep" / "T")
    assert repr(loaded) == repr(estimator)
    new = cloud(seed=1)
    assert np.array_equal(loaded.transform(new), estimator.transform(new))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["T"]


def test_a_loaded_transform_goes_on_learning(saved):
    more = cloud(seed=1)
    loaded = storage.load(saved).partial_fit(more)
    expected = Whitening(3).fit(np.concatenate([cloud(), more]))
    np.testing.assert_allclose(loaded.transform(more), expected.transform(more), atol=1e-9)


def test_the_fitted_map_is_stored_and_not_solved_again(saved):
    """Eigenvectors found on another machine may have other signs."""
    tensors = load_file(saved)
    tensors["map.weight"] = -tensors["map.weight"]
    metadata = {"format": "embedlift-transform-1", "method": "whitening", "parameters": json.dumps({"n_components": 3})}
    expected = -storage.load(saved).transform(cloud())
    save_file(tensors, saved, metadata=metadata)
    np.testing.assert_array_equal(storage.load(saved).transform(cloud()), expected)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="nothing: no such file"):
        storage.load(tmp_path / "nothing")


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_a_damaged_file(saved, size):
    saved.write_bytes(saved.read_bytes()[:size])
    with pytest.raises(InputError, match="T is not a fitted transform, or is damaged"):
        storage.load(saved)


def test_some_other_file(tmp_path):
    (tmp_path / "T").write_text("not a transform " * 10)
    with pytest.raises(InputError, match="is not a fitted transform, or is damaged"):
        storage.load(tmp_path / "T")


def test_a_safetensors_file_of_another_program(tmp_path):
    save_file({"weight": np.eye(2)}, tmp_path / "T")
    with pytest.raises(InputError, match="but not a fitted transform of embedlift"):
        storage.load(tmp_path / "T")


@pytest.mark.parametrize(
    ("metadata", "drop"),
    [
        ({"method": "whitening", "parameters": "{}"}, "map.weight"),
        ({"method": "unheard-of", "parameters": "{}"}, None),
        ({"method": "whitening", "parameters": "{"}, None),
        ({"method": "whitening", "parameters": '{"colour": 1}'}, None),
        ({"method": "whitening"}, None),
    ],
    ids=str,
)
def test_a_file_that_lacks_a_part(saved, metadata, drop):
    tensors = load_file(saved)
    tensors.pop(drop, None)
    save_file(tensors, saved, metadata={"format": "embedlift-transform-1", **metadata})
    with pytest.raises(InputError, match="T lacks a part of the transform|unknown method"):
        storage.load(saved)
