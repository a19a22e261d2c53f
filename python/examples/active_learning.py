"""Fewer labels for the same error: rows of concrete that a posterior asks for, beside rows at random.

Each round trains a network on the rows that are labelled so far, asks its posterior which rows of the pool tell most about
the predictions there (`suggest`), labels them, and trains again. Needs NumPy and scikit-learn; run it in the project's folder.

    python python/examples/active_learning.py [seeds] [rounds]
"""

# %% The data
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from riemannian_laplace.sklearn import LaplaceRegressor

Array = npt.NDArray[np.float64]
FIRST, BATCH, TARGETS = 20, 10, 200

table = np.loadtxt(Path("data/uci/concrete.csv"), delimiter=",", skiprows=1)
inputs, strength = table[:, :-1], table[:, -1]


# %% Ask, label, train again
def errors(seed: int, rounds: int, suggested: bool) -> list[float]:
    """The root mean squared error on rows that are never labelled, after each round."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(inputs))
    test, labelled, pool = order[:300], list(order[300 : 300 + FIRST]), list(order[300 + FIRST :])
    found = []
    for left in range(rounds, -1, -1):
        regressor = LaplaceRegressor((10,), random_state=seed).fit(inputs[labelled], strength[labelled])
        found.append(float(np.sqrt(np.mean((regressor.predict(inputs[test]) - strength[test]) ** 2))))
        if left == 0:
            break
        if suggested:
            # The pool is in random order: its first rows stand for the inputs to predict at.
            chosen = regressor.laplace_.suggest(inputs[pool], BATCH, "target", target_inputs=inputs[pool[:TARGETS]])
            rows = {pool[one.row] for one in chosen}
        else:
            rows = set(pool[:BATCH])
        labelled += sorted(rows)
        pool = [row for row in pool if row not in rows]
    return found


# %% Error against the number of labels
seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 8
random = np.array([errors(seed, rounds, suggested=False) for seed in range(seeds)])
asked = np.array([errors(seed, rounds, suggested=True) for seed in range(seeds)])
print("labels   random  suggested  gain (paired)")
for k in range(rounds + 1):
    gain = random[:, k] - asked[:, k]
    error = gain.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
    print(f"{FIRST + BATCH * k:6}  {random[:, k].mean():7.2f}  {asked[:, k].mean():9.2f}  {gain.mean():6.2f} ± {error:.2f}")
