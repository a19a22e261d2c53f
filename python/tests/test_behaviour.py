"""Manners: interruption, threads, files, pickles, warnings, errors, hyperparameters."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import riemannian_laplace
from riemannian_laplace import (
    InputError,
    Laplace,
    LaplaceWarning,
    MemoryLimitError,
    NotFittedError,
    UnsupportedError,
    set_memory_limit,
)
from riemannian_laplace.layers import Linear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, :1]) + 0.1 * RNG.normal(size=(60, 1))
NEW = 3 * RNG.normal(size=(7, 2))


def network(width: int = 20) -> list[object]:
    rng = np.random.default_rng(1)
    hidden = np.tanh(X @ (first := rng.normal(size=(width, 2))).T)
    last, *_ = np.linalg.lstsq(np.hstack([hidden, np.ones((60, 1))]), Y, rcond=1e-3)
    return [Linear(first, np.zeros(width)), "tanh", Linear(last[:-1].T, last[-1])]


def fitted(width: int = 20, **options: object) -> Laplace:
    return Laplace(network(width), "regression", "all", "full", **options).fit(X, Y)


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_ctrl_c_stops_a_long_sampling_run_and_leaves_a_usable_object() -> None:
    la = fitted(40)
    expected = la.samples(2, seed=0).theta
    pid = os.getpid()
    timer = threading.Timer(0.7, lambda: os.kill(pid, signal.SIGINT))
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        la.samples(1_000_000)
    assert time.monotonic() - began < 30
    assert np.array_equal(la.samples(2, seed=0).theta, expected)
    assert la(NEW)[0].shape == (7, 1)


@pytest.mark.usefixtures("heard")
@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_ctrl_c_stops_a_long_tuning_and_leaves_the_old_hyperparameters() -> None:
    # One prior precision for each of 2,401 weights: every evaluation factors a matrix of that size.
    la = fitted(600)
    precision, evidence = la.prior_precision, float(la.log_marginal_likelihood())
    pid = os.getpid()
    timer = threading.Timer(0.3, lambda: os.kill(pid, signal.SIGINT))
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        la.optimize_prior_precision(prior_structure="diag")
    assert time.monotonic() - began < 30
    assert np.array_equal(la.prior_precision, precision)
    assert float(la.log_marginal_likelihood()) == evidence


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_other_threads_run_during_long_work() -> None:
    la = fitted(40)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.002)

    thread = threading.Thread(target=tick)
    thread.start()
    samples = la.samples(150)
    done.set()
    thread.join()
    # With the GIL held for the whole of the work there would be one or two.
    assert len(samples) == 150 and len(ticks) > 5


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_one_object_serves_several_threads() -> None:
    la = fitted()
    expected = la(NEW)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(la(NEW))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(np.array_equal(pair[1], expected[1]) for pair in found)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_files_pickles_and_copies_hold_the_same_posterior(tmp_path: Path) -> None:
    la = fitted()
    la.optimize_prior_precision()
    la.save(tmp_path / "posterior.safetensors")
    for other in (
        Laplace.load(tmp_path / "posterior.safetensors"),
        pickle.loads(pickle.dumps(la)),
        copy.deepcopy(la),
    ):
        assert np.array_equal(other(NEW)[1], la(NEW)[1])
        assert np.array_equal(other.samples(2, seed=0).theta, la.samples(2, seed=0).theta)
        assert other.sigma_noise == la.sigma_noise
        other.save(tmp_path / "again.safetensors")
        assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "posterior.safetensors").read_bytes()
    again = pickle.loads(pickle.dumps(la))
    again.fit(X, Y)
    assert again.n_data == la.n_data
    with pytest.raises(UnsupportedError, match="weight space"):
        la.save(tmp_path / "sums.safetensors", with_data=False)
    la = Laplace(network(), "regression", "all", "weight-space").fit(X, Y)
    la.save(tmp_path / "sums.safetensors", with_data=False)
    without = Laplace.load(tmp_path / "sums.safetensors")
    assert np.allclose(without(NEW)[1], la(NEW)[1])
    with pytest.raises(InputError, match="training data"):
        without.samples(1)
    with pytest.raises(InputError, match="no model to fit"):
        without.fit(X, Y)
    more = without.fit(X[:5], Y[:5], override=False)
    assert more.n_data == 65
    unfitted = pickle.loads(pickle.dumps(Laplace(network(), "regression")))
    assert "not fitted" in repr(unfitted)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_hyperparameters_that_are_set_are_used() -> None:
    la = fitted(sigma_noise=0.3)
    la.prior_precision = 5.0
    la.sigma_noise = 0.2
    expected = fitted(sigma_noise=0.2, prior_precision=5.0)
    assert la.log_marginal_likelihood() == pytest.approx(expected.log_marginal_likelihood(), abs=1e-9)
    assert np.allclose(la(NEW)[1], expected(NEW)[1])
    assert la.log_marginal_likelihood(2.0, 0.4) == pytest.approx(
        fitted(sigma_noise=0.4, prior_precision=2.0).log_marginal_likelihood(), abs=1e-9
    )
    assert (la.prior_precision.item(), la.sigma_noise.item()) == (2.0, 0.4)
    by_layer = fitted(prior_precision=[1.0, 3.0])
    assert by_layer.prior_precision.tolist() == [1.0, 3.0]
    by_weight = fitted(prior_precision=np.full(81, 2.0))
    shared = fitted(prior_precision=2.0)
    assert by_weight.log_marginal_likelihood() == pytest.approx(shared.log_marginal_likelihood(), abs=1e-9)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_a_given_noise_is_held_and_another_is_tuned() -> None:
    held, tuned = fitted(sigma_noise=0.5), fitted()
    held.optimize_prior_precision()
    tuned.optimize_prior_precision()
    assert held.sigma_noise == 0.5 and tuned.sigma_noise < 0.3
    held.optimize_prior_precision(sigma_noise="tuned")
    assert held.sigma_noise == pytest.approx(tuned.sigma_noise.item(), rel=1e-6)
    for structure, count in (("layerwise", 2), ("diag", 81)):
        tuned.optimize_prior_precision(prior_structure=structure)
        assert tuned.prior_precision.shape == (count,)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_a_grid_search_scores_held_out_data() -> None:
    la = fitted()
    inputs = RNG.normal(size=(40, 2))
    held_out = (inputs, np.sin(inputs[:, :1]) + 0.1 * RNG.normal(size=(40, 1)))
    report = la.optimize_prior_precision(method="gridsearch", val_loader=held_out)
    assert la.evaluate(*held_out)["nll"] == pytest.approx(report["nll"])
    assert report["nll"] <= fitted().evaluate(*held_out)["nll"]
    with pytest.raises(InputError, match="held-out"):
        la.optimize_prior_precision(method="gridsearch")


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_more_data_are_added_to_a_fit() -> None:
    parts = Laplace(network(), "regression", "all", "full").fit(X[:25], Y[:25]).fit(X[25:], Y[25:], override=False)
    whole = fitted()
    assert parts.n_data == 60
    assert parts.log_marginal_likelihood() == pytest.approx(whole.log_marginal_likelihood(), abs=1e-8)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_results_are_richer_than_pairs() -> None:
    la = fitted(sigma_noise=0.2)
    result = la(NEW)
    mean, covariance = result
    assert result.mean is mean and result.covariance is covariance
    prediction = result.prediction
    assert np.allclose(prediction.total_variance, covariance[:, 0] + 0.2**2)
    lower, upper = prediction.interval(0.9)
    assert np.allclose(upper - lower, 2 * 1.6448536269514722 * prediction.standard_deviation)
    draws = la.predictive_samples(NEW, n_samples=3000, seed=1)
    assert draws.shape == (3000, 7, 1)
    assert np.allclose(draws.var(axis=0), covariance[:, 0], rtol=0.2)
    assert la.predictive_samples(NEW, "nn", 5).shape == (5, 7, 1)
    assert la.predictive_samples(NEW, "riemannian", 4).shape == (4, 7, 1)
    assert la(NEW, diagonal_output=True)[1].shape == (7, 1)
    assert la.sample(3).shape == la.sample(3, metric="fisher").shape == (3, 81)
    assert np.array_equal(la.sample(2, first=1), la.sample(3, seed=0)[1:])
    assert np.allclose(np.linalg.inv(la.posterior_precision)[0, 0], la.sample(4000)[:, 0].var(), rtol=0.2)
    assert "<table>" in la._repr_html_() and "log marginal likelihood" in repr(la)


def test_untrained_networks_draw_a_warning() -> None:
    untrained = [Linear(RNG.normal(size=(1, 2)), [7.0])]
    with pytest.warns(LaplaceWarning, match="less of its data than a constant"):
        Laplace(untrained, "regression", "all", "full").fit(X, Y)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_mistakes_are_errors_that_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="call fit first"):
        Laplace(network(), "regression")(NEW)
    with pytest.raises(InputError, match="no likelihood `gausian`"):
        Laplace(network(), "gausian")
    with pytest.raises(InputError, match="no hessian_structure `block`"):
        Laplace(network(), "regression", "all", "block")
    with pytest.raises(UnsupportedError, match="stochastic curvature is not offered"):
        Laplace(network(), "regression", "all", "full", backend_kwargs={"stochastic": True})
    with pytest.raises(InputError, match="subnetwork_indices"):
        Laplace(network(), "regression", "subnetwork", "full")
    with pytest.raises(InputError, match="belongs to regression"):
        Laplace(network(), "classification", sigma_noise=0.5)
    la = fitted()
    with pytest.raises(InputError, match="no pred_type `glmm`"):
        la(NEW, pred_type="glmm")
    with pytest.raises(InputError, match="no link `logit`"):
        la(NEW, link_approx="logit")
    with pytest.raises(InputError, match="there is no metric `hyperbolic`"):
        la.sample(1, metric="hyperbolic")
    with pytest.raises(InputError, match="3 columns, the network 2"):
        la(np.ones((1, 3)))
    with pytest.raises(InputError, match="not finite|finite"):
        la(np.full((1, 2), np.inf))
    with pytest.raises(OSError, match="posterior"):
        la.save(tmp_path / "nowhere" / "posterior.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"not a file of ours")
    with pytest.raises(InputError, match="broken.safetensors"):
        Laplace.load(tmp_path / "broken.safetensors")
    with pytest.raises(InputError, match="prior precision|prior_precision"):
        fitted(prior_precision=-1.0)
    with pytest.raises(InputError, match="temperature"):
        fitted(temperature=0.0)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_too_little_memory_is_an_error_of_its_own() -> None:
    set_memory_limit(1 << 16)
    try:
        with pytest.raises(MemoryLimitError, match="GB|MB|kB"):
            fitted(300)
    finally:
        set_memory_limit(None)
    assert issubclass(MemoryLimitError, MemoryError)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_parts_of_the_weights_may_be_uncertain() -> None:
    some = Laplace(network(), "regression", "subnetwork", "full", subnetwork_indices=[0, 5, 80]).fit(X, Y)
    assert some.n_params == 3 and some.sample(2).shape == (2, 3)
    assert Laplace(network(), "regression", "subnetwork:10", "diag").fit(X, Y).n_params == 10
    assert Laplace(network(), "regression", "layers:0", "kron").fit(X, Y).n_params == 60
    assert Laplace(network(), "regression").fit(X, Y).n_params == 21


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_a_low_rank_posterior_of_all_eigenvalues_is_the_exact_one() -> None:
    exact = fitted(sigma_noise=0.2)
    whole = Laplace(network(), "regression", "all", "lowrank", sigma_noise=0.2, rank=60).fit(X, Y)
    assert whole.log_marginal_likelihood() == pytest.approx(exact.log_marginal_likelihood(), abs=1e-6)
    few = Laplace(network(), "regression", "all", "lowrank", sigma_noise=0.2, rank=5).fit(X, Y)
    assert few.log_det_ratio < exact.log_det_ratio


def test_the_package_says_its_version() -> None:
    assert riemannian_laplace.__version__.count(".") == 2


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_leave_one_out_is_that_of_refitted_linear_models() -> None:
    """A linear model at its mode: leaving a point out of the posterior, written out with NumPy."""
    design = np.hstack([X, np.ones((60, 1))])
    precision = design.T @ design / 0.3**2 + np.eye(3)
    mode = np.linalg.solve(precision, design.T @ Y[:, 0] / 0.3**2)
    la = Laplace([Linear([mode[:2]], [mode[2]])], "regression", "all", "full", sigma_noise=0.3).fit(X, Y)
    expected = []
    for n in range(60):
        rest = np.delete(np.arange(60), n)
        without = design[rest].T @ design[rest] / 0.3**2 + np.eye(3)
        mean = design[n] @ np.linalg.solve(without, design[rest].T @ Y[rest, 0] / 0.3**2)
        variance = design[n] @ np.linalg.solve(without, design[n]) + 0.3**2
        expected.append(-0.5 * (np.log(2 * np.pi * variance) + (Y[n, 0] - mean) ** 2 / variance))
    loo = la.loo()
    assert np.allclose(loo.pointwise, expected)
    assert loo.elpd_loo == pytest.approx(sum(expected)) and loo.estimator == "closed form"
    alone = la.loo("map")
    assert loo.minus(alone)[0] == pytest.approx((loo.pointwise - alone.pointwise).sum())
    sampled = la.loo("riemannian", n_samples=400)
    assert sampled.method == "riemannian" and sampled.elpd_loo == pytest.approx(loo.elpd_loo, abs=0.5)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
def test_reports_are_pages_of_their_own(tmp_path: Path) -> None:
    la = fitted()
    la.optimize_prior_precision()
    la.report(tmp_path / "r.html", n_samples=10)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>") and "2-20-1 tanh" in page
    la.report(tmp_path / "r.html", NEW, np.sin(NEW[:, :1]), methods=["map", "glm"])
    assert (tmp_path / "r.html").read_text(encoding="utf-8") != page
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    with pytest.raises(OSError, match="could not be written"):
        la.report(tmp_path / "nowhere" / "r.html", methods=["map"])
