"""What people run into (see the case's docstring for where it was seen), as far as no other test holds it up.

Held up elsewhere: one new text, a killed run, and a saved model in another place (test_adaptation); padding, its side,
the batch size and empty texts (test_encoder); series with broken rows (test_corpus); subsets of unequal size, collapsed
models and zero vectors (evaluation/test_sts).
"""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import spearmanr

from embedlift import bulk
from embedlift.errors import InputError
from embedlift.functional.isotropy import random_pair_cosine
from embedlift.functional.similarity import paired_cosine
from embedlift.transforms import Centering, Whitening


def related_pairs(count=500, dimension=32, seed=0):
    """Pairs of vectors whose meaning is known: the cosines that they have without what hides them."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0, 1, size=(count, 1))
    left, right = rng.normal(size=(2, count, dimension))
    return left, share * left + (1 - share) * right


@pytest.mark.parametrize("method", [Centering(), Whitening(), Whitening(16), Whitening(form="zca", shrinkage="oas")])
def test_unrelated_texts_all_score_high(method):
    """longformer#259, transformers#2298: a shared mean makes all cosines high; the order is kept or mended."""
    left, right = related_pairs()
    truth = paired_cosine(left, right)
    loudness = np.geomspace(3, 0.3, 32)
    hidden = [side * loudness + 6 * loudness.max() for side in (left, right)]
    assert random_pair_cosine(np.concatenate(hidden)) > 0.9
    method.fit(np.concatenate(hidden))
    mapped = [method.transform(side) for side in hidden]
    assert abs(random_pair_cosine(np.concatenate(mapped))) < 0.02
    before, after = (spearmanr(paired_cosine(*pairs), truth).statistic for pairs in (hidden, mapped))
    assert after > before


@pytest.mark.parametrize("count", [2, 10, 255])
def test_fewer_rows_than_dimensions(count):
    """BERT-whitening#5, deepcluster#40: 768 dimensions to 256 from few rows; never NaN, never silent."""
    x = np.random.default_rng(0).normal(size=(count, 768)).astype(np.float32)
    with pytest.warns(UserWarning, match=f"to {count - 1} dimensions instead of 256"):
        whitening = Whitening(256).fit(x)
    z = whitening.transform(np.random.default_rng(1).normal(size=(3, 768)))
    assert z.shape == (3, count - 1)
    assert np.isfinite(z).all()


def test_one_row():
    """The same: the least that will do is said."""
    with pytest.raises(InputError, match="at least 2 vectors, got n_samples = 1"):
        Whitening(256).fit(np.ones((1, 768)))


def peak_of_fit(path):
    tracemalloc.start()
    Whitening().fit(bulk.read_vectors(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_number_of_vectors(tmp_path, monkeypatch):
    """sentence-transformers#1244, #3138, #357: out of memory on millions of rows."""
    monkeypatch.setattr("embedlift.transforms.rows._CHUNK_BYTES", 2**20)
    peaks = []
    for count in (20_000, 200_000):
        vectors = np.random.default_rng(0).normal(size=(count, 32)).astype(np.float32)
        np.save(tmp_path / f"{count}.npy", vectors)
        peaks.append(peak_of_fit(tmp_path / f"{count}.npy"))
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < vectors.nbytes / 4
