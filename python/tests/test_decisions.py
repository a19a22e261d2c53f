"""Calibration, suggestions, influence and export: the same numbers as the program's, and as definitions say."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import numpy as np
import pytest

from riemannian_laplace import InputError, Laplace, LaplaceError
from riemannian_laplace.layers import Activation, Linear

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, size=(120, 2))
Y = np.sin(X[:, :1]) + 0.3 * X[:, 1:] + 0.2 * RNG.standard_t(3, size=(120, 1))


def network(outputs: int = 1) -> list[object]:
    rng = np.random.default_rng(1)
    return [
        Linear(rng.normal(size=(5, 2)), rng.normal(size=5)),
        Activation("tanh"),
        Linear(rng.normal(size=(outputs, 5)), rng.normal(size=outputs)),
    ]


def fitted() -> Laplace:
    return Laplace(network(), "regression", "all", "full", sigma_noise=0.3).fit(X[:40], Y[:40])


def write(path: Path, matrix: np.ndarray, names: list[str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([[repr(float(value)) for value in row] for row in matrix])


def test_calibrated_intervals_are_those_of_the_program(rla: str, tmp_path: Path) -> None:
    la = fitted().calibrate(X[40:80], Y[40:80], level=0.8)
    lower, upper = la.predict(X[80:]).promised()
    # ⌈0.8 · 41⌉ = 33 of the 40 calibration rows are inside, by construction.
    inside = la.predict(X[40:80]).promised()
    assert int(np.sum((inside[0] <= Y[40:80]) & (Y[40:80] <= inside[1]))) == 33
    la.save(tmp_path / "p.safetensors")
    write(tmp_path / "new.csv", X[80:], la._ready().input_names)
    command = [rla, "predict", "-q", "--posterior", "p.safetensors", "--inputs", "new.csv", "--out", "o.csv"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with (tmp_path / "o.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert np.allclose([float(row["lower"]) for row in rows], lower[:, 0], rtol=1e-12)
    assert np.allclose([float(row["upper"]) for row in rows], upper[:, 0], rtol=1e-12)


def test_a_posterior_that_is_not_calibrated_promises_nothing() -> None:
    with pytest.raises(LaplaceError, match="calibrat"):
        fitted().predict(X[:3]).promised()
    with pytest.raises(LaplaceError, match="rows"):
        fitted().calibrate(X[40:44], Y[40:44])


def test_classes_have_sets() -> None:
    labels = (Y[:, 0] > 0).astype(int)
    la = Laplace(network(2), "classification", "all", "full").fit(X[:40], labels[:40])
    la.calibrate(X[40:80], labels[40:80])
    sets = la.predict(X[40:80]).promised()
    assert sets.shape == (40, 1, 2) and sets.dtype == bool
    assert np.mean(sets[np.arange(40), 0, labels[40:80]]) >= 0.9
    assert la.predict(X[40:80]).promised(sets="aps").sum() >= 40
    with pytest.raises(InputError, match="lac"):
        la.predict(X[40:80]).promised(sets="all")


def test_suggestions_repeat_nothing_and_leave_measured_rows_out() -> None:
    la = fitted()
    chosen = la.suggest(np.concatenate([X[:40], X[100:]]), 5)
    rows = [one.row for one in chosen]
    assert len(set(rows)) == 5 and min(rows) >= 40
    # The first is the row of the greatest variance.
    variance = la.predict(X[100:]).epistemic_variance[:, 0]
    assert rows[0] - 40 == int(np.argmax(variance))
    assert chosen[0].standard_deviation == pytest.approx(np.sqrt(variance.max()), rel=1e-9)
    with pytest.raises(InputError, match="goal"):
        la.suggest(X, 3, "fame")


def test_influence_of_a_linear_model_is_that_of_refits() -> None:
    x, y = X[:30], Y[:30]
    design = np.c_[x, np.ones(30)]

    def solve(rows: np.ndarray) -> np.ndarray:
        a, b = design[rows], y[rows, 0]
        return np.linalg.solve(a.T @ a + 1e-3 * np.eye(3), a.T @ b)

    everything = solve(np.arange(30))
    layer = [Linear(everything[None, :2], everything[2:])]
    la = Laplace(layer, "regression", "all", "full", sigma_noise=1.0, prior_precision=1e-3).fit(x, y)
    influence = la.influence(X[50:53], Y[50:53])
    there = np.c_[X[50:53], np.ones(3)]
    refits = np.array([there @ (solve(np.delete(np.arange(30), n)) - everything) for n in range(30)])
    assert np.allclose(influence.on_outputs[:, :, 0], refits, rtol=1e-6, atol=1e-9)
    own = [
        0.5 * ((y[n, 0] - design[n] @ solve(np.delete(np.arange(30), n))) ** 2 - (y[n, 0] - design[n] @ everything) ** 2)
        for n in range(30)
    ]
    assert np.allclose(influence.on_itself, own, rtol=1e-6)
    assert influence.suspicious(1) == [int(np.argmax(own))]
    assert influence.on_loss.shape == (30,)


def test_an_export_is_the_file_of_the_program(tmp_path: Path) -> None:
    la = fitted()
    outputs = la.export(tmp_path / "bars.onnx", precision="f64")
    assert outputs == ["mean", "epistemic_variance", "aleatoric_variance", "lower", "upper"]
    assert (tmp_path / "bars.onnx").stat().st_size > 1000
    with pytest.raises(InputError, match="f64"):
        la.export(tmp_path / "bars.onnx", precision="f16")
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(tmp_path / "bars.onnx"), providers=["CPUExecutionProvider"])
    mean, variance = session.run(["mean", "epistemic_variance"], {"inputs": X[90:95]})
    prediction = la.predict(X[90:95])
    assert np.allclose(mean, prediction.mean, rtol=1e-9) and np.allclose(variance, prediction.epistemic_variance, rtol=1e-8)
