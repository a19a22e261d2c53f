"""torch modules as models of the engine: lowered to a network, differentiated by torch, or as the features of a last layer.

Imported only when a torch module is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from riemannian_laplace import layers
from riemannian_laplace.data import Inputs, Matrix, is_torch
from riemannian_laplace.errors import InputError, LaplaceError, LaplaceWarning, UnsupportedError
from riemannian_laplace.models import BoundModel, likelihood_name

__all__ = ["bind"]

#: Inputs that pass through a module at a time.
_BATCH = 1024
#: Inputs that a module is exported with; it is compared at more.
_TRACED = 2


def bind(
    module: nn.Module,
    likelihood: str,
    inputs: Inputs,
    *,
    last_layer: str | None,
    features_suffice: bool,
    n_checked: int,
    derivatives: str = "engine",
) -> BoundModel:
    """The network of a module, or of its last layer with the rest as a feature extractor."""
    module = _unwrapped(module)
    if last_layer is None and not (derivatives == "torch" and features_suffice):
        _warn_of_frozen(module)
        some = inputs.first(n_checked)
        expected = _forward(module, some)
        if derivatives == "torch":
            from riemannian_laplace import torch_derivatives

            return BoundModel(torch_derivatives.derived(module, some, expected))
        from riemannian_laplace import torch_export

        try:
            name = likelihood_name(likelihood, expected.shape[1])
            example = next(_batches(module, some.first(_TRACED)))
            return BoundModel(torch_export.network(module, example, some.matrix(), expected, name))
        except LaplaceError:
            if not features_suffice:
                raise
    elif not features_suffice:
        raise InputError("last_layer_name belongs to subset_of_weights='last_layer'")
    return _last_layer(module, inputs, last_layer)


def _unwrapped(module: nn.Module) -> nn.Module:
    """What torch.compile and DataParallel wrap."""
    if isinstance(module, nn.DataParallel):
        return _unwrapped(module.module)
    original = getattr(module, "_orig_mod", None)
    return _unwrapped(original) if isinstance(original, nn.Module) else module


def _warn_of_frozen(module: nn.Module) -> None:
    if any(not parameter.requires_grad for parameter in module.parameters()):
        warnings.warn(
            "parameters with requires_grad=False count as uncertain too; choose with subset_of_weights",
            LaplaceWarning,
            stacklevel=5,
        )


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
