"""torch modules as models of the engine: lowered to a network, differentiated by torch, or as the features of a last layer.

Imported only when a torch module is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from riemannian_laplace import layers
from riemannian_laplace.data import Inputs, Matrix, is_torch
from riemannian_laplace.errors import InputError, LaplaceError, UnsupportedError
from riemannian_laplace.models import BoundModel, likelihood_name

__all__ = ["FromDict", "bind", "trainable_places", "uncertain_weights", "unwrapped"]

#: Inputs that pass through a module at a time.
_BATCH = 1024
#: Numbers of inputs that pass through a module at a time.
_BATCH_NUMBERS = 1 << 22
#: Inputs that a module is exported with; it is compared at more.
_TRACED = 2
#: Inputs at which the outputs of a module are compared with those of its last layer.
_CHECKED = 32


def bind(
    module: nn.Module,
    likelihood: str,
    inputs: Inputs,
    *,
    last_layer: str | None,
    features_suffice: bool,
    n_checked: int,
    derivatives: str = "engine",
    reduction: str | None = None,
) -> BoundModel:
    """The network of a module, or of its last layer with the rest as a feature extractor."""
    module = unwrapped(module)
    if features_suffice:
        return _last_layer(module, inputs, last_layer, reduction)
    if last_layer is not None:
        raise InputError("last_layer_name belongs to subset_of_weights='last_layer'")
    if inputs.key is not None:
        if sum(is_torch(value) and value.is_floating_point() for value in inputs.raw.values()) > 1 or not isinstance(
            inputs.array, torch.Tensor
        ):
            raise UnsupportedError(
                "a posterior over all weights takes one tensor of inputs from a dictionary; use "
                "subset_of_weights='last_layer', which leaves the dictionary to the module"
            )
        module, inputs = FromDict(module, inputs.key), Inputs(inputs.array)
    some = inputs.first(n_checked)
    expected = _forward(module, some)
    if derivatives == "torch":
        from riemannian_laplace import torch_derivatives

        return BoundModel(torch_derivatives.derived(module, some, expected))
    from riemannian_laplace import torch_export

    name = likelihood_name(likelihood, expected.shape[1])
    example = next(_batches(module, some.first(_TRACED)))
    return BoundModel(torch_export.network(module, example, some.matrix(), expected, name))


class FromDict(nn.Module):
    """A module that takes a dictionary, as one that takes the tensor of one of its keys."""

    def __init__(self, module: nn.Module, key: str) -> None:
        super().__init__()
        self.module, self.key = module, key

    def forward(self, x: torch.Tensor) -> Any:
        """The module's outputs."""
        return self.module({self.key: x})


def unwrapped(module: nn.Module) -> nn.Module:
    """What torch.compile and DataParallel wrap."""
    if isinstance(module, nn.DataParallel):
        return unwrapped(module.module)
    original = getattr(module, "_orig_mod", None)
    return unwrapped(original) if isinstance(original, nn.Module) else module


def trainable_places(module: nn.Module) -> list[int] | None:
    """Which of the flat weights have ``requires_grad``; none where all of them do."""
    parameters = list(unwrapped(module).parameters())
    if all(parameter.requires_grad for parameter in parameters):
        return None
    places: list[int] = []
    start = 0
    for parameter in parameters:
        if parameter.requires_grad:
            places += range(start, start + parameter.numel())
        start += parameter.numel()
    if not places:
        raise InputError("no parameter of the module has requires_grad=True, so that nothing is uncertain")
    return places


def uncertain_weights(
    module: nn.Module, subset: str, indices: list[int] | None, layer: str | None
) -> list[Matrix] | None:
    """What the flat uncertain weights can be; one of several where the last layer is not named."""
    module = unwrapped(module)
    if subset == "last_layer":
        heads = [(name, part) for name, part in module.named_modules() if isinstance(part, nn.Linear)]
        return [
            np.concatenate([_array(parameter).ravel() for parameter in part.parameters()])
            for name, part in heads
            if layer in (None, name)
        ]
    if subset not in ("all", "subnetwork"):
        return None
    whole = np.concatenate([np.zeros(0), *(_array(parameter).ravel() for parameter in module.parameters())])
    if indices is None:
        return [whole]
    return [whole[indices]] if max(indices) < len(whole) else []


def _array(tensor: Any) -> Matrix:
    return np.ascontiguousarray(tensor.detach().cpu().to(torch.float64).numpy())


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


def _batches(module: nn.Module, inputs: Inputs) -> Iterator[Any]:
    """The inputs as the module takes them: its dtype where they are real, its device."""
    parameter = next(module.parameters(), torch.zeros(()))

    def prepared(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {name: prepared(value) if is_torch(value) else value for name, value in part.items()}
        tensor = part.detach() if is_torch(part) else torch.as_tensor(np.ascontiguousarray(part))
        if tensor.ndim == 1:
            tensor = tensor.reshape(-1, 1)
        if tensor.is_floating_point():
            tensor = tensor.to(parameter.dtype)
        return tensor.to(parameter.device)

    step = max(1, min(_BATCH, _BATCH_NUMBERS // max(1, int(np.prod(inputs.shape)))))
    for start in range(0, len(inputs), step):
        yield prepared(inputs.rows(start, start + step))


def _rows(outputs: torch.Tensor, count: int) -> Matrix:
    values = outputs.detach().cpu().to(torch.float64).numpy()
    return np.ascontiguousarray(values.reshape(count, -1))


def _tensor_of(outputs: Any) -> torch.Tensor:
    """The outputs of a module: a tensor, or the logits of a model of Hugging Face."""
    logits = outputs if isinstance(outputs, torch.Tensor) else getattr(outputs, "logits", None)
    if not isinstance(logits, torch.Tensor):
        raise UnsupportedError(f"the module returns a {type(outputs).__name__}, not a tensor")
    return logits


def _forward(module: nn.Module, inputs: Inputs) -> Matrix:
    with _evaluating(module):
        parts = []
        for batch in _batches(module, inputs):
            outputs = _tensor_of(module(batch))
            parts.append(_rows(outputs, len(outputs)))
        return np.concatenate(parts)


# The last layer


def _reduced(tensor: torch.Tensor, reduction: str | None) -> torch.Tensor:
    """One vector of features per input, where there are several."""
    if tensor.ndim <= 2 or reduction is None:
        return tensor
    middle = tensor.reshape(tensor.shape[0], -1, tensor.shape[-1])
    if reduction == "average":
        return middle.mean(1)
    return middle[:, 0] if reduction == "pick_first" else middle[:, -1]


def _last_layer(module: nn.Module, inputs: Inputs, name: str | None, reduction: str | None) -> BoundModel:
    if len(inputs) == 0:
        raise InputError("there are no inputs")
    if name is None:
        name = _find_last_layer(module, inputs)
    try:
        head = module.get_submodule(name)
    except AttributeError as error:
        raise InputError(f"{type(module).__name__} has no layer `{name}`") from error
    if not isinstance(head, nn.Linear):
        raise UnsupportedError(f"the last layer `{name}` is a {type(head).__name__}; it must be a torch.nn.Linear")
    linear: nn.Linear = head

    def passes(given: Inputs) -> Iterator[tuple[Matrix, Matrix]]:
        """Features and outputs, batch by batch."""
        seen: list[torch.Tensor] = []
        hook = linear.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
        try:
            with _evaluating(module):
                for batch in _batches(module, given):
                    seen.clear()
                    outputs = _tensor_of(module(batch))
                    features = _reduced(seen[0], reduction) if len(seen) == 1 else None
                    if features is None or features.ndim != 2 or len(features) != len(outputs):
                        raise UnsupportedError(
                            f"the layer `{name}` must see every input exactly once, as one vector (feature_reduction makes "
                            "one of several)"
                        )
                    yield _array(features), _rows(_reduced(outputs, reduction), len(outputs))
        finally:
            hook.remove()

    def features(given: Inputs) -> Matrix:
        parts = [features for features, _ in passes(given)]
        return np.concatenate(parts) if parts else np.zeros((0, linear.in_features))

    weight, bias = _array(linear.weight), None if linear.bias is None else _array(linear.bias)
    network = layers.network([layers.Linear(weight, bias)])
    precise = torch.finfo(linear.weight.dtype).eps
    given, expected = next(passes(inputs.first(_CHECKED)))
    found = given @ weight.T + (0 if bias is None else bias)
    tolerance = 30 * precise * (np.abs(given) @ np.abs(weight).T + (0 if bias is None else np.abs(bias))) + 1e-8
    if found.shape != expected.shape or np.any(np.abs(found - expected) > tolerance):
        raise UnsupportedError(f"the outputs of {type(module).__name__} are not those of its layer `{name}`")
    return BoundModel(network, features=features, layer=name)


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
