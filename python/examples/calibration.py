"""Are the probabilities of a classifier what they claim to be? Before and after the Laplace approximation.

A small network learns noisy moons from few points and is too sure of itself. Its posterior costs a few milliseconds; the
linearised prediction and samples of the weights are compared by accuracy, negative log likelihood and calibration error on
points that it has not seen.

    python calibration.py [picture.png]
"""

# %% A network that is too sure of itself
from __future__ import annotations

import sys
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import torch

from riemannian_laplace import Laplace

Array = npt.NDArray[np.float64]


def moons(count: int, seed: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Two interleaved half circles with noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=count)
    angle = rng.uniform(0, np.pi, size=count)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    points = np.where(labels[:, None] == 0, upper, lower) + 0.35 * rng.normal(size=(count, 2))
    return points, labels


x_train, y_train = moons(60, 0)
x_test, y_test = moons(2000, 1)

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2)
).double()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
for _ in range(500):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.as_tensor(x_train)), torch.as_tensor(y_train))
    torch.autograd.backward([loss])
    optimizer.step()

# %% Its posterior
la = Laplace(model, "classification", subset_of_weights="all", hessian_structure="full")
la.fit(x_train, y_train)
la.optimize_prior_precision()
print(la)

# %% Scores on unseen points
methods: dict[str, dict[str, object]] = {
    "network alone": {"pred_type": "map"},
    "linearised, probit": {"pred_type": "glm", "link_approx": "probit"},
    "linearised, centred": {"pred_type": "glm", "link_approx": "centred"},
    "riemannian samples": {"pred_type": "riemannian", "n_samples": 50},
}
figure, (reliability, surface) = plt.subplots(1, 2, figsize=(10, 4.2))
reliability.plot([0.5, 1], [0.5, 1], color="grey", linestyle=":")
for name, options in methods.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = la.evaluate(x_test, y_test, **options)  # type: ignore[arg-type]
        probabilities: Array = la.predict(x_test, **options).mean  # type: ignore[arg-type]
    print(f"{name:20} accuracy {scores['accuracy']:.3f}  NLL {scores['nll']:.3f}  ECE {scores['ece']:.3f}")
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y_test
    edges = np.linspace(0.5, 1, 9)
    bins = np.digitize(confidence, edges[1:-1])
    filled = [k for k in range(8) if np.count_nonzero(bins == k) > 20]
    reliability.plot(
        [confidence[bins == k].mean() for k in filled],
        [right[bins == k].mean() for k in filled],
        marker="o",
        label=f"{name} (ECE {scores['ece']:.3f})",
    )
reliability.set(xlabel="confidence", ylabel="accuracy", title="2000 unseen points")
reliability.legend(fontsize=8)

# %% Where the posterior is unsure
grid = np.stack(np.meshgrid(np.linspace(-3, 4, 60), np.linspace(-2.5, 3, 60)), axis=-1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    shown = la(grid.reshape(-1, 2), link_approx="probit")[:, 1].reshape(60, 60)
image = surface.contourf(grid[..., 0], grid[..., 1], shown, levels=20, cmap="coolwarm", vmin=0, vmax=1)
surface.scatter(*x_train.T, c=y_train, cmap="coolwarm", edgecolor="black", s=20)
surface.set(title="probability of class 1, linearised")
figure.colorbar(image)
figure.tight_layout()
path = sys.argv[1] if len(sys.argv) > 1 else "calibration.png"
figure.savefig(path, dpi=150)
print(f"picture: {path}")
