"""The posterior over the weights of a trained network, with laplace-torch's verbs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from riemannian_laplace import _core
from riemannian_laplace.data import Matrix, is_torch, like, read_data
from riemannian_laplace.errors import InputError, LaplaceWarning, UnsupportedError
from riemannian_laplace.decisions import Decisions
from riemannian_laplace.progress import watch
from riemannian_laplace.results import MeanCovariance, Prediction, normalised_bridge
from riemannian_laplace.settings import floats, link, method_settings, plain, write_whole

__all__ = ["Laplace"]

#: The share of samples without a certificate above which a warning says so.
_ALLOWED_UNCERTIFIED = 0.05


class Laplace(Decisions):
    """The Laplace approximation N(θ̂, G⁻¹) of the posterior over a trained network's weights.

    Names and values are those of laplace-torch, where they mean the same.

    Parameters
    ----------
    model
        A ``torch.nn.Module`` made of operators that the engine knows (for ``subset_of_weights="last_layer"``, any that ends
        in an ``nn.Linear``; with ``derivatives="torch"``, any at all), a scikit-learn ``MLPRegressor`` or ``MLPClassifier``, the path of an ONNX or safetensors
        file, or layers with their weights (:mod:`riemannian_laplace.layers`). It must be trained.
    likelihood
        ``"regression"`` or ``"classification"``; or ``"gaussian"``, ``"heteroscedastic"`` (outputs are means and log
        variances), ``"categorical"``, ``"bernoulli"``, ``"poisson"`` (outputs are log rates).
    subset_of_weights
        ``"all"``, ``"last_layer"``, or ``"subnetwork"`` with ``subnetwork_indices``; also ``"layers:0,2"`` by the names of
        layers, and ``"subnetwork:K"`` for the K weights of largest magnitude.
    hessian_structure
        ``"full"`` (exact), ``"kron"``, ``"diag"``, or ``"lowrank"`` with ``rank``. The exact one is solved for in weight space
        or in function space, whichever is cheaper; ``"weight-space"`` and ``"function-space"`` say which. Where both are too
        large, ``"matrix-free"`` is exact but for chance: variances from 64 draws, or from 16 with ``"matrix-free:16"``.
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
        The uncertain weights of ``"subnetwork"``, as places among the flat weights; :attr:`mean` has them in ascending order.
    last_layer_name
        The last layer of a torch module by name; found by a forward pass where it is not given. The layers before it are the
        module's own: its features are computed by torch, batch by batch, and only they are kept.
    rank
        The number of eigenvalues of ``"lowrank"``.
    scaling
        How the data were scaled before the network saw them: ``{"inputs": {"mean": […], "scale": […]}, "targets": {…}}``,
        the targets only where they were. Data are then given, and predictions returned, in their own units.
    derivatives
        ``"engine"``, or ``"torch"``: outputs and derivatives of a torch module are computed by torch in float64, so that any
        module that torch can differentiate twice will do. Slower, for at most a few thousand weights, and the posterior
        cannot be saved.
    seed
        The seed of this object's draws. Calls of :meth:`sample`, :meth:`samples`, :meth:`predictive_samples` and
        :meth:`functional_samples` without a seed of their own continue one stream, so that no two of them are alike.
    backend, backend_kwargs
        Accepted for laplace-torch's sake: of a backend only the kind of curvature counts (GGN, EF or Hessian).
    enable_backprop
        Accepted, and not needed: inputs with ``requires_grad`` give results that can be differentiated.
    dict_key_x, dict_key_y
        Inputs and targets in batches that are dictionaries, which a module is given whole for ``"last_layer"``.
    feature_reduction
        ``"pick_first"``, ``"pick_last"`` or ``"average"``: what the last layer takes, of several vectors of features.
    n_subset
        Fits a random choice of this many data points.

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
        loss: Any = None,
        log_prior_prec_min: float = -4.0,
        log_prior_prec_max: float = 4.0,
        grid_size: int = 17,
        link_approx: str = "probit",
        n_samples: int = 100,
        verbose: bool = False,
        progress_bar: bool = True,
        *,
        log_prior_prec_base: float = 10.0,
        sigma_noise: str = "auto",
        seed: int = 0,
        **ignored: Any,
    ) -> dict[str, Any]:
        """Tunes the prior precision and, in regression, the noise **jointly with it**.

        Parameters
        ----------
        pred_type
            ``"glm"`` or ``"nn"``: what of is scored on held-out data.
        method
            ``"marglik"`` maximises the log marginal likelihood, to convergence (``n_steps``, ``lr`` and
            ``init_prior_prec`` are accepted and not needed: the search starts from a grid). ``"gridsearch"`` minimises the
            negative log likelihood of ``val_loader`` over a grid, and refines its best point.
        prior_structure
            ``"scalar"``, ``"layerwise"`` or ``"diag"`` (one per weight), for ``"marglik"``. laplace-torch's default is the
            last; one per weight has as many hyperparameters as weights, and must be asked for here. A grid search tunes one
            prior precision.
        loss
            For ``"gridsearch"``: a function of predictions and targets to minimise in place of the negative log likelihood,
            or a metric with ``update`` and ``compute``.
        val_loader
            Held-out data: a pair ``(x, y)`` or batches of them.
        log_prior_prec_min, log_prior_prec_max, grid_size, log_prior_prec_base
            The grid, in powers of the base.
        link_approx, n_samples, seed
            How held-out classes are predicted.
        sigma_noise
            ``"auto"`` tunes the noise unless it was given; ``"tuned"`` and ``"held"`` say it outright.

        Returns
        -------
        dict
            How the search went; the tuned values are :attr:`prior_precision` and :attr:`sigma_noise`.
        """
        method, prior_structure, pred_type = plain(method), plain(prior_structure), plain(pred_type)
        refused = set(ignored) - {"cv_loss_with_var"}
        if refused:
            raise InputError(f"optimize_prior_precision has no argument `{sorted(refused)[0]}`")
        if pred_type not in ("glm", "gp", "nn"):
            raise InputError(f"tuning scores pred_type='glm' or 'nn', not `{pred_type}`")
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
            if prior_structure != "scalar":
                raise InputError(
                    f"a grid search tunes one prior precision, not prior_structure='{prior_structure}'; use method='marglik'"
                )
            data = read_data(val_loader, None, self._keys)
            if loss is not None or pred_type == "nn":
                grid = np.logspace(log_prior_prec_min, log_prior_prec_max, grid_size, base=log_prior_prec_base)
                return self._search_grid(grid, data, loss, (pred_type, plain(link_approx), n_samples, seed))
            matrix, targets = self._matrix(data.inputs), self._targets(data.targets)
            with watch("tuning", enabled=progress_bar) as bar:
                best, report = posterior.optimized_on(
                    matrix,
                    targets,
                    tuned=tuned,
                    link=link(link_approx, n_samples, seed),
                    grid=(log_prior_prec_base**log_prior_prec_min, log_prior_prec_base**log_prior_prec_max, grid_size),
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

    def _search_grid(
        self, grid: Matrix, data: Any, loss: Any, how: tuple[str, str, int, int]
    ) -> dict[str, Any]:
        """Takes the prior precision of a grid at which predictions have the least loss."""
        pred_type, link_approx, n_samples, seed = how
        targets = self._targets(data.targets)
        scores = []
        for precision in grid:
            self._move(prior_precision=[float(precision)])
            if loss is None:
                prediction = self.predict(
                    data.inputs, pred_type, n_samples=n_samples, seed=seed, progress_bar=False,
                    link_approx=link_approx if pred_type == "glm" else None,
                )  # fmt: skip
                scores.append(prediction.scores(targets)["nll"])
                continue
            result = self(
                data.inputs, pred_type, n_samples=n_samples, seed=seed,
                link_approx=link_approx if pred_type == "glm" else None,
            )  # fmt: skip
            predicted = result if self._is_classifier() else result[0]
            if hasattr(loss, "compute"):
                loss.reset()
                loss.update(predicted, data.targets)
                scores.append(float(loss.compute()))
            else:
                scores.append(float(loss(predicted, data.targets)))
        finite = np.where(np.isfinite(scores), scores, np.inf)
        self._move(prior_precision=[float(grid[int(np.argmin(finite))])])
        return {"loss": float(finite.min()), "losses": scores, "grid": grid.tolist()}

    def log_marginal_likelihood(self, prior_precision: Any = None, sigma_noise: Any = None) -> Any:
        """The Laplace estimate of the log evidence, log p(D | θ̂)/T − ½(log det G − log det A + (θ̂−μ)ᵀA(θ̂−μ)).

        Values that are given replace :attr:`prior_precision` and :attr:`sigma_noise`. For torch tensors the result is one
        that can be differentiated by them, as in laplace-torch.
        """
        if prior_precision is None and sigma_noise is None:
            return self._given(np.float64(self._ready().log_marginal_likelihood))
        posterior = self._ready() if self._posterior is None else self._posterior
        if sigma_noise is not None and posterior.sigma is None:
            raise InputError("sigma_noise belongs to regression")
        alpha = self._prior_precision if prior_precision is None else self._read_precision(prior_precision)
        sigma = self._noise() if sigma_noise is None else floats(sigma_noise, "sigma_noise")
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
        return self._given(np.float64(value))

    # Predictions

    def __call__(
        self,
        x: Any,
        pred_type: str = "glm",
        joint: bool = False,
        link_approx: str | None = None,
        n_samples: int = 100,
        diagonal_output: bool = False,
        generator: Any = None,
        *,
        num_samples: int | None = None,
        metric: str = "fisher",
        samples: _core.Samples | None = None,
        seed: int | None = None,
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
            ``"bridge"``, ``"bridge_norm"`` or ``"centred"``.
        n_samples
            Draws for ``"nn"``, ``"riemannian"`` and ``"mc"``.
        diagonal_output
            In regression with ``"glm"``: the variances of single outputs instead of their covariances.
        generator
            A torch generator, from which the seed is drawn.
        samples
            Samples of :meth:`samples` to use for ``"riemannian"``, instead of drawing any.
        seed
            The seed of draws.

        Returns
        -------
        For regression ``(mean, covariance)`` **without observation noise**, whose attribute ``prediction`` has everything
        else (see :meth:`predict`); for classification the probabilities; for counts ``(mean, variance)`` of the rate.
        """
        pred_type = plain(pred_type)
        n_samples = n_samples if num_samples is None else num_samples
        if pred_type not in ("glm", "gp", "nn", "riemannian", "map"):
            raise InputError(f"there is no pred_type `{pred_type}`; use one of glm, nn, riemannian, map")
        if joint and (pred_type not in ("glm", "gp") or self._gives_probabilities()):
            raise InputError("joint predictions are for regression with pred_type='glm'")
        if generator is not None or seed is not None:
            seed = self._seed_of_call(seed, generator)
        if self.likelihood == "reward_modeling" or self._is_differentiable(x):
            return self._call_in_torch(x, pred_type, joint, diagonal_output, n_samples, seed or 0)
        if joint:
            inputs = self._inputs(x)
            mean, covariance = self._ready().predict_joint(self._matrix(inputs))
            return MeanCovariance(like(mean, inputs), like(covariance, inputs), None)
        if link_approx is not None and plain(link_approx) == "mc" and not self._is_classifier():
            link_approx = None
        if link_approx is not None and plain(link_approx) == "bridge_norm":
            latent = self.predict(x, pred_type, progress_bar=False).latent()
            if latent is None or not self._is_classifier():
                raise InputError("link_approx='bridge_norm' is for classes with pred_type='glm'")
            return normalised_bridge(*latent)
        prediction = self.predict(
            x, pred_type, link_approx=link_approx, n_samples=n_samples, metric=metric, samples=samples, seed=seed or 0
        )
        if self._is_classifier():
            return prediction.mean
        latent = prediction.latent() if self._ready().likelihood != "poisson" else None
        if latent is None:
            return MeanCovariance(prediction.mean, prediction.epistemic_variance, prediction)
        mean, covariance = latent
        if diagonal_output:
            covariance = covariance.diagonal(0, 1, 2) if is_torch(covariance) else np.diagonal(covariance, axis1=1, axis2=2)
        return MeanCovariance(mean, covariance, prediction)

    # Gradients by the inputs

    def _is_differentiable(self, x: Any) -> bool:
        """Whether the result must be differentiable by the inputs."""
        if not is_torch(x) or not x.requires_grad:
            return False
        import torch

        if not torch.is_grad_enabled():
            return False
        if self._likeness is None or self._scaling is not None:
            raise InputError(
                "the inputs require gradients, which are there for torch modules without a scaling; give x.detach()"
            )
        return True

    def _gives_probabilities(self) -> bool:
        """Whether a call gives probabilities; rewards are predicted as numbers."""
        return self.likelihood != "reward_modeling" and self._is_classifier()

    def _in_torch(self) -> Any:
        """The module as a function of its inputs, with the weights that are uncertain."""
        from riemannian_laplace.torch_gradients import DifferentiablePosterior

        if self._likeness is None:
            raise InputError("this is there for torch modules alone")
        if self._differentiable is None:
            layer = None if self._bound is None else self._bound.layer
            self._differentiable = DifferentiablePosterior(self.model, layer, self._indices)
        return self._differentiable

    def _call_in_torch(
        self, x: Any, pred_type: str, joint: bool, diagonal_output: bool, n_samples: int, seed: int
    ) -> Any:
        if self._gives_probabilities() or pred_type not in ("glm", "gp", "nn"):
            raise InputError("gradients by the inputs are there for regression, with pred_type='glm' or 'nn'; give x.detach()")
        posterior, function = self._ready(), self._in_torch()
        kind = like(np.zeros(0), x).dtype
        if pred_type == "nn":
            draws = function.sampled(x, posterior.draw(0, n_samples, seed))
            return MeanCovariance(draws.mean(0).to(kind), draws.var(0).to(kind), None)
        mean, covariance = function.gaussian(x, self._dense_covariance(), joint)
        if diagonal_output and not joint:
            covariance = covariance.diagonal(dim1=-2, dim2=-1)
        return MeanCovariance(mean.to(kind), covariance.to(kind), None)

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
    ) -> Prediction:
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
        pred_type, link_approx = plain(pred_type), None if link_approx is None else plain(link_approx)
        inputs = self._inputs(x)
        posterior, matrix = self._ready(), self._matrix(inputs)
        if link_approx is not None and pred_type != "glm" and link_approx != "mc":
            raise InputError(f"link_approx belongs to pred_type='glm'; leave it out with {pred_type!r}")
        if pred_type == "riemannian" and samples is None:
            samples = self.samples(n_samples, metric, seed=seed, progress_bar=progress_bar)
        method = method_settings(pred_type, link_approx, n_samples, seed, samples)
        with watch("predicting", enabled=progress_bar):
            return Prediction(posterior, matrix, method, inputs.raw if inputs.names is None else None)

    def predictive_samples(
        self,
        x: Any,
        pred_type: str = "glm",
        n_samples: int = 100,
        diagonal_output: bool = False,
        generator: Any = None,
        *,
        num_samples: int | None = None,
        metric: str = "fisher",
        samples: _core.Samples | None = None,
        seed: int | None = None,
    ) -> Any:
        """Draws of the prediction, without observation noise: (n_samples, inputs, outputs); probabilities for classes.

        Without a ``seed`` or a torch ``generator`` every call gives other draws.
        """
        n_samples = n_samples if num_samples is None else num_samples
        seed = self._seed_of_call(seed, generator)
        prediction = self.predict(x, pred_type, n_samples=n_samples, metric=metric, samples=samples, seed=seed)
        count = n_samples
        if prediction.samples is not None:
            requested, failed, _ = prediction.samples
            count = requested - failed
        return prediction.mean_draws(count, seed)

    def functional_samples(
        self,
        x: Any,
        pred_type: str = "glm",
        n_samples: int = 100,
        diagonal_output: bool = False,
        generator: Any = None,
        *,
        seed: int | None = None,
    ) -> Any:
        """Draws of the raw outputs, (n_samples, inputs, outputs): of the Gaussian at each input for ``"glm"``, of networks
        for ``"nn"``. Without a ``seed`` or a torch ``generator`` every call gives other draws."""
        pred_type, seed = plain(pred_type), self._seed_of_call(seed, generator)
        inputs = self._inputs(x)
        posterior, matrix = self._ready(), self._matrix(inputs)
        if pred_type == "nn":
            return like(posterior.sampled_outputs(matrix, n_samples, seed), inputs)
        if pred_type not in ("glm", "gp"):
            raise InputError(f"functional samples are of pred_type='glm' or 'nn', not `{pred_type}`")
        latent = posterior.predict(matrix, method_settings("glm", None, n_samples, seed, None)).latent()
        if latent is None:
            raise UnsupportedError(f"a {self.likelihood} likelihood has no Gaussian over its outputs")
        mean, covariance = latent
        if diagonal_output:
            covariance = covariance * np.eye(covariance.shape[-1])
        values, vectors = np.linalg.eigh(covariance)
        roots = vectors * np.sqrt(np.clip(values, 0, None))[:, None, :]
        noise = np.random.Generator(np.random.Philox(seed)).standard_normal((n_samples, *mean.shape))
        return like(mean + np.einsum("npq,snq->snp", roots, noise), inputs)

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        pred_type: str = "glm",
        **options: Any,
    ) -> dict[str, float]:
        """Scores of the predictions at observed targets: ``n mse rmse nll crps coverage_90`` for regression, ``n nll
        accuracy brier ece`` for classes. Noise is part of them. The options are those of :meth:`predict`."""
        data = read_data(x, y, self._keys)
        prediction = self.predict(data.inputs, pred_type, **options)
        return prediction.scores(self._targets(data.targets))

    def loo(
        self,
        pred_type: str = "glm",
        *,
        link_approx: str | None = None,
        n_samples: int = 200,
        metric: str = "fisher",
        samples: _core.Samples | None = None,
        seed: int = 0,
        progress_bar: bool = True,
    ) -> _core.LeaveOneOut:
        """Leave-one-out cross-validation on the training data, without refitting.

        ``"map"`` and ``"glm"`` have closed forms; ``"nn"`` and ``"riemannian"`` use Pareto smoothed importance sampling. The
        result has ``elpd_loo``, ``se``, ``p_loo``, ``k_max`` and the scores of single points; ``minus`` compares two of them.
        """
        posterior = self._ready()
        if pred_type == "riemannian" and samples is None:
            samples = self.samples(n_samples, metric, seed=seed, progress_bar=progress_bar)
        with watch("leaving out", enabled=progress_bar) as bar:
            loo = posterior.leave_one_out(method_settings(pred_type, link_approx or "centred", n_samples, seed, samples), bar)
        for sentence in loo.advice:
            warnings.warn(sentence, LaplaceWarning, stacklevel=2)
        return loo

    def report(
        self,
        path: str | os.PathLike[str],
        x: Any = None,
        y: Any = None,
        *,
        methods: Sequence[str] = ("map", "glm", "nn", "riemannian"),
        n_samples: int = 100,
        metric: str = "fisher",
        samples: _core.Samples | None = None,
        seed: int = 0,
        level: float = 0.9,
        progress_bar: bool = True,
    ) -> None:
        """Writes a page of HTML: can the posterior be trusted, how good is it, what does it predict.

        Give unseen data ``x, y`` (in the forms that :meth:`fit` takes) to be scored; without them the training data are,
        and the page says so.
        """
        posterior = self._ready()
        names = list(methods) if posterior.has_data or samples is not None else [m for m in methods if m != "riemannian"]
        if "riemannian" in names and samples is None:
            samples = self.samples(n_samples, metric, seed=seed, progress_bar=progress_bar)
        data = None
        if x is not None:
            given = read_data(x, y, self._keys)
            data = self._matrix(given.inputs), self._targets(given.targets)
        page = {"posterior": "posterior", "data": "the given data", "level": level, "max_rows": 5000}
        settings = [method_settings(name, "centred", n_samples, seed, samples) for name in names]
        with watch("writing the report", enabled=progress_bar) as bar:
            html = _core.report(posterior, settings, page, data, bar)
        write_whole(path, html)

    # Samples

    def sample(
        self,
        n_samples: int = 100,
        generator: Any = None,
        metric: str = "euclidean",
        *,
        seed: int | None = None,
        first: int | None = None,
        progress_bar: bool = True,
    ) -> Any:
        """Draws of the uncertain weights, one per row.

        The ``"euclidean"`` metric is the Gaussian N(θ̂, G⁻¹); ``"fisher"``, ``"monge"``, ``"monge-log"`` and
        ``"empirical-fisher"`` follow geodesics (:meth:`samples` has their certificates). Draw i of a seed is the same in
        any number of draws and on any number of threads. Without ``seed``, ``first`` or a torch ``generator``, the draws
        continue those of the last call: n calls for one draw give the n draws of one call.
        """
        if isinstance(generator, str):
            generator, metric = None, generator
        if metric == "euclidean":
            posterior = self._ready()
            seed, start = self._stream(n_samples, seed, first, generator)
            return self._given(posterior.draw(start, n_samples, seed))
        if generator is not None:
            seed = self._seed_of_call(seed, generator)
        return self._given(self.samples(n_samples, metric, seed=seed, first=first, progress_bar=progress_bar).theta)

    def samples(
        self,
        n_samples: int = 100,
        metric: str = "fisher",
        *,
        seed: int | None = None,
        first: int | None = None,
        smoothing: float | None = None,
        progress_bar: bool = True,
    ) -> _core.Samples:
        """Samples of the Riemannian posterior, each with its certificate.

        ``smoothing`` is the width over which the metric rounds the kinks of relu and its kin; 0 leaves them. Ctrl-C stops
        the work and leaves this object as it was. Without ``seed`` or ``first``, samples continue the stream of
        :meth:`sample`.
        """
        posterior, drawn = self._ready(), self._drawn
        seed, start = self._stream(n_samples, seed, first)
        with watch("following geodesics", n_samples, enabled=progress_bar) as bar:
            try:
                samples = posterior.sample(
                    metric=metric, first=start, count=n_samples, seed=seed, smoothing=smoothing, watch=bar
                )
            except BaseException:
                self._drawn = drawn
                raise
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
