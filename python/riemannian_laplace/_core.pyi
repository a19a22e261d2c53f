"""The compiled part of riemannian_laplace."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

_Array = npt.NDArray[np.float64]
_Watch = Callable[[int], None] | None

def activations() -> list[str]:
    """The activations by name."""

def likelihoods() -> list[str]:
    """The likelihoods by name."""

def class_likelihoods() -> list[str]:
    """Those of them whose targets are classes."""

def set_memory_limit(n_bytes: int | None) -> None:
    """Sets the most memory, in bytes, that the engine may take; None for what the machine has."""

def report(
    posterior: Posterior,
    methods: Sequence[dict[str, Any]],
    page: dict[str, Any],
    data: tuple[_Array, _Array] | None = None,
    watch: _Watch = None,
) -> str:
    """A page of HTML on a posterior and its predictions."""

def suggest(
    posterior: Posterior, pool: _Array, settings: dict[str, Any], target_inputs: _Array | None = None
) -> tuple[list[dict[str, Any]], int, int]:
    """Rows of a pool to measure next, and how many were left out as measured and as too many."""

def influence(posterior: Posterior, inputs: _Array | None = None, targets: _Array | None = None) -> dict[str, Any]:
    """What leaving each training row out would change."""

def promised(
    posterior: Posterior, prediction: Prediction, method: dict[str, Any], level: float | None, sets: str | None = None
) -> Any:
    """The intervals or sets that a calibrated posterior promises."""

def export(
    posterior: Posterior, path: str | PathLike[str], method: dict[str, Any], *, precision: str, opset: int, level: float
) -> list[str]:
    """Writes a posterior as one ONNX graph; the names of its outputs."""

class Network:
    """A trained network with its weights."""

    @staticmethod
    def from_onnx(path: str | PathLike[str], likelihood: str) -> Network:
        """Reads an ONNX file, for a likelihood by name."""
    @staticmethod
    def from_onnx_bytes(bytes: bytes, name: str | PathLike[str], likelihood: str) -> Network:
        """The same from the bytes of a file, which messages call by this name."""
    def with_tensors(
        self, tensors: Sequence[tuple[str, Sequence[int]]], places: npt.NDArray[np.int64], parameters: _Array
    ) -> Network:
        """The same function over other tensors: what was parameter i is now parameter `places[i]`."""
    @staticmethod
    def from_safetensors(path: str | PathLike[str], activation: str | None = None) -> Network:
        """Reads safetensors; `activation` where the file does not name it."""
    @staticmethod
    def from_layers(path: str | PathLike[str], layers: Sequence[str]) -> Network:
        """Reads safetensors whose layers are stated in order, such as `fc1:tanh`."""
    @staticmethod
    def from_record(record: str, parameters: Sequence[float] | _Array) -> Network:
        """The network that a record describes, with these weights."""
    def record(self) -> str | None:
        """The layers as JSON."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the network as safetensors, which `rla fit` reads."""
    def outputs(self, inputs: _Array) -> _Array:
        """The raw outputs, one row per input."""
    def check_outputs(self, inputs: _Array, expected: _Array, link: str | None = None) -> float:
        """Compares the outputs with those of the network's framework; the largest relative difference."""
    @property
    def parameters(self) -> _Array:
        """The flat weights."""
    @property
    def tensors(self) -> list[tuple[str, int]]:
        """The names and sizes of the tensors of the weights, in order."""
    @property
    def n_inputs(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_params(self) -> int: ...
    @property
    def description(self) -> str:
        """The layers in words."""
    @property
    def notes(self) -> list[str]:
        """What a person should know of how a file was read."""

class DerivedModel:
    """A trained model whose derivatives are computed in Python."""

    def __new__(
        cls,
        derivatives: object,
        parameters: Sequence[float],
        tensors: Sequence[tuple[str, int]],
        n_inputs: int,
        n_outputs: int,
        description: str,
    ) -> DerivedModel: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def notes(self) -> list[str]: ...

class Evidence:
    """The evidence of a posterior at any prior precision and noise, without a new fit."""

    def evaluate(
        self, prior_precision: Sequence[float], sigma: Sequence[float]
    ) -> tuple[float, list[float], list[float]]:
        """The log marginal likelihood, and its derivatives by prior precision and by noise."""

class Samples:
    """End points of geodesics, one per row. Failed ones are included, and marked as such."""

    @staticmethod
    def load(path: str | PathLike[str]) -> Samples:
        """Reads samples that `save` or `rla sample` wrote."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the samples as safetensors, as `rla sample` does."""
    @property
    def theta(self) -> _Array:
        """Weights at the end: samples × parameters."""
    @property
    def velocity(self) -> _Array:
        """Velocities at the end."""
    @property
    def nfev(self) -> npt.NDArray[np.int64]:
        """Evaluations of the acceleration."""
    @property
    def drift(self) -> _Array:
        """The relative change of vᵀGv."""
    @property
    def path_drift(self) -> _Array:
        """Its largest on the way."""
    @property
    def end_error(self) -> _Array:
        """The error of each end: the largest at a data point in noise levels; inf where it was not estimated."""
    @property
    def certificate(self) -> list[str | None]:
        """What is certified of each: "path", "law" or None."""
    @property
    def status(self) -> npt.NDArray[np.int64]:
        """0 reached, 1 step limit, 2 not finite, 3 no logarithm."""
    @property
    def certified(self) -> npt.NDArray[np.bool_]:
        """Whether each is certified."""
    @property
    def reached(self) -> npt.NDArray[np.bool_]:
        """Which samples reached the end of their geodesic."""
    @property
    def metric(self) -> str | None: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def smoothing(self) -> float | None: ...
    @property
    def failed(self) -> int:
        """Samples that did not reach their end."""
    @property
    def uncertified(self) -> int:
        """Samples that reached it without a certificate."""
    @property
    def residuals(self) -> tuple[float, float, bool] | None:
        """Root mean deviances at the training data, of the samples and of the linearised network, and whether the samples
        have left the data; for networks with kinks."""
    def __len__(self) -> int: ...

class Prediction:
    """A prediction: one row per input, one column per target or class."""

    @property
    def mean(self) -> _Array:
        """The mean of y, or the class probabilities."""
    @property
    def epistemic_variance(self) -> _Array:
        """What more data would reduce."""
    @property
    def aleatoric_variance(self) -> _Array:
        """What more data would not reduce."""
    @property
    def total_variance(self) -> _Array:
        """Their sum."""
    @property
    def standard_deviation(self) -> _Array:
        """The root of the total variance."""
    @property
    def entropy(self) -> _Array | None:
        """The entropy of the class probabilities, where samples were drawn."""
    @property
    def mutual_information(self) -> _Array | None:
        """The mutual information of class and weights, where samples were drawn."""
    @property
    def samples(self) -> tuple[int, int, int] | None:
        """How many Riemannian samples were requested, failed, and are uncertified."""
    def latent(self) -> tuple[_Array, _Array] | None:
        """The Gaussian over the raw outputs of a linearised prediction, without observation noise."""
    def interval(self, level: float) -> tuple[_Array, _Array]:
        """The interval that contains y with this probability."""
    def quantiles(self, levels: Sequence[float]) -> list[_Array]:
        """Quantiles of y, one matrix per level."""
    def draws(self, count: int, seed: int) -> _Array:
        """Draws of y, noise included: draws × points × targets."""
    def mean_draws(self, count: int, seed: int) -> _Array:
        """Draws of the mean of y given the weights: draws × points × targets or classes."""
    def log_densities(self, targets: _Array) -> _Array:
        """log p(y) at each point."""
    def scores(self, targets: _Array) -> dict[str, float]:
        """Scores at the observed targets."""

class LeaveOneOut:
    """Leave-one-out of one way to predict: every data point predicted by the others, without refitting."""

    @property
    def elpd_loo(self) -> float:
        """Σ log p(yₙ | y₋ₙ), in nats; greater is better."""
    @property
    def se(self) -> float:
        """Its standard error."""
    @property
    def p_loo(self) -> float:
        """The effective number of parameters."""
    @property
    def k_max(self) -> float:
        """The largest Pareto k̂; above 0.7 a point's score is unreliable."""
    @property
    def n_k_above_0_7(self) -> int:
        """The number of points whose score is unreliable."""
    @property
    def pit_coverage_90(self) -> float | None:
        """The share of left-out targets inside their 90 % intervals; none for classes."""
    @property
    def method(self) -> str:
        """The method: map, glm, nn or riemannian."""
    @property
    def estimator(self) -> str:
        """How it was computed: in closed form, or by importance sampling."""
    @property
    def pointwise(self) -> _Array:
        """log p(yₙ | y₋ₙ) of each point."""
    @property
    def with_all_data(self) -> _Array:
        """log p(yₙ | y) of each point, by the posterior of all data."""
    @property
    def k(self) -> _Array:
        """The Pareto k̂ of each point."""
    @property
    def pit(self) -> _Array | None:
        """The probability of smaller values than the observed ones, each without its point; none for classes."""
    @property
    def advice(self) -> list[str]:
        """What to do about scores that are unreliable or poor."""
    def minus(self, other: LeaveOneOut) -> tuple[float, float]:
        """The difference of elpd from another one on the same data, and its standard error."""

class Posterior:
    """A trained network with its Laplace posterior. It never changes: what tunes it gives another one."""

    @staticmethod
    def fit(
        network: Network | DerivedModel,
        inputs: _Array,
        targets: _Array,
        *,
        columns: dict[str, Any],
        settings: dict[str, Any],
        watch: _Watch = None,
    ) -> Posterior:
        """Fits the posterior of a network."""
    def updated(self, inputs: _Array, targets: _Array, *, watch: _Watch = None) -> Posterior:
        """The posterior with further data."""
    def with_hyperparameters(self, prior_precision: Sequence[float], sigma: Sequence[float]) -> Posterior:
        """The posterior with another prior precision and noise."""
    def tempered(self, temperature: float) -> Posterior:
        """The posterior at another temperature."""
    def optimized(
        self, *, prior_structure: str, tuned: dict[str, bool], watch: _Watch = None
    ) -> tuple[Posterior, dict[str, Any]]:
        """The posterior with the greatest log marginal likelihood."""
    def optimized_on(
        self,
        inputs: _Array,
        targets: _Array,
        *,
        tuned: dict[str, bool],
        link: dict[str, Any],
        grid: tuple[float, float, int],
        watch: _Watch = None,
    ) -> tuple[Posterior, dict[str, Any]]:
        """The posterior that predicts held-out data best."""
    def evidence(self, n_precisions: int) -> Evidence:
        """The log marginal likelihood as a function of the hyperparameters."""
    def training_fit(self) -> dict[str, Any]:
        """How the network fits its data."""
    def calibrated(
        self, inputs: _Array, targets: _Array, *, methods: Sequence[dict[str, Any]], level: float, watch: _Watch = None
    ) -> tuple[Posterior, int]:
        """The posterior calibrated on rows that it has not seen, and how many of these are training rows all the same."""
    def predict(self, inputs: _Array, method: dict[str, Any]) -> Prediction:
        """A prediction."""
    def leave_one_out(self, method: dict[str, Any], watch: _Watch = None) -> LeaveOneOut:
        """Leave-one-out cross-validation on the training data, without refitting."""
    def predict_joint(self, inputs: _Array) -> tuple[_Array, _Array]: ...
    def draw(self, first: int, count: int, seed: int) -> _Array:
        """Draws of the weights from the Gaussian, one per row."""
    def sampled_outputs(self, inputs: _Array, count: int, seed: int) -> _Array:
        """The raw outputs of networks with weights drawn from the Gaussian: draws × points × outputs."""
    def sample(
        self,
        *,
        metric: str,
        first: int,
        count: int,
        seed: int,
        smoothing: float | None = None,
        watch: _Watch = None,
    ) -> Samples:
        """Samples along geodesics of a metric."""
    def save(self, path: str | PathLike[str], with_data: bool) -> None: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Posterior: ...
    def precision(self) -> _Array:
        """The posterior precision as a matrix."""
    @property
    def mean(self) -> _Array: ...
    @property
    def n_params(self) -> int: ...
    @property
    def n_data(self) -> int: ...
    @property
    def n_inputs(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def groups(self) -> list[int]:
        """The numbers of weights that share a prior precision where there is one per layer."""
    @property
    def has_data(self) -> bool: ...
    @property
    def likelihood(self) -> str: ...
    @property
    def structure(self) -> str: ...
    @property
    def weights(self) -> str: ...
    @property
    def curvature(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def has_kinks(self) -> bool: ...
    @property
    def prior_precision(self) -> _Array: ...
    @property
    def prior_mean(self) -> _Array: ...
    @property
    def temperature(self) -> float: ...
    @property
    def sigma(self) -> _Array | None: ...
    @property
    def log_likelihood(self) -> float: ...
    @property
    def log_marginal_likelihood(self) -> float: ...
    @property
    def log_det_ratio(self) -> float: ...
    @property
    def effective_parameters(self) -> float: ...
    @property
    def input_names(self) -> list[str]: ...
    @property
    def target_names(self) -> list[str]: ...
    @property
    def classes(self) -> list[str] | None: ...

def set_num_threads(n_threads: int) -> None:
    """Sets the number of threads of the engine, before its first work in this process."""

def train(
    inputs: _Array, targets: _Array, columns: dict[str, Any], plan: dict[str, Any], watch: _Watch = None
) -> tuple[Network, list[float] | None, list[float] | None]:
    """Trains a network as `rla train` does by default; the prior precision and the noise that were chosen, if they were."""
