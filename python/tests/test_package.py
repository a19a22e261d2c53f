"""The package as a whole: it imports fast and alone, its stubs are complete, its examples type-check."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import riemannian_laplace
from riemannian_laplace import _core

PYTHON = Path(__file__).resolve().parents[1]
OPTIONAL = ("torch", "sklearn", "pandas", "polars", "onnx", "IPython", "laplace")


def test_importing_is_fast_and_imports_nothing_optional() -> None:
    """In seconds of the processor, which other processes do not change."""
    code = (
        "import time, sys; began = time.process_time(); import riemannian_laplace;"
        f"print(time.process_time() - began, *[name for name in {OPTIONAL!r} if name in sys.modules])"
    )
    found = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    seconds, *imported = min((done.stdout.split() for done in found), key=lambda words: float(words[0]))
    assert float(seconds) < 0.3
    assert not imported


def test_everything_compiled_has_a_stub() -> None:
    stubs = (Path(riemannian_laplace.__file__).parent / "_core.pyi").read_text()
    for name, value in vars(_core).items():
        if name.startswith("_"):
            continue
        assert f"class {name}:" in stubs or f"def {name}(" in stubs, name
        if inspect.isclass(value):
            body = stubs.split(f"class {name}:")[1].split("\nclass ")[0]
            missing = [member for member in vars(value) if not member.startswith("_") and f"def {member}(" not in body]
            assert not missing, (name, missing)


def test_everything_public_has_a_docstring() -> None:
    for name in riemannian_laplace.__all__:
        value = getattr(riemannian_laplace, name)
        if name.startswith("__"):
            continue
        assert inspect.getdoc(value), name
        if inspect.isclass(value) and value.__module__.startswith("riemannian_laplace"):
            for member, item in vars(value).items():
                if not member.startswith("_"):
                    assert inspect.getdoc(item), (name, member)


def test_stubs_and_examples_pass_mypy(tmp_path: Path) -> None:
    for name in ("mypy", "torch", "laplace", "matplotlib"):
        pytest.importorskip(name)
    files = [str(path) for path in sorted((PYTHON / "examples").glob("*.py"))]
    assert files
    # Installed packages are found by themselves, and must not be named.
    installed_here = (PYTHON / "riemannian_laplace").exists()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=PYTHON / "examples",
        env={**os.environ, "MYPYPATH": str(Path(riemannian_laplace.__file__).parents[1]) if installed_here else ""},
    )
    assert done.returncode == 0, done.stdout
