import numpy as np
import pytest
from conftest import sentences

from embedlift.errors import InputError
from embedlift.training.selection import ShortenedCopies, collapse, dev_score, figures, loss


def vectors(seed=0, shape=(400, 32)):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_a_healthy_change_is_no_collapse():
    before = figures(vectors() + 3, 0)
    assert collapse(before, figures(vectors(), 0)) is None
    assert collapse(before, before) is None


def test_a_narrow_start_may_stay_narrow():
    """Raw language models start with cosines near 1."""
    narrow = figures(vectors() + 100, 0)
    assert narrow["random_pair_cosine"] > 0.99
    assert collapse(narrow, narrow) is None


def test_lost_rank():
    flat = vectors(shape=(400, 2)) @ vectors(1, (2, 32))
    assert "effective rank fell" in collapse(figures(vectors(), 0), figures(flat, 0))


def test_all_alike():
    assert "became alike" in collapse(figures(vectors(), 0), figures(vectors() + 100, 0))


def test_no_numbers():
    broken = vectors()
    broken[3, 4] = np.nan
    assert collapse(figures(vectors(), 0), figures(broken, 0)) == "its vectors are not numbers"


def test_one_text_tells_nothing():
    assert collapse(figures(vectors(shape=(1, 32)), 0), figures(vectors(shape=(1, 32)), 0)) is None


class Fixed:
    def __init__(self, by_text):
        self.by_text = by_text

    def encode(self, texts, progress=None):
        return np.array([self.by_text[text] for text in texts], dtype=np.float32)


class BagOfWords:
    """Each word has its place in a random space, and noise drowns what is said."""

    def __init__(self, noise):
        self.noise, self.words = noise, {}
        self.random = np.random.default_rng(1)

    def encode(self, texts, progress=None):
        for word in {word for text in texts for word in text.split()}:
            self.words.setdefault(word, self.random.normal(size=64))
        sums = np.array([sum(self.words[word] for word in text.split()) for text in texts])
        return (sums + self.noise * self.random.normal(size=sums.shape)).astype(np.float32)


def test_a_model_that_loses_its_sentences_is_noticed():
    copies = ShortenedCopies(sentences(300), 0)
    assert len(copies.sentences) == 200
    clear, noisy = (copies.recovery(BagOfWords(noise)) for noise in (0.0, 10.0))
    assert loss(clear, noisy).startswith(
        "sentences and their shortened copies find each other less well (typical rank 1"
    )
    assert loss(noisy, clear) is None
    assert loss(clear, clear) is None


def test_few_sentences_tell_nothing():
    copies = ShortenedCopies(sentences(300)[:15], 0)
    assert loss(*(copies.recovery(BagOfWords(noise)) for noise in (0.0, 10.0))) is None


def test_score_on_labelled_pairs(tmp_path):
    angles = {"a": 0.0, "b": 0.1, "c": 0.5, "d": 1.5}
    encoder = Fixed({text: [np.cos(angle), np.sin(angle)] for text, angle in angles.items()})
    (tmp_path / "dev.tsv").write_text("5\ta\tb\n3\ta\tc\n0\ta\td\n")
    assert dev_score(encoder, tmp_path / "dev.tsv")() == pytest.approx(1)
    encoder.by_text = dict.fromkeys(angles, [1.0, 0.0])
    assert dev_score(encoder, tmp_path / "dev.tsv")() == -1, "a collapsed model is worse than any other"


def test_a_file_of_another_form(tmp_path):
    (tmp_path / "dev.tsv").write_text("a\tb\n")
    with pytest.raises(InputError, match="2 columns where score, sentence, sentence"):
        dev_score(Fixed({}), tmp_path / "dev.tsv")
