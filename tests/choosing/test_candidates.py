import numpy as np
import pytest

from embedlift.choosing.candidates import layer_mixes, transforms
from embedlift.choosing.choice import RULE
from embedlift.layers import PoolingSpec


@pytest.mark.parametrize("layers", [0, 1, 2, 6, 12, 30, 80])
def test_every_mix_is_a_pooling_that_the_model_has(layers):
    mixes = layer_mixes(layers, own_is_mean=False)
    assert next(iter(mixes.items())) == (None, None)
    for states, name in list(mixes.items())[1:]:
        assert sorted(PoolingSpec.parse(name).mix) == sorted(states)
        assert max(states) <= layers
    assert len(mixes) <= 20


def test_the_last_layer_is_not_tried_twice():
    assert (6,) in layer_mixes(6, own_is_mean=False)
    assert (6,) not in layer_mixes(6, own_is_mean=True)


def test_deep_models_keep_their_first_and_last_layers():
    singles = {states[0] for states in layer_mixes(30, own_is_mean=False) if states and len(states) == 1}
    assert {0, 1, 2, 28, 29, 30} <= singles
    assert len(singles) <= 12


def test_dimensions_are_cut_only_where_there_are_more():
    assert not [name for name in transforms(64) if "dim" in name]
    assert {"whitening dim=64", "whitening dim=128", "whitening dim=256"} <= set(transforms(384))
    assert RULE.transform in transforms(8)


def test_every_transform_can_be_fitted():
    x = np.random.default_rng(0).normal(size=(300, 100))
    for name, make in transforms(100).items():
        assert name == "none" or np.isfinite(make().fit_transform(x)).all()
