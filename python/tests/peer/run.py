"""Runs laplace-torch's own tests against this package.

    python tests/peer/run.py [--at-least N] [pytest's options]

With ``--at-least`` the run fails where fewer tests pass.

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
from xml.etree import ElementTree

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
        options, least = sys.argv[1:], None
        if options[:1] == ["--at-least"]:
            least, options = int(options[1]), options[2:]
        command = [sys.executable, "-m", "pytest", "-p", "shim", "-p", "no:cacheprovider", "-q", "-W", "ignore", *tests]
        results = Path(work) / "results.xml"
        command += [f"--junitxml={results}", *options]
        status = subprocess.run(command, cwd=Path(work) / "run", env=environment, check=False).returncode
        if least is None:
            return status
        (suite,) = ElementTree.parse(results).getroot().iter("testsuite")
        lost = sum(int(suite.get(name, 0)) for name in ("errors", "failures", "skipped"))
        passed = int(suite.get("tests", 0)) - lost
        print(f"{passed} of laplace-torch's {suite.get('tests')} tests pass; at least {least} must")
        return 0 if passed >= least else 1


if __name__ == "__main__":
    sys.exit(main())
