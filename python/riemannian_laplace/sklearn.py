"""scikit-learn's face: estimators that train a small network and fit its Laplace posterior.

Training is the engine's default: standardised data, and a mode of the posterior under the prior that predicts held-out folds
best; larger problems are trained by Adam with early stopping, and their prior is tuned by the evidence.

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
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from riemannian_laplace import _core
from riemannian_laplace.errors import LaplaceWarning, NumericalError
from riemannian_laplace.laplace import Laplace
from riemannian_laplace.settings import read_scaling

__all__ = ["LaplaceClassifier", "LaplaceRegressor"]


class _LaplaceEstimator(BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share."""

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (20,),
        activation: str = "tanh",
        subset_of_weights: str = "all",
        hessian_structure: str = "full",
        pred_type: str = "glm",
        n_samples: int = 100,
        metric: str = "fisher",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.subset_of_weights = subset_of_weights
        self.hessian_structure = hessian_structure
        self.pred_type = pred_type
        self.n_samples = n_samples
        self.metric = metric
        self.random_state = random_state

    def _fit(self, likelihood: str, x: Any, y: Any, n_outputs: int, scaling: dict[str, Any]) -> None:
        """Trains the network, and fits its posterior under the prior and the noise that training chose."""
        if len(x) < 2:
            raise ValueError("n_samples=1: a network and its error bars need at least 2 samples")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        plan = {
            "likelihood": likelihood,
            "widths": [x.shape[1], *map(int, self.hidden_layer_sizes), n_outputs],
            "activation": {"logistic": "sigmoid"}.get(self.activation, self.activation),
            "seed": seed,
        }
        columns = {"inputs": None, "targets": None, "classes": None, "scaling": read_scaling(scaling), "known": []}
        targets = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
        self.network_, precision, sigma = _core.train(x, targets, columns, plan)
        if sigma is not None:
            sigma = (np.asarray(sigma) * np.asarray(scaling["targets"]["scale"])).tolist()
        la = Laplace(
            self.network_,
            likelihood,
            self.subset_of_weights,
            self.hessian_structure,
            sigma_noise=sigma,
            prior_precision=1.0 if precision is None or self.subset_of_weights != "all" else precision,
            scaling=scaling,
            seed=seed,
        )
        with warnings.catch_warnings():
            if precision is None:
                # Early stopping ends before a mode.
                warnings.simplefilter("ignore", LaplaceWarning)
            la.fit(x, targets, progress_bar=False)
        if precision is None or self.subset_of_weights != "all":
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
    """Regression with error bars: a small network on standardised data, with its Laplace posterior.

    Parameters
    ----------
    hidden_layer_sizes, activation
        Of the network.
    subset_of_weights, hessian_structure
        As in :class:`riemannian_laplace.Laplace`.
    pred_type, n_samples, metric
        How to predict: ``"glm"``, ``"nn"`` or ``"riemannian"``.
    random_state
        The seed of the initial weights, of folds and of draws.

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
        self._is_column = y.ndim == 2
        scaling = {"inputs": _standard(StandardScaler().fit(X)), "targets": _standard(StandardScaler().fit(columns))}
        self._fit("gaussian", X, columns, columns.shape[1], scaling)
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """The mean of y; with ``return_std`` also its standard deviation, with ``return_cov`` the covariance of all y
        jointly (for one target and ``pred_type="glm"``). Both contain the noise."""
        if return_std and return_cov:
            raise ValueError("ask for return_std or return_cov, not both")
        if return_cov:
            check_is_fitted(self, "laplace_")
            X = validate_data(self, X, dtype=np.float64, reset=False)
            mean, covariance = self.laplace_(X, joint=True)
            noise = np.tile(np.broadcast_to(np.atleast_1d(self.laplace_.sigma_noise), self.laplace_.n_outputs), len(X))
            return mean if not self._is_column else mean.reshape(len(X), -1), covariance + np.diag(noise**2)
        prediction = self._predict(X)
        mean = self._shaped(prediction.mean)
        return (mean, self._shaped(prediction.standard_deviation)) if return_std else mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Any:
        """Draws of y at each input, noise included: (inputs, draws), or (inputs, targets, draws)."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        draws = self._predict(X).draws(n_samples, seed)
        return np.moveaxis(draws, 0, -1) if self._is_column else draws[:, :, 0].T

    def _shaped(self, values: Any) -> Any:
        return values if self._is_column else values[:, 0]


class LaplaceClassifier(ClassifierMixin, _LaplaceEstimator):  # type: ignore[misc]
    """Classification with calibrated probabilities: a small network on standardised inputs, with its Laplace posterior.

    The parameters are those of :class:`LaplaceRegressor`, and ``link_approx`` that of :class:`riemannian_laplace.Laplace`.

    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 60)[:, None]
    >>> labels = np.where(x[:, 0] + 0.5 * np.cos(9 * x[:, 0]) > 0, "up", "down")
    >>> classifier = LaplaceClassifier((10,), random_state=0).fit(x, labels)
    >>> classifier.predict_proba([[1.5]]).shape, str(classifier.predict([[1.5]])[0])
    ((1, 2), 'up')
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (20,),
        activation: str = "tanh",
        subset_of_weights: str = "all",
        hessian_structure: str = "full",
        pred_type: str = "glm",
        link_approx: Literal["centred", "probit", "mc", "bridge", "bridge_norm"] = "centred",
        n_samples: int = 100,
        metric: str = "fisher",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes, activation, subset_of_weights, hessian_structure, pred_type, n_samples, metric, random_state
        )
        self.link_approx = link_approx

    def fit(self, X: Any, y: Any) -> LaplaceClassifier:
        """Trains, fits and tunes."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        encoder = LabelEncoder().fit(y)
        self.classes_ = encoder.classes_
        count = len(self.classes_)
        if count < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        likelihood, outputs = ("bernoulli", 1) if count == 2 else ("categorical", count)
        self._fit(likelihood, X, encoder.transform(y), outputs, {"inputs": _standard(StandardScaler().fit(X))})
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
