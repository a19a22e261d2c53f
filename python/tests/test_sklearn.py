"""The estimators are scikit-learn's by its own checks, and their numbers the posterior's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import load_iris, make_moons  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.neural_network import MLPClassifier, MLPRegressor  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import PolynomialFeatures  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from riemannian_laplace import Laplace  # noqa: E402
from riemannian_laplace.sklearn import LaplaceClassifier, LaplaceRegressor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("estimator", [LaplaceRegressor(), LaplaceClassifier()], ids=["regressor", "classifier"])
def test_scikit_learns_checks_pass(estimator: object) -> None:
    check_estimator(estimator)


def sine(count: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(count, 1))
    return x, 100 + 20 * np.sin(x[:, 0]) + 2 * rng.normal(size=count)


def test_error_bars_are_in_the_units_of_the_data_and_grow_away_from_them() -> None:
    x, y = sine()
    regressor = LaplaceRegressor(random_state=0).fit(x, y)
    mean, std = regressor.predict([[0.0], [12.0]], return_std=True)
    assert abs(mean[0] - 100) < 3
    # The noise has a standard deviation of 2.
    assert 1.5 < std[0] < 3 and std[1] > 2 * std[0]
    assert regressor.score(x, y) > 0.9
    assert regressor.laplace_.sigma_noise == pytest.approx(2, rel=0.3)


def test_several_targets_keep_their_columns() -> None:
    x, y = sine()
    regressor = LaplaceRegressor(random_state=0).fit(x, np.stack([y, -3 * y], axis=1))
    mean, std = regressor.predict(x, return_std=True)
    assert mean.shape == std.shape == (len(x), 2)


def test_cross_validation_pipelines_and_grids_work() -> None:
    x, y = sine()
    pipeline = make_pipeline(PolynomialFeatures(2), LaplaceRegressor((8,), random_state=0))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.8
    inputs, labels = make_moons(80, noise=0.2, random_state=0)
    grid = GridSearchCV(LaplaceClassifier(random_state=0), {"hidden_layer_sizes": [(5,), (10,)]}, cv=2)
    assert grid.fit(inputs, labels).best_score_ > 0.8


@pytest.mark.parametrize("pred_type", ["glm", "nn", "riemannian"])
def test_probabilities_of_every_method_sum_to_one(pred_type: str) -> None:
    inputs, labels = load_iris(return_X_y=True)
    classifier = LaplaceClassifier((6,), pred_type=pred_type, n_samples=10, random_state=0)
    probabilities = classifier.fit(inputs[::3], labels[::3]).predict_proba(inputs)
    assert probabilities.shape == (150, 3)
    assert np.allclose(probabilities.sum(axis=1), 1)


def test_perceptrons_of_scikit_learn_are_models() -> None:
    x, y = sine()
    scaled = (y - 100) / 20
    network = MLPRegressor(hidden_layer_sizes=(10,), activation="relu", solver="lbfgs", max_iter=500, random_state=0).fit(x, scaled)
    la = Laplace(network, "regression", "all", "full").fit(x, scaled)
    assert np.allclose(la(x)[0][:, 0], network.predict(x), atol=1e-12)
    inputs, labels = make_moons(80, noise=0.2, random_state=0)
    for names, width in ((labels, 1), (np.where(labels == 1, "up", "down"), 1)):
        classifier = MLPClassifier((5,), activation="tanh", solver="lbfgs", alpha=0.1, random_state=0).fit(inputs, names)
        la = Laplace(classifier, "classification", "all", "full").fit(inputs, names)
        assert la.posterior.likelihood == "bernoulli"
        probabilities = la(inputs, pred_type="map")
        assert probabilities.shape == (80, width)
        assert np.allclose(probabilities[:, 0], classifier.predict_proba(inputs)[:, 1], atol=1e-12)
