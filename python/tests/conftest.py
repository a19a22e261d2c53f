"""What the tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def rla() -> str:
    """The program, to compare with."""
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "rla"
    found = os.environ.get("RLA") or (str(built) if built.exists() else shutil.which("rla"))
    if not found:
        pytest.skip("the program is not built: cargo build --release --bin rla")
    return found


@pytest.fixture
def float64() -> Iterator[None]:
    """laplace-torch builds some matrices in torch's default dtype."""
    torch = pytest.importorskip("torch")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
