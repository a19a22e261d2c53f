"""Models of many kinds as networks of the engine.

A ``torch.nn.Module`` made of operators that the engine knows, an ONNX or safetensors file, a scikit-learn MLP, a network
made of plain arrays (:mod:`riemannian_laplace.layers`); for a posterior of the last layer alone, any torch module that ends
in an ``nn.Linear``: what lies in front of it is a feature extractor; and any torch module that torch differentiates.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riemannian_laplace import _core, layers
from riemannian_laplace.data import Inputs, Matrix
from riemannian_laplace.errors import InputError, UnsupportedError

__all__ = ["BoundModel", "bind", "is_module", "likelihood_name", "likeness", "sizes", "trainable_places", "uncertain_weights"]

#: Points on which a network is compared with the model that it was made from.
_CHECKED = 64


@dataclass(frozen=True, eq=False)
class BoundModel:
    """A network, and what comes before it."""

    network: _core.Network | _core.DerivedModel
    #: The features of inputs, where the network is the last layer of a larger model.
    features: Callable[[Inputs], Matrix] | None = None
    #: The labels of the classes, where the model knows them.
    classes: list[Any] | None = None
    #: The name of that last layer.
    layer: str | None = None


def likelihood_name(likelihood: str, n_outputs: int | None = None) -> str:
    """The engine's name of a likelihood: laplace-torch's two names are known as well.

    A classifier with one output predicts the probability of 1.

    >>> likelihood_name("regression"), likelihood_name("classification", 3), likelihood_name("classification", 1)
    ('gaussian', 'categorical', 'bernoulli')
    """
    name = str(getattr(likelihood, "value", likelihood))
    if name == "regression":
        return "gaussian"
    if name == "classification":
        return "bernoulli" if n_outputs == 1 else "categorical"
    if name == "reward_modeling":
        # Of two rewards the greater one is preferred: a choice between two classes.
        return "categorical"
    known = _core.likelihoods()
    if name not in known:
        raise InputError(f"there is no likelihood `{name}`; use regression, classification or one of {', '.join(known)}")
    return name


def is_module(model: object) -> bool:
    return any(base.__module__ == "torch.nn.modules.module" for base in type(model).__mro__)


def likeness(model: object) -> tuple[str, str] | None:
    """The dtype and the device of a torch module, by name; none for any other model."""
    if not is_module(model):
        return None
    module: Any = model
    parameter = next((one for one in module.parameters() if one.is_floating_point()), None)
    if parameter is None:
        return "float32", "cpu"
    return str(parameter.dtype).removeprefix("torch."), str(parameter.device)


def sizes(model: object) -> tuple[list[int], int, list[int]] | None:
    """Of a torch module: the sizes of its tensors, its layers with parameters, and the sizes of the uncertain tensors."""
    if not is_module(model):
        return None
    from riemannian_laplace import torch_models

    module = torch_models.unwrapped(model)  # type: ignore[arg-type]
    tensors = [parameter.numel() for parameter in module.parameters()]
    kept = [parameter.numel() for parameter in module.parameters() if parameter.requires_grad]
    layers = sum(any(True for _ in part.parameters(recurse=False)) for part in module.modules())
    return tensors, layers, kept


def uncertain_weights(
    model: object, subset: str, indices: list[int] | None, layer: str | None
) -> list[Matrix] | None:
    """What the flat uncertain weights of a model can be, where that is known without data."""
    if isinstance(model, _core.Network):
        return [np.asarray(model.parameters)] if subset == "all" else None
    if not is_module(model):
        return None
    from riemannian_laplace import torch_models

    return torch_models.uncertain_weights(model, subset, indices, layer)  # type: ignore[arg-type]


def trainable_places(model: object) -> list[int] | None:
    """Which of the flat weights of a torch module have ``requires_grad``; none where all of them do."""
    from riemannian_laplace import torch_models

    return torch_models.trainable_places(model)  # type: ignore[arg-type]


def _is_sklearn(model: object) -> bool:
    return any(base.__name__ == "BaseMultilayerPerceptron" for base in type(model).__mro__)


def check(model: object) -> None:
    """Refuses what is no model, as early as possible."""
    if isinstance(model, (str, os.PathLike)):
        if not Path(model).exists():
            raise InputError(f"{os.fspath(model)}: there is no such file")
    elif _is_sklearn(model):
        if not hasattr(model, "coefs_"):
            raise InputError(f"this {type(model).__name__} instance is not fitted yet; train it first")
    elif not is_module(model) and not isinstance(model, _core.Network) and not _is_layers(model):
        raise UnsupportedError(
            f"a model of type {type(model).__name__} is not known; give a torch module, a scikit-learn MLP, the path of "
            "an ONNX or safetensors file, or layers with their weights (riemannian_laplace.layers)"
        )


def _is_layers(model: object) -> bool:
    return isinstance(model, (list, tuple)) and len(model) > 0


def bind(
    model: Any,
    likelihood: str,
    inputs: Inputs,
    *,
    last_layer: str | None,
    features_suffice: bool,
    derivatives: str = "engine",
    reduction: str | None = None,
) -> BoundModel:
    """The network of a model for inputs of this kind, compared with the model's own outputs at the first of them.

    ``features_suffice`` says that only the last layer is asked for, so that a torch module computes its features.
    """
    check(model)
    if derivatives == "torch" and not is_module(model):
        raise InputError("derivatives='torch' belongs to torch modules")
    if isinstance(model, _core.Network):
        return BoundModel(model)
    if _is_layers(model):
        return BoundModel(layers.network(model, inputs.shape))
    if isinstance(model, (str, os.PathLike)):
        return BoundModel(_read(os.fspath(model), likelihood))
    if _is_sklearn(model):
        return _of_sklearn(model, inputs)
    from riemannian_laplace import torch_models

    return torch_models.bind(
        model,
        likelihood,
        inputs,
        last_layer=last_layer,
        features_suffice=features_suffice,
        n_checked=_CHECKED,
        derivatives=derivatives,
        reduction=reduction,
    )


def _read(path: str, likelihood: str) -> _core.Network:
    if path.lower().endswith(".onnx"):
        if likelihood == "classification":
            try:
                return _core.Network.from_onnx(path, "categorical")
            except InputError as error:
                try:
                    return _core.Network.from_onnx(path, "bernoulli")
                except InputError:
                    raise error from None
        return _core.Network.from_onnx(path, likelihood_name(likelihood))
    return _core.Network.from_safetensors(path)


_SKLEARN_ACTIVATIONS = {"identity": "identity", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}


def _of_sklearn(model: Any, inputs: Inputs) -> BoundModel:
    chain: list[layers.Layer] = []
    for weight, bias in zip(model.coefs_, model.intercepts_):
        if chain:
            chain.append(_SKLEARN_ACTIVATIONS[model.activation])
        chain.append(layers.Linear(np.asarray(weight).T, bias))
    network = layers.network(chain)
    some = inputs.first(_CHECKED)
    if model.out_activation_ == "identity":
        expected, link = np.asarray(model.predict(some.raw)), None
    else:
        link = {"softmax": "softmax", "logistic": "sigmoid"}[model.out_activation_]
        expected = np.asarray(model.predict_proba(some.raw))
        if expected.ndim == 2 and network.n_outputs == 1:
            expected = expected[:, 1]
    expected = np.ascontiguousarray(expected.reshape(len(some), -1), dtype=np.float64)
    network.check_outputs(some.matrix(), expected, link)
    classes = getattr(model, "classes_", None)
    return BoundModel(network, classes=None if classes is None else list(classes))
