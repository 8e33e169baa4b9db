import numpy as np
import pytest
from conftest import sentences

from embedlift.choosing.probes import FEWEST_WORDS, make_probes, words_of

TEXTS = sentences(200)


def test_the_shortened_copy_lacks_the_stated_share_and_keeps_the_order():
    probes = make_probes(TEXTS, 100, seed=1)
    assert 0 < probes.deletion.min() < 0.3 < 0.7 < probes.deletion.max() < 1
    for anchor, copy, share in zip(probes.anchors, probes.shortened, probes.deletion, strict=True):
        words, kept = TEXTS[anchor].split(), copy.split()
        assert len(kept) == round(len(words) * (1 - share))
        rest = iter(words)
        assert all(word in rest for word in kept)


def test_short_sentences_are_left_alone():
    probes = make_probes(["one two three", "a a a a b", "one two three four"], 10, seed=0)
    assert probes.anchors.tolist() == [2]
    assert FEWEST_WORDS == 4
    assert len(make_probes(["one"], 10, seed=0).anchors) == 0


@pytest.mark.parametrize("count", [50, 1000])
def test_the_seed_decides(count):
    first, again, other = (make_probes(TEXTS, count, seed) for seed in (3, 3, 4))
    assert first.shortened == again.shortened
    np.testing.assert_array_equal(first.anchors, again.anchors)
    assert first.shortened != other.shortened


def test_characters_are_words_where_the_script_puts_no_spaces():
    assert words_of("一个男人在弹吉他和唱歌给孩子们听呢") == (list("一个男人在弹吉他和唱歌给孩子们听呢"), "")
    assert words_of("a plain sentence") == (["a", "plain", "sentence"], " ")
