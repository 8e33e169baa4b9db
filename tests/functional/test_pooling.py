import pytest
import torch

from embedlift.functional.pooling import pool_layers


def batch():
    generator = torch.Generator().manual_seed(0)
    states = [torch.randn(3, 5, 4, generator=generator) for _ in range(2)]
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
    return states, mask


@pytest.mark.parametrize("name", ["mean", "max"])
def test_each_layer_is_pooled_over_the_real_tokens(name):
    states, mask = batch()
    pooled = pool_layers(states, mask, name)
    assert pooled.shape == (3, 2, 4)
    for row in range(3):
        for layer, state in enumerate(states):
            tokens = state[row][mask[row] == 1]
            expected = tokens.mean(dim=0) if name == "mean" else tokens.amax(dim=0)
            torch.testing.assert_close(pooled[row, layer], expected)


@pytest.mark.parametrize("name", ["mean", "max"])
def test_padding_has_no_say(name):
    states, mask = batch()
    longer = [torch.cat([state, torch.full((3, 2, 4), 1e6)], dim=1) for state in states]
    padded = torch.cat([mask, torch.zeros(3, 2, dtype=mask.dtype)], dim=1)
    torch.testing.assert_close(pool_layers(longer, padded, name), pool_layers(states, mask, name))


@pytest.mark.parametrize("name", ["mean", "max"])
def test_a_sentence_without_tokens_is_zero(name):
    states, mask = batch()
    mask[1] = 0
    assert not pool_layers(states, mask, name)[1].any()
