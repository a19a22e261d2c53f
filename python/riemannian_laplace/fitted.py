"""A posterior with its model and settings: fitting, and what is known of it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from riemannian_laplace import _core, models, summary
from riemannian_laplace.data import Data, Matrix, inputs_like, read_data, read_targets
from riemannian_laplace.errors import InputError, LaplaceWarning, NotFittedError, UnsupportedError
from riemannian_laplace.progress import watch
from riemannian_laplace.settings import floats, integers, plain, read_scaling

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FittedModel"]


class FittedModel:
    """What :class:`riemannian_laplace.Laplace` is and knows; its verbs are there."""

    def __init__(
        self,
        model: Any,
        likelihood: str,
        subset_of_weights: str = "last_layer",
        hessian_structure: str = "kron",
        sigma_noise: npt.ArrayLike | None = None,
        prior_precision: npt.ArrayLike = 1.0,
        prior_mean: npt.ArrayLike = 0.0,
        temperature: float = 1.0,
        *,
        curvature: str = "ggn",
        subnetwork_indices: npt.ArrayLike | None = None,
        last_layer_name: str | None = None,
        rank: int = 20,
        scaling: dict[str, Any] | None = None,
        derivatives: str = "engine",
    ) -> None:
        self.likelihood = plain(likelihood)
        models.likelihood_name(self.likelihood)
        self.subset_of_weights = plain(subset_of_weights)
        self.hessian_structure = plain(hessian_structure)
        self.curvature = curvature
        self.last_layer_name = last_layer_name
        self.rank = rank
        if derivatives not in ("engine", "torch"):
            raise InputError(f"derivatives is `{derivatives}`; use engine or torch")
        self.derivatives = derivatives
        self._scaling = read_scaling(scaling)
        self._indices = None if subnetwork_indices is None else integers(subnetwork_indices)
        self._check_form()
        models.check(model)
        self.model = model
        self._sigma_given = sigma_noise is not None
        self._sigma = None if sigma_noise is None else floats(sigma_noise, "sigma_noise")
        if self._sigma_given and models.likelihood_name(self.likelihood) != "gaussian":
            raise InputError(f"sigma_noise belongs to regression; a {self.likelihood} likelihood has none")
        self._prior_precision = floats(prior_precision, "prior_precision")
        self._prior_mean = floats(prior_mean, "prior_mean")
        self._temperature = float(temperature)
        self._posterior: _core.Posterior | None = None
        self._pending: tuple[list[float], list[float]] | None = None
        self._evidence: tuple[_core.Posterior, int, _core.Evidence] | None = None
        self._bound: models.BoundModel | None = None
        self._shape: tuple[int, ...] | None = None

    def _check_form(self) -> None:
        subset, structure = self.subset_of_weights, self.hessian_structure
        forms = ("full", "kron", "diag", "lowrank", "auto", "weight-space", "function-space", "matrix-free")
        if structure not in forms and not structure.startswith("matrix-free:"):
            if structure == "gp":
                raise UnsupportedError(
                    "hessian_structure='gp' is not offered; 'full' is exact, and uses function space where that is cheaper"
                )
            raise InputError(f"there is no hessian_structure `{structure}`; use one of full, kron, diag, lowrank")
        if subset == "subnetwork" and self._indices is None:
            raise InputError("subset_of_weights='subnetwork' needs subnetwork_indices (or 'subnetwork:K' weights by rule)")
        if self._indices is not None and subset != "subnetwork":
            raise InputError("subnetwork_indices belong to subset_of_weights='subnetwork'")
        words = ("all", "last_layer", "subnetwork")
        if subset not in words and not subset.startswith(("layers:", "subnetwork:")):
            raise InputError(f"there is no subset_of_weights `{subset}`; use one of {', '.join(words)}")

    # Fitting

    def fit(
        self,
        train_loader: Any,
        targets: Any = None,
        override: bool = True,
        progress_bar: bool = True,
    ) -> Self:
        """Fits the posterior around the model's weights.

        Parameters
        ----------
        train_loader
            Inputs, with ``targets`` as their targets; a frame, with ``targets`` as the names of its target columns; a pair
            ``(x, y)``; or an iterable of such batches, such as a ``DataLoader``.
        targets
            See above. Class labels may be words.
        override
            Whether to start afresh; ``False`` adds the data to those of earlier fits.
        progress_bar
            Whether long fits show their progress, in terminals and notebooks.
        """
        if isinstance(targets, bool):
            targets, override = None, targets
        data = read_data(train_loader, targets)
        if override and self.model is None:
            raise InputError("a posterior that was read from a file has no model to fit; give load() one")
        if not override and self._posterior is not None:
            return self._add(data, progress_bar)
        bound = models.bind(
            self.model,
            self.likelihood,
            data.inputs,
            last_layer=self.last_layer_name,
            features_suffice=self.subset_of_weights == "last_layer",
            derivatives=self.derivatives,
        )
        for note in bound.network.notes:
            warnings.warn(note, LaplaceWarning, stacklevel=2)
        name = models.likelihood_name(self.likelihood, bound.network.n_outputs)
        known = None if bound.classes is None else [str(label) for label in bound.classes]
        read = read_targets(data.targets, classes=name in ("categorical", "bernoulli"), known=known)
        columns = {
            "inputs": None if bound.features is not None else data.inputs.names,
            "targets": read.names,
            "classes": read.classes,
            "scaling": self._scaling,
        }
        matrix = data.inputs.matrix() if bound.features is None else bound.features(data.inputs)
        with watch("fitting", enabled=progress_bar) as bar:
            posterior = _core.Posterior.fit(
                bound.network, matrix, read.values, columns=columns, settings=self._settings(name), watch=bar
            )
        self._bound, self._shape = bound, data.inputs.shape
        self._set(posterior)
        self._warn_about_training(posterior)
        return self

    def _settings(self, likelihood: str) -> dict[str, Any]:
        structure = self.hessian_structure
        if structure == "lowrank":
            structure = f"low-rank:{self.rank}"
        weights = {"last_layer": "last-layer", "subnetwork": "all"}.get(self.subset_of_weights, self.subset_of_weights)
        return {
            "likelihood": likelihood,
            "sigma": self._sigma,
            "weights": weights,
            "indices": self._indices,
            "structure": structure,
            "prior_precision": self._prior_precision,
            "prior_mean": self._prior_mean,
            "temperature": self._temperature,
            "curvature": self.curvature,
        }

    def _add(self, data: Data, progress_bar: bool) -> Self:
        before = self._ready()
        matrix, read = self._matrix(data.inputs), self._targets(data.targets)
        with watch("adding data", enabled=progress_bar) as bar:
            self._set(before.updated(matrix, read, watch=bar))
        return self

    def _warn_about_training(self, posterior: _core.Posterior) -> None:
        fit = posterior.training_fit()
        advice = "check that it is trained, and the scaling and the order of the columns"
        if not fit["beats_constant"]:
            message = f"the network explains less of its data than a constant would; {advice}"
        elif not fit["is_at_mode"]:
            share = 100 * min(fit["gradient_norm"] ** 2, 1.0)
            message = (
                f"the network is not at a mode of its data (a small change of its weights would remove {share:.0f} % of its "
                f"misfit); {advice}"
            )
        else:
            return
        warnings.warn(message, LaplaceWarning, stacklevel=3)

    def _set(self, posterior: _core.Posterior) -> None:
        self._posterior, self._pending = posterior, None
        self._prior_precision = posterior.prior_precision.tolist()
        if posterior.sigma is not None:
            self._sigma = posterior.sigma.tolist()

    def _ready(self) -> _core.Posterior:
        """The posterior with the hyperparameters that were set last."""
        if self._posterior is None:
            raise NotFittedError("the posterior is not fitted yet; call fit first")
        if self._pending is not None:
            prior_precision, sigma = self._pending
            self._posterior = self._posterior.with_hyperparameters(prior_precision, sigma)
            self._pending = None
        return self._posterior

    def _move(self, prior_precision: list[float] | None = None, sigma: list[float] | None = None) -> None:
        """Sets hyperparameters; the posterior is factored again when it is needed next."""
        if prior_precision is not None:
            self._prior_precision = prior_precision
        if sigma is not None:
            self._sigma = sigma
        if self._posterior is not None:
            noise = [] if self._posterior.sigma is None else self._noise()
            self._pending = self._prior_precision, noise

    # What is known

    @property
    def posterior(self) -> _core.Posterior:
        """The engine's posterior."""
        return self._ready()

    def _noise(self) -> list[float]:
        return [1.0] if self._sigma is None else self._sigma

    @property
    def prior_precision(self) -> Matrix:
        """One number, one per layer, or one per weight."""
        return np.asarray(self._prior_precision)

    @prior_precision.setter
    def prior_precision(self, values: npt.ArrayLike) -> None:
        self._move(prior_precision=floats(values, "prior_precision"))

    @property
    def sigma_noise(self) -> Any:
        """The standard deviation of the noise: a number, or one per output."""
        sigma = self._noise()
        return np.float64(sigma[0]) if len(sigma) == 1 else np.asarray(sigma)

    @sigma_noise.setter
    def sigma_noise(self, values: npt.ArrayLike) -> None:
        if models.likelihood_name(self.likelihood) != "gaussian":
            raise InputError(f"sigma_noise belongs to regression; a {self.likelihood} likelihood has none")
        self._sigma_given = True
        self._move(sigma=floats(values, "sigma_noise"))

    @property
    def prior_mean(self) -> Matrix:
        """One number, or one per weight."""
        return np.asarray(self._prior_mean)

    @property
    def temperature(self) -> float:
        """T."""
        return self._temperature

    @property
    def mean(self) -> Matrix:
        """θ̂ of the uncertain weights."""
        return self._ready().mean

    @property
    def n_params(self) -> int:
        """The number of uncertain weights."""
        return self._ready().n_params

    @property
    def n_data(self) -> int:
        """The number of training points."""
        return self._ready().n_data

    @property
    def n_outputs(self) -> int:
        """The number of outputs of the network."""
        return self._ready().n_outputs

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes, where labels were words."""
        return self._ready().classes

    @property
    def log_likelihood(self) -> np.float64:
        """log p(D | θ̂), with every constant."""
        return np.float64(self._ready().log_likelihood)

    @property
    def log_det_ratio(self) -> np.float64:
        """log det G − log det A."""
        return np.float64(self._ready().log_det_ratio)

    @property
    def posterior_precision(self) -> Matrix:
        """G as a matrix."""
        return self._ready().precision()

    # Inputs and targets

    def _is_classifier(self) -> bool:
        return self._ready().likelihood in ("categorical", "bernoulli")

    def _matrix(self, x: Any) -> Matrix:
        """Inputs as the posterior's network takes them."""
        posterior = self._ready()
        bound = self._bound
        if bound is None and self.model is not None and not isinstance(self.model, _core.Network):
            # Read from a file or a pickle: whether the posterior is of features shows with the first inputs.
            self._bound = bound = models.bind(
                self.model,
                self.likelihood,
                inputs_like(x),
                last_layer=self.last_layer_name,
                features_suffice=True,
                derivatives=self.derivatives,
            )
        if bound is not None and bound.features is not None:
            return bound.features(inputs_like(x))
        matrix = inputs_like(x, posterior.input_names, posterior.target_names).matrix()
        if matrix.shape[1] != posterior.n_inputs:
            raise InputError(f"the inputs have {matrix.shape[1]} columns, the network {posterior.n_inputs}")
        return matrix

    def _targets(self, targets: Any) -> Matrix:
        posterior = self._ready()
        return read_targets(targets, classes=self._is_classifier(), known=posterior.classes).values

    def __repr__(self) -> str:
        if self._posterior is None:
            return (
                f"Laplace({self.likelihood}, {self.subset_of_weights}, {self.hessian_structure}; not fitted: call fit)"
            )
        return summary.text(self._ready())

    def _repr_html_(self) -> str | None:
        return None if self._posterior is None else summary.html(self._ready())
