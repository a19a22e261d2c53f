"""What a posterior gives: a prediction, and the pair of mean and covariance."""

from __future__ import annotations

import copyreg
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from riemannian_laplace import _core
from riemannian_laplace.data import is_torch, like, read_targets
from riemannian_laplace.errors import InputError, UnsupportedError
from riemannian_laplace.settings import CLASSES, from_bytes, to_bytes

__all__ = ["MeanCovariance", "Prediction", "normalised_bridge"]


class MeanCovariance(tuple[Any, Any]):
    """``(mean, covariance)``, as laplace-torch returns it; the whole prediction is :attr:`prediction`.

    The covariance is of the function: it has no observation noise. It is a matrix per input for the linearised
    prediction, one matrix over all inputs for a joint one, and the variances of single outputs for sampled predictions.
    """

    prediction: Prediction | None

    def __new__(cls, mean: Any, covariance: Any, prediction: Prediction | None) -> MeanCovariance:
        pair = super().__new__(cls, (mean, covariance))
        pair.prediction = prediction
        return pair

    @property
    def mean(self) -> Any:
        """The mean of the function."""
        return self[0]

    @property
    def covariance(self) -> Any:
        """Its covariance."""
        return self[1]

    def __getnewargs__(self) -> tuple[Any, Any, None]:
        return self[0], self[1], None


def normalised_bridge(mean: Any, covariance: Any) -> Any:
    """The Laplace bridge from logits that are first divided by the root of their mean variance over √(C/2).

    >>> import numpy as np
    >>> normalised_bridge(np.array([[0.0, 0.0]]), np.eye(2)[None]).tolist()
    [[0.5, 0.5]]
    """
    given = mean
    mean, covariance = (np.asarray(part.cpu() if is_torch(part) else part, dtype=np.float64) for part in (mean, covariance))
    count = mean.shape[1]
    if count == 1:
        raise InputError("the bridge is for two classes or more, each with an output of its own")
    rows, total = covariance.sum(2), covariance.sum((1, 2))
    mean = mean - rows * (mean.sum(1) / total)[:, None]
    variance = np.diagonal(covariance, axis1=1, axis2=2) - rows**2 / total[:, None]
    scale = variance.mean(1, keepdims=True) / np.sqrt(count / 2)
    mean, variance = mean / np.sqrt(scale), variance / scale
    concentration = (1 - 2 / count + np.exp(mean) / count**2 * np.exp(-mean).sum(1, keepdims=True)) / variance
    return like(concentration / concentration.sum(1, keepdims=True), given)


class Prediction:
    """A prediction: one row per input, one column per target or class. Tensors where the inputs were tensors."""

    def __init__(self, posterior: _core.Posterior, inputs: Any, method: dict[str, Any], given: Any) -> None:
        self._made_of = posterior, inputs, method
        self._core = posterior.predict(inputs, method)
        # Of what was given, only the kind is kept.
        self._kind = like(np.zeros(0), given)
        self._classes, self._names = posterior.classes, posterior.target_names
        self._is_classifier = posterior.likelihood in CLASSES

    def _as_given(self, values: Any) -> Any:
        return None if values is None else like(values, self._kind)

    @property
    def mean(self) -> Any:
        """The mean of y, or the class probabilities."""
        return self._as_given(self._core.mean)

    @property
    def epistemic_variance(self) -> Any:
        """What more data would reduce."""
        return self._as_given(self._core.epistemic_variance)

    @property
    def aleatoric_variance(self) -> Any:
        """What more data would not reduce."""
        return self._as_given(self._core.aleatoric_variance)

    @property
    def total_variance(self) -> Any:
        """Their sum."""
        return self._as_given(self._core.total_variance)

    @property
    def standard_deviation(self) -> Any:
        """The root of the total variance."""
        return self._as_given(self._core.standard_deviation)

    @property
    def entropy(self) -> Any:
        """The entropy of the class probabilities, where samples were drawn."""
        return self._as_given(self._core.entropy)

    @property
    def mutual_information(self) -> Any:
        """The mutual information of class and weights, where samples were drawn."""
        return self._as_given(self._core.mutual_information)

    @property
    def samples(self) -> tuple[int, int, int] | None:
        """How many Riemannian samples were requested, failed, and are uncertified."""
        return self._core.samples

    def latent(self) -> tuple[Any, Any] | None:
        """The Gaussian over the raw outputs of a linearised prediction, without observation noise."""
        latent = self._core.latent()
        return None if latent is None else (self._as_given(latent[0]), self._as_given(latent[1]))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """The interval that contains y with this probability."""
        lower, upper = self._core.interval(float(level))
        return self._as_given(lower), self._as_given(upper)

    def promised(self, level: float | None = None, *, sets: str | None = None) -> Any:
        """The interval, or the set of classes, with the guarantee of :meth:`Laplace.calibrate`: lower and upper ends, or whether
        each class is inside (rows × targets × classes; ``sets`` is ``"lac"``, the smallest, or ``"aps"``).

        ``level`` is that of the calibration by default. An error where the posterior is not calibrated for this prediction.
        """
        posterior, _, method = self._made_of
        promised = _core.promised(posterior, self._core, method, level, sets)
        if isinstance(promised, tuple):
            return self._as_given(promised[0]), self._as_given(promised[1])
        return promised

    def quantiles(self, levels: float | Sequence[float]) -> Any:
        """Quantiles of y: one matrix per level, or one matrix for a single level."""
        if np.ndim(levels) == 0:
            return self._as_given(self._core.quantiles([float(levels)])[0])  # type: ignore[arg-type]
        return [self._as_given(matrix) for matrix in self._core.quantiles([float(level) for level in levels])]  # type: ignore[union-attr]

    def draws(self, count: int = 1, seed: int = 0) -> Any:
        """Draws of y, noise included: draws × points × targets."""
        return self._as_given(self._core.draws(int(count), seed))

    def mean_draws(self, count: int = 1, seed: int = 0) -> Any:
        """Draws of the mean of y given the weights: draws × points × targets or classes."""
        return self._as_given(self._core.mean_draws(int(count), seed))

    def _observed(self, targets: Any) -> Any:
        values = read_targets(targets, classes=self._is_classifier, known=self._classes).values
        points = len(self._core.mean)
        if values.size and values.size % points == 0 and len(values) != points:
            values = values.reshape(points, -1)
        if len(values) != points:
            raise InputError(f"there are {points} predictions and {len(values)} targets")
        return values

    def log_densities(self, targets: Any) -> Any:
        """log p(y) at each point."""
        return self._as_given(self._core.log_densities(self._observed(targets)))

    def scores(self, targets: Any) -> dict[str, float]:
        """Scores at the observed targets, of any shape and kind."""
        return self._core.scores(self._observed(targets))

    def to_frame(self, level: float = 0.9) -> Any:
        """A pandas frame with a row per input: mean, standard deviation and interval, or the probabilities of classes."""
        import pandas

        mean = self._core.mean
        if self._is_classifier:
            names = self._classes or [str(index) for index in range(mean.shape[1])]
            if mean.shape[1] == 1:
                return pandas.DataFrame({"probability": mean[:, 0]})
            return pandas.DataFrame(mean, columns=[f"p({name})" for name in names])
        lower, upper = self._core.interval(level)
        deviation = self._core.standard_deviation
        columns = {}
        for index, name in enumerate(self._names):
            columns |= {
                name: mean[:, index],
                f"{name}_sd": deviation[:, index],
                f"{name}_lower": lower[:, index],
                f"{name}_upper": upper[:, index],
            }
        return pandas.DataFrame(columns)

    def to_inference_data(self, n_draws: int = 1000, seed: int = 0) -> Any:
        """ArviZ's form: draws of y as the posterior predictive, one chain."""
        import arviz

        draws = np.asarray(self._core.draws(n_draws, seed))[None]
        return arviz.from_dict(posterior_predictive={"y": draws})

    def __len__(self) -> int:
        return len(self._core.mean)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        posterior, inputs, method = self._made_of
        try:
            contents = to_bytes(posterior)
        except Exception as error:
            raise UnsupportedError(f"this prediction cannot be pickled: {error}") from error
        return _again, (contents, inputs, method, self._kind if is_torch(self._kind) else None)


def _again(contents: bytes, inputs: Any, method: dict[str, Any], kind: Any) -> Prediction:
    return Prediction(from_bytes(contents), inputs, method, kind)


# Samples are pickled as their file.


def _samples_of(contents: bytes) -> _core.Samples:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.safetensors"
        path.write_bytes(contents)
        return _core.Samples.load(os.fspath(path))


def _pickled_samples(samples: _core.Samples) -> tuple[Any, tuple[bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.safetensors"
        samples.save(os.fspath(path))
        return _samples_of, (path.read_bytes(),)


copyreg.pickle(_core.Samples, _pickled_samples)  # type: ignore[arg-type]

