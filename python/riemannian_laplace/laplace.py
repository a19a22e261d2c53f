"""The posterior over the weights of a trained network, with laplace-torch's verbs."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from riemannian_laplace import _core, models, summary
from riemannian_laplace.data import Data, Inputs, Matrix, inputs_like, is_torch, like, read_data, read_targets
from riemannian_laplace.errors import InputError, LaplaceWarning, NotFittedError, UnsupportedError
from riemannian_laplace.progress import watch
from riemannian_laplace.results import MeanCovariance

__all__ = ["Laplace"]

#: The share of samples without a certificate above which a warning says so.
_ALLOWED_UNCERTIFIED = 0.05



class Laplace:
    """The Laplace approximation N(θ̂, G⁻¹) of the posterior over a trained network's weights.

    Names and values are those of laplace-torch, where they mean the same.

    Parameters
    ----------
    model
        A ``torch.nn.Module`` made of layers that the engine knows (for ``subset_of_weights="last_layer"``, any that ends
        in an ``nn.Linear``), a scikit-learn ``MLPRegressor`` or ``MLPClassifier``, the path of an ONNX or safetensors
        file, or layers with their weights (:mod:`riemannian_laplace.layers`). It must be trained.
    likelihood
        ``"regression"`` or ``"classification"``; or ``"gaussian"``, ``"heteroscedastic"`` (outputs are means and log
        variances), ``"categorical"``, ``"bernoulli"``, ``"poisson"`` (outputs are log rates).
    subset_of_weights
        ``"all"``, ``"last_layer"``, or ``"subnetwork"`` with ``subnetwork_indices``; also ``"layers:0,2"`` by the names of
        layers, and ``"subnetwork:K"`` for the K weights of largest magnitude.
    hessian_structure
        ``"full"`` (exact), ``"kron"``, ``"diag"``, or ``"lowrank"`` with ``rank``.
    sigma_noise
        The standard deviation of the noise in regression: one number, or one per output. 1 where none is given, and then
        :meth:`optimize_prior_precision` tunes it too; one that is given is held.
    prior_precision
        One number, one per layer with parameters, or one per uncertain weight.
    prior_mean
        One number, or one per uncertain weight.
    temperature
        T: the posterior is prior · likelihood^(1/T).
    curvature
        ``"ggn"``, ``"empirical-fisher"`` or ``"hessian"``.
    subnetwork_indices
        The uncertain weights of ``"subnetwork"``, in the order of the flat weights.
    last_layer_name
        The last layer of a module by name; found by a forward pass where it is not given.
    rank
        The rank of ``"lowrank"``.

    Examples
    --------
    >>> import numpy as np
    >>> from riemannian_laplace import Laplace
    >>> from riemannian_laplace.layers import Linear
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> y = 2 * x + 0.1 * np.cos(7 * x)
    >>> la = Laplace([Linear([[2.0]], [0.0])], "regression", "all", "full")
    >>> _ = la.fit(x, y)
    >>> _ = la.optimize_prior_precision()
    >>> mean, covariance = la(np.array([[0.0], [3.0]]))
    >>> mean.shape, covariance.shape
    ((2, 1), (2, 1, 1))
    >>> bool(covariance[1] > covariance[0])
    True
    """

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
        rank: int | None = None,
    ) -> None:
        self.likelihood = str(getattr(likelihood, "value", likelihood))
        models.likelihood_name(self.likelihood)
        self.subset_of_weights = str(getattr(subset_of_weights, "value", subset_of_weights))
        self.hessian_structure = str(getattr(hessian_structure, "value", hessian_structure))
        self.curvature = curvature
        self.last_layer_name = last_layer_name
        self.rank = rank
        self._indices = None if subnetwork_indices is None else _integers(subnetwork_indices)
        self._check_form()
        models.check(model)
        self.model = model
        self._sigma_given = sigma_noise is not None
        self._sigma = _floats(1.0 if sigma_noise is None else sigma_noise, "sigma_noise")
        if self._sigma_given and models.likelihood_name(self.likelihood) != "gaussian":
            raise InputError(f"sigma_noise belongs to regression; a {self.likelihood} likelihood has none")
        self._prior_precision = _floats(prior_precision, "prior_precision")
        self._prior_mean = _floats(prior_mean, "prior_mean")
        self._temperature = float(temperature)
        self._posterior: _core.Posterior | None = None
        self._pending: tuple[list[float], list[float]] | None = None
        self._evidence: tuple[_core.Posterior, int, _core.Evidence] | None = None
        self._bound: models.BoundModel | None = None
        self._shape: tuple[int, ...] | None = None

    def _check_form(self) -> None:
        subset, structure = self.subset_of_weights, self.hessian_structure
        if structure not in ("full", "kron", "diag", "lowrank", "auto"):
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
    ) -> Laplace:
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
        if not override and self._posterior is not None:
            return self._add(data, progress_bar)
        bound = models.bind(
            self.model,
            self.likelihood,
            data.inputs,
            last_layer=self.last_layer_name,
            features_suffice=self.subset_of_weights == "last_layer",
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
            structure = "low-rank" if self.rank is None else f"low-rank:{self.rank}"
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

    def _add(self, data: Data, progress_bar: bool) -> Laplace:
        before = self._ready()
        matrix, read = self._matrix(data.inputs), self._targets(data.targets)
        columns = {"inputs": before.input_names, "targets": before.target_names, "classes": before.classes}
        with watch("adding data", enabled=progress_bar) as bar:
            self._set(before.updated(matrix, read, columns=columns, watch=bar))
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
            self._pending = self._prior_precision, self._sigma if self._posterior.sigma is not None else []

    # Tuning

    def optimize_prior_precision(
        self,
        pred_type: str = "glm",
        method: str = "marglik",
        n_steps: int | None = None,
        lr: float | None = None,
        init_prior_prec: npt.ArrayLike | None = None,
        prior_structure: str = "scalar",
        val_loader: Any = None,
        loss: None = None,
        log_prior_prec_min: float = -4.0,
        log_prior_prec_max: float = 4.0,
        grid_size: int = 17,
        link_approx: str = "probit",
        n_samples: int = 100,
        verbose: bool = False,
        progress_bar: bool = True,
        *,
        sigma_noise: str = "auto",
        seed: int = 0,
    ) -> dict[str, Any]:
        """Tunes the prior precision and, in regression, the noise **jointly with it**.

        Parameters
        ----------
        pred_type
            ``"glm"``: tuning on held-out data scores the linearised prediction.
        method
            ``"marglik"`` maximises the log marginal likelihood, to convergence (``n_steps``, ``lr`` and
            ``init_prior_prec`` are accepted and not needed: the search starts from a grid). ``"gridsearch"`` minimises the
            negative log likelihood of ``val_loader`` over a grid, and refines its best point.
        prior_structure
            ``"scalar"``, ``"layerwise"`` or ``"diag"`` (one per weight), for ``"marglik"``. laplace-torch's default is the
            last; one per weight has as many hyperparameters as weights, and must be asked for here.
        val_loader
            Held-out data: a pair ``(x, y)`` or batches of them.
        log_prior_prec_min, log_prior_prec_max, grid_size
            The grid, in powers of ten.
        link_approx, n_samples, seed
            How held-out classes are predicted.
        sigma_noise
            ``"auto"`` tunes the noise unless it was given; ``"tuned"`` and ``"held"`` say it outright.

        Returns
        -------
        dict
            How the search went; the tuned values are :attr:`prior_precision` and :attr:`sigma_noise`.
        """
        method = str(getattr(method, "value", method))
        prior_structure = str(getattr(prior_structure, "value", prior_structure))
        if loss is not None:
            raise UnsupportedError("a loss of one's own is not offered; held-out data are scored by their log likelihood")
        if str(getattr(pred_type, "value", pred_type)) != "glm":
            raise UnsupportedError("tuning scores the linearised prediction, pred_type='glm'")
        if sigma_noise not in ("auto", "tuned", "held"):
            raise InputError(f"sigma_noise is `{sigma_noise}`; use one of auto, tuned, held")
        sigma_tuned = not self._sigma_given if sigma_noise == "auto" else sigma_noise == "tuned"
        tuned = {"prior": True, "sigma": sigma_tuned}
        posterior = self._ready()
        if method == "marglik":
            with watch("tuning", enabled=progress_bar) as bar:
                best, report = posterior.optimized(prior_structure=prior_structure, tuned=tuned, watch=bar)
            if not report["converged"]:
                message = f"tuning did not converge: the derivative is still {report['gradient_norm']:.1e}"
                warnings.warn(message, LaplaceWarning, stacklevel=2)
        elif method == "gridsearch":
            if val_loader is None:
                raise InputError("method='gridsearch' needs held-out data: val_loader=(x, y), or batches of them")
            data = read_data(val_loader)
            matrix, targets = self._matrix(data.inputs), self._targets(data.targets)
            columns = {
                "inputs": posterior.input_names,
                "targets": posterior.target_names,
                "classes": posterior.classes,
            }
            with watch("tuning", enabled=progress_bar) as bar:
                best, report = posterior.optimized_on(
                    matrix,
                    targets,
                    columns=columns,
                    tuned=tuned,
                    link=_link(link_approx, n_samples, seed),
                    grid=(10.0**log_prior_prec_min, 10.0**log_prior_prec_max, grid_size),
                    watch=bar,
                )
            if report["nll"] > report["map_nll"]:
                message = (
                    f"on the held-out data the posterior (NLL {report['nll']:.4f}) is worse than the network alone "
                    f"({report['map_nll']:.4f})"
                )
                warnings.warn(message, LaplaceWarning, stacklevel=2)
        else:
            raise InputError(f"there is no method `{method}`; use marglik or gridsearch")
        for sentence in report["at_bound"]:
            warnings.warn(sentence, LaplaceWarning, stacklevel=2)
        self._set(best)
        if verbose:
            print(f"Optimized prior precision is {self.prior_precision}.")
        return report

    def log_marginal_likelihood(self, prior_precision: Any = None, sigma_noise: Any = None) -> Any:
        """The Laplace estimate of the log evidence, log p(D | θ̂)/T − ½(log det G − log det A + (θ̂−μ)ᵀA(θ̂−μ)).

        Values that are given replace :attr:`prior_precision` and :attr:`sigma_noise`. For torch tensors the result is one
        that can be differentiated by them, as in laplace-torch.
        """
        if prior_precision is None and sigma_noise is None:
            return np.float64(self._ready().log_marginal_likelihood)
        posterior = self._ready() if self._posterior is None else self._posterior
        if sigma_noise is not None and posterior.sigma is None:
            raise InputError("sigma_noise belongs to regression")
        alpha = self._prior_precision if prior_precision is None else _floats(prior_precision, "prior_precision")
        sigma = self._sigma if sigma_noise is None else _floats(sigma_noise, "sigma_noise")
        noise = [] if posterior.sigma is None else sigma
        if posterior.sigma is not None and len(noise) != len(posterior.sigma):
            # One noise level has become several, or the other way round: another decomposition.
            posterior = posterior.with_hyperparameters(alpha, noise)
            self._posterior = posterior
        if self._evidence is None or self._evidence[0] is not posterior or self._evidence[1] != len(alpha):
            self._evidence = posterior, len(alpha), posterior.evidence(len(alpha))
        value, by_alpha, by_sigma = self._evidence[2].evaluate(alpha, noise)
        self._move(alpha, sigma)
        if is_torch(prior_precision) or is_torch(sigma_noise):
            from riemannian_laplace.torch_evidence import differentiable

            return differentiable(value, [(prior_precision, by_alpha), (sigma_noise, by_sigma)])
        return np.float64(value)

    # Predictions

    def __call__(
        self,
        x: Any,
        pred_type: str = "glm",
        joint: bool = False,
        link_approx: str | None = None,
        n_samples: int = 100,
        diagonal_output: bool = False,
        *,
        metric: str = "fisher",
        samples: _core.Samples | None = None,
        seed: int = 0,
    ) -> Any:
        """The prediction at inputs ``x``; torch tensors give torch tensors.

        Parameters
        ----------
        x
            Inputs, or a frame with the columns of the fit.
        pred_type
            ``"glm"`` (the linearised network), ``"nn"`` (the network itself, averaged over draws of the weights) or
            ``"riemannian"`` (averaged over samples along geodesics of ``metric``); ``"map"`` is the network alone.
        joint
            In regression with ``"glm"``: one covariance over all inputs.
        link_approx
            How a Gaussian over logits becomes probabilities: ``"probit"`` (the default, as in laplace-torch), ``"mc"``,
            ``"bridge"`` or ``"centred"``.
        n_samples
            Draws for ``"nn"``, ``"riemannian"`` and ``"mc"``.
        diagonal_output
            In regression with ``"glm"``: the variances of single outputs instead of their covariances.
        samples
            Samples of :meth:`samples` to use for ``"riemannian"``, instead of drawing any.
        seed
            The seed of draws.

        Returns
        -------
        For regression ``(mean, covariance)`` **without observation noise**, whose attribute ``prediction`` has everything
        else (see :meth:`predict`); for classification the probabilities; for counts ``(mean, variance)`` of the rate.
        """
        pred_type = str(getattr(pred_type, "value", pred_type))
        if joint:
            if pred_type != "glm" or self._is_classifier():
                raise InputError("joint predictions are for regression with pred_type='glm'")
            mean, covariance = self._ready().predict_joint(self._matrix(x))
            return MeanCovariance(like(mean, x), like(covariance, x), None)
        prediction = self.predict(
            x, pred_type, link_approx=link_approx, n_samples=n_samples, metric=metric, samples=samples, seed=seed
        )
        if self._is_classifier():
            return like(prediction.mean, x)
        latent = prediction.latent() if self._ready().likelihood != "poisson" else None
        if latent is None:
            return MeanCovariance(like(prediction.mean, x), like(prediction.epistemic_variance, x), prediction)
        mean, covariance = latent
        if diagonal_output:
            covariance = np.ascontiguousarray(np.diagonal(covariance, axis1=1, axis2=2))
        return MeanCovariance(like(mean, x), like(covariance, x), prediction)

    def predict(
        self,
        x: Any,
        pred_type: str = "glm",
        *,
        link_approx: str | None = None,
        n_samples: int = 100,
        metric: str = "fisher",
        samples: _core.Samples | None = None,
        seed: int = 0,
        progress_bar: bool = True,
    ) -> _core.Prediction:
        """The whole prediction: mean, epistemic, aleatoric and total variance, intervals, quantiles, draws, densities and
        scores. The arguments are those of a call.

        >>> import numpy as np
        >>> from riemannian_laplace.layers import Linear
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> la = Laplace([Linear([[2.0]], [0.0])], "regression", "all", "full", sigma_noise=0.1).fit(x, 2 * x)
        >>> lower, upper = la.predict(np.array([[0.5]])).interval(0.9)
        >>> bool(lower < 1.0 < upper)
        True
        """
        pred_type = str(getattr(pred_type, "value", pred_type))
        posterior, matrix = self._ready(), self._matrix(x)
        if link_approx is not None and pred_type != "glm" and str(link_approx) not in ("mc", "LinkApprox.MC"):
            raise InputError(f"link_approx belongs to pred_type='glm'; leave it out with {pred_type!r}")
        if pred_type == "glm":
            return posterior.predict_glm(matrix, link=_link(link_approx or "probit", n_samples, seed))
        if pred_type == "map":
            return posterior.predict_map(matrix)
        if pred_type == "nn":
            return posterior.predict_nn(matrix, n_samples=n_samples, seed=seed)
        if pred_type == "riemannian":
            if samples is None:
                samples = self.samples(n_samples, metric, seed=seed, progress_bar=progress_bar)
            return posterior.predict_samples(matrix, samples)
        if pred_type == "gp":
            raise UnsupportedError("pred_type='gp' is not offered; 'glm' is the same distribution, in either space")
        raise InputError(f"there is no pred_type `{pred_type}`; use one of glm, nn, riemannian, map")

    def predictive_samples(
        self,
        x: Any,
        pred_type: str = "glm",
        n_samples: int = 100,
        *,
        metric: str = "fisher",
        samples: _core.Samples | None = None,
        seed: int = 0,
    ) -> Any:
        """Draws of the prediction, without observation noise: (n_samples, inputs, outputs); probabilities for classes."""
        prediction = self.predict(x, pred_type, n_samples=n_samples, metric=metric, samples=samples, seed=seed)
        count = n_samples
        if prediction.samples is not None:
            requested, failed, _ = prediction.samples
            count = requested - failed
        return like(prediction.mean_draws(count, seed), x)

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        pred_type: str = "glm",
        **options: Any,
    ) -> dict[str, float]:
        """Scores of the predictions at observed targets: ``n mse rmse nll crps coverage_90`` for regression, ``n nll
        accuracy brier ece`` for classes. Noise is part of them. The options are those of :meth:`predict`."""
        data = read_data(x, y)
        prediction = self.predict(data.inputs, pred_type, **options)
        return prediction.scores(self._targets(data.targets))

    # Samples

    def sample(
        self,
        n_samples: int = 100,
        metric: str = "euclidean",
        *,
        seed: int = 0,
        first: int = 0,
        progress_bar: bool = True,
    ) -> Matrix:
        """Draws of the uncertain weights, one per row.

        The ``"euclidean"`` metric is the Gaussian N(θ̂, G⁻¹); ``"fisher"``, ``"monge"``, ``"monge-log"`` and
        ``"empirical-fisher"`` follow geodesics (:meth:`samples` has their certificates). Draw i of a seed is the same in
        any number of draws and on any number of threads.
        """
        if metric == "euclidean":
            return self._ready().draw(first, n_samples, seed)
        return self.samples(n_samples, metric, seed=seed, first=first, progress_bar=progress_bar).theta

    def samples(
        self,
        n_samples: int = 100,
        metric: str = "fisher",
        *,
        seed: int = 0,
        first: int = 0,
        smoothing: float | None = None,
        progress_bar: bool = True,
    ) -> _core.Samples:
        """Samples of the Riemannian posterior, each with its certificate.

        ``smoothing`` is the width over which the metric rounds the kinks of relu and its kin; 0 leaves them. Ctrl-C stops
        the work and leaves this object as it was.
        """
        posterior = self._ready()
        with watch("following geodesics", n_samples, enabled=progress_bar) as bar:
            samples = posterior.sample(
                metric=metric, first=first, count=n_samples, seed=seed, smoothing=smoothing, watch=bar
            )
        uncertified = samples.failed + samples.uncertified
        if uncertified > _ALLOWED_UNCERTIFIED * n_samples:
            warnings.warn(
                f"{samples.failed} of {n_samples} samples did not reach the end of their geodesic, and "
                f"{samples.uncertified} are not certified",
                LaplaceWarning,
                stacklevel=2,
            )
        if samples.residuals is not None and samples.residuals[2]:
            sampled, linearised, _ = samples.residuals
            warnings.warn(
                f"the samples fit the training data worse than the linearised network does (root mean deviance "
                f"{sampled:.3f} for {linearised:.3f}): smooth less",
                LaplaceWarning,
                stacklevel=2,
            )
        return samples

    # Files

    def save(self, path: str | os.PathLike[str], *, with_data: bool = True) -> None:
        """Writes the posterior as one file, which the program ``rla`` reads as well.

        Without the training data the file cannot give Riemannian samples.
        """
        self._ready().save(os.fspath(path), with_data)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any = None) -> Laplace:
        """Reads a posterior that :meth:`save` or ``rla fit`` wrote. Nothing is fitted again.

        ``model`` is needed only where the posterior is of the last layer of a model whose other layers the file does not
        hold.
        """
        return cls._of(_core.Posterior.load(os.fspath(path)), model)

    @classmethod
    def _of(cls, posterior: _core.Posterior, model: Any = None) -> Laplace:
        la = cls.__new__(cls)
        la.likelihood = posterior.likelihood
        la.subset_of_weights = posterior.weights
        la.hessian_structure = posterior.structure
        la.curvature = posterior.curvature
        la.last_layer_name, la.rank, la._indices = None, None, None
        la.model = model
        la._sigma_given = False
        la._sigma = [1.0]
        la._prior_mean = posterior.prior_mean.tolist()
        la._temperature = posterior.temperature
        la._bound, la._shape, la._evidence = None, None, None
        la._set(posterior)
        return la

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_evidence"] = None
        bound = self._bound
        if bound is not None and bound.features is None:
            # The weights are in the network; a torch module need not come along.
            state["model"] = bound.network
        state["_bound"] = None
        if self._posterior is not None:
            state["_posterior"] = _to_bytes(self._ready())
            state["_pending"] = None
        state["_has_features"] = bound is not None and bound.features is not None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        contents, has_features = state.pop("_posterior"), state.pop("_has_features")
        self.__dict__.update(state)
        self._posterior = None if contents is None else _from_bytes(contents)
        if has_features and self._shape is not None:
            blank = Inputs(np.zeros((1, *self._shape)))
            self._bound = models.bind(
                self.model, self.likelihood, blank, last_layer=self.last_layer_name, features_suffice=True
            )

    # What is known

    @property
    def posterior(self) -> _core.Posterior:
        """The engine's posterior."""
        return self._ready()

    @property
    def prior_precision(self) -> Matrix:
        """One number, one per layer, or one per weight."""
        return np.asarray(self._prior_precision)

    @prior_precision.setter
    def prior_precision(self, values: npt.ArrayLike) -> None:
        self._move(prior_precision=_floats(values, "prior_precision"))

    @property
    def sigma_noise(self) -> Any:
        """The standard deviation of the noise: a number, or one per output."""
        return np.float64(self._sigma[0]) if len(self._sigma) == 1 else np.asarray(self._sigma)

    @sigma_noise.setter
    def sigma_noise(self, values: npt.ArrayLike) -> None:
        if models.likelihood_name(self.likelihood) != "gaussian":
            raise InputError(f"sigma_noise belongs to regression; a {self.likelihood} likelihood has none")
        self._sigma_given = True
        self._move(sigma=_floats(values, "sigma_noise"))

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
            given = inputs_like(x)
            self._bound = bound = models.bind(
                self.model,
                self.likelihood,
                given,
                last_layer=self.last_layer_name,
                features_suffice=posterior.n_inputs != int(np.prod(given.shape)),
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


def _link(name: str, n_samples: int, seed: int) -> dict[str, Any]:
    name = str(getattr(name, "value", name))
    if name == "bridge_norm":
        raise UnsupportedError("link_approx='bridge_norm' is not offered; use bridge, probit, mc or centred")
    return {"name": name, "samples": n_samples, "seed": seed}


def _floats(values: Any, what: str) -> list[float]:
    if is_torch(values):
        values = values.detach().cpu().numpy()
    try:
        numbers: list[float] = np.asarray(values, dtype=np.float64).reshape(-1).tolist()
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be a number or several: {error}") from error
    if not numbers:
        raise InputError(f"{what} has no values")
    return numbers


def _integers(values: Any) -> list[int]:
    if is_torch(values):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or (array.size and array.min() < 0):
        raise InputError("subnetwork_indices must be a list of indices, counting from 0")
    return [int(value) for value in array]


def _to_bytes(posterior: _core.Posterior) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.safetensors"
        posterior.save(os.fspath(path), posterior.has_data)
        return path.read_bytes()


def _from_bytes(contents: bytes) -> _core.Posterior:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.safetensors"
        path.write_bytes(contents)
        return _core.Posterior.load(os.fspath(path))
