"""Runs laplace-torch's own tests against this package.

    python tests/peer/run.py [pytest's options]

The tests are those of laplace-torch's source distribution, which pip downloads (LAPLACE_TORCH names an unpacked one);
they are not part of this repository. Left out by name are the files that test its internals: curvature backends,
Jacobians, matrices, the feature extractor, metrics and small helpers. Without PyTorch or laplace-torch nothing is run, and a
line says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.2.3"
FILES = (
    "test_baselaplace.py",
    "test_functional_laplace.py",
    "test_laplace.py",
    "test_lllaplace.py",
    "test_serialization.py",
    "test_subnetlaplace.py",
    "test_subset_params.py",
)
HERE = Path(__file__).resolve().parent


def source(folder: Path) -> Path:
    """The unpacked source distribution."""
    known = os.environ.get("LAPLACE_TORCH")
    if known:
        return Path(known)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
         "--dest", str(folder), f"laplace-torch=={VERSION}"],
        check=True,
    )  # fmt: skip
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as contents:
        contents.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


def main() -> int:
    """Runs the tests, and returns pytest's status."""
    try:
        import laplace  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: laplace-torch's tests need {error.name}, which is not installed")
        return 0
    with tempfile.TemporaryDirectory() as work:
        unpacked = source(Path(work))
        tests = [str(Path("tests") / name) for name in FILES]
        # The installed laplace is imported, not the one beside the tests.
        (Path(work) / "run").mkdir()
        (Path(work) / "run" / "tests").symlink_to(unpacked / "tests")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, "-m", "pytest", "-p", "shim", "-p", "no:cacheprovider", "-q", "-W", "ignore", *tests]
        return subprocess.run([*command, *sys.argv[1:]], cwd=Path(work) / "run", env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
