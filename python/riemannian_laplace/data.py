"""Data of many kinds as the arrays that the engine takes.

Arrays, torch tensors, pandas and polars frames (whose column names are kept), and iterables of ``(x, y)`` batches such as
a ``DataLoader``. Nothing is imported that the caller has not imported already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from riemannian_laplace.errors import InputError

__all__ = ["Data", "Inputs", "Matrix", "Targets", "inputs_like", "is_torch", "like", "read_data", "read_targets"]

Matrix = npt.NDArray[np.float64]


def is_torch(values: object) -> bool:
    """Whether this is a torch tensor."""
    return type(values).__module__.partition(".")[0] == "torch" and hasattr(values, "detach")


def _is_frame(values: object) -> bool:
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def _numpy(values: Any) -> npt.NDArray[Any]:
    if is_torch(values):
        return np.asarray(values.detach().cpu().numpy())
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"these data are not an array: {error}") from error


def _numbers(values: Any, what: str) -> Matrix:
    array = _numpy(values)
    if array.dtype.kind == "c":
        raise InputError(f"{what} are complex numbers. Complex data not supported")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} are not numbers: {error}") from error


def like(values: Matrix, given: object) -> Any:
    """An array as the kind of thing that was given: a tensor of its dtype and device where it is a torch tensor."""
    if not is_torch(given):
        return values
    import torch

    tensor: Any = given
    dtype = tensor.dtype if tensor.dtype.is_floating_point else torch.get_default_dtype()
    return torch.as_tensor(values, dtype=dtype, device=tensor.device)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs, one per entry of the first axis."""

    raw: Any
    names: list[str] | None = None

    def __post_init__(self) -> None:
        if len(self.raw.shape) == 0:
            raise InputError("the inputs are a single number. Reshape your data: one row per data point")

    def __len__(self) -> int:
        return int(self.raw.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input; a vector of one where inputs are single numbers."""
        return tuple(int(length) for length in self.raw.shape[1:]) or (1,)

    def matrix(self) -> Matrix:
        """One row per input."""
        values = _numbers(self.raw, "the inputs")
        return values.reshape(len(values), -1)

    def first(self, count: int) -> Inputs:
        """The first few."""
        return Inputs(self.raw[:count], self.names)


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets, one row per data point."""

    values: Matrix
    names: list[str] | None = None
    classes: list[str] | None = None


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs and the targets as they were given."""

    inputs: Inputs
    targets: Any

    def __post_init__(self) -> None:
        if len(self.targets) != len(self.inputs):
            raise InputError(f"there are {len(self.inputs)} inputs and {len(self.targets)} targets")


def _frame_inputs(frame: Any, names: Sequence[str]) -> Inputs:
    for name in names:
        column = _numpy(frame[name])
        if column.dtype.kind not in "biuf":
            raise InputError(f"column `{name}` is not numeric; leave it out, or encode it")
    return Inputs(_numpy(frame[list(names)]), [str(name) for name in names])


def inputs_like(values: Any, names: Sequence[str] | None = None, targets: Sequence[str] = ()) -> Inputs:
    """Inputs of any kind; the columns of a frame are matched by name where names are known."""
    if isinstance(values, Inputs):
        return values
    if not _is_frame(values):
        if is_torch(values):
            return Inputs(values)
        return Inputs(_numpy(values))
    columns = list(values.columns)
    if names is None or (_are_automatic(names) and not set(names) <= {str(column) for column in columns}):
        return _frame_inputs(values, columns)
    by_name = {str(column): column for column in columns}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise InputError(f"no column `{missing[0]}`; the frame has {', '.join(by_name)}")
    unknown = [name for name in by_name if name not in names and name not in targets]
    if unknown:
        raise InputError(f"the column `{unknown[0]}` is neither an input nor a target of the model; drop it")
    return _frame_inputs(values, [by_name[name] for name in names])


def _are_automatic(names: Sequence[str]) -> bool:
    return list(names) == [f"x{index + 1}" for index in range(len(names))]


TargetNames = Union[str, Sequence[str]]


def _names_of(targets: object) -> list[str] | None:
    if isinstance(targets, str):
        return [targets]
    if isinstance(targets, (list, tuple)) and targets and all(isinstance(name, str) for name in targets):
        return list(targets)
    return None


def read_data(data: Any, targets: Any = None) -> Data:
    """``(x, y)``: two arrays, a frame and the names of its target columns, or an iterable of batches."""
    if isinstance(data, Data):
        return data
    if targets is not None:
        names = _names_of(targets) if _is_frame(data) else None
        if names is not None:
            columns = [str(column) for column in data.columns]
            missing = [name for name in names if name not in columns]
            if missing:
                raise InputError(f"no column `{missing[0]}`; the frame has {', '.join(columns)}")
            chosen = data[names[0]] if len(names) == 1 else data[names]
            return Data(_frame_inputs(data, [column for column in data.columns if str(column) not in names]), chosen)
        return Data(inputs_like(data), targets if hasattr(targets, "shape") else np.asarray(targets))
    if isinstance(data, tuple) and len(data) == 2:
        return read_data(*data)
    if _is_frame(data) or hasattr(data, "shape"):
        raise InputError("targets are missing: give fit(x, y), fit(frame, 'y'), or batches of (x, y)")
    if not isinstance(data, Iterable):
        raise InputError(f"data of type {type(data).__name__} are neither arrays, a frame nor batches of (x, y)")
    return _join(data)


def _join(batches: Iterable[Any]) -> Data:
    inputs: list[Any] = []
    targets: list[Any] = []
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise InputError(f"a batch is a {type(batch).__name__}, not a pair (x, y)")
        inputs.append(batch[0])
        targets.append(batch[1])
    if not inputs:
        raise InputError("there are no batches of data")
    return Data(Inputs(_concatenate(inputs)), _concatenate(targets))


def _concatenate(parts: list[Any]) -> Any:
    if all(is_torch(part) for part in parts):
        import torch

        return torch.cat([part.detach() for part in parts])
    return np.concatenate([_numpy(part) for part in parts])


def read_targets(targets: Any, *, classes: bool, known: Sequence[str] | None = None) -> Targets:
    """Targets as numbers: class labels that are words become their place among the sorted words, or among those that are
    known already."""
    names = [str(name) for name in targets.columns] if _is_frame(targets) else None
    if names is None and getattr(targets, "name", None) is not None:
        names = [str(targets.name)]
    array = _numpy(targets)
    if array.ndim > 2:
        raise InputError(f"the targets have {array.ndim} axes; give one row per data point")
    if array.dtype.kind in "OUST" and classes:
        words = [str(label) for label in array.ravel()]
        found = sorted(set(words)) if known is None else list(known)
        place = {label: index for index, label in enumerate(found)}
        unknown = next((word for word in words if word not in place), None)
        if unknown is not None:
            raise InputError(f"`{unknown}` is not one of the classes {', '.join(found)}")
        values = np.array([place[word] for word in words], dtype=np.float64).reshape(array.shape)
        return Targets(_column(values), names, found)
    return Targets(_column(_numbers(targets, "the targets")), names, None)


def _column(values: Matrix) -> Matrix:
    return values.reshape(-1, 1) if values.ndim < 2 else values
