"""Predictions of a torch module that can be differentiated by their inputs.

The linearised prediction has mean f(x, θ̂) and covariance J(x) G⁻¹ J(x)ᵀ. Outputs and Jacobians are computed by torch in
float64 as functions of x; G⁻¹ is the engine's and constant. So torch's autograd differentiates both, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap
from torch.utils._pytree import tree_map

from riemannian_laplace.data import Matrix
from riemannian_laplace.errors import InputError
from riemannian_laplace.torch_export import frozen_copy, unfused
from riemannian_laplace.torch_models import unwrapped

__all__ = ["DifferentiablePosterior"]

#: Sampled networks are evaluated this many numbers of outputs at a time.
_DRAWS = 64


def _precise(x: Any) -> Any:
    if isinstance(x, Mapping):
        return {name: _precise(value) for name, value in x.items() if isinstance(value, torch.Tensor)}
    return x.double() if x.is_floating_point() else x


class DifferentiablePosterior:
    """A module with some of its weights uncertain, as a function of the inputs."""

    def __init__(self, module: nn.Module, layer: str | None, indices: Sequence[int] | None) -> None:
        self.module = frozen_copy(unwrapped(module)).requires_grad_(False)
        tensors = dict(self.module.named_parameters())
        if layer is not None:
            tensors = {name: value for name, value in tensors.items() if name.rpartition(".")[0] == layer}
        sizes = {name: value.numel() for name, value in tensors.items()}
        places: torch.Tensor | None = None
        if indices is not None:
            # Only tensors with an uncertain weight are differentiated; their other weights are left out afterwards.
            chosen = np.asarray(indices)
            kept, columns, start, offset = {}, [], 0, 0
            column = np.full(sum(sizes.values()), -1)
            for name, size in sizes.items():
                if np.any((chosen >= start) & (chosen < start + size)):
                    kept[name] = tensors[name]
                    column[start : start + size] = np.arange(offset, offset + size)
                    offset += size
                start += size
            tensors, columns = kept, column[chosen]
            places = torch.as_tensor(np.asarray(columns))
        self.tensors, self.places = tensors, places

    def _outputs(self, tensors: dict[str, torch.Tensor], x: Any) -> torch.Tensor:
        outputs = functional_call(self.module, tensors, (x,))
        outputs = outputs if isinstance(outputs, torch.Tensor) else outputs.logits
        return outputs.reshape(len(outputs), -1)

    def jacobians(self, x: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """f of N × P and J of N × P × D, as functions of x: a tensor, or a dictionary of tensors."""
        x = _precise(x)

        def single(tensors: dict[str, torch.Tensor], point: Any) -> torch.Tensor:
            return self._outputs(tensors, tree_map(lambda value: value[None], point))[0]

        with unfused():
            outputs = self._outputs(self.tensors, x)
            blocks = vmap(jacrev(single), in_dims=(None, 0))(self.tensors, x)
        rows = torch.cat([blocks[name].reshape(*outputs.shape, -1) for name in self.tensors], dim=-1)
        return outputs, rows if self.places is None else rows[..., self.places]

    def gaussian(self, x: Any, covariance: Matrix, joint: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean, and the covariance of each point or of all points jointly."""
        mean, rows = self.jacobians(x)
        sigma = torch.as_tensor(covariance)
        if joint:
            flat = rows.reshape(-1, rows.shape[-1])
            return mean.reshape(-1), flat @ sigma @ flat.T
        return mean, rows @ sigma @ rows.transpose(-1, -2)

    def sampled(self, x: Any, draws: Matrix) -> torch.Tensor:
        """The outputs of networks with these weights, one per row: draws × N × P."""
        x = _precise(x)
        parts = []
        with unfused():
            for start in range(0, len(draws), _DRAWS):
                stacked = self._stacked(torch.as_tensor(draws[start : start + _DRAWS]))
                parts.append(vmap(lambda tensors: self._outputs(tensors, x), randomness="error")(stacked))
        return torch.cat(parts)

    def _stacked(self, draws: torch.Tensor) -> dict[str, torch.Tensor]:
        count = len(draws)
        whole = torch.cat([value.reshape(-1) for value in self.tensors.values()]).repeat(count, 1)
        if self.places is None:
            if whole.shape != draws.shape:
                raise InputError(f"the posterior has {draws.shape[1]} weights, the module {whole.shape[1]}")
            whole = draws
        else:
            whole[:, self.places] = draws
        parts = whole.split([value.numel() for value in self.tensors.values()], dim=1)
        return {name: part.reshape(count, *value.shape) for (name, value), part in zip(self.tensors.items(), parts)}
