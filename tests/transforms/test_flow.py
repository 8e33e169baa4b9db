import pickle

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from embedlift.errors import InputError
from embedlift.functional.dense_chain import dense_chain
from embedlift.transforms import storage
from embedlift.transforms.flow import Flow

SMALL = {"levels": 2, "depth": 2, "width": 8, "epochs": 2, "batch_size": 32}


def cloud(count=600, dimension=12, seed=0):
    """Return vectors in a narrow cone, with loud and quiet directions."""
    rng = np.random.default_rng(seed)
    loudness = 1 / np.arange(1, dimension + 1)
    mixed = (rng.standard_normal((count, dimension)) * loudness) @ rng.standard_normal((dimension, dimension))
    return (mixed + 3).astype(np.float32)


@pytest.fixture(scope="module")
def fitted():
    return Flow(**SMALL).fit(cloud())


def test_scikit_learn_contract():
    check_estimator(Flow(levels=1, depth=1, width=4, epochs=2, batch_size=8), on_skip=None)


@pytest.mark.parametrize("permutation", ["reversal", "random", "lu"])
@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_training_raises_the_likelihood_of_new_vectors(coupling, permutation):
    X = cloud(2400)
    settings = {**SMALL, "epochs": 4, "coupling": coupling, "permutation": permutation}
    flow = Flow(**settings).fit(X[:2000])
    start = Flow(**{**settings, "lr": 1e-12}).fit(X[:2000])
    assert flow.log_prob(X[2000:]).mean() > start.log_prob(X[2000:]).mean() + 0.5
    assert flow.losses_[-1] < flow.losses_[0]


def test_shapes_types_and_the_way_back(fitted):
    X = cloud(50, seed=1)
    Z = fitted.transform(X)
    assert Z.shape == X.shape and Z.dtype == np.float32
    assert fitted.transform(X.astype(np.float64)).dtype == np.float64
    np.testing.assert_allclose(fitted.transform(X.astype(np.float64)), Z, atol=1e-4)
    np.testing.assert_allclose(fitted.inverse(Z), X, atol=1e-4)
    np.testing.assert_allclose(fitted.to_module()(torch.from_numpy(X)).detach().numpy(), Z, atol=1e-6)
    np.testing.assert_allclose(fitted.transform(X[7:8])[0], Z[7], atol=1e-5)
    assert fitted.log_prob(X).shape == (50,)
    assert fitted.get_feature_names_out()[0] == "flow0"


def test_module_is_a_copy(fitted):
    X = cloud(5)
    before = fitted.transform(X)
    with torch.no_grad():
        for parameter in fitted.to_module().parameters():
            parameter.zero_()
    np.testing.assert_array_equal(fitted.transform(X), before)


def test_samples_resemble_the_vectors(fitted):
    drawn = fitted.sample(4000, seed=1)
    np.testing.assert_array_equal(drawn, fitted.sample(4000, seed=1))
    np.testing.assert_allclose(drawn.mean(0), cloud().mean(0), atol=0.4)
    np.testing.assert_allclose(drawn.std(0), cloud().std(0), rtol=0.3)


def test_log_prob_is_that_of_the_normal_at_z_plus_the_jacobian(fitted):
    x = torch.from_numpy(cloud(1).astype(np.float64))
    module = fitted.to_module().double()
    jacobian = torch.autograd.functional.jacobian(lambda row: module(row[None])[0], x[0])
    expected = torch.distributions.Normal(0, 1).log_prob(module(x)).sum() + torch.linalg.slogdet(jacobian)[1]
    assert fitted.log_prob(x.numpy())[0] == pytest.approx(float(expected.detach()))


def test_same_seed_same_bytes_on_arrays_and_memory_maps(tmp_path):
    X = cloud(1500, dimension=96)  # enough for products to be shared among threads
    np.save(tmp_path / "X.npy", X)
    states = []
    for rows, threads in ((X, 1), (np.load(tmp_path / "X.npy", mmap_mode="r"), 2)):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        states.append(Flow(**SMALL).fit(rows).get_state())
        assert torch.get_num_threads() == threads
        torch.set_num_threads(before)
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name])
    other = Flow(**SMALL, seed=1).fit(X).get_state()
    assert not np.array_equal(states[0]["glow.levels.0.0.norm.bias"], other["glow.levels.0.0.norm.bias"])


def test_memory_does_not_grow_with_the_number_of_vectors(tmp_path):
    import tracemalloc

    peaks = []
    for count in (20_000, 80_000):
        X = np.lib.format.open_memmap(tmp_path / f"{count}.npy", "w+", np.float32, (count, 16))
        X[:] = np.random.default_rng(0).standard_normal(X.shape)
        tracemalloc.start()
        Flow(levels=1, depth=1, width=4, epochs=1, batch_size=1024, validation_fraction=0.1).fit(X)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 80_000 * 16 * 4 * 2  # chunks of 32 MB would hold all of it; batches hold little
    assert peaks[1] < 4.5 * peaks[0]


@pytest.mark.parametrize("settings", [{}, {"coupling": "affine"}, {"permutation": "random"}, {"permutation": "lu"}])
def test_saved_and_loaded_flow_is_the_same_and_trains_on(tmp_path, settings):
    X = cloud()
    flow = Flow(**SMALL, **settings).fit(X)
    storage.save(flow, tmp_path / "flow.safetensors")
    loaded = storage.load(tmp_path / "flow.safetensors")
    np.testing.assert_array_equal(loaded.transform(X), flow.transform(X))
    again = loaded.partial_fit(X).transform(X)
    np.testing.assert_array_equal(again, pickle.loads(pickle.dumps(flow)).partial_fit(X).transform(X))
    assert not np.array_equal(again, flow.transform(X))


def test_a_state_of_another_shape_is_refused(fitted):
    with pytest.raises(InputError, match="is not that of Flow"):
        Flow(levels=2, depth=2, width=9).set_state(fitted.get_state())


def test_partial_fit_starts_and_goes_on():
    X = cloud(2400)
    flow = Flow(**SMALL)
    for start in range(0, 2000, 500):
        flow.partial_fit(X[start : start + 500])
    assert flow.n_steps_ == 4 * (500 // 32)
    assert flow.log_prob(X[2000:]).mean() > Flow(**SMALL).partial_fit(X[:500]).log_prob(X[2000:]).mean()


def test_the_best_epoch_is_kept():
    X = cloud(80, dimension=8)  # few enough to be learnt by heart
    flow = Flow(levels=1, depth=3, width=64, epochs=300, batch_size=16, lr=1e-2, validation_fraction=0.3, patience=3)
    flow.fit(X)
    best = int(np.argmin(flow.losses_))
    assert len(flow.losses_) == best + 5  # the start, the best epoch, and patience + 1 more
    assert flow.n_steps_ == best * (flow.n_steps_ // best)
    held_out = flow._batches(X, 0.3, reset=True).held_out
    assert -flow.log_prob(held_out).mean() / (8 * np.log(2)) == pytest.approx(min(flow.losses_), abs=1e-5)


def test_a_loss_that_runs_away_is_stopped_and_said():
    X = cloud()
    with pytest.warns(ConvergenceWarning, match="lower lr"):
        flow = Flow(**{**SMALL, "lr": 50.0, "warmup": 0, "clip_norm": 1e9}).fit(X)
    assert np.isfinite(flow.transform(X)).all()
    assert -flow.log_prob(X).mean() / (12 * np.log(2)) < flow.losses_[0] + 0.2


@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_constant_and_repeated_dimensions_stay_finite(coupling):
    X = cloud(1000)
    X[:, 3] = 7.0
    X[:, 5] = X[:, 6]
    flow = Flow(**{**SMALL, "epochs": 10}, coupling=coupling).fit(X)
    Z = flow.transform(X)
    assert np.isfinite(Z).all() and np.abs(Z).max() < 100
    np.testing.assert_allclose(flow.inverse(Z), X, atol=1e-3)
    assert flow.losses_[-1] < flow.losses_[0]


def test_fewer_vectors_than_a_batch():
    X = cloud(9)
    assert np.isfinite(Flow(levels=2, batch_size=128, epochs=3).fit(X).transform(X)).all()


def test_an_odd_dimension():
    X = cloud(500, dimension=13)
    flow = Flow(**SMALL).fit(X)
    np.testing.assert_allclose(flow.inverse(flow.transform(X)), X, atol=1e-4)


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_a_row_that_is_not_finite_is_named(fitted, value, what):
    X = cloud()
    X[423, 2] = value
    for call in (Flow(**SMALL).fit, fitted.transform, fitted.log_prob):
        with pytest.raises(InputError, match=f"{what} in row 423"):
            call(X)


@pytest.mark.parametrize(
    ("settings", "X", "message"),
    [
        ({}, cloud(1), "at least 2 vectors to train on, got n_samples = 1"),
        ({}, np.ones((40, 12), np.float32), "are identical"),
        ({"levels": 5}, cloud(), "lower levels"),
        ({"epochs": 0}, cloud(), "epochs and batch_size"),
        ({"lr": 0.0}, cloud(), "lr must be above 0"),
        ({"validation_fraction": 1.0}, cloud(), "validation_fraction"),
    ],
)
def test_what_cannot_be_fitted_is_said(settings, X, message):
    with pytest.raises(InputError, match=message):
        Flow(**{**SMALL, **settings}).fit(X)


def test_an_unfitted_flow_says_so():
    with pytest.raises(NotFittedError):
        Flow().transform(cloud())


def test_presets():
    paper = Flow.preset("paper", seed=4)
    assert (paper.lr, paper.batch_size, paper.epochs, paper.decay, paper.seed) == (1e-3, 64, 1, False, 4)
    assert Flow.preset("default").get_params() == Flow().get_params()
    with pytest.raises(InputError, match="unknown preset"):
        Flow.preset("fast")


def run_chain(layers, x):
    for layer in layers:
        y = x @ torch.from_numpy(layer.weight).T + torch.from_numpy(layer.bias)
        y = torch.relu(y) if layer.activation == "relu" else y
        x = y if layer.residual is None else y + x @ torch.from_numpy(layer.residual).T
    return x


@pytest.mark.parametrize("permutation", ["reversal", "random", "lu"])
@pytest.mark.parametrize("dimension", [12, 13])
def test_dense_chain_is_the_flow(permutation, dimension):
    X = cloud(dimension=dimension)
    flow = Flow(**{**SMALL, "levels": 3}, permutation=permutation).fit(X)
    layers = flow.to_dense_chain()
    assert len(layers) == 2 * 3 * 2 + 1
    assert all(layer.weight.shape[0] != layer.weight.shape[1] for layer in layers)  # so a residual is a matrix
    Z = flow.transform(X)
    chained = run_chain(layers, torch.from_numpy(X)).numpy()
    assert np.abs(chained - Z).max() < 1e-4 * np.abs(Z).max()


def test_affine_couplings_are_no_dense_chain():
    flow = Flow(**SMALL, coupling="affine").fit(cloud())
    assert flow.to_dense_chain() is None
    with pytest.raises(InputError, match="fit it with additive ones"):
        dense_chain(flow.glow_)
