"""torch modules as networks of the engine, by way of ONNX in memory.

Both of PyTorch's exporters rename, transpose, pack and join parameters. So a copy of the module is exported whose
parameters are all different numbers, by which every parameter of the graph is known again: the flat weights are then in the
order of ``module.parameters()``, a tied weight counts once, and what is no parameter is a constant. The network is compared
with the module's own outputs.
"""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from riemannian_laplace import _core
from riemannian_laplace.data import Matrix
from riemannian_laplace.errors import InputError, LaplaceError, UnsupportedError

__all__ = ["flat_parameters", "frozen_copy", "network", "unfused"]

#: Parameter k of the copy is _FIRST + k · _STEP: exact in binary, and unlike the constants that people write.
_FIRST, _STEP = 793_592_401 * 2.0**-30, 2.0**-30

_WAYS_OUT = (
    "use derivatives='torch', with which any module is differentiated by torch (slower), or "
    "subset_of_weights='last_layer', for which the layers before the last one need not be known"
)


def network(module: nn.Module, batch: torch.Tensor, rows: Matrix, expected: Matrix, likelihood: str) -> _core.Network:
    """The network of a module, which at these inputs has these outputs."""
    name = type(module).__name__
    marked = frozen_copy(module)
    with torch.no_grad():
        start = 0
        for parameter in marked.parameters():
            places = torch.arange(start, start + parameter.numel(), dtype=torch.float64)
            parameter.copy_((_FIRST + _STEP * places).reshape(parameter.shape))
            start += parameter.numel()
    example = batch.detach().cpu()
    example = example.double() if example.is_floating_point() else example
    problems: list[Exception] = []
    for export in (_trace, _capture):
        try:
            found = _core.Network.from_onnx_bytes(_constants_apart(_quietly(export, marked, example)), name, likelihood)
            return _checked(_in_order(found, module), name, rows, expected)
        except Exception as error:  # noqa: BLE001, exporters raise errors of every kind
            problems.append(error)
    known = [problem for problem in problems if isinstance(problem, LaplaceError)]
    problem = known[0] if known else problems[0]
    if isinstance(problem, InputError) and not isinstance(problem, UnsupportedError) and known:
        raise problem
    first_line = str(problem).strip().partition("\n")[0]
    what = first_line if known else f"{name} cannot be exported: {first_line}"
    raise UnsupportedError(f"{what}; {_WAYS_OUT}") from problem


def _checked(found: _core.Network, name: str, rows: Matrix, expected: Matrix) -> _core.Network:
    if expected.shape[1] != found.n_outputs or rows.shape[1] != found.n_inputs:
        shape, graph = (rows.shape[1], expected.shape[1]), (found.n_inputs, found.n_outputs)
        raise UnsupportedError(f"{name} takes {shape[0]} numbers to {shape[1]}, its graph {graph[0]} to {graph[1]}")
    try:
        found.check_outputs(rows, expected)
    except InputError as error:
        raise UnsupportedError(f"{name} does not compute what its graph does: {error}") from error
    return found


# Copies


def frozen_copy(module: nn.Module) -> nn.Module:
    """The module in evaluation mode, in float64 on the CPU."""
    try:
        return copy.deepcopy(module).cpu().double().eval()
    except Exception as error:
        raise UnsupportedError(f"{type(module).__name__} cannot be copied in float64: {error}") from error


def flat_parameters(module: nn.Module) -> Matrix:
    """The parameters as one vector, in the order of ``module.parameters()``."""
    parts = [parameter.detach().cpu().to(torch.float64).numpy().ravel() for parameter in module.parameters()]
    return np.concatenate([np.zeros(0), *parts])


@contextmanager
def unfused() -> Iterator[None]:
    """Attention as the operators that it is made of."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


# Export


def _quietly(export: Callable[[nn.Module, torch.Tensor], bytes], module: nn.Module, example: torch.Tensor) -> bytes:
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), torch.no_grad(), unfused():
            warnings.simplefilter("ignore")
            return export(module, example)
    finally:
        logging.disable(level)


def _trace(module: nn.Module, example: torch.Tensor) -> bytes:
    """By PyTorch's first exporter: fast, and without further packages."""
    file = io.BytesIO()
    torch.onnx.export(
        module,
        (example,),
        file,  # type: ignore[arg-type]
        dynamo=False,
        verbose=False,
        input_names=["x"],
        dynamic_axes={"x": {0: "n"}},
        # Nothing is folded into convolutions then; the module is in evaluation mode already.
        training=torch.onnx.TrainingMode.PRESERVE,
    )
    return file.getvalue()


def _capture(module: nn.Module, example: torch.Tensor) -> bytes:
    """By its second exporter, which knows more modules, takes seconds, and needs the package onnxscript."""
    points = {0: torch.export.Dim.DYNAMIC}
    # Optimisation would fold normalisations into the parameters.
    program: Any = torch.onnx.export(
        module, (example,), dynamo=True, verbose=False, dynamic_shapes=(points,), optimize=False
    )
    contents: bytes = program.model_proto.SerializeToString()
    return contents


def _places(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The parameters that these numbers stand for; -1 for any other number."""
    numbers = (values.astype(np.float64) - _FIRST) / _STEP
    known = np.isfinite(numbers) & (numbers >= 0) & (numbers < 2**31) & (numbers == np.round(numbers))
    return np.where(known, np.round(np.where(known, numbers, 0)), -1).astype(np.int64)


def _constants_apart(contents: bytes) -> bytes:
    """The graph with every tensor that is no parameter, such as a buffer, as a constant.

    Without the package onnx the graph stays as it is, and a buffer is refused later.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        return contents
    model = onnx.load_model_from_string(contents)
    graph = model.graph
    constants = []
    for tensor in list(graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and values.size and np.all(_places(values) < 0):
            graph.initializer.remove(tensor)
            constants.append(onnx.helper.make_node("Constant", [], [tensor.name], value=tensor))
    for node in reversed(constants):
        graph.node.insert(0, node)
    known = {tensor.name for tensor in graph.initializer}
    for given in list(graph.input):
        if any(given.name == node.output[0] for node in constants) and given.name not in known:
            graph.input.remove(given)
    rewritten: bytes = model.SerializeToString()
    return rewritten


def _in_order(found: _core.Network, module: nn.Module) -> _core.Network:
    """The network with the module's parameters for the numbers that stand for them."""
    parameters = flat_parameters(module)
    places = _places(found.parameters)
    if np.any(places < 0) or np.any(places >= len(parameters)):
        raise UnsupportedError(
            f"the graph of {type(module).__name__} holds numbers that are computed from its parameters, or buffers "
            "(which need the package onnx)"
        )
    tensors = [(name, list(parameter.shape)) for name, parameter in module.named_parameters()]
    return found.with_tensors(tensors, places, parameters)
