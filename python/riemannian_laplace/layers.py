"""Networks from plain weight arrays: one description per layer, in the order of the forward pass.

>>> import numpy as np
>>> from riemannian_laplace.layers import Linear, network
>>> network([Linear(np.ones((3, 2)), np.zeros(3)), "tanh", Linear(np.ones((1, 3)))])
Network(2-3-1 tanh, 12 parameters)

Weights have PyTorch's shapes. Images are arrays of channels, height and width, and their shape is given once:

>>> convolution = Conv2d(np.ones((4, 1, 3, 3)), np.zeros(4), padding=1)
>>> network([convolution, "relu", GlobalAvgPool(), Flatten(), Linear(np.ones((2, 4)))], input_shape=(1, 8, 8)).n_inputs
64
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from riemannian_laplace import _core
from riemannian_laplace.errors import InputError

__all__ = [
    "Activation",
    "AvgPool2d",
    "BatchNorm",
    "Conv2d",
    "Dropout",
    "Flatten",
    "GlobalAvgPool",
    "GroupNorm",
    "Layer",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "Residual",
    "network",
]

Weights = npt.ArrayLike
Pair = Union[int, Sequence[int]]


def _array(values: Weights) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(values, dtype=np.float64)


def _maybe(values: Weights | None) -> npt.NDArray[np.float64] | None:
    return None if values is None else _array(values)


def _pair(value: Pair) -> tuple[int, int]:
    if isinstance(value, (int, np.integer)):
        return int(value), int(value)
    rows, columns = value
    return int(rows), int(columns)


@dataclass(frozen=True, eq=False)
class Linear:
    """z = W h + b, with W of shape (outputs, inputs)."""

    weight: Weights
    bias: Weights | None = None

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        builder.linear(_array(self.weight), _maybe(self.bias))


@dataclass(frozen=True, eq=False)
class Conv2d:
    """A convolution, with W of shape (outputs, inputs / groups, rows, columns)."""

    weight: Weights
    bias: Weights | None = None
    stride: Pair = 1
    padding: Pair = 0
    dilation: Pair = 1
    groups: int = 1

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        builder.conv2d(
            _array(self.weight),
            _maybe(self.bias),
            stride=_pair(self.stride),
            padding=_pair(self.padding),
            dilation=_pair(self.dilation),
            groups=self.groups,
        )


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Normalised over the last axes; their shape is that of the weight unless it is given."""

    weight: Weights | None = None
    bias: Weights | None = None
    shape: Sequence[int] | None = None
    eps: float = 1e-5

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        shape = self.shape
        if shape is None:
            if self.weight is None:
                raise InputError("a LayerNorm without weights needs the shape that it normalises over")
            shape = np.shape(self.weight)
        builder.layer_norm([int(n) for n in shape], _maybe(self.weight), _maybe(self.bias), eps=self.eps)


@dataclass(frozen=True, eq=False)
class BatchNorm:
    """Normalised with running statistics, one mean and one variance per channel."""

    mean: Weights
    variance: Weights
    weight: Weights | None = None
    bias: Weights | None = None
    eps: float = 1e-5

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        mean, variance = _array(self.mean).tolist(), _array(self.variance).tolist()
        builder.batch_norm(mean, variance, _maybe(self.weight), _maybe(self.bias), eps=self.eps)


@dataclass(frozen=True, eq=False)
class GroupNorm:
    """Normalised over groups of channels."""

    groups: int
    weight: Weights | None = None
    bias: Weights | None = None
    eps: float = 1e-5

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        builder.group_norm(self.groups, _maybe(self.weight), _maybe(self.bias), eps=self.eps)


@dataclass(frozen=True)
class MaxPool2d:
    """The largest values in windows, which move by their own size unless a stride is given."""

    kernel: Pair
    stride: Pair | None = None
    padding: Pair = 0

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        stride = self.kernel if self.stride is None else self.stride
        builder.max_pool2d(_pair(self.kernel), stride=_pair(stride), padding=_pair(self.padding))


@dataclass(frozen=True)
class AvgPool2d:
    """The means of windows, which move by their own size unless a stride is given."""

    kernel: Pair
    stride: Pair | None = None
    padding: Pair = 0
    count_include_pad: bool = True

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        stride = self.kernel if self.stride is None else self.stride
        builder.avg_pool2d(
            _pair(self.kernel),
            stride=_pair(stride),
            padding=_pair(self.padding),
            count_include_pad=self.count_include_pad,
        )


@dataclass(frozen=True)
class GlobalAvgPool:
    """The mean of each channel, as an image of one pixel."""

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        builder.global_avg_pool()


@dataclass(frozen=True)
class Flatten:
    """An image becomes a vector."""

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        builder.flatten()


@dataclass(frozen=True)
class Dropout:
    """Nothing, in a trained network."""

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        builder.dropout()


@dataclass(frozen=True)
class Activation:
    """h = φ(z), by name; a bare string does as well."""

    name: str

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        builder.activation(self.name)


@dataclass(frozen=True, eq=False)
class Residual:
    """body(h) + shortcut(h); without a shortcut, body(h) + h."""

    body: Sequence[Layer]
    shortcut: Sequence[Layer] = field(default_factory=tuple)

    def add_to(self, builder: _core.NetworkBuilder) -> None:
        branches = []
        for layers in (self.body, self.shortcut):
            branch = builder.branch()
            _add(layers, branch)
            branches.append(branch)
        builder.residual(*branches)


Layer = Union[
    str,
    Linear,
    Conv2d,
    LayerNorm,
    BatchNorm,
    GroupNorm,
    MaxPool2d,
    AvgPool2d,
    GlobalAvgPool,
    Flatten,
    Dropout,
    Activation,
    Residual,
]


def _add(layers: Sequence[Layer], builder: _core.NetworkBuilder) -> None:
    for layer in layers:
        described = Activation(layer) if isinstance(layer, str) else layer
        described.add_to(builder)


def network(layers: Sequence[Layer], input_shape: Sequence[int] | None = None) -> _core.Network:
    """The network of these layers.

    ``input_shape`` is the shape of one input: a length, or channels, height and width. It may be left out where the
    first layer is linear.
    """
    if input_shape is None:
        first: Any = next((layer for layer in layers if not isinstance(layer, (str, Activation, Dropout))), None)
        if not isinstance(first, Linear):
            raise InputError("input_shape is needed where the first layer is not linear: channels, height and width")
        input_shape = [np.shape(first.weight)[-1]]
    builder = _core.NetworkBuilder([int(length) for length in input_shape])
    _add(layers, builder)
    return builder.build()
