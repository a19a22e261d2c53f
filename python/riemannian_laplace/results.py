"""What a call of a posterior returns."""

from __future__ import annotations

from typing import Any

from riemannian_laplace import _core

__all__ = ["MeanCovariance"]


class MeanCovariance(tuple[Any, Any]):
    """``(mean, covariance)``, as laplace-torch returns it; the whole prediction is :attr:`prediction`.

    The covariance is of the function: it has no observation noise. It is a matrix per input for the linearised
    prediction, one matrix over all inputs for a joint one, and the variances of single outputs for sampled predictions.
    """

    prediction: _core.Prediction | None

    def __new__(cls, mean: Any, covariance: Any, prediction: _core.Prediction | None) -> MeanCovariance:
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
