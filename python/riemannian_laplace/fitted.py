"""A posterior with its model and settings: fitting, and what is known of it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from riemannian_laplace import _core, models, summary
from riemannian_laplace.data import (
    Data,
    DictKeys,
    Inputs,
    Matrix,
    concatenate,
    inputs_like,
    is_torch,
    join,
    read_batches,
    read_data,
    read_targets,
)
from riemannian_laplace.errors import InputError, LaplaceWarning, NotFittedError
from riemannian_laplace.progress import watch
from riemannian_laplace.settings import CLASSES, curvature_of, floats, integers, plain, read_scaling, vector

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FittedModel"]


def _known_values(values: Any, kind: str, rows: int) -> Matrix:
    """A column for each target of what is known of the rows."""
    block = np.asarray(values, dtype=np.float64)
    block = block[:, None] if block.ndim == 1 else block
    if block.ndim != 2 or len(block) != rows:
        name = "sample_weight" if kind == "weight" else kind
        raise InputError(f"{name} has the shape {np.shape(values)}; give one number for each of the {rows} rows")
    return block


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
        seed: int = 0,
        backend: Any = None,
        backend_kwargs: dict[str, Any] | None = None,
        enable_backprop: bool = False,
        dict_key_x: str = "input_ids",
        dict_key_y: str = "labels",
        feature_reduction: str | None = None,
        n_subset: int | None = None,
    ) -> None:
        self.likelihood = plain(likelihood)
        models.likelihood_name(self.likelihood)
        self.subset_of_weights = plain(subset_of_weights)
        self.hessian_structure = plain(hessian_structure)
        self.curvature = curvature_of(backend, backend_kwargs, curvature)
        self.seed, self.n_subset, self.enable_backprop = seed, n_subset, enable_backprop
        self._keys = DictKeys(dict_key_x, dict_key_y)
        self.feature_reduction = None if feature_reduction is None else plain(feature_reduction)
        if self.feature_reduction not in (None, "pick_first", "pick_last", "average"):
            raise InputError(
                f"feature_reduction is `{feature_reduction}`; use one of pick_first, pick_last, average"
            )
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
        self._likeness = models.likeness(model)
        self._sizes = models.sizes(model) if self.subset_of_weights in ("all", "subnetwork") else None
        self._check_indices()
        self._sigma_given = sigma_noise is not None and models.likelihood_name(self.likelihood) == "gaussian"
        self._sigma = self._read_sigma(sigma_noise) if sigma_noise is not None else None
        self._prior_precision = self._read_precision(prior_precision)
        self._prior_mean = self._per_weight(vector(prior_mean, "prior_mean"), "prior_mean")
        self._temperature = float(temperature)
        #: How many draws were taken from the stream of this object.
        self._drawn, self._calls = 0, 0
        self._posterior: _core.Posterior | None = None
        self._pending: tuple[list[float], list[float]] | None = None
        self._evidence: tuple[_core.Posterior, int, _core.Evidence] | None = None
        self._bound: models.BoundModel | None = None
        self._shape: tuple[int, ...] | None = None
        self._covariance: tuple[_core.Posterior, Matrix] | None = None
        self._differentiable: Any = None

    # What a caller says, checked at once

    def _read_sigma(self, values: Any) -> list[float] | None:
        sigma = vector(values, "sigma_noise")
        if models.likelihood_name(self.likelihood) != "gaussian":
            if sigma == [1.0]:
                return None
            raise InputError(f"sigma_noise belongs to regression; a {self.likelihood} likelihood has none")
        return sigma

    def _read_precision(self, values: Any) -> list[float]:
        precision = vector(values, "prior_precision")
        if self._sizes is None or len(precision) == 1:
            return precision
        tensors, layers, kept = self._sizes
        if len(precision) == sum(kept):
            if self.hessian_structure == "kron" and len(precision) not in (layers, len(tensors)):
                raise InputError("hessian_structure='kron' takes one prior precision, or one per layer")
            return precision
        if len(precision) == layers:
            return precision
        if len(precision) == len(tensors):
            # One per tensor of the module, as in laplace-torch.
            return [value for value, count in zip(precision, kept) for _ in range(count)]
        counts = f"1, {layers} (one per layer), {len(tensors)} (one per tensor) or {sum(kept)} (one per uncertain weight)"
        raise InputError(f"prior_precision has {len(precision)} values, not {counts}")

    def _per_weight(self, values: list[float], what: str) -> list[float]:
        if self._sizes is not None and len(values) not in (1, sum(self._sizes[2])):
            raise InputError(f"{what} has {len(values)} values, not 1 or {sum(self._sizes[2])} (one per uncertain weight)")
        return values

    def _check_indices(self) -> None:
        """The places of the uncertain weights, where they are neither all nor a layer."""
        places = models.trainable_places(self.model) if self._sizes is not None else None
        if self._indices is not None and self._sizes is not None:
            total = sum(self._sizes[0]) if places is None else len(places)
            if not self._indices or max(self._indices) >= total or len(set(self._indices)) != len(self._indices):
                raise InputError(f"subnetwork_indices must be distinct numbers from 0 to {total - 1}, and at least one")
            self._indices = sorted(self._indices if places is None else [places[index] for index in self._indices])
            self._sizes = self._sizes[0], -1, [len(self._indices)]
        elif places is not None:
            # Parameters without requires_grad are fixed.
            self._indices = places

    def _check_form(self) -> None:
        subset, structure = self.subset_of_weights, self.hessian_structure
        if structure == "gp":
            self.hessian_structure = structure = "function-space"
        forms = ("full", "kron", "diag", "lowrank", "auto", "weight-space", "function-space", "matrix-free")
        if structure not in forms and not structure.startswith("matrix-free:"):
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
        *,
        sample_weight: Any = None,
        noise: Any = None,
        trials: Any = None,
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
        sample_weight
            How often each row counts: a row of weight 2 is that row twice, one of weight 0 is not there.
        noise
            For ``"regression"``: the known standard deviation of each target's noise, in units of the target.
            ``sigma_noise`` is added to it (its square to the square), and is 0 unless it is given or tuned.
        trials
            For ``"binomial"``: the number of trials of each row, of which the target counts the successes.
        """
        if isinstance(targets, bool):
            targets, override = None, targets
        if override and self.model is None:
            raise InputError("a posterior that was read from a file has no model to fit; give load() one")
        if not override and self._posterior is not None:
            if sample_weight is not None or noise is not None or trials is not None:
                raise InputError("sample_weight, noise and trials belong to a fit of all data at once, not to override=False")
            return self._add(read_data(train_loader, targets, self._keys), progress_bar)
        with watch("fitting", enabled=progress_bar) as bar:
            bound, inputs, matrix, labels = self._read(train_loader, targets)
            for note in bound.network.notes:
                warnings.warn(note, LaplaceWarning, stacklevel=2)
            name = models.likelihood_name(self.likelihood, bound.network.n_outputs)
            known = None if bound.classes is None else [str(label) for label in bound.classes]
            read = read_targets(labels, classes=name in CLASSES, known=known)
            if matrix.shape[0] and not np.isfinite(matrix).all() and bound.features is not None:
                raise InputError("the features before the last layer are not finite; look for NaN in the inputs")
            columns = {
                "inputs": None if bound.features is not None else inputs.names,
                "targets": read.names,
                "classes": read.classes,
                "scaling": self._scaling,
                "known": [],
            }
            values = read.values
            for kind, given in (("noise", noise), ("trials", trials), ("weight", sample_weight)):
                if given is not None:
                    block = _known_values(given, kind, len(matrix))
                    values = np.concatenate([values, block], axis=1)
                    columns["known"] += [kind] * block.shape[1]
            if self.n_subset is not None and self.n_subset < len(matrix):
                chosen = np.sort(np.random.default_rng(self.seed).permutation(len(matrix))[: self.n_subset])
                matrix, values = matrix[chosen], values[chosen]
            posterior = _core.Posterior.fit(
                bound.network, matrix, values, columns=columns, settings=self._settings(name), watch=bar
            )
        self._bound, self._shape = bound, inputs.shape
        self._set(posterior)
        self._warn_about_training(posterior)
        return self

    def _read(self, data: Any, targets: Any) -> tuple[models.BoundModel, Inputs, Matrix, Any]:
        """The network, the first inputs, all inputs as it takes them, and all targets. Of a model whose last layer alone is
        uncertain, only the features are kept, batch by batch."""
        bound: models.BoundModel | None = None
        first: Inputs | None = None
        matrices: list[Matrix] = []
        rest: list[Inputs] = []
        labels: list[Any] = []
        for batch in read_batches(data, targets, self._keys):
            if bound is None or first is None:
                first = batch.inputs
                if len(first) == 0:
                    raise InputError("there are no data: the inputs have no rows")
                bound = self._bind(first)
            if bound.features is not None:
                matrices.append(bound.features(batch.inputs))
            else:
                rest.append(batch.inputs)
            labels.append(batch.targets)
        if bound is None or first is None:
            raise InputError("there are no batches of data")
        matrix = np.concatenate(matrices) if bound.features is not None else join(rest).matrix()
        return bound, first, matrix, concatenate(labels)

    def _bind(self, inputs: Inputs) -> models.BoundModel:
        finite = inputs
        if not is_torch(inputs.array) and inputs.array.dtype.kind == "f":
            # Rows with NaN are the engine's to report, with their place; the model is compared at the others.
            whole = np.isfinite(inputs.array.reshape(len(inputs), -1)).all(axis=1)
            if not whole.all() and whole.any():
                finite = Inputs(inputs.array[whole], inputs.names)
            elif not whole.any():
                row, column = np.argwhere(~np.isfinite(inputs.array.reshape(len(inputs), -1)))[0]
                raise InputError(f"the inputs are not finite: row {row}, column {column}")
        return models.bind(
            self.model,
            self.likelihood,
            finite,
            last_layer=self.last_layer_name,
            features_suffice=self.subset_of_weights == "last_layer",
            derivatives=self.derivatives,
            reduction=self.feature_reduction,
        )

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
        self._covariance = None
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

    def _given(self, values: Any) -> Any:
        """Numbers as tensors of the module's dtype, where the model is a torch module."""
        if self._likeness is None:
            return values
        import torch

        return torch.as_tensor(np.asarray(values), dtype=getattr(torch, self._likeness[0]), device=self._likeness[1])

    @property
    def prior_precision(self) -> Any:
        """One number, one per layer, or one per weight."""
        return self._given(np.asarray(self._prior_precision))

    @prior_precision.setter
    def prior_precision(self, values: npt.ArrayLike) -> None:
        self._move(prior_precision=self._read_precision(values))

    @property
    def sigma_noise(self) -> Any:
        """The standard deviation of the noise: a number, or one per output."""
        sigma = self._noise()
        return self._given(np.float64(sigma[0]) if len(sigma) == 1 else np.asarray(sigma))

    @sigma_noise.setter
    def sigma_noise(self, values: npt.ArrayLike) -> None:
        if models.likelihood_name(self.likelihood) != "gaussian":
            raise InputError(f"sigma_noise belongs to regression; a {self.likelihood} likelihood has none")
        self._sigma_given = True
        self._move(sigma=self._read_sigma(values))

    @property
    def prior_mean(self) -> Any:
        """One number, or one per weight."""
        return self._given(np.asarray(self._prior_mean))

    @property
    def temperature(self) -> float:
        """T: the posterior is prior · likelihood^(1/T). Once the posterior is fitted, it is fitted again at another T."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        value = float(value)
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"the temperature is {value}; it must be positive")
        if self._posterior is not None and value != self._temperature:
            self._set(self._ready().tempered(value))
        self._temperature = value

    @property
    def mean(self) -> Any:
        """θ̂ of the uncertain weights."""
        return self._given(self._ready().mean)

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
    def log_likelihood(self) -> Any:
        """log p(D | θ̂), with every constant."""
        return self._given(np.float64(self._ready().log_likelihood))

    @property
    def log_det_ratio(self) -> Any:
        """log det G − log det A."""
        return self._given(np.float64(self._ready().log_det_ratio))

    # Inputs and targets

    def _is_classifier(self) -> bool:
        return self._ready().likelihood in CLASSES

    def _inputs(self, x: Any) -> Inputs:
        """Inputs of any kind; batches one after another."""
        posterior = self._ready()
        if self._bound is not None and self._bound.features is not None:
            return inputs_like(x, keys=self._keys)
        return inputs_like(x, posterior.input_names, posterior.target_names, self._keys)

    def _matrix(self, x: Any) -> Matrix:
        """Inputs as the posterior's network takes them."""
        posterior = self._ready()
        bound = self._bound
        if bound is None and self.model is not None and not isinstance(self.model, _core.Network):
            # Read from a file or a pickle: whether the posterior is of features shows with the first inputs.
            self._bound = bound = self._bind(self._inputs(x))
        inputs = self._inputs(x)
        if len(inputs) == 0:
            raise InputError("there are no inputs to predict at: they have no rows")
        if bound is not None and bound.features is not None:
            return bound.features(inputs)
        matrix = inputs.matrix()
        if matrix.shape[1] != posterior.n_inputs:
            raise InputError(f"the inputs have {matrix.shape[1]} columns, the network {posterior.n_inputs}")
        return matrix

    def _targets(self, targets: Any) -> Matrix:
        posterior = self._ready()
        values = read_targets(targets, classes=self._is_classifier(), known=posterior.classes).values
        if values.shape[1] != len(posterior.target_names) and values.size % max(len(posterior.target_names), 1) == 0:
            values = values.reshape(-1, len(posterior.target_names))
        return values

    # The stream of draws

    def _stream(self, count: int, seed: int | None, first: int | None, generator: Any = None) -> tuple[int, int]:
        """The seed and the first of so many draws. Without either of them, the draws that follow the last ones."""
        if generator is not None:
            import torch

            most = torch.iinfo(torch.int64).max
            return int(torch.randint(most, (1,), generator=generator, device=generator.device)), first or 0
        if seed is not None or first is not None:
            return self.seed if seed is None else seed, first or 0
        start = self._drawn
        self._drawn += count
        return self.seed, start

    def _seed_of_call(self, seed: int | None, generator: Any = None) -> int:
        """A seed of a call whose draws are not numbered: another one in every call, where none is given."""
        if seed is not None or generator is not None:
            return self._stream(0, seed, None, generator)[0]
        self._calls += 1
        return int(np.random.SeedSequence([self.seed, self._calls]).generate_state(1, np.uint64)[0])

    def __repr__(self) -> str:
        if self._posterior is None:
            return (
                f"Laplace({self.likelihood}, {self.subset_of_weights}, {self.hessian_structure}; not fitted: call fit)"
            )
        return summary.text(self._ready())

    def _repr_html_(self) -> str | None:
        return None if self._posterior is None else summary.html(self._ready())
