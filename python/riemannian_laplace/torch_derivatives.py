"""Any torch module as a model of the engine, with outputs and derivatives by torch in float64.

Derivatives along a direction are taken by backward passes alone: with g(u) = ∂(uᵀf)/∂θ, which is linear in u, the
derivative of f along v is ∂(gᵀv)/∂u, and the second derivative is that of the first. Forward mode would be cheaper, but
torch's is wrong to second order through some fused kernels. Normalisations, whose kernels are wrong to higher order by
backward passes too, are written out. All of it is compared with finite differences once; where second derivatives do not
pass, they are differences of first ones from then on.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from riemannian_laplace import _core
from riemannian_laplace.data import Inputs, Matrix
from riemannian_laplace.errors import LaplaceWarning, UnsupportedError
from riemannian_laplace.torch_export import flat_parameters, frozen_copy, unfused

__all__ = ["TorchDerivatives", "derived"]

#: Points at which derivatives are compared with differences.
_CHECKED = 3
#: The root mean square change of the weights for differences of first derivatives: the cube root of the rounding error.
_STEP = 6e-6


def derived(module: nn.Module, inputs: Inputs, expected: Matrix) -> _core.DerivedModel:
    """The module as a model whose derivatives torch computes; `expected` are its own outputs at these inputs."""
    derivatives = TorchDerivatives(module, inputs)
    parameters = flat_parameters(module)
    rows = inputs.matrix()
    found = derivatives.outputs([parameters], derivatives.points(rows)).T
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-8)
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-3, atol=1e-3 * scale):
        raise UnsupportedError(f"{type(module).__name__} computes something else in float64, or at other batch sizes")
    derivatives.check(parameters, rows[:_CHECKED])
    tensors = [(name, parameter.numel()) for name, parameter in module.named_parameters()]
    what = f"{type(module).__name__}, differentiated by torch"
    return _core.DerivedModel(derivatives, parameters.tolist(), tensors, rows.shape[1], expected.shape[1], what)


class TorchDerivatives:
    """What the engine asks of a module. One evaluation runs at a time, since it sets the module's parameters."""

    def __init__(self, module: nn.Module, inputs: Inputs) -> None:
        self.name = type(module).__name__
        self.module = frozen_copy(module).requires_grad_(True)
        self.parameters = list(self.module.parameters())
        self.shape = tuple(inputs.shape)
        kind = getattr(inputs.raw, "dtype", None)
        self.integers = "int" in str(kind)
        self.lock = threading.Lock()
        #: Whether Jacobians are computed for all points at once.
        self.together = True
        #: Whether torch has the second derivatives.
        self.twice = True

    def points(self, rows: Matrix) -> torch.Tensor:
        """Inputs as the module takes them."""
        tensor = torch.as_tensor(np.ascontiguousarray(rows)).reshape(len(rows), *self.shape)
        return tensor.long() if self.integers else tensor

    def outputs(self, vectors: Sequence[Matrix], points: torch.Tensor) -> Matrix:
        """f, one row per output and one column per point."""
        with self._at(vectors[0]), torch.no_grad():
            return _numpy(self._forward(points).T)

    def jet(self, vectors: Sequence[Matrix], points: torch.Tensor) -> Matrix:
        """f and its first and second derivatives along a velocity."""
        theta, velocity = vectors
        if not self.twice:
            return self._jet_by_differences(theta, velocity, points)
        along = [part.reshape(own.shape) for part, own in zip(self._split(velocity), self.parameters)]
        with self._at(theta):
            value = self._forward(points)
            first = self._along(value, along)
            second = self._along(first, along)
            return _numpy(torch.stack([value.T, first.T, second.T]))

    def _jet_by_differences(self, theta: Matrix, velocity: Matrix, points: torch.Tensor) -> Matrix:
        step = _STEP / max(float(np.sqrt(np.mean(np.square(velocity)))), 1e-300)
        at = [self.jacobian([theta + move * velocity], points) @ velocity for move in (0.0, step, -step)]
        return np.stack([self.outputs([theta], points), at[0], (at[1] - at[2]) / (2 * step)])

    def jacobian(self, vectors: Sequence[Matrix], points: torch.Tensor) -> Matrix:
        """The gradients of all outputs at all points."""
        with self._at(vectors[0]):
            rows = self._rows_together(points) if self.together else self._rows_one_by_one(points)
            return _numpy(rows.transpose(0, 1))

    def _forward(self, points: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.module(points)
        return outputs.reshape(len(points), -1)

    def _along(self, values: torch.Tensor, velocity: list[torch.Tensor]) -> torch.Tensor:
        """The derivative of values along a velocity, as a function of the parameters again."""
        if not values.requires_grad:
            return torch.zeros_like(values)
        seeds = torch.zeros_like(values, requires_grad=True)
        gradients = torch.autograd.grad(values, self.parameters, seeds, create_graph=True, materialize_grads=True)
        product = torch.stack([(gradient * part).sum() for gradient, part in zip(gradients, velocity)]).sum()
        if not product.requires_grad:
            return torch.zeros_like(values)
        (along,) = torch.autograd.grad(product, seeds, create_graph=True, materialize_grads=True)
        return along

    def _rows_together(self, points: torch.Tensor) -> torch.Tensor:
        def single(parameters: dict[str, torch.Tensor], point: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = torch.func.functional_call(self.module, parameters, (point.unsqueeze(0),))
            return outputs.reshape(-1)

        named = {name: parameter.detach() for name, parameter in self.module.named_parameters()}
        rows = torch.func.vmap(torch.func.jacrev(single), in_dims=(None, 0))(named, points)
        return torch.cat([row.flatten(2) for row in rows.values()], dim=2)

    def _rows_one_by_one(self, points: torch.Tensor) -> torch.Tensor:
        rows = []
        for point in points:
            for output in self._forward(point.unsqueeze(0))[0]:
                row = torch.autograd.grad(output, self.parameters, retain_graph=True, materialize_grads=True)
                rows.append(torch.cat([part.flatten() for part in row]))
        return torch.stack(rows).reshape(len(points), -1, len(rows[0]))

    def _split(self, vector: Matrix) -> list[torch.Tensor]:
        return list(torch.split(torch.as_tensor(np.array(vector)), [own.numel() for own in self.parameters]))

    @contextmanager
    def _at(self, theta: Matrix) -> Iterator[None]:
        """The module with these parameters, and nothing fused."""
        with self.lock, warnings.catch_warnings(), unfused(), _plain_attention(), torch.enable_grad(), _WrittenOut():
            warnings.simplefilter("ignore")
            with torch.no_grad():
                for own, part in zip(self.parameters, self._split(theta)):
                    own.copy_(part.reshape(own.shape))
            yield

    def check(self, theta: Matrix, rows: Matrix) -> None:
        """Compares derivatives with finite differences, and chooses how they are computed."""
        points = self.points(rows)
        velocity = np.random.default_rng(0).normal(size=len(theta)) / np.sqrt(max(len(theta), 1))
        try:
            self.together = False
            plain = self.jacobian([theta], points)
        except Exception as error:
            raise UnsupportedError(f"torch cannot differentiate {self.name}: {error}") from error
        try:
            self.together = True
            self.together = bool(np.allclose(self.jacobian([theta], points), plain, rtol=1e-9, atol=1e-12))
        except Exception:  # noqa: BLE001, a module that vmap cannot take
            self.together = False
        try:
            _, first, second = self.jet([theta, velocity], points)
            close = np.allclose(plain @ velocity, first, rtol=1e-8, atol=1e-10 * max(float(np.abs(first).max()), 1e-8))
            self.twice = close and self._agrees(theta, velocity, points, 1, second)
        except Exception:  # noqa: BLE001, an operator that torch differentiates once
            self.twice = False
        if not self._agrees(theta, velocity, points, 0, plain @ velocity):
            raise UnsupportedError(
                f"torch's derivatives of {self.name} are not those of its outputs: they disagree with finite differences"
            )
        if not self.twice:
            warnings.warn(
                f"torch has no second derivatives of {self.name}, or wrong ones: differences of first ones replace them, and "
                "geodesics may need more steps",
                LaplaceWarning,
                stacklevel=7,
            )

    def _agrees(self, theta: Matrix, velocity: Matrix, points: torch.Tensor, order: int, exact: Matrix) -> bool:
        """Whether differences of f or of its first derivative agree; a kink spoils the difference of one step, not of all."""
        for step in (1e-3, 1e-4, 1e-5, 1e-6):
            ends = [theta + sign * step * velocity for sign in (1, -1)]
            if order == 0:
                ahead, behind = (self.outputs([end], points) for end in ends)
            else:
                ahead, behind = (self.jacobian([end], points) @ velocity for end in ends)
            scale = max(float(np.abs(exact).max()), float(np.abs(ahead).max()) * 1e-3, 1e-8)
            if np.allclose((ahead - behind) / (2 * step), exact, rtol=0, atol=1e-3 * scale):
                return True
        return False


def _numpy(values: torch.Tensor) -> Matrix:
    return np.ascontiguousarray(values.detach().numpy())


class _WrittenOut(TorchFunctionMode):
    """Normalisations as the operators that they are made of."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.layer_norm, nn.functional.layer_norm):
            return _layer_norm(*args, **kwargs)
        if func in (torch.instance_norm, nn.functional.instance_norm):
            return _instance_norm(func, *args, **kwargs)
        if func is torch._weight_norm:
            return _weight_norm(*args, **kwargs)
        return func(*args, **kwargs)


def _normal(values: torch.Tensor, axes: list[int], eps: float) -> torch.Tensor:
    centred = values - values.mean(axes, keepdim=True)
    return centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()


def _layer_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> torch.Tensor:
    values = _normal(input, list(range(-len(normalized_shape), 0)), eps)
    values = values if weight is None else values * weight
    return values if bias is None else values + bias


def _instance_norm(
    func: Any,
    input: torch.Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *rest: Any,
) -> torch.Tensor:
    if not use_input_stats:
        values: torch.Tensor = func(
            input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps, *rest
        )
        return values
    values = _normal(input, list(range(2, input.ndim)), eps)
    channels = (-1, *[1] * (input.ndim - 2))
    values = values if weight is None else values * weight.reshape(channels)
    return values if bias is None else values + bias.reshape(channels)


def _weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> torch.Tensor:
    axes = [axis for axis in range(v.ndim) if axis != dim % v.ndim]
    return v * (g / v.square().sum(axes, keepdim=True).sqrt())


def _plain_attention() -> Any:
    """Attention whose kernel has second derivatives."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return nullcontext()
    return sdpa_kernel(SDPBackend.MATH)
