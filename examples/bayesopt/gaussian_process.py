"""The search of main.rs with a Gaussian process (Matérn 5/2) and expected improvement, by scikit-learn.

    python examples/bayesopt/gaussian_process.py [seeds]          (needs scikit-learn and scipy)
"""

import sys
import time
import warnings

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

warnings.filterwarnings("ignore")
POOL = 500
A = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]])
P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(u):
    x, y = 15 * u[0] - 5, 15 * u[1]
    curve = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return curve**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def hartmann(u):
    return -np.exp(-(A * (u - P) ** 2).sum(1)) @ np.array([1, 1.2, 3, 3.2])


def search(value, inputs, first, trials, seed):
    random = np.random.default_rng(seed)
    x = random.random((first, inputs))
    y = np.array([value(row) for row in x])
    while len(y) < trials:
        kernel = ConstantKernel() * Matern(np.ones(inputs), nu=2.5) + WhiteKernel(1e-4)
        model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=seed).fit(x, y)
        pool = random.random((POOL, inputs))
        near = x[y.argmin()] + 0.2 * (pool[: POOL // 2] - 0.5)
        pool[: POOL // 2] = near.clip(0, 1)
        mean, deviation = model.predict(pool, return_std=True)
        z = (y.min() - mean) / deviation
        row = pool[(deviation * (z * norm.cdf(z) + norm.pdf(z))).argmax()]
        x, y = np.vstack([x, row]), np.append(y, value(row))
    return y.min()


seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
problems = [("Branin", branin, 2, 0.397887, 8, 25), ("Hartmann-6", hartmann, 6, -3.32237, 12, 40)]
for name, value, inputs, minimum, first, trials in problems:
    began = time.time()
    regrets = np.array([search(value, inputs, first, trials, seed) for seed in range(seeds)]) - minimum
    each = (time.time() - began) / (seeds * (trials - first))
    error = regrets.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
    print(f"{name}, {trials} trials: {regrets.mean():.3f} ± {error:.3f}; {each:.2f} s an iteration")
