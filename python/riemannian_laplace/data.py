"""Data of many kinds as the arrays that the engine takes.

Arrays, torch tensors, sparse matrices, pandas and polars frames (whose column names are kept), dictionaries of tensors (as
Hugging Face's tokenizers give them), and iterables of batches such as a ``DataLoader``. Nothing is imported that the caller
has not imported already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from riemannian_laplace.errors import InputError, MissingKeyError

__all__ = [
    "Data",
    "DictKeys",
    "Inputs",
    "Matrix",
    "Targets",
    "inputs_like",
    "is_batches",
    "is_torch",
    "join",
    "like",
    "read_batches",
    "read_data",
    "read_targets",
]

Matrix = npt.NDArray[np.float64]


def is_torch(values: object) -> bool:
    """Whether this is a torch tensor."""
    return type(values).__module__.partition(".")[0] == "torch" and hasattr(values, "detach")


@dataclass(frozen=True)
class DictKeys:
    """The keys of inputs and targets in batches that are dictionaries."""

    x: str = "input_ids"
    y: str = "labels"


def _is_frame(values: object) -> bool:
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def _collected(values: Any) -> Any:
    """A lazy frame as a frame, a sparse matrix as a dense one; anything else as it is."""
    if hasattr(values, "collect") and hasattr(values, "collect_schema"):
        return values.collect()
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        return values.toarray()
    return values


def _numpy(values: Any) -> npt.NDArray[Any]:
    values = _collected(values)
    if is_torch(values):
        values = values.detach().cpu()
        if values.is_sparse:
            values = values.to_dense()
        # NumPy has no bfloat16.
        return np.asarray((values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy())
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"these data are not an array: {error}") from error


def _numbers(values: Any, what: str) -> Matrix:
    array = _numpy(values)
    if array.dtype == object:
        array = _without_missing(array)
    if array.dtype.kind == "c":
        raise InputError(f"{what} are complex numbers. Complex data not supported")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} are not numbers: {error}") from error


def _without_missing(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array of objects in which ``None`` and pandas' ``NA`` are NaN, which the engine reports with its place."""
    missing = [value is None or type(value).__name__ == "NAType" for value in array.ravel()]
    if any(missing):
        array = array.copy()
        array[np.reshape(missing, array.shape)] = np.nan
    return array


def like(values: Any, given: object) -> Any:
    """An array as the kind of thing that was given: a tensor of its dtype and device where it is a torch tensor."""
    if isinstance(given, Inputs):
        given = given.raw
    if isinstance(given, Mapping):
        given = next((value for value in given.values() if is_torch(value)), None)
    if not is_torch(given):
        return values
    import torch

    tensor: Any = given
    dtype = tensor.dtype if tensor.dtype.is_floating_point else torch.get_default_dtype()
    return torch.as_tensor(values, dtype=dtype, device=tensor.device)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs, one per entry of the first axis; or a dictionary of tensors, one of which (``key``) is the input proper."""

    raw: Any
    names: list[str] | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if len(self.array.shape) == 0:
            raise InputError("the inputs are a single number. Reshape your data: one row per data point")

    @property
    def array(self) -> Any:
        """The input proper."""
        return self.raw if self.key is None else self.raw[self.key]

    def __len__(self) -> int:
        return int(self.array.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input; a vector of one where inputs are single numbers."""
        return tuple(int(length) for length in self.array.shape[1:]) or (1,)

    def matrix(self) -> Matrix:
        """One row per input."""
        values = _numbers(self.array, "the inputs")
        return values.reshape(len(values), -1 if values.size else int(np.prod(self.shape)))

    def rows(self, start: int, end: int) -> Any:
        """Some of the rows, in the form of the whole."""
        if self.key is None:
            return self.raw[start:end]
        cut = lambda value: value[start:end] if hasattr(value, "shape") and len(value) == len(self) else value  # noqa: E731
        return {name: cut(value) for name, value in self.raw.items()}

    def first(self, count: int) -> Inputs:
        """The first few."""
        return Inputs(self.rows(0, count), self.names, self.key)


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
    columns = []
    for name in names:
        column = _numpy(frame[name])
        if column.dtype == object:
            # Booleans beside numbers, nullable numbers, decimals: whatever counts as a number one by one.
            try:
                column = _without_missing(column).astype(np.float64)
            except (TypeError, ValueError):
                pass
        if column.dtype.kind not in "biuf" or type(_first_value(frame[name])).__name__ == "str":
            raise InputError(f"column `{name}` is not numeric; leave it out, or encode it")
        columns.append(column.astype(np.float64))
    matrix = np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
    return Inputs(matrix, [str(name) for name in names])


def _first_value(column: Any) -> Any:
    return next(iter(column), None)


def inputs_like(
    values: Any, names: Sequence[str] | None = None, targets: Sequence[str] = (), keys: DictKeys = DictKeys()
) -> Inputs:
    """Inputs of any kind; the columns of a frame are matched by name where names are known."""
    if isinstance(values, Inputs):
        return values
    values = _collected(values)
    if isinstance(values, Mapping):
        if keys.x not in values:
            raise MissingKeyError(
                f"a batch has no key `{keys.x}` (it has {', '.join(map(str, values))}); say which one with dict_key_x"
            )
        return Inputs({name: value for name, value in values.items() if name != keys.y}, key=keys.x)
    if is_batches(values):
        return join([inputs_like(_inputs_of(batch, keys), names, targets, keys) for batch in values])
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


def is_batches(values: object) -> bool:
    """Whether this is an iterable of batches, such as a ``DataLoader``, rather than an array."""
    if isinstance(values, (Mapping, str, bytes)) or hasattr(values, "shape") or _is_frame(values):
        return False
    if isinstance(values, (list, tuple)):
        return bool(values) and (isinstance(values[0], Mapping) or _is_pair(values[0]))
    return isinstance(values, Iterable)


def _is_pair(batch: object) -> bool:
    return isinstance(batch, (tuple, list)) and len(batch) == 2 and all(hasattr(part, "shape") for part in batch)


def _inputs_of(batch: Any, keys: DictKeys) -> Any:
    return batch[0] if isinstance(batch, (tuple, list)) else batch


def read_batches(data: Any, targets: Any = None, keys: DictKeys = DictKeys()) -> Iterator[Data]:
    """``(x, y)``, one batch after another; arrays and frames are one batch."""
    data = _collected(data)
    if targets is None and isinstance(data, Mapping):
        yield _batch(data, keys)
    elif targets is not None or isinstance(data, Data) or not is_batches(data) or _is_pair(data):
        yield read_data(data, targets, keys)
    else:
        empty = True
        for batch in data:
            empty = False
            yield _batch(batch, keys)
        if empty:
            raise InputError("there are no batches of data")


def read_data(data: Any, targets: Any = None, keys: DictKeys = DictKeys()) -> Data:
    """``(x, y)``: two arrays, a frame and the names of its target columns, or an iterable of batches."""
    if isinstance(data, Data):
        return data
    data = _collected(data)
    if targets is not None:
        names = _names_of(targets) if _is_frame(data) else None
        if names is not None:
            columns = [str(column) for column in data.columns]
            missing = [name for name in names if name not in columns]
            if missing:
                raise InputError(f"no column `{missing[0]}`; the frame has {', '.join(columns)}")
            chosen = data[names[0]] if len(names) == 1 else data[names]
            return Data(_frame_inputs(data, [column for column in data.columns if str(column) not in names]), chosen)
        targets = _collected(targets)
        return Data(inputs_like(data, keys=keys), targets if hasattr(targets, "shape") else np.asarray(targets))
    if isinstance(data, Mapping):
        return _batch(data, keys)
    if isinstance(data, tuple) and len(data) == 2:
        return read_data(*data, keys)
    if _is_frame(data) or hasattr(data, "shape"):
        raise InputError("targets are missing: give fit(x, y), fit(frame, 'y'), or batches of (x, y)")
    if not isinstance(data, Iterable):
        raise InputError(f"data of type {type(data).__name__} are neither arrays, a frame nor batches of (x, y)")
    batches = [_batch(batch, keys) for batch in data]
    if not batches:
        raise InputError("there are no batches of data")
    return Data(join([batch.inputs for batch in batches]), concatenate([batch.targets for batch in batches]))


def _batch(batch: Any, keys: DictKeys) -> Data:
    if isinstance(batch, Mapping):
        if keys.y not in batch:
            raise MissingKeyError(
                f"a batch has no key `{keys.y}` (it has {', '.join(map(str, batch))}); say which one with dict_key_y"
            )
        return Data(inputs_like(batch, keys=keys), batch[keys.y])
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise InputError(f"a batch is a {type(batch).__name__}, not a pair (x, y)")
    targets = batch[1] if hasattr(batch[1], "shape") else np.asarray(batch[1])
    return Data(inputs_like(batch[0], keys=keys), targets)


def join(parts: list[Inputs]) -> Inputs:
    """Batches of inputs as one."""
    if not parts:
        raise InputError("there are no batches of data")
    first = parts[0]
    if first.key is None:
        return Inputs(concatenate([part.raw for part in parts]), first.names)
    together = {
        name: concatenate([part.raw[name] for part in parts]) if hasattr(value, "shape") else value
        for name, value in first.raw.items()
    }
    return Inputs(together, key=first.key)


def concatenate(parts: list[Any]) -> Any:
    """Arrays or tensors, one after another."""
    if len(parts) == 1:
        return parts[0]
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
    categories = getattr(targets, "cat", None) if hasattr(targets, "dtype") else None
    ordered = getattr(targets, "categories", getattr(categories, "categories", None))
    if classes and ordered is not None and known is None:
        # A pandas categorical says itself which classes there are, and in which order.
        known = [str(category) for category in ordered]
        array = array.astype(object)
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
