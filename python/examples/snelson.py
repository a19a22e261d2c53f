"""Snelson's data with Riemannian samples: the linearised posterior, Gaussian draws of the weights, and geodesics.

The network (1-10-1, tanh) was trained on standardised data; `scaling` says so, and everything else is in the units of the
data. Draws of the weights from the Gaussian leave the data, because the posterior is curved; the same draws carried along
geodesics of the Fisher metric follow it.

    python snelson.py [picture.png]
"""

# %% The data and the trained network
from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from riemannian_laplace import Laplace, Network

DATA = Path(__file__).resolve().parents[2] / "data"


def read(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


table = np.array([[float(row["x"]), float(row["y"])] for row in read("snelson.csv")])
is_test = np.array([row["complete"] == "test" for row in read("snelson_split.csv")])
x, y = table[~is_test, :1], table[~is_test, 1:]
x_test, y_test = table[is_test, :1], table[is_test, 1:]
network = Network.from_safetensors(DATA / "snelson_map_complete_std.safetensors", "tanh")
scaling = {
    "inputs": {"mean": x.mean(axis=0), "scale": x.std(axis=0)},
    "targets": {"mean": y.mean(axis=0), "scale": y.std(axis=0)},
}

# %% The posterior
la = Laplace(network, "regression", subset_of_weights="all", hessian_structure="full", scaling=scaling)
la.fit(x, y)
la.optimize_prior_precision()
print(la)

# %% Three predictions
samples = la.samples(100, metric="fisher", seed=1)
print(samples, f"largest drift {samples.drift.max():.1e}, {samples.nfev.mean():.0f} evaluations per sample")
grid = np.linspace(-3, 9, 200)[:, None]
panels = {
    "linearised": la.predict(grid),
    "Gaussian draws": la.predict(grid, "nn", n_samples=100, seed=1),
    "Riemannian samples": la.predict(grid, "riemannian", samples=samples),
}
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True)
for panel, (name, prediction) in zip(axes, panels.items()):
    lower, upper = prediction.interval(0.9)
    panel.fill_between(grid[:, 0], lower[:, 0], upper[:, 0], alpha=0.3)
    if name != "linearised":
        for draw in prediction.mean_draws(20, 0):
            panel.plot(grid[:, 0], draw[:, 0], color="tab:blue", alpha=0.3, linewidth=0.7)
    panel.plot(grid[:, 0], prediction.mean[:, 0], color="black")
    panel.scatter(x, y, s=6, color="tab:orange")
    panel.set(title=name, xlim=(-3, 9), ylim=(-4, 4), xlabel="x")
scores = {
    "linearised": la.evaluate(x_test, y_test),
    "Gaussian draws": la.evaluate(x_test, y_test, "nn", n_samples=100, seed=1),
    "Riemannian samples": la.evaluate(x_test, y_test, "riemannian", samples=samples),
}
for name, score in scores.items():
    print(f"{name:20} test NLL {score['nll']:.3f}  MSE {score['mse']:.3f}")
figure.tight_layout()
path = sys.argv[1] if len(sys.argv) > 1 else "snelson.png"
figure.savefig(path, dpi=150)
print(f"picture: {path}")
