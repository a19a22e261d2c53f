"""torch modules as networks of the engine: traced, walked layer by layer, and compared with the module's own outputs.

Imported only when a torch module is given.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import fx, nn

from riemannian_laplace import layers
from riemannian_laplace.data import Inputs, Matrix, is_torch
from riemannian_laplace.errors import InputError, LaplaceError, LaplaceWarning, UnsupportedError
from riemannian_laplace.models import BoundModel

__all__ = ["bind", "walk"]

#: Inputs that pass through a module at a time.
_BATCH = 1024


def bind(
    module: nn.Module, inputs: Inputs, *, last_layer: str | None, features_suffice: bool, n_checked: int
) -> BoundModel:
    """The network of a module, or of its last layer with the rest as a feature extractor."""
    if last_layer is None:
        try:
            return BoundModel(_network(module, inputs, n_checked))
        except UnsupportedError:
            if not features_suffice:
                raise
    elif not features_suffice:
        raise InputError("last_layer_name belongs to subset_of_weights='last_layer'")
    return _last_layer(module, inputs, last_layer)


def _network(module: nn.Module, inputs: Inputs, n_checked: int) -> Any:
    if any(not parameter.requires_grad for parameter in module.parameters()):
        warnings.warn(
            "parameters with requires_grad=False count as uncertain too; choose with subset_of_weights",
            LaplaceWarning,
            stacklevel=5,
        )
    described = walk(module)
    network = layers.network(described, inputs.shape)
    some = inputs.first(n_checked)
    expected = _forward(module, some)
    if expected.shape[1] != network.n_outputs:
        raise UnsupportedError(
            f"{type(module).__name__} has outputs of {expected.shape[1]} numbers, its layers {network.n_outputs}"
        )
    try:
        network.check_outputs(some.matrix(), expected)
    except InputError as error:
        raise UnsupportedError(
            f"{type(module).__name__} does not compute what its layers do, one after the other: {error}"
        ) from error
    return network


# Forward passes


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, and then as it was."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def _batches(module: nn.Module, inputs: Inputs) -> Iterator[torch.Tensor]:
    """The inputs as the module takes them: its dtype where they are real, its device."""
    parameter = next(module.parameters(), torch.zeros(()))
    raw = inputs.raw
    for start in range(0, len(inputs), _BATCH):
        part = raw[start : start + _BATCH]
        tensor = part.detach() if is_torch(part) else torch.as_tensor(np.ascontiguousarray(part))
        if tensor.ndim == 1:
            tensor = tensor.reshape(-1, 1)
        if tensor.is_floating_point():
            tensor = tensor.to(parameter.dtype)
        yield tensor.to(parameter.device)


def _rows(outputs: torch.Tensor, count: int) -> Matrix:
    values = outputs.detach().cpu().to(torch.float64).numpy()
    return np.ascontiguousarray(values.reshape(count, -1))


def _forward(module: nn.Module, inputs: Inputs) -> Matrix:
    with _evaluating(module):
        return np.concatenate([_rows(module(batch), len(batch)) for batch in _batches(module, inputs)])


# The last layer


def _last_layer(module: nn.Module, inputs: Inputs, name: str | None) -> BoundModel:
    if name is None:
        name = _find_last_layer(module, inputs)
    try:
        head = module.get_submodule(name)
    except AttributeError as error:
        raise InputError(f"{type(module).__name__} has no layer `{name}`") from error
    if not isinstance(head, nn.Linear):
        raise UnsupportedError(f"the last layer `{name}` is a {type(head).__name__}; it must be a torch.nn.Linear")
    linear: nn.Linear = head

    def features(given: Inputs) -> Matrix:
        found: list[Matrix] = []

        def keep(_: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
            found.append(_rows(arguments[0], len(arguments[0])))

        hook = linear.register_forward_pre_hook(keep)
        try:
            with _evaluating(module):
                for batch in _batches(module, given):
                    before = len(found)
                    module(batch)
                    if len(found) != before + 1 or len(found[-1]) != len(batch):
                        raise UnsupportedError(f"the layer `{name}` must see every input exactly once")
        finally:
            hook.remove()
        return np.concatenate(found)

    bias = None if linear.bias is None else _array(linear.bias)
    network = layers.network([layers.Linear(_array(linear.weight), bias)])
    some = inputs.first(_BATCH)
    try:
        network.check_outputs(features(some), _forward(module, some))
    except LaplaceError as error:
        raise UnsupportedError(f"the outputs of {type(module).__name__} are not those of its layer `{name}`: {error}") from error
    return BoundModel(network, features=features)


def _find_last_layer(module: nn.Module, inputs: Inputs) -> str:
    """The name of the last layer that a forward pass calls."""
    called: list[str] = []
    hooks = []
    for name, part in module.named_modules():
        if not list(part.children()):
            hooks.append(part.register_forward_hook(lambda *_, name=name: called.append(name)))
    try:
        with _evaluating(module):
            module(next(_batches(module, inputs.first(1))))
    finally:
        for hook in hooks:
            hook.remove()
    if not called:
        raise UnsupportedError(f"{type(module).__name__} has no layers")
    last = module.get_submodule(called[-1])
    if not isinstance(last, nn.Linear):
        raise UnsupportedError(
            f"the last layer `{called[-1]}` of {type(module).__name__} is a {type(last).__name__}, not a torch.nn.Linear; "
            "name the one to use with last_layer_name"
        )
    return called[-1]


# The walk


def walk(module: nn.Module) -> list[layers.Layer]:
    """The layers of a module in the order of its forward pass.

    >>> from torch import nn
    >>> [type(layer).__name__ for layer in walk(nn.Sequential(nn.Linear(1, 2), nn.Tanh(), nn.Linear(2, 1)))]
    ['Linear', 'Activation', 'Linear']
    """
    name = type(module).__name__
    # A single layer is its own trace.
    if type(module) in _MODULES:
        return _MODULES[type(module)](module, name)
    try:
        traced = fx.symbolic_trace(module)
    except Exception as error:
        raise UnsupportedError(
            f"{name} cannot be traced ({error}); give its layers as a torch.nn.Sequential, an ONNX file, or use "
            "subset_of_weights='last_layer'"
        ) from error
    return _Walk(traced, name).chain()


class _Walk:
    """The graph of a traced module, as a chain of layers with residual blocks."""

    def __init__(self, traced: fx.GraphModule, name: str) -> None:
        self.modules = dict(traced.named_modules())
        self.name = name
        nodes = list(traced.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        if len(inputs) != 1:
            raise UnsupportedError(f"{name} has {len(inputs)} inputs; one is needed")
        self.input = inputs[0]
        self.output = nodes[-1].args[0]
        if not isinstance(self.output, fx.Node):
            raise UnsupportedError(f"{name} has several outputs; one is needed")

    def chain(self) -> list[layers.Layer]:
        return self.segment(self.output, self.input)

    def refuse(self, node: fx.Node, problem: str = "is not known to the engine") -> UnsupportedError:
        if node.op == "call_module":
            what = f"layer `{node.target}` ({type(self.modules[str(node.target)]).__name__})"
        else:
            what = f"operation `{getattr(node.target, '__name__', node.target)}` (node `{node.name}`)"
        return UnsupportedError(
            f"{self.name}: {what} {problem}; use subset_of_weights='last_layer', for which the other layers need not be known"
        )

    def is_sum(self, node: fx.Node) -> bool:
        sums = (operator.add, operator.iadd, torch.add)
        named = node.op == "call_method" and node.target in ("add", "add_")
        both = len(node.args) >= 2 and all(isinstance(argument, fx.Node) for argument in node.args[:2])
        return ((node.op == "call_function" and node.target in sums) or named) and both and not node.kwargs

    def parent(self, node: fx.Node) -> fx.Node:
        """The node whose value the layers up to this one start from."""
        if self.is_sum(node):
            return self.fork(node)
        if node.op in ("placeholder", "get_attr") or not node.args or not isinstance(node.args[0], fx.Node):
            raise self.refuse(node)
        return node.args[0]

    def trunk(self, node: fx.Node) -> list[fx.Node]:
        nodes = [node]
        while nodes[-1] is not self.input:
            nodes.append(self.parent(nodes[-1]))
        return nodes

    def fork(self, node: fx.Node) -> fx.Node:
        one, other = (self.trunk(argument) for argument in node.args[:2] if isinstance(argument, fx.Node))
        return next(candidate for candidate in one if candidate in other)

    def segment(self, node: fx.Node, start: fx.Node) -> list[layers.Layer]:
        """The layers from one node to another."""
        if node is start:
            return []
        before = self.parent(node)
        if not self.is_sum(node):
            return self.segment(before, start) + self.layer(node)
        # The longer branch is the body, and an empty one the identity.
        branches = [self.segment(argument, before) for argument in node.args[:2] if isinstance(argument, fx.Node)]
        shortcut, body = sorted(branches, key=len)
        return self.segment(before, start) + [layers.Residual(body, shortcut)]

    def layer(self, node: fx.Node) -> list[layers.Layer]:
        if node.op == "call_module":
            module = self.modules[str(node.target)]
            make = _MODULES.get(type(module))
            if make is None:
                raise self.refuse(node)
            return make(module, f"{self.name}: layer `{node.target}`")
        target: Any = node.target
        key = target if node.op == "call_function" else str(target)
        call = _CALLS.get(key)
        found = None if call is None else call(node)
        if found is None:
            raise self.refuse(node)
        return found


def _array(tensor: Any) -> Matrix:
    return np.ascontiguousarray(tensor.detach().cpu().to(torch.float64).numpy())


def _maybe(tensor: Any) -> Matrix | None:
    return None if tensor is None else _array(tensor)


def _need(holds: bool, name: str, problem: str) -> None:
    if not holds:
        raise UnsupportedError(f"{name} {problem}, which is not supported")


def _conv2d(layer: Any, name: str) -> list[layers.Layer]:
    _need(layer.padding_mode == "zeros", name, f"has padding_mode {layer.padding_mode!r}")
    padding = layer.padding
    if padding == "valid":
        padding = 0
    elif padding == "same":
        spans = [dilation * (kernel - 1) for dilation, kernel in zip(layer.dilation, layer.kernel_size)]
        _need(all(span % 2 == 0 for span in spans), name, "has padding 'same' with an even kernel")
        padding = [span // 2 for span in spans]
    return [
        layers.Conv2d(
            _array(layer.weight), _maybe(layer.bias), layer.stride, padding, layer.dilation, layer.groups
        )
    ]


def _batch_norm(layer: Any, name: str) -> list[layers.Layer]:
    _need(layer.running_mean is not None, name, "has no running statistics")
    return [
        layers.BatchNorm(
            _array(layer.running_mean), _array(layer.running_var), _maybe(layer.weight), _maybe(layer.bias), layer.eps
        )
    ]


def _max_pool(layer: Any, name: str) -> list[layers.Layer]:
    plain = layer.dilation in (1, (1, 1)) and not layer.ceil_mode and not layer.return_indices
    _need(plain, name, "has a dilation, ceil_mode or return_indices")
    return [layers.MaxPool2d(layer.kernel_size, layer.stride, layer.padding)]


def _avg_pool(layer: Any, name: str) -> list[layers.Layer]:
    _need(not layer.ceil_mode and layer.divisor_override is None, name, "has ceil_mode or divisor_override")
    return [layers.AvgPool2d(layer.kernel_size, layer.stride, layer.padding, layer.count_include_pad)]


def _adaptive(layer: Any, name: str) -> list[layers.Layer]:
    _need(layer.output_size in (1, (1, 1), [1, 1]), name, f"has outputs of size {layer.output_size}")
    return [layers.GlobalAvgPool()]


def _flatten(layer: Any, name: str) -> list[layers.Layer]:
    _need(layer.start_dim == 1 and layer.end_dim == -1, name, "flattens only some axes")
    return [layers.Flatten()]


def _layer_norm(layer: Any, name: str) -> list[layers.Layer]:
    return [layers.LayerNorm(_maybe(layer.weight), _maybe(layer.bias), list(layer.normalized_shape), layer.eps)]


def _plain(activation: str, **settings: object) -> Callable[[Any, str], list[layers.Layer]]:
    """An activation whose module must have these settings."""

    def make(layer: Any, name: str) -> list[layers.Layer]:
        for setting, value in settings.items():
            found = getattr(layer, setting)
            _need(found == value, name, f"has {setting} = {found!r} instead of {value!r}")
        return [layers.Activation(activation)]

    return make


def _gelu(layer: Any, _: str) -> list[layers.Layer]:
    return [layers.Activation("gelu_tanh" if layer.approximate == "tanh" else "gelu")]


def _nothing(_: Any, __: str) -> list[layers.Layer]:
    return []


def _dropout(_: Any, __: str) -> list[layers.Layer]:
    return [layers.Dropout()]


_MODULES: dict[type[nn.Module], Callable[[Any, str], list[layers.Layer]]] = {
    nn.Linear: lambda layer, _: [layers.Linear(_array(layer.weight), _maybe(layer.bias))],
    nn.Conv2d: _conv2d,
    nn.LayerNorm: _layer_norm,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: lambda layer, _: [
        layers.GroupNorm(layer.num_groups, _maybe(layer.weight), _maybe(layer.bias), layer.eps)
    ],
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _avg_pool,
    nn.AdaptiveAvgPool2d: _adaptive,
    nn.Flatten: _flatten,
    nn.Identity: _nothing,
    nn.Dropout: _dropout,
    nn.Dropout2d: _dropout,
    nn.Tanh: _plain("tanh"),
    nn.ReLU: _plain("relu"),
    nn.Sigmoid: _plain("sigmoid"),
    nn.SiLU: _plain("silu"),
    nn.Softplus: _plain("softplus", beta=1.0, threshold=20.0),
    nn.ELU: _plain("elu", alpha=1.0),
    nn.LeakyReLU: _plain("leaky_relu", negative_slope=0.01),
    nn.GELU: _gelu,
}


def _argument(node: fx.Node, place: int, name: str, default: object = None) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _call(activation: str, **settings: object) -> Callable[[fx.Node], list[layers.Layer] | None]:
    """A call of an activation, whose other arguments must be these."""

    def make(node: fx.Node) -> list[layers.Layer] | None:
        for place, (name, value) in enumerate(settings.items(), start=1):
            if _argument(node, place, name, value) != value:
                return None
        return [layers.Activation(activation)]

    return make


def _call_gelu(node: fx.Node) -> list[layers.Layer] | None:
    return [layers.Activation("gelu_tanh" if node.kwargs.get("approximate") == "tanh" else "gelu")]


def _call_flatten(node: fx.Node) -> list[layers.Layer] | None:
    start, end = _argument(node, 1, "start_dim", 0), _argument(node, 2, "end_dim", -1)
    return [layers.Flatten()] if (start, end) == (1, -1) else None


def _call_view(node: fx.Node) -> list[layers.Layer] | None:
    """``x.view(x.size(0), -1)`` and its like."""
    shape = node.args[1:]
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if len(shape) == 2 and (shape[1] == -1 or (shape[0] == -1 and isinstance(shape[1], int))):
        return [layers.Flatten()]
    return None


def _call_squeeze(node: fx.Node) -> list[layers.Layer] | None:
    """Of the output alone: one number per point."""
    return [] if all(user.op == "output" for user in node.users) else None


def _call_mean(node: fx.Node) -> list[layers.Layer] | None:
    """Over the pixels of every channel."""
    axes = _argument(node, 1, "dim", None)
    if not isinstance(axes, (tuple, list)) or sorted(int(axis) % 4 for axis in axes) != [2, 3]:
        return None
    keep = bool(_argument(node, 2, "keepdim", False))
    return [layers.GlobalAvgPool()] if keep else [layers.GlobalAvgPool(), layers.Flatten()]


def _call_max_pool(node: fx.Node) -> list[layers.Layer] | None:
    if any(name in node.kwargs and node.kwargs[name] for name in ("ceil_mode", "return_indices")) or len(node.args) > 4:
        return None
    if _argument(node, 4, "dilation", 1) not in (1, (1, 1)):
        return None
    kernel, stride = _argument(node, 1, "kernel_size"), _argument(node, 2, "stride")
    return [layers.MaxPool2d(kernel, stride or None, _argument(node, 3, "padding", 0))]


def _call_avg_pool(node: fx.Node) -> list[layers.Layer] | None:
    if len(node.args) > 4 or set(node.kwargs) - {"kernel_size", "stride", "padding", "count_include_pad"}:
        return None
    kernel, stride = _argument(node, 1, "kernel_size"), _argument(node, 2, "stride")
    include = bool(node.kwargs.get("count_include_pad", True))
    return [layers.AvgPool2d(kernel, stride or None, _argument(node, 3, "padding", 0), include)]


def _call_adaptive(node: fx.Node) -> list[layers.Layer] | None:
    return [layers.GlobalAvgPool()] if _argument(node, 1, "output_size") in (1, (1, 1), [1, 1]) else None


_CALLS: dict[Any, Callable[[fx.Node], list[layers.Layer] | None]] = {
    torch.tanh: _call("tanh"),
    F.tanh: _call("tanh"),
    "tanh": _call("tanh"),
    torch.relu: _call("relu"),
    F.relu: _call("relu"),
    "relu": _call("relu"),
    torch.sigmoid: _call("sigmoid"),
    F.sigmoid: _call("sigmoid"),
    "sigmoid": _call("sigmoid"),
    torch.sin: _call("sin"),
    "sin": _call("sin"),
    F.silu: _call("silu"),
    F.softplus: _call("softplus", beta=1, threshold=20),
    F.elu: _call("elu", alpha=1.0),
    F.leaky_relu: _call("leaky_relu", negative_slope=0.01),
    F.gelu: _call_gelu,
    F.dropout: lambda _: [layers.Dropout()],
    torch.flatten: _call_flatten,
    "flatten": _call_flatten,
    "view": _call_view,
    "reshape": _call_view,
    torch.reshape: _call_view,
    "squeeze": _call_squeeze,
    torch.squeeze: _call_squeeze,
    "contiguous": lambda _: [],
    "mean": _call_mean,
    torch.mean: _call_mean,
    F.max_pool2d: _call_max_pool,
    torch.max_pool2d: _call_max_pool,
    F.avg_pool2d: _call_avg_pool,
    F.adaptive_avg_pool2d: _call_adaptive,
}
