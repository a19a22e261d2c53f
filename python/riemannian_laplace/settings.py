"""What a caller says, in the form that the engine takes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from riemannian_laplace import _core
from riemannian_laplace.data import is_torch
from riemannian_laplace.errors import FileError, InputError, UnsupportedError

__all__ = ["curvature_of", "floats", "from_bytes", "integers", "link", "method_settings", "plain", "read_scaling", "to_bytes", "vector", "write_whole"]

#: Likelihoods whose targets are classes.
CLASSES = frozenset(_core.class_likelihoods())


def plain(name: str) -> str:
    """A name, or the value of an enumeration of names."""
    return str(getattr(name, "value", name))


def link(name: str, n_samples: int, seed: int) -> dict[str, Any]:
    """How a Gaussian over logits becomes probabilities."""
    name = plain(name)
    return {"name": name, "samples": n_samples, "seed": seed}


def method_settings(
    pred_type: str, link_approx: str | None, n_samples: int, seed: int, samples: _core.Samples | None
) -> dict[str, Any]:
    """A way to predict."""
    return {
        # The linearised network in function space is the same distribution.
        "name": "glm" if pred_type == "gp" else pred_type,
        "link": link(link_approx or "probit", n_samples, seed),
        "n_samples": n_samples,
        "seed": seed,
        "samples": samples,
    }


def curvature_of(backend: Any, options: dict[str, Any] | None, curvature: str) -> str:
    """The curvature that a backend of laplace-torch computes, by its name; everything is computed by this engine."""
    if options and options.get("stochastic"):
        raise UnsupportedError("stochastic curvature is not offered; the exact one is computed: leave `stochastic` out")
    if backend is None:
        return curvature
    name = getattr(backend, "__name__", str(backend))
    for ending, kind in (("EF", "empirical-fisher"), ("Hessian", "hessian"), ("GGN", "ggn")):
        if name.endswith(ending):
            return kind
    if name in ("GGNInterface", "EFInterface"):
        return "ggn" if name.startswith("GGN") else "empirical-fisher"
    raise InputError(f"the backend {name} is not known; leave it out, or choose with curvature=")


def vector(values: Any, what: str) -> list[float]:
    """One number, or several in one dimension."""
    if isinstance(values, (str, bytes)):
        raise InputError(f"{what} must be a number or several, not a string")
    numbers = floats(values, what)
    if np.ndim(values.detach().cpu().numpy() if is_torch(values) else values) > 1:
        raise InputError(f"{what} must be a number, or have one dimension")
    return numbers


def floats(values: Any, what: str) -> list[float]:
    """One number or several, of any kind."""
    if is_torch(values):
        values = values.detach().cpu().numpy()
    try:
        numbers: list[float] = np.asarray(values, dtype=np.float64).reshape(-1).tolist()
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be a number or several: {error}") from error
    if not numbers:
        raise InputError(f"{what} has no values")
    return numbers


def read_scaling(scaling: dict[str, Any] | None) -> dict[str, Any] | None:
    """Means and scales of inputs and targets, as lists."""
    if scaling is None:
        return None
    unknown = set(scaling) - {"inputs", "targets"}
    if unknown or "inputs" not in scaling:
        raise InputError("a scaling has 'inputs' and, where they were scaled, 'targets'")

    def pair(part: dict[str, Any] | None) -> tuple[list[float], list[float]] | None:
        if part is None:
            return None
        if set(part) != {"mean", "scale"}:
            raise InputError("a scaling of columns has a 'mean' and a 'scale', one number per column each")
        return floats(part["mean"], "mean"), floats(part["scale"], "scale")

    return {"inputs": pair(scaling["inputs"]), "targets": pair(scaling.get("targets"))}


def integers(values: Any) -> list[int]:
    """Indices of any kind."""
    if is_torch(values):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or (array.size and array.min() < 0):
        raise InputError("subnetwork_indices must be a list of indices, counting from 0")
    return [int(value) for value in array]


def to_bytes(posterior: _core.Posterior) -> bytes:
    """The file of a posterior, in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.safetensors"
        posterior.save(os.fspath(path), posterior.has_data)
        return path.read_bytes()


def from_bytes(contents: bytes) -> _core.Posterior:
    """The posterior of such a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.safetensors"
        path.write_bytes(contents)
        return _core.Posterior.load(os.fspath(path))


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file, whole or not at all."""
    target = Path(path)
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise FileError(f"{target} could not be written: {error}") from error
