import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from embedlift.chunks import Piece, mean_of_pieces, split_long


@pytest.fixture(scope="module")
def syllables():
    """A tokenizer of words in one or two parts."""
    vocabulary = {token: index for index, token in enumerate(["?", "sun", "##day", "rain", "##bow", "a"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?")


def test_texts_are_cut_between_words(syllables):
    text = "sunday a rainbow  a sunday"
    assert split_long(syllables, [text, "", "a"], 4) == [
        [Piece("sunday a", 3), Piece(" rainbow  a", 3), Piece(" sunday", 2)],
        [Piece("", 0)],
        [Piece("a", 1)],
    ]
    assert split_long(syllables, [text], 8) == [[Piece(text, 8)]]


def test_a_word_above_the_room_is_cut_in_the_middle(syllables):
    assert split_long(syllables, ["a sunday"], 1) == [[Piece("a", 1), Piece(" sun", 1), Piece("day", 1)]]


def test_no_character_is_lost(syllables):
    text = "  a sunday\n rainbow a? sunday \ud800 " * 20
    for room in (1, 2, 3, 7, 50):
        (pieces,) = split_long(syllables, [text], room)
        assert "".join(piece.text for piece in pieces) == text.replace("\ud800", "\ufffd")
        assert max(piece.tokens for piece in pieces) <= room


def test_the_mean_is_weighted_by_tokens_and_an_empty_text_counts_as_one():
    vectors = np.array([[1, 0], [0, 1], [4, 4], [7, 7]], dtype=np.float32)
    pieces = [[Piece("", 3), Piece("", 1)], [Piece("", 0)], [Piece("", 5)]]
    np.testing.assert_allclose(mean_of_pieces(vectors, pieces), [[0.75, 0.25], [4, 4], [7, 7]])
