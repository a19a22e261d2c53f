"""What is known of rows besides their targets: weights, noise, trials."""

import numpy as np
import pytest

from riemannian_laplace import Laplace
from riemannian_laplace.errors import InputError
from riemannian_laplace.layers import Activation, Linear

RNG = np.random.default_rng(3)
X = RNG.normal(size=(20, 2))
NETWORK = [Linear(RNG.normal(size=(3, 2)), RNG.normal(size=3)), Activation("tanh"), Linear(RNG.normal(size=(1, 3)), [0.1])]
Y = X[:, :1] - 0.5 * X[:, 1:] + 0.1 * RNG.normal(size=(20, 1))
WEIGHTS = RNG.integers(0, 4, size=20).astype(float)


def fitted(x, y, likelihood="regression", **known):
    return Laplace(NETWORK, likelihood, "all", "full", prior_precision=5.0).fit(x, y, progress_bar=False, **known)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.errors.LaplaceWarning")
def test_a_row_of_weight_two_is_the_row_twice():
    weighted = fitted(X, Y, sample_weight=WEIGHTS)
    copies = np.repeat(np.arange(20), WEIGHTS.astype(int))
    replicated = fitted(X[copies], Y[copies])
    assert weighted.log_marginal_likelihood() == pytest.approx(replicated.log_marginal_likelihood(), rel=1e-10)
    at = RNG.normal(size=(5, 2))
    np.testing.assert_allclose(weighted(at)[1], replicated(at)[1], rtol=1e-9)
    # New rows have targets alone.
    assert np.isfinite(weighted.predict(at).scores(at[:, :1])["nll"])


@pytest.mark.filterwarnings("ignore::riemannian_laplace.errors.LaplaceWarning")
def test_known_noise_takes_the_place_of_sigma_or_is_added_to_it():
    noise = np.full(20, 0.3)
    alone = fitted(X, Y, noise=noise)
    equal = Laplace(NETWORK, "regression", "all", "full", sigma_noise=0.3, prior_precision=5.0)
    equal.fit(X, Y, progress_bar=False)
    assert alone.log_marginal_likelihood() == pytest.approx(equal.log_marginal_likelihood(), rel=1e-9)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.errors.LaplaceWarning")
def test_binomial_counts_are_single_answers():
    trials = RNG.integers(1, 6, size=20)
    successes = np.array([RNG.integers(0, n + 1) for n in trials])
    counted = fitted(X, successes[:, None].astype(float), "binomial", trials=trials)
    rows = np.repeat(np.arange(20), trials)
    answers = np.concatenate([np.r_[np.ones(k), np.zeros(n - k)] for k, n in zip(successes, trials)])
    single = fitted(X[rows], answers[:, None], "bernoulli")
    at = RNG.normal(size=(5, 2))
    # For one trial the mean is the probability.
    assert counted.predict(at).mean.shape == (5, 1)
    np.testing.assert_allclose(counted.posterior.effective_parameters, single.posterior.effective_parameters, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::riemannian_laplace.errors.LaplaceWarning")
def test_ordered_classes_have_probabilities_of_all_classes():
    grades = np.clip(np.round(Y[:, 0] + 1), 0, 3).astype(int)
    la = fitted(X, grades, "ordinal")
    prediction = la.predict(X)
    assert prediction.mean.shape == (20, grades.max() + 1)
    np.testing.assert_allclose(prediction.mean.sum(axis=1), 1, rtol=1e-9)


def test_wrong_columns_are_refused_by_name():
    with pytest.raises(InputError, match="sample_weight"):
        fitted(X, Y, sample_weight=[1.0, 2.0])
    with pytest.raises(Exception, match="a weight of at least 0"):
        fitted(X, Y, sample_weight=-WEIGHTS - 1)
    with pytest.raises(Exception, match="poisson.*noise"):
        fitted(X, np.abs(np.round(Y)), "poisson", noise=np.ones(20))
    with pytest.raises(Exception, match="trials"):
        fitted(X, np.abs(np.round(Y)), "binomial")
