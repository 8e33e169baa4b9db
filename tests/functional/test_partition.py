import numpy as np
import pytest

from embedlift.functional.partition import log_partition, log_partition_isotropy


def isotropy_of(vectors):
    directions = np.linalg.eigh(vectors.T @ vectors)[1].T
    return log_partition_isotropy(log_partition(vectors, directions))


def test_the_partition_function_is_a_sum_of_exponentials():
    vectors = np.random.default_rng(0).normal(size=(20, 3))
    expected = np.log([np.exp(vectors).sum(axis=0), np.exp(-vectors).sum(axis=0)])
    np.testing.assert_allclose(log_partition(vectors, np.eye(3)), expected)


def test_vectors_along_all_axes_and_back_are_even():
    """Z is e^s + e^-s + 2 (D - 1) along every axis."""
    vectors = 2.0 * np.concatenate([np.eye(4), -np.eye(4)])
    np.testing.assert_allclose(log_partition(vectors, np.eye(4)), np.log(2 * np.cosh(2) + 6))
    assert isotropy_of(vectors) == pytest.approx(0)


@pytest.mark.parametrize("length", [0.5, 30.0, 5000.0])
def test_equal_vectors_of_any_length(length):
    """Z is n e^a along them and n e^-a against them: I = e^(-2 a), beyond the range of floats for a large a."""
    assert isotropy_of(np.full((7, 4), length / 2)) == pytest.approx(-2 * length)


def test_the_sign_of_an_eigenvector_does_not_matter():
    vectors = np.random.default_rng(0).normal(size=(50, 4)) + 1
    logs = log_partition(vectors, np.eye(4))
    assert log_partition_isotropy(logs) == log_partition_isotropy(log_partition(vectors, -np.eye(4)))


def test_pieces_merge():
    vectors = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    merged = np.logaddexp(log_partition(vectors[:13], np.eye(4)), log_partition(vectors[13:], np.eye(4)))
    np.testing.assert_allclose(merged, log_partition(vectors, np.eye(4)), rtol=1e-6)


def test_an_isotropic_gaussian_is_nearly_even():
    """Z(c) / n is e^(1/2) for every c; its spread over 20,000 vectors is some 1 %."""
    assert isotropy_of(np.random.default_rng(0).normal(size=(20_000, 8))) == pytest.approx(0, abs=0.06)
