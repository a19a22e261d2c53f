"""Posteriors in files, pickles and state dicts."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from riemannian_laplace import _core, models
from riemannian_laplace.data import DictKeys, is_torch
from riemannian_laplace.errors import InputError, UnsupportedError
from riemannian_laplace.settings import from_bytes, to_bytes
from riemannian_laplace.views import ViewedModel

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SavedModel"]


class SavedModel(ViewedModel):
    """What :class:`riemannian_laplace.Laplace` knows of files."""

    def save(self, path: str | os.PathLike[str], *, with_data: bool = True) -> None:
        """Writes the posterior as one file, which the program ``rla`` reads as well.

        Without the training data (``"weight-space"``, ``"kron"`` or ``"diag"``) the file cannot give Riemannian samples.
        """
        self._savable().save(os.fspath(path), with_data)

    def _savable(self) -> _core.Posterior:
        if self.derivatives == "torch" and self._bound is not None and self._bound.features is None:
            raise UnsupportedError(
                "a posterior with derivatives='torch' cannot be saved: a file holds networks of the engine; keep the "
                "module and its data, and fit again"
            )
        return self._ready()

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any = None) -> Self:
        """Reads a posterior that :meth:`save` or ``rla fit`` wrote. Nothing is fitted again.

        ``model`` is needed only where the posterior is of the last layer of a model whose other layers the file does not
        hold.
        """
        return cls._of(_core.Posterior.load(os.fspath(path)), model)

    @classmethod
    def _of(cls, posterior: _core.Posterior, model: Any = None) -> Self:
        la = cls.__new__(cls)
        la.likelihood = posterior.likelihood
        la.subset_of_weights = {"all weights": "all", "last layer": "last_layer"}.get(posterior.weights, posterior.weights)
        la.hessian_structure = posterior.structure
        la.curvature = posterior.curvature
        la.last_layer_name, la.rank, la._indices = None, 20, None
        la.derivatives = "engine"
        la.seed, la._drawn, la._calls, la.n_subset = 0, 0, 0, None
        la._keys, la.feature_reduction, la.enable_backprop = DictKeys(), None, False
        la._covariance, la._differentiable = None, None
        la._likeness = None if model is None else models.likeness(model)
        la._sizes = None
        la.model = model
        la._sigma_given = False
        la._sigma, la._scaling = None, None
        la._prior_mean = posterior.prior_mean.tolist()
        la._temperature = posterior.temperature
        la._bound, la._shape, la._evidence = None, None, None
        la._set(posterior)
        return la

    def state_dict(self) -> dict[str, Any]:
        """The fitted posterior for ``torch.save``; :meth:`save` writes it as a file of its own."""
        state: dict[str, Any] = {
            "posterior": np.frombuffer(to_bytes(self._savable()), dtype=np.uint8).copy(),
            "prior_precision": np.asarray(self._prior_precision),
            "sigma_noise": np.asarray(self._noise()),
        }
        if "torch" in sys.modules:
            import torch

            state = {name: torch.as_tensor(values) for name, values in state.items()}
        return {**state, "form": [self.subset_of_weights, self.hessian_structure, self.last_layer_name or ""]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the posterior of a :meth:`state_dict`. Everything is compared with this object: its likelihood, its
        weights and their values, its structure; every difference is named."""
        if "posterior" not in state_dict:
            if {"H", "mean", "cls_name"} <= set(state_dict):
                raise UnsupportedError(
                    f"this is a state dict of laplace-torch ({state_dict['cls_name']}): it holds no data to check it by; fit "
                    "again here, with the same model and data"
                )
            raise InputError("this is no state dict of a posterior: it has no entry `posterior`")
        contents = state_dict["posterior"]
        if is_torch(contents):
            contents = contents.cpu().numpy()
        posterior = from_bytes(np.asarray(contents, dtype=np.uint8).tobytes())
        differences = self._differences(posterior, state_dict.get("form"))
        if differences:
            raise InputError("the state dict belongs to another posterior: " + "; ".join(differences))
        self._set(posterior)
        self._sigma_given = self._sigma_given or posterior.sigma is not None
        self._bound = None

    def _differences(self, posterior: _core.Posterior, form: list[str] | None) -> list[str]:
        """In what a posterior differs from what this object would fit."""
        found = []
        likelihood = models.likelihood_name(self.likelihood, posterior.n_outputs)
        if likelihood != posterior.likelihood:
            found.append(f"its likelihood is {posterior.likelihood}, not {likelihood}")
        subset, structure, layer = form or [self.subset_of_weights, self.hessian_structure, ""]
        if subset != self.subset_of_weights:
            found.append(f"its subset_of_weights is {subset}, not {self.subset_of_weights}")
        if structure != self.hessian_structure:
            found.append(f"its hessian_structure is {structure}, not {self.hessian_structure}")
        if layer and self.last_layer_name and layer != self.last_layer_name:
            found.append(f"its last layer is `{layer}`, not `{self.last_layer_name}`")
        candidates = models.uncertain_weights(self.model, self.subset_of_weights, self._indices, self.last_layer_name)
        mean = np.asarray(posterior.mean)
        if candidates is not None and subset == self.subset_of_weights:
            same_size = [weights for weights in candidates if len(weights) == len(mean)]
            if not same_size:
                sizes = " or ".join(str(len(weights)) for weights in candidates) or "no"
                found.append(f"it has {len(mean)} uncertain weights, the model {sizes}")
            elif not any(np.allclose(weights, mean, rtol=1e-6, atol=1e-8) for weights in same_size):
                found.append("its weights have other values than those of the model")
        return found

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_evidence"] = state["_covariance"] = state["_differentiable"] = None
        bound = self._bound
        if bound is not None and bound.features is None:
            # The weights are in the network; a torch module need not come along.
            state["model"] = bound.network
        state["_bound"] = None
        if self._posterior is not None:
            state["_posterior"] = to_bytes(self._savable())
            state["_pending"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        contents = state.pop("_posterior")
        self.__dict__.update(state)
        self._posterior = None if contents is None else from_bytes(contents)
