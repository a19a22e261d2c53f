"""The package and the program compute the same bits: files equal byte by byte, numbers to the last bit."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from networks import Case, cases  # noqa: E402

from riemannian_laplace import Laplace, Samples  # noqa: E402
from riemannian_laplace.data import Inputs  # noqa: E402
from riemannian_laplace.torch_models import bind  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")
CASES = cases()


def write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*([repr(float(value)) for value in column] for column in columns.values())))


class Program:
    """The program, at work on one network in one folder."""

    def __init__(self, rla: str, folder: Path, case: Case) -> None:
        self.rla, self.folder, self.case = rla, folder, case
        bound = bind(case.module, case.likelihood, Inputs(case.x), last_layer=None, features_suffice=False, n_checked=9)
        bound.network.save(folder / "model.safetensors")
        self.inputs = {f"x{k + 1}": case.x[:, k] for k in range(case.x.shape[1])}
        several = case.y.shape[1] > 1
        self.targets = {f"y{k + 1}" if several else "y": case.y[:, k] for k in range(case.y.shape[1])}
        write_csv(folder / "train.csv", self.inputs | self.targets)
        write_csv(folder / "new.csv", {f"x{k + 1}": case.new[:, k] for k in range(case.new.shape[1])})

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.rla, *arguments, "--quiet"], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 3), done.stderr
        return done.stdout

    def fit(self, *arguments: str) -> dict[str, Any]:
        likelihood = "gaussian" if self.case.is_regression else "categorical"
        fixed = ["--model", "model.safetensors", "--data", "train.csv", "--target", ",".join(self.targets)]
        out = ["--likelihood", likelihood, "--out", "program.safetensors", "--json"]
        report: dict[str, Any] = json.loads(self.run("fit", *fixed, *out, *arguments))
        return report

    def predict(self, *arguments: str) -> dict[str, np.ndarray]:
        out = ["--posterior", "program.safetensors", "--inputs", "new.csv", "--out", "predictions.csv"]
        self.run("predict", *out, *arguments)
        with (self.folder / "predictions.csv").open() as file:
            rows = list(csv.reader(file))
        numbers = [(k, name) for k, name in enumerate(rows[0]) if name != "class"]
        return {name: np.array([float(row[k]) for row in rows[1:]]) for k, name in numbers}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def program(request: pytest.FixtureRequest, rla: str, tmp_path: Path) -> Program:
    return Program(rla, tmp_path, request.param)


def same_files(folder: Path, one: str, other: str) -> bool:
    return (folder / one).read_bytes() == (folder / other).read_bytes()


@pytest.mark.parametrize("structure", ["full", "kron", "diag"])
@pytest.mark.parametrize("subset", ["all", "last_layer"])
def test_posteriors_are_the_same_files(program: Program, structure: str, subset: str) -> None:
    case = program.case
    report = program.fit(
        *("--structure", structure, "--weights", subset.replace("_", "-"), "--prior-precision", "0.7"),
        *(["--sigma", "0.4"] if case.is_regression else []),
    )
    noise = {"sigma_noise": 0.4} if case.is_regression else {}
    la = Laplace(case.module, case.likelihood, subset, structure, prior_precision=0.7, **noise).fit(case.x, case.y)
    la.save(program.folder / "package.safetensors")
    assert same_files(program.folder, "program.safetensors", "package.safetensors")
    assert la.log_marginal_likelihood() == report["log_marginal_likelihood"]
    assert la.log_likelihood == report["log_likelihood"]


def test_tuned_posteriors_are_the_same_files(program: Program) -> None:
    case = program.case
    program.fit("--optimize")
    la = Laplace(case.module, case.likelihood, "all", "full").fit(case.x, case.y)
    la.optimize_prior_precision()
    la.save(program.folder / "package.safetensors")
    assert same_files(program.folder, "program.safetensors", "package.safetensors")


def test_predictions_and_samples_have_the_same_bits(program: Program) -> None:
    case, folder = program.case, program.folder
    program.fit("--optimize")
    la = Laplace.load(folder / "program.safetensors")
    seeded = ["--samples", "12", "--seed", "3"]

    latent = program.predict("--method", "glm", "--link", "none")
    found = la.predict(case.new).latent()
    assert found is not None
    mean, covariance = found
    for i in range(mean.shape[1]):
        assert np.array_equal(latent[f"f_mean_{i + 1}"], mean[:, i])
        for j in range(mean.shape[1]):
            assert np.array_equal(latent[f"f_cov_{i + 1}_{j + 1}"], covariance[:, i, j])

    methods: list[tuple[list[str], dict[str, Any]]] = [
        (["--method", "map"], {"pred_type": "map"}),
        (["--method", "nn", *seeded], {"pred_type": "nn", "n_samples": 12, "seed": 3}),
        (["--method", "riemannian", *seeded], {"pred_type": "riemannian", "n_samples": 12, "seed": 3}),
    ]
    if not case.is_regression:
        for link in ("probit", "bridge", "centred", "mc"):
            draws = seeded if link == "mc" else []
            options = {"link_approx": link, "n_samples": 12, "seed": 3}
            methods.append((["--method", "glm", "--link", link, *draws], options))
    for arguments, options in methods:
        columns, prediction = program.predict(*arguments), la.predict(case.new, **options)
        if case.is_regression:
            several = case.y.shape[1] > 1
            for k, target in enumerate(program.targets):
                suffix = f"_{target}" if several else ""
                assert np.array_equal(columns[f"mean{suffix}"], prediction.mean[:, k])
                assert np.array_equal(columns[f"epistemic_variance{suffix}"], prediction.epistemic_variance[:, k])
                assert np.array_equal(columns[f"total_variance{suffix}"], prediction.total_variance[:, k])
        else:
            probabilities = np.stack([columns[f"p{k}"] for k in range(prediction.mean.shape[1])], axis=1)
            assert np.array_equal(probabilities, prediction.mean), arguments

    program.run(
        *("sample", "--posterior", "program.safetensors", "--metric", "fisher", *seeded),
        *("--out", "samples.safetensors"),
    )
    samples = la.samples(12, "fisher", seed=3)
    samples.save(folder / "package_samples.safetensors")
    assert same_files(folder, "samples.safetensors", "package_samples.safetensors")
    assert np.array_equal(Samples.load(folder / "samples.safetensors").theta, samples.theta)
    assert np.array_equal(la.samples(4, "fisher", seed=3, first=8).theta, samples.theta[8:])


def test_scores_have_the_same_bits(program: Program) -> None:
    case = program.case
    program.fit("--optimize")
    la = Laplace.load(program.folder / "program.safetensors")
    targets = ",".join(program.targets)
    out = program.run(
        "evaluate", "--posterior", "program.safetensors", "--data", "train.csv", "--target", targets, "--json"
    )
    scores = la.evaluate(case.x, case.y, link_approx="centred")
    report = json.loads(out)
    assert {name: report[name] for name in scores} == scores
