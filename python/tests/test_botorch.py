"""BoTorch's acquisition functions take a posterior, and climb by its gradients."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("botorch")

import torch  # noqa: E402
from botorch.acquisition import qExpectedImprovement  # noqa: E402
from botorch.optim import optimize_acqf  # noqa: E402
from torch import nn  # noqa: E402

from riemannian_laplace import Laplace  # noqa: E402
from riemannian_laplace.botorch import LaplaceModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def fitted() -> Laplace:
    torch.manual_seed(0)
    x = torch.rand(12, 2, dtype=torch.float64)
    y = -((x - 0.4) ** 2).sum(1, keepdim=True)
    module = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 1)).double()
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-2)
    for _ in range(200):
        optimizer.zero_grad()
        ((module(x) - y) ** 2).mean().backward()
        optimizer.step()
    return Laplace(module, "regression", "all", "full", sigma_noise=0.01, prior_precision=1.0).fit(x, y)


def test_its_posterior_is_the_joint_prediction() -> None:
    la = fitted()
    x = torch.rand(3, 2, dtype=torch.float64)
    posterior = LaplaceModel(la).posterior(x)
    mean, covariance = la(x, joint=True)
    assert torch.allclose(posterior.mean.ravel(), mean)
    assert torch.allclose(posterior.distribution.covariance_matrix, covariance, rtol=1e-6, atol=1e-9)
    assert posterior.rsample(torch.Size([4])).shape == (4, 3, 1)
    assert LaplaceModel(la).posterior(x.expand(5, 3, 2)).mean.shape == (5, 3, 1)


def test_expected_improvement_is_climbed() -> None:
    la = fitted()
    acquisition = qExpectedImprovement(LaplaceModel(la), best_f=-0.05)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    found, value = optimize_acqf(acquisition, bounds=bounds, q=1, num_restarts=2, raw_samples=8, options={"maxiter": 20})
    grid = torch.rand(50, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert bool(((found >= 0) & (found <= 1)).all())
    assert float(value) >= float(acquisition(grid).quantile(0.9)) and np.isfinite(float(value))
