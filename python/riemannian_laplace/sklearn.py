"""scikit-learn's face: estimators that train a small network, fit its Laplace posterior and tune it.

They work in pipelines and cross-validation:

>>> import numpy as np
>>> from sklearn.model_selection import cross_val_score
>>> from riemannian_laplace.sklearn import LaplaceRegressor
>>> x = np.linspace(-3, 3, 60)[:, None]
>>> scores = cross_val_score(LaplaceRegressor((10,), random_state=0), x, np.sin(x[:, 0]), cv=3)
>>> scores.shape
(3,)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from riemannian_laplace.errors import LaplaceWarning, NumericalError
from riemannian_laplace.laplace import Laplace

__all__ = ["LaplaceClassifier", "LaplaceRegressor"]


class _LaplaceEstimator(BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share."""

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (20,),
        activation: str = "tanh",
        alpha: float = 1e-3,
        max_iter: int = 500,
        subset_of_weights: str = "all",
        hessian_structure: str = "full",
        pred_type: str = "glm",
        n_samples: int = 100,
        metric: str = "fisher",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.alpha = alpha
        self.max_iter = max_iter
        self.subset_of_weights = subset_of_weights
        self.hessian_structure = hessian_structure
        self.pred_type = pred_type
        self.n_samples = n_samples
        self.metric = metric
        self.random_state = random_state

    def _network_settings(self) -> dict[str, Any]:
        return {
            "hidden_layer_sizes": tuple(self.hidden_layer_sizes),
            "activation": self.activation,
            "solver": "lbfgs",
            "alpha": self.alpha,
            "max_iter": self.max_iter,
            "random_state": self.random_state,
        }

    def _train(self, network: Any, x: Any, y: Any) -> None:
        """Trains the network. Whether it reached a mode is judged by the posterior, which warns."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(x, y)
        self.network_ = network
        self.n_iter_ = network.n_iter_

    def _posterior(self, likelihood: str, x: Any, y: Any, scaling: dict[str, Any]) -> None:
        la = Laplace(
            self.network_, likelihood, self.subset_of_weights, self.hessian_structure, scaling=scaling
        )
        la.fit(x, y, progress_bar=False)
        try:
            la.optimize_prior_precision(progress_bar=False)
        except NumericalError as error:
            warnings.warn(f"the prior is left untuned: {error}", LaplaceWarning, stacklevel=3)
        self.laplace_ = la

    def _predict(self, x: Any) -> Any:
        check_is_fitted(self, "laplace_")
        x = validate_data(self, x, dtype=np.float64, reset=False)
        options: dict[str, Any] = {"progress_bar": False}
        if self.pred_type in ("nn", "riemannian"):
            options |= {"n_samples": self.n_samples, "metric": self.metric}
        return self.laplace_.predict(x, self.pred_type, **options)


def _standard(scaler: StandardScaler) -> dict[str, Any]:
    return {"mean": scaler.mean_.tolist(), "scale": scaler.scale_.tolist()}


class LaplaceRegressor(RegressorMixin, _LaplaceEstimator):  # type: ignore[misc]
    """Regression with error bars: an MLP on standardised data, its Laplace posterior, prior and noise tuned by evidence.

    Parameters
    ----------
    hidden_layer_sizes, activation, alpha, max_iter, random_state
        Of the network, as in scikit-learn's ``MLPRegressor`` (trained by L-BFGS).
    subset_of_weights, hessian_structure
        As in :class:`riemannian_laplace.Laplace`.
    pred_type, n_samples, metric
        How to predict: ``"glm"``, ``"nn"`` or ``"riemannian"``.

    Attributes
    ----------
    laplace_
        The posterior, with everything else that it can do.
    network_
        The trained network.

    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 60)[:, None]
    >>> regressor = LaplaceRegressor((10,), random_state=0).fit(x, np.sin(x[:, 0]) + 0.1 * np.cos(31 * x[:, 0]))
    >>> mean, std = regressor.predict([[0.0], [9.0]], return_std=True)
    >>> bool(std[1] > std[0])
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> LaplaceRegressor:
        """Trains, fits and tunes."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        y = y.astype(np.float64)
        columns = y.reshape(len(y), -1)
        inputs, targets = StandardScaler().fit(X), StandardScaler().fit(columns)
        scaled = targets.transform(columns)
        self.n_targets_ = columns.shape[1] if y.ndim == 2 else 1
        self._is_column = y.ndim == 2
        self._train(
            MLPRegressor(**self._network_settings()), inputs.transform(X), scaled if scaled.shape[1] > 1 else scaled[:, 0]
        )
        self._posterior("regression", X, columns, {"inputs": _standard(inputs), "targets": _standard(targets)})
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of y; with ``return_std`` also its standard deviation, noise included."""
        prediction = self._predict(X)
        mean = self._shaped(prediction.mean)
        return (mean, self._shaped(prediction.standard_deviation)) if return_std else mean

    def _shaped(self, values: Any) -> Any:
        return values if self._is_column else values[:, 0]


class LaplaceClassifier(ClassifierMixin, _LaplaceEstimator):  # type: ignore[misc]
    """Classification with calibrated probabilities: an MLP on standardised inputs, its Laplace posterior, the prior tuned
    by evidence. The parameters are those of :class:`LaplaceRegressor`, and ``link_approx`` that of
    :class:`riemannian_laplace.Laplace`.

    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 60)[:, None]
    >>> labels = np.where(np.sin(2 * x[:, 0]) > 0, "up", "down")
    >>> classifier = LaplaceClassifier((10,), random_state=0).fit(x, labels)
    >>> classifier.predict_proba([[0.7]]).shape, str(classifier.predict([[0.7]])[0])
    ((1, 2), 'up')
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (20,),
        activation: str = "tanh",
        alpha: float = 1e-3,
        max_iter: int = 500,
        subset_of_weights: str = "all",
        hessian_structure: str = "full",
        pred_type: str = "glm",
        link_approx: Literal["centred", "probit", "mc", "bridge"] = "centred",
        n_samples: int = 100,
        metric: str = "fisher",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            activation,
            alpha,
            max_iter,
            subset_of_weights,
            hessian_structure,
            pred_type,
            n_samples,
            metric,
            random_state,
        )
        self.link_approx = link_approx

    def fit(self, X: Any, y: Any) -> LaplaceClassifier:
        """Trains, fits and tunes."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        encoder = LabelEncoder().fit(y)
        self.classes_ = encoder.classes_
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        labels, inputs = encoder.transform(y), StandardScaler().fit(X)
        self._train(MLPClassifier(**self._network_settings()), inputs.transform(X), labels)
        self._posterior("classification", X, labels, {"inputs": _standard(inputs)})
        return self

    def predict_proba(self, X: Any) -> Any:
        """The probabilities of the classes."""
        probabilities = self._predict(X).mean
        if probabilities.shape[1] == 1:
            return np.hstack([1 - probabilities, probabilities])
        return probabilities

    def predict(self, X: Any) -> Any:
        """The most probable class."""
        most_probable = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most_probable]

    def _predict(self, x: Any) -> Any:
        check_is_fitted(self, "laplace_")
        if self.pred_type != "glm":
            return super()._predict(x)
        x = validate_data(self, x, dtype=np.float64, reset=False)
        return self.laplace_.predict(x, link_approx=self.link_approx, n_samples=self.n_samples, progress_bar=False)
