import numpy as np
import pytest
import torch
from sentence_transformers.base.modules import Dense
from sklearn.covariance import OAS
from sklearn.utils.estimator_checks import parametrize_with_checks

from embedlift.errors import InputError
from embedlift.functional.similarity import unit_rows
from embedlift.transforms import Centering, Whitening, affine, rows, transform_class

#: Checks of scikit-learn that a transform of vectors cannot pass, with the reason.
NOT_FOR_US: dict[str, str] = {}


@parametrize_with_checks(
    [Whitening(), Whitening(form="zca"), Whitening(shrinkage="oas"), Whitening(exponent=0.5), Centering()],
    expected_failed_checks=lambda _: NOT_FOR_US,
)
@pytest.mark.filterwarnings("ignore:.* vectors span only .* directions:UserWarning")  # checks use degenerate data
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def cloud(count=500, dimension=6, seed=0):
    """Correlated vectors far from the origin."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(dimension, dimension))
    return rng.normal(size=(count, dimension)) @ mixing + 10 * rng.normal(size=dimension)


@pytest.mark.parametrize("form", ["pca", "zca"])
def test_output_has_zero_mean_and_identity_covariance(form):
    z = Whitening(form=form).fit_transform(cloud())
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(np.cov(z.T), np.eye(6), atol=1e-9)


def test_zca_is_the_inverse_square_root_of_the_covariance():
    """It is symmetric, so no other whitening is nearer to the input (Kessy, Lewin, Strimmer 2018, arXiv:1512.00809)."""
    x = cloud()
    weight, _ = Whitening(form="zca").fit(x).to_dense()
    np.testing.assert_allclose(weight, weight.T, atol=1e-6)
    np.testing.assert_allclose(weight @ np.cov(x.T) @ weight, np.eye(6), atol=1e-4)
    assert np.linalg.eigvalsh(weight).min() > 0
    centred = x - x.mean(axis=0)
    distances = {form: ((Whitening(form=form).fit_transform(x) - centred) ** 2).sum() for form in ("zca", "pca")}
    assert distances["zca"] < distances["pca"]


@pytest.mark.parametrize("exponent", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("form", ["pca", "zca"])
def test_the_exponent_leaves_that_much_less_of_the_variances(form, exponent):
    x = cloud()
    variances = np.linalg.eigvalsh(np.cov(x.T))
    z = Whitening(form=form, exponent=exponent).fit_transform(x)
    np.testing.assert_allclose(np.linalg.eigvalsh(np.cov(z.T)), np.sort(variances ** (1 - exponent)), rtol=1e-6)


@pytest.mark.parametrize("exponent", [0, -1, 1.5, float("nan")])
def test_an_exponent_out_of_range_is_refused(exponent):
    with pytest.raises(InputError, match="exponent must be above 0 and at most 1"):
        Whitening(exponent=exponent).fit(cloud())


@pytest.mark.parametrize("components", [None, 3])
def test_both_forms_give_the_same_cosines(components):
    x = cloud(40)
    pca, zca = (unit_rows(Whitening(components, form=form).fit_transform(x)) for form in ("pca", "zca"))
    assert pca.shape[1] == (components or 6)
    assert zca.shape[1] == 6
    np.testing.assert_allclose(pca @ pca.T, zca @ zca.T, atol=1e-10)


def test_cosines_do_not_change_when_the_input_is_rotated_scaled_and_moved():
    x = cloud(60)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    one, other = (unit_rows(Whitening().fit_transform(v)) for v in (x, 3 * x @ rotation - 100))
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-8)


def test_leading_components_are_kept_and_described():
    x = cloud()
    whitening = Whitening(2).fit(x)
    values, vectors = np.linalg.eigh(np.cov(x.T))
    np.testing.assert_allclose(whitening.explained_variance_, values[::-1][:2])
    np.testing.assert_allclose(np.abs(whitening.components_ @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-9)
    np.testing.assert_allclose(whitening.mean_, x.mean(axis=0))
    shares = values / values.sum()
    assert whitening.effective_rank_ == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))
    assert whitening.n_components_ == 2


def oas_weight(x):
    """Read the weight of the sphere off the entries beside the diagonal, which shrink by one minus it."""
    whitening = Whitening(shrinkage="oas").fit(x)
    shrunk = (whitening.components_.T * whitening.explained_variance_) @ whitening.components_
    beside = ~np.eye(x.shape[1], dtype=bool)
    return 1 - (shrunk / np.cov(x.T))[beside].mean()


@pytest.mark.parametrize("count", [8, 30, 500])
def test_oas_is_equation_23(count):
    x = cloud(count)
    s, n, p = np.cov(x.T), count, 6
    numerator = (1 - 2 / p) * np.trace(s @ s) + np.trace(s) ** 2
    weight = numerator / ((n + 1 - 2 / p) * (np.trace(s @ s) - np.trace(s) ** 2 / p))
    assert oas_weight(x) == pytest.approx(min(1, weight), rel=1e-6)


@pytest.mark.parametrize("count", [100, 400])
def test_oas_agrees_with_scikit_learn_in_many_dimensions(count):
    """scikit-learn leaves the terms 2 / p out."""
    x = cloud(count, 200)
    assert oas_weight(x) == pytest.approx(OAS().fit(x).shrinkage_, rel=2 / 200 + 1 / count)


def test_full_shrinkage_only_centres_and_scales():
    x = cloud()
    z = Whitening(shrinkage=1.0, form="zca").fit_transform(x)
    centred = x - x.mean(axis=0)
    np.testing.assert_allclose(z, centred / np.sqrt(np.trace(np.cov(x.T)) / 6), atol=1e-9)


@pytest.mark.parametrize("make", [Whitening, Centering])
@pytest.mark.parametrize("sizes", [[500], [1, 499], [100, 1, 399]], ids=str)
def test_a_stream_gives_the_same_map_as_one_array(make, sizes):
    x = cloud()
    stream = make()
    for batch in np.split(x, np.cumsum(sizes)[:-1]):
        stream.partial_fit(batch)
    np.testing.assert_allclose(stream.transform(x), make().fit(x).transform(x), atol=1e-8)


def test_a_stream_goes_on_after_it_was_used():
    x = cloud()
    stream = Whitening().partial_fit(x[:250])
    stream.transform(x)
    stream.partial_fit(x[250:])
    np.testing.assert_allclose(stream.transform(x), Whitening().fit(x).transform(x), atol=1e-8)


def test_fit_forgets_what_was_seen():
    x = cloud()
    again = Whitening().fit(cloud(seed=1) * 5).fit(x)
    np.testing.assert_allclose(again.transform(x), Whitening().fit(x).transform(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_memory_map_is_read_in_pieces(tmp_path, monkeypatch, dtype):
    x = cloud(1000).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    expected = Whitening().fit(x).transform(x)

    largest = 0
    original = affine.Moments.of

    def spy(chunk):
        nonlocal largest
        largest = max(largest, len(chunk))
        return original(chunk)

    monkeypatch.setattr(rows, "_CHUNK_BYTES", 64 * 8 * 6)
    monkeypatch.setattr(affine.Moments, "of", spy)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    whitening = Whitening().fit(mapped)
    assert largest == 64
    assert whitening.moments_.count == 1000
    z = whitening.transform(mapped)
    assert z.dtype == dtype
    np.testing.assert_allclose(z, expected, atol=1e-3 if dtype == np.float32 else 1e-8)


@pytest.mark.parametrize(
    "estimator",
    [Whitening(), Whitening(3), Whitening(3, form="zca"), Whitening(shrinkage=0.3), Centering()],
    ids=str,
)
def test_torch_module_and_dense_layer_equal_transform(estimator):
    x = cloud().astype(np.float32)
    expected = estimator.fit(x).transform(x)
    with torch.no_grad():
        module = estimator.to_module()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(module, expected, atol=2e-4)
    weight, bias = estimator.to_dense()
    dense = Dense(
        *weight.T.shape,
        activation_function=None,
        init_weight=torch.from_numpy(weight),
        init_bias=torch.from_numpy(bias),
    )
    with torch.no_grad():
        stock = dense({"sentence_embedding": torch.from_numpy(x)})["sentence_embedding"].numpy()
    np.testing.assert_allclose(stock, module, rtol=1e-6)


def test_one_new_vector_alone_is_mapped_as_in_a_batch():
    whitening = Whitening().fit(cloud())
    new = cloud(20, seed=7)
    np.testing.assert_allclose(whitening.transform(new[3:4]), whitening.transform(new)[3:4], rtol=1e-12)


def test_float16_vectors_are_fitted_in_float64():
    x = cloud().astype(np.float16)
    z = Whitening().fit(x).transform(x)
    np.testing.assert_allclose(np.cov(z.T), np.eye(6), atol=1e-9)


@pytest.mark.parametrize("form", ["pca", "zca"])
@pytest.mark.parametrize("count", [2, 5, 10])
def test_fewer_vectors_than_dimensions_shrink_with_a_warning(form, count):
    x = cloud(count, 32)
    with pytest.warns(UserWarning, match=rf"{count} vectors span only {count - 1} directions of 32"):
        whitening = Whitening(16, form=form).fit(x)
    assert whitening.n_components_ == count - 1
    assert np.isfinite(whitening.transform(cloud(7, 32, seed=2))).all()


def test_enough_vectors_for_the_wanted_components_do_not_warn():
    assert Whitening(8).fit(cloud(10, 32)).n_components_ == 8


def test_constant_repeated_and_dependent_columns_are_left_out():
    x = cloud(100, 3)
    wide = np.column_stack([x, x[:, 0], np.full(100, 7.0), x[:, 0] - 2 * x[:, 1]])
    z = Whitening().fit_transform(wide)
    np.testing.assert_allclose(np.cov(z.T), np.eye(3), atol=1e-8)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_identical_vectors_are_refused(value, dtype):
    with pytest.raises(InputError, match="all 9 vectors are identical"):
        Whitening().fit(np.full((9, 4), value, dtype=dtype))


def test_one_vector_is_refused_with_the_minimum():
    with pytest.raises(InputError, match="at least 2 vectors, got n_samples = 1"):
        Whitening().fit(cloud(1))


@pytest.mark.parametrize("make", [Whitening, Centering])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_the_row_of_a_bad_vector_is_named(monkeypatch, make, value, name):
    """In fitting and in use; also beyond the first piece of a large array."""
    monkeypatch.setattr(rows, "_CHUNK_BYTES", 64 * 8 * 6)
    fitted = make().fit(cloud())
    x = cloud()
    x[317, 2] = value
    for use in (make().fit, make().partial_fit, fitted.transform):
        with pytest.raises(InputError, match=f"{name} in row 317"):
            use(x)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components must be between 1 and the dimension 6"),
        ({"n_components": 7}, "n_components must be between 1 and the dimension 6"),
        ({"form": "cholesky"}, "form must be"),
        ({"shrinkage": 1.5}, "shrinkage must be"),
        ({"shrinkage": "ledoit"}, "shrinkage must be"),
        ({"rcond": 1}, "rcond must be"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        Whitening(**parameters).fit(cloud())


def test_the_cutoff_is_relative_to_the_largest_variance():
    x = np.random.default_rng(0).normal(size=(200, 3)) * [1, 1e-3, 1]
    assert Whitening().fit(x).n_components_ == 3
    assert Whitening(rcond=1e-4).fit(x).n_components_ == 2
    assert Whitening(rcond=1e-4).fit(1e6 * x).n_components_ == 2
    with pytest.warns(UserWarning, match="200 vectors span only 2 directions of 3"):  # more were asked for
        assert Whitening(3, rcond=1e-4).fit(x).n_components_ == 2


def test_methods_are_found_by_name():
    assert transform_class("whitening") is Whitening
    assert transform_class("center") is Centering
    with pytest.raises(InputError, match="unknown method 'pca': choose one of center, flow, whitening"):
        transform_class("pca")
