"""A posterior as a model of BoTorch, whose acquisition functions are optimised by gradients in the inputs.

>>> from botorch.acquisition import qExpectedImprovement  # doctest: +SKIP
>>> acquisition = qExpectedImprovement(LaplaceModel(la), best_f=y.max())  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal

from riemannian_laplace.errors import InputError
from riemannian_laplace.laplace import Laplace

__all__ = ["LaplaceModel"]

#: Added to the diagonal of covariances, relative to their mean variance, so that they can be factored.
_JITTER = 1e-8


class LaplaceModel(Model):  # type: ignore[misc]
    """The linearised prediction of a fitted regression posterior of a torch module, jointly over the points of a batch."""

    def __init__(self, la: Laplace) -> None:
        super().__init__()
        if la.posterior.likelihood != "gaussian":
            raise InputError("a model for BoTorch is a regression")
        self.la = la

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        return self.la.n_outputs

    @property
    def batch_shape(self) -> torch.Size:
        """A single posterior: no batch of models."""
        return torch.Size()

    def posterior(
        self,
        X: torch.Tensor,  # noqa: N803, BoTorch's name
        output_indices: list[int] | None = None,
        observation_noise: bool = False,
        posterior_transform: Any = None,
        **_: Any,
    ) -> Any:
        """The Gaussian over the outputs at batches of q points, ``X`` of … × q × inputs."""
        if output_indices is not None:
            raise InputError("all outputs are predicted together; leave output_indices out")
        outputs, points = self.num_outputs, X.shape[-2]
        flat = X.reshape(-1, X.shape[-1])
        mean, rows = self.la._in_torch().jacobians(flat)
        rows = rows.reshape(*X.shape[:-2], points * outputs, -1)
        covariance = rows @ torch.as_tensor(self.la._dense_covariance()) @ rows.transpose(-1, -2)
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        covariance = covariance + torch.diag_embed(_JITTER * variance.mean(-1, keepdim=True).expand_as(variance))
        if observation_noise:
            sigma = torch.as_tensor(self.la._noise(), dtype=torch.float64).expand(outputs)
            covariance = covariance + torch.diag(sigma.repeat(points) ** 2)
        mean = mean.reshape(*X.shape[:-2], points, outputs)
        if outputs == 1:
            distribution: Any = MultivariateNormal(mean.squeeze(-1), covariance)
        else:
            distribution = MultitaskMultivariateNormal(mean, covariance)
        posterior = GPyTorchPosterior(distribution)
        return posterior if posterior_transform is None else posterior_transform(posterior)
