"""Posteriors in files, pickles and state dicts."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from riemannian_laplace import _core
from riemannian_laplace.data import is_torch
from riemannian_laplace.errors import UnsupportedError
from riemannian_laplace.fitted import FittedModel
from riemannian_laplace.settings import from_bytes, to_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SavedModel"]


class SavedModel(FittedModel):
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
        state = {
            "posterior": np.frombuffer(to_bytes(self._savable()), dtype=np.uint8).copy(),
            "prior_precision": self.prior_precision,
            "sigma_noise": np.atleast_1d(self.sigma_noise),
        }
        if "torch" not in sys.modules:
            return state
        import torch

        return {name: torch.as_tensor(values) for name, values in state.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the posterior of a :meth:`state_dict`; this object's model must be the one it was fitted to."""
        contents = state_dict["posterior"]
        if is_torch(contents):
            contents = contents.cpu().numpy()
        self._set(from_bytes(np.asarray(contents, dtype=np.uint8).tobytes()))
        self._bound = None

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_evidence"] = None
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
