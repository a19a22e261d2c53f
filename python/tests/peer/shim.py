"""laplace-torch's class names over this package: a pytest plugin under which laplace-torch's own tests run unmodified.

The installed ``laplace`` keeps its helpers (curvature backends, which only say what curvature is wanted, data utilities,
subnetwork masks); its posteriors are replaced before any test module is imported. What stands here is what laplace-torch
defines by class rather than by argument, its attributes before a fit, and its stricter checks.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import laplace
import numpy as np
import torch

import riemannian_laplace as rl
from riemannian_laplace.torch_models import unwrapped
from riemannian_laplace.views import KroneckerView


class Base(rl.Laplace):
    """A posterior whose subset and structure are those of its class."""

    _subset, _structure = "all", "full"

    def __init__(self, model: Any, likelihood: Any, *arguments: Any, **options: Any) -> None:
        options.pop("asdl_fisher_kwargs", None)
        options.pop("independent_outputs", None)
        module = unwrapped(model)
        frozen = any(not parameter.requires_grad for parameter in module.parameters())
        backend = getattr(options.get("backend"), "__name__", "")
        if frozen and ("BackPack" in backend or "Asdfghjkl" in backend):
            raise ValueError(f"{backend} cannot differentiate some of the parameters alone")
        names = ("sigma_noise", "prior_precision", "prior_mean", "temperature")
        options.update(zip(names, arguments))
        sigma = options.get("sigma_noise", 1.0)
        if (sigma.numel() if isinstance(sigma, torch.Tensor) else np.size(sigma)) > 1:
            raise ValueError("only one noise for all outputs")
        super().__init__(model, likelihood, self._subset, self._structure, **options)
        layer = getattr(self, "last_layer_name", None)
        if self._subset == "last_layer":
            parameters = [] if layer is None else list(module.get_submodule(layer).parameters())
        else:
            parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._before = sum(parameter.numel() for parameter in parameters)
        self._layered = [parameter.numel() for parameter in parameters]
        if self._before and len(self._prior_mean) not in (1, self._before):
            raise ValueError("the prior mean has another length")
        if self._subset == "last_layer" and self._before:
            allowed = {1, len(parameters), self._before}
            allowed -= {self._before} if self._structure == "kron" else set()
            if len(self._prior_precision) not in allowed:
                raise ValueError("the prior precision has another length")

    # Before a fit the posterior is the prior.

    @property
    def _fitted(self) -> bool:
        return self._posterior is not None

    @property
    def mean(self) -> Any:
        if self._fitted:
            return super().mean
        return self.prior_mean if self._before else None

    @property
    def H(self) -> Any:  # noqa: N802
        if self._fitted:
            return super().H
        if not self._before:
            return None
        shape = (self._before,) if self._structure == "diag" else (self._before, self._before)
        if self._structure == "kron":
            return SimpleNamespace(kfacs=[[torch.zeros(count)] for count in self._layered])
        return None if self._structure == "lowrank" else self._given(np.zeros(shape))

    def _init_H(self) -> None:  # noqa: N802
        self._posterior = None

    @property
    def H_facs(self) -> Any:  # noqa: N802
        return self.H

    @property
    def prior_precision_diag(self) -> Any:
        if self._fitted:
            return super().prior_precision_diag
        return self.prior_precision * torch.ones(self._before)

    def log_prob(self, value: Any, normalized: bool = True) -> Any:
        if self._fitted:
            return super().log_prob(value, normalized)
        return torch.distributions.Normal(self.prior_mean, self.prior_precision.rsqrt()).log_prob(value).sum()

    @property
    def _device(self) -> torch.device:
        return torch.device("cpu" if self._likeness is None else self._likeness[1])

    @property
    def backend(self) -> Any:
        return SimpleNamespace(
            subnetwork_indices=getattr(self, "_given_indices", None),
            last_layer_jacobians=lambda x: tuple(
                part.to(x.dtype) for part in reversed(self._in_torch().jacobians(x))
            ),
        )

    def functional_variance_fast(self, x: Any) -> Any:
        return self(x, diagonal_output=True)

    def optimize_prior_precision(self, *arguments: Any, **options: Any) -> Any:
        return super().optimize_prior_precision(*arguments, **{"progress_bar": False, **options})


class FullLaplace(Base):
    _key = ("all", "full")


class KronLaplace(Base):
    _key, _structure = ("all", "kron"), "kron"


class DiagLaplace(Base):
    _key, _structure = ("all", "diag"), "diag"


class LowRankLaplace(Base):
    _key, _structure = ("all", "lowrank"), "lowrank"

    @property
    def posterior_precision(self) -> Any:
        prior = self._prior_diagonal()
        values, vectors = np.linalg.eigh(self._dense_precision() - np.diag(prior))
        kept = values > 1e-10 * values[-1]
        return (self._given(vectors[:, kept]), self._given(values[kept])), self._given(prior)


class LLLaplace(Base):
    _subset = "last_layer"


class FullLLLaplace(LLLaplace):
    _key = ("last_layer", "full")


class KronLLLaplace(LLLaplace):
    _key, _structure = ("last_layer", "kron"), "kron"


class DiagLLLaplace(LLLaplace):
    _key, _structure = ("last_layer", "diag"), "diag"


class SubnetLaplace(Base):
    """Its mean and its draws are of all weights; those outside the subnetwork stay as they are."""

    _subset = "subnetwork"

    def __init__(self, model: Any, likelihood: Any, subnetwork_indices: Any, *arguments: Any, **options: Any) -> None:
        if not (isinstance(subnetwork_indices, torch.LongTensor) and subnetwork_indices.ndim == 1):
            raise ValueError("subnetwork_indices must be a LongTensor of one dimension")
        backend = options.get("backend")
        if backend is not None and not issubclass(
            backend, (laplace.curvature.GGNInterface, laplace.curvature.EFInterface)
        ):
            raise ValueError("only GGN and EF")
        super().__init__(
            model, likelihood, *arguments, subnetwork_indices=subnetwork_indices, **options
        )
        self._given_indices, self._before = subnetwork_indices, len(subnetwork_indices)

    @property
    def n_params_subnet(self) -> int:
        return len(self._given_indices)

    def _whole(self) -> Any:
        return torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()

    def sample(self, n_samples: int = 100, generator: Any = None) -> Any:
        draws = self._whole().repeat(n_samples, 1)
        draws[:, self._given_indices.sort().values] = super().sample(n_samples, generator)
        return draws


class FullSubnetLaplace(SubnetLaplace):
    _key = ("subnetwork", "full")


class DiagSubnetLaplace(SubnetLaplace):
    _key, _structure = ("subnetwork", "diag"), "diag"


class FunctionalLaplace(Base):
    """Function space; the prediction is the linearised one."""

    _key, _structure = ("all", "gp"), "gp"


class FunctionalLLLaplace(FunctionalLaplace):
    _key, _subset = ("last_layer", "gp"), "last_layer"


CLASSES = [
    FullLaplace, KronLaplace, DiagLaplace, LowRankLaplace, LLLaplace, FullLLLaplace, KronLLLaplace, DiagLLLaplace,
    SubnetLaplace, FullSubnetLaplace, DiagSubnetLaplace, FunctionalLaplace, FunctionalLLLaplace,
]  # fmt: skip


def chosen(model: Any, likelihood: Any, subset_of_weights: Any = "last_layer", hessian_structure: Any = "kron",
           *arguments: Any, **options: Any) -> Base:  # fmt: skip
    """The class for a subset and a structure, as laplace-torch's ``Laplace``."""
    key = (getattr(subset_of_weights, "value", subset_of_weights), getattr(hessian_structure, "value", hessian_structure))
    classes = {one._key: one for one in CLASSES if hasattr(one, "_key")}
    if key[0] == "subnetwork" and key not in classes:
        raise ValueError("a subnetwork is full or diag")
    return classes[key](model, likelihood, *arguments, **options)


def install() -> None:
    """Puts the names above in the place of laplace-torch's."""
    replaced: dict[str, Any] = {one.__name__: one for one in CLASSES}
    replaced |= {"ParametricLaplace": Base, "BaseLaplace": Base, "KronDecomposed": KroneckerView}
    for name in ("laplace", "laplace.baselaplace", "laplace.lllaplace", "laplace.subnetlaplace", "laplace.utils",
                 "laplace.utils.matrix", "laplace.utils.subnetmask"):  # fmt: skip
        module = sys.modules[name]
        for word, value in replaced.items():
            if hasattr(module, word):
                setattr(module, word, value)
    sys.modules["laplace.laplace"].Laplace = chosen
    laplace.Laplace = chosen


install()
