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

import json
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
Array = npt.NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass
class _Description:
    """Layers as plain data, their parameters, and the shape of a point after them."""

    shape: Shape
    layers: list[Any] = field(default_factory=list)
    parameters: list[Array] = field(default_factory=list)

    def add(self, name: str, arrays: Sequence[Weights | None] = (), after: Shape | None = None, **settings: Any) -> None:
        self.layers.append({name: settings} if settings else name)
        self.parameters += [np.asarray(values, dtype=np.float64) for values in arrays if values is not None]
        self.shape = self.shape if after is None else after

    def refuse(self, what: str, problem: str) -> InputError:
        return InputError(f"layer {len(self.layers)} ({what}) {problem}")

    def axes(self, what: str, weight: Weights, count: int) -> Shape:
        """The lengths of a weight that has this many axes."""
        found = np.shape(weight)
        if len(found) != count:
            raise self.refuse(what, f"has a weight of shape {list(found)}, not one with {count} axes")
        return found

    def vectors(self, what: str, parameters: Sequence[Weights | None], length: int) -> None:
        """Checks parameters that are one number per output or channel."""
        for values in parameters:
            if values is not None and np.shape(values) != (length,):
                raise self.refuse(what, f"has a parameter of shape {list(np.shape(values))}, not {[length]}")

    def image(self, what: str) -> dict[str, int]:
        """The images that the next layer sees."""
        if len(self.shape) != 3:
            raise self.refuse(what, f"needs images, but has vectors of {self.shape[0]} for inputs")
        return dict(zip(("channels", "height", "width"), self.shape))

    def channels(self) -> dict[str, int]:
        """The same, where a vector counts as an image of one pixel."""
        return dict(zip(("channels", "height", "width"), (*self.shape, 1, 1)))

    def below(self, window: dict[str, Any], channels: int) -> Shape:
        """The image at the positions of a window."""
        lengths = []
        for axis, length in enumerate(self.shape[1:]):
            reach = window.get("dilation", (1, 1))[axis] * (window["kernel"][axis] - 1) + 1
            stride = max(window["stride"][axis], 1)
            lengths.append(max((length + 2 * window["padding"][axis] - reach) // stride + 1, 0))
        return (channels, *lengths)


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

    def describe(self, to: _Description) -> None:
        if len(to.shape) != 1:
            raise to.refuse("linear", f"has images of shape {list(to.shape)} for inputs; flatten them first")
        outputs, inputs = to.axes("linear", self.weight, 2)
        to.vectors("linear", [self.bias], outputs)
        settings = {"inputs": inputs, "outputs": outputs, "bias": self.bias is not None}
        to.add("linear", [self.weight, self.bias], (outputs,), **settings)


@dataclass(frozen=True, eq=False)
class Conv2d:
    """A convolution, with W of shape (outputs, inputs / groups, rows, columns)."""

    weight: Weights
    bias: Weights | None = None
    stride: Pair = 1
    padding: Pair = 0
    dilation: Pair = 1
    groups: int = 1

    def describe(self, to: _Description) -> None:
        image = to.image("convolution")
        outputs, channels, rows, columns = to.axes("convolution", self.weight, 4)
        if channels * self.groups != image["channels"]:
            problem = f"takes {channels * self.groups} channels, but has {image['channels']} for inputs"
            raise to.refuse("convolution", problem)
        to.vectors("convolution", [self.bias], outputs)
        window = {
            "kernel": (rows, columns),
            "stride": _pair(self.stride),
            "padding": _pair(self.padding),
            "dilation": _pair(self.dilation),
        }
        settings = {"input": image, "outputs": outputs, "groups": self.groups, "bias": self.bias is not None}
        to.add("conv2d", [self.weight, self.bias], to.below(window, outputs), **settings, **window)


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Normalised over the last axes; their shape is that of the weight unless it is given."""

    weight: Weights | None = None
    bias: Weights | None = None
    shape: Sequence[int] | None = None
    eps: float = 1e-5

    def describe(self, to: _Description) -> None:
        shape = self.shape
        if shape is None:
            if self.weight is None:
                raise InputError("a LayerNorm without weights needs the shape that it normalises over")
            shape = np.shape(self.weight)
        axes = tuple(int(n) for n in shape)
        if not axes or to.shape[-len(axes) :] != axes:
            raise to.refuse("layer norm", f"normalises over axes of {list(axes)}, but has inputs of {list(to.shape)}")
        for values in (self.weight, self.bias):
            if values is not None and np.shape(values) != axes:
                raise to.refuse("layer norm", f"has a parameter of shape {list(np.shape(values))}, not {list(axes)}")
        present: dict[str, Any] = {"weight": self.weight is not None, "bias": self.bias is not None}
        inputs = int(np.prod(to.shape))
        to.add("layer_norm", [self.weight, self.bias], inputs=inputs, shape=axes, eps=self.eps, **present)


@dataclass(frozen=True, eq=False)
class BatchNorm:
    """Normalised with running statistics, one mean and one variance per channel."""

    mean: Weights
    variance: Weights
    weight: Weights | None = None
    bias: Weights | None = None
    eps: float = 1e-5

    def describe(self, to: _Description) -> None:
        to.vectors("batch norm", [self.mean, self.variance, self.weight, self.bias], to.shape[0])
        mean, variance = (np.asarray(values, dtype=np.float64).tolist() for values in (self.mean, self.variance))
        settings = {"mean": mean, "variance": variance, "eps": self.eps}
        present: dict[str, Any] = {"weight": self.weight is not None, "bias": self.bias is not None}
        to.add("batch_norm", [self.weight, self.bias], input=to.channels(), **settings, **present)


@dataclass(frozen=True, eq=False)
class GroupNorm:
    """Normalised over groups of channels."""

    groups: int
    weight: Weights | None = None
    bias: Weights | None = None
    eps: float = 1e-5

    def describe(self, to: _Description) -> None:
        to.vectors("group norm", [self.weight, self.bias], to.shape[0])
        present: dict[str, Any] = {"weight": self.weight is not None, "bias": self.bias is not None}
        parameters = [self.weight, self.bias]
        to.add("group_norm", parameters, input=to.channels(), groups=self.groups, eps=self.eps, **present)


@dataclass(frozen=True)
class MaxPool2d:
    """The largest values in windows, which move by their own size unless a stride is given."""

    kernel: Pair
    stride: Pair | None = None
    padding: Pair = 0

    def describe(self, to: _Description) -> None:
        image, window = to.image("max pooling"), _window(self)
        to.add("max_pool2d", (), to.below(window, image["channels"]), input=image, **window)


@dataclass(frozen=True)
class AvgPool2d:
    """The means of windows, which move by their own size unless a stride is given."""

    kernel: Pair
    stride: Pair | None = None
    padding: Pair = 0
    count_include_pad: bool = True

    def describe(self, to: _Description) -> None:
        image, window = to.image("average pooling"), _window(self)
        counted = {"count_include_pad": self.count_include_pad}
        to.add("avg_pool2d", (), to.below(window, image["channels"]), input=image, **window, **counted)


def _window(pool: MaxPool2d | AvgPool2d) -> dict[str, Any]:
    stride = pool.kernel if pool.stride is None else pool.stride
    return {"kernel": _pair(pool.kernel), "stride": _pair(stride), "padding": _pair(pool.padding)}


@dataclass(frozen=True)
class GlobalAvgPool:
    """The mean of each channel, as an image of one pixel."""

    def describe(self, to: _Description) -> None:
        image = to.image("global average pooling")
        to.add("global_avg_pool", (), (image["channels"], 1, 1), input=image)


@dataclass(frozen=True)
class Flatten:
    """An image becomes a vector."""

    def describe(self, to: _Description) -> None:
        to.add("flatten", (), (int(np.prod(to.shape)),))


@dataclass(frozen=True)
class Dropout:
    """Nothing, in a trained network."""

    def describe(self, to: _Description) -> None:
        to.add("dropout")


@dataclass(frozen=True)
class Activation:
    """h = φ(z), by name; a bare string does as well."""

    name: str

    def describe(self, to: _Description) -> None:
        known = _core.activations()
        if self.name not in known:
            raise to.refuse("activation", f"is `{self.name}`, which is not one of {', '.join(known)}")
        to.layers.append({"activation": self.name})


@dataclass(frozen=True, eq=False)
class Residual:
    """body(h) + shortcut(h); without a shortcut, body(h) + h."""

    body: Sequence[Layer]
    shortcut: Sequence[Layer] = field(default_factory=tuple)

    def describe(self, to: _Description) -> None:
        body, shortcut = (_describe(layers, to.shape) for layers in (self.body, self.shortcut))
        if body.shape != shortcut.shape:
            problem = f"has {list(body.shape)} from its body, but {list(shortcut.shape)} from its shortcut"
            raise to.refuse("residual", problem)
        parameters = [*body.parameters, *shortcut.parameters]
        to.add("residual", parameters, body.shape, body=body.layers, shortcut=shortcut.layers)


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


def _describe(layers: Sequence[Layer], shape: Shape) -> _Description:
    description = _Description(shape)
    for layer in layers:
        (Activation(layer) if isinstance(layer, str) else layer).describe(description)
    return description


def network(layers: Sequence[Layer], input_shape: Sequence[int] | None = None) -> _core.Network:
    """The network of these layers.

    ``input_shape`` is the shape of one input: a length, or channels, height and width. It may be left out where the
    first layer is linear.
    """
    if input_shape is None:
        first: Any = next((layer for layer in layers if not isinstance(layer, (str, Activation, Dropout))), None)
        if not isinstance(first, Linear):
            raise InputError("input_shape is needed where the first layer is not linear: channels, height and width")
        input_shape = np.shape(first.weight)[-1:]
    shape = tuple(int(length) for length in input_shape)
    if len(shape) not in (1, 3):
        raise InputError(f"the shape {list(shape)} of an input has neither one length nor channels, height and width")
    description = _describe(layers, shape)
    parameters = np.concatenate([np.zeros(0), *(values.ravel() for values in description.parameters)])
    try:
        record = json.dumps(description.layers, allow_nan=False)
    except ValueError:
        raise InputError("the layers have running statistics or an epsilon that are not finite") from None
    return _core.Network.from_record(record, parameters)
