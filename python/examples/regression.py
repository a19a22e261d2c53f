"""laplace-torch's regression example, with one changed import, beside laplace-torch itself.

A 1-50-1 tanh network learns a sinusoid from 150 noisy points. Its posterior is fitted, prior precision and noise are tuned
by gradient steps on the log marginal likelihood, and the prediction is drawn with two standard deviations. Every line from
`fit` on is the same for both packages.

    python regression.py [picture.png]
"""

# %% The data, and a trained network
from __future__ import annotations

import sys
import time
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

N_EPOCHS = 1000

torch.manual_seed(711)
x_train = (torch.rand(150) * 8).unsqueeze(-1)
y_train = torch.sin(x_train) + 0.3 * torch.randn_like(x_train)
x_test = torch.linspace(-5, 13, 500).unsqueeze(-1)
train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=150)

model = torch.nn.Sequential(torch.nn.Linear(1, 50), torch.nn.Tanh(), torch.nn.Linear(50, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(N_EPOCHS):
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        torch.autograd.backward([loss])
        optimizer.step()


# %% The posterior, by either package
def posterior(Laplace: Any) -> Any:
    la = Laplace(model, "regression", subset_of_weights="all", hessian_structure="full")
    la.fit(train_loader)
    log_prior, log_sigma = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    hyper_optimizer = torch.optim.Adam([log_prior, log_sigma], lr=1e-1)
    for _ in range(N_EPOCHS):
        hyper_optimizer.zero_grad()
        neg_marglik = -la.log_marginal_likelihood(log_prior.exp(), log_sigma.exp())
        neg_marglik.backward()
        hyper_optimizer.step()
    return la


def draw(axes: Any, title: str, la: Any) -> None:
    f_mean, f_var = la(x_test)
    mean = f_mean.squeeze().detach().cpu().numpy()
    f_std = f_var.squeeze().detach().sqrt().cpu().numpy()
    std = np.sqrt(f_std**2 + la.sigma_noise.item() ** 2)
    x = x_test.flatten().numpy()
    axes.scatter(x_train.flatten(), y_train.flatten(), s=8, color="tab:orange")
    axes.plot(x, mean, color="black")
    axes.fill_between(x, mean - 2 * std, mean + 2 * std, alpha=0.3)
    axes.set(title=title, xlabel="x", xlim=(-5, 13), ylim=(-4, 6))


# %% Both, and a picture
from riemannian_laplace import Laplace  # was: from laplace import Laplace

packages: dict[str, Any] = {"riemannian_laplace": Laplace}
try:
    import laplace

    packages["laplace-torch"] = laplace.Laplace
except ImportError:
    print("laplace-torch is not installed; the picture has one panel")

figure, panels = plt.subplots(1, len(packages) + 1, figsize=(4 * len(packages) + 4, 3.5), sharey=True)
for axes, (name, package) in zip(panels, packages.items()):
    began = time.perf_counter()
    la = posterior(package)
    seconds = time.perf_counter() - began
    draw(axes, name, la)
    evidence = la.log_marginal_likelihood().item()
    print(
        f"{name}: sigma {la.sigma_noise.item():.4f}, prior precision {la.prior_precision.item():.4f}, "
        f"log marginal likelihood {evidence:.4f}, {seconds:.2f} s"
    )

# %% What the engine has instead of the loop
began = time.perf_counter()
la = Laplace(model, "regression", subset_of_weights="all", hessian_structure="full")
la.fit(train_loader)
la.optimize_prior_precision()
seconds = time.perf_counter() - began
draw(panels[-1], "optimize_prior_precision", la)
print(
    f"optimize_prior_precision: sigma {la.sigma_noise.item():.4f}, prior precision {la.prior_precision.item():.4f}, "
    f"log marginal likelihood {la.log_marginal_likelihood().item():.4f}, {seconds:.3f} s"
)
figure.tight_layout()
path = sys.argv[1] if len(sys.argv) > 1 else "regression.png"
figure.savefig(path, dpi=150)
print(f"picture: {path}")
