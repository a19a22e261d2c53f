"""The log marginal likelihood as a torch number that can be differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["differentiable"]


class _Known(torch.autograd.Function):
    """A value whose derivatives are known already."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, slopes: list[torch.Tensor], *_: torch.Tensor) -> torch.Tensor:
        ctx.slopes = slopes
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, None, *(gradients[0] * slope for slope in ctx.slopes)


def differentiable(value: float, parts: Sequence[tuple[Any, list[float]]]) -> torch.Tensor:
    """The value, with these derivatives by those of the parts that are tensors."""
    tensors = [(part, slopes) for part, slopes in parts if isinstance(part, torch.Tensor)]
    given = [part for part, _ in tensors]
    slopes = [torch.as_tensor(slope, dtype=part.dtype, device=part.device).reshape(part.shape) for part, slope in tensors]
    result: torch.Tensor = _Known.apply(given[0].new_tensor(value), slopes, *given)
    return result
