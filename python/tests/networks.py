"""Five small networks with data: the same weights for torch, laplace-torch, the program and the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn


@dataclass(frozen=True)
class Case:
    """A trained network and its data."""

    name: str
    likelihood: str
    module: nn.Sequential
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    new: npt.NDArray[np.float64]

    @property
    def is_regression(self) -> bool:
        return self.likelihood == "regression"

    def loader(self) -> torch.utils.data.DataLoader:
        """The data as laplace-torch takes them."""
        y = torch.as_tensor(self.y) if self.is_regression else torch.as_tensor(self.y[:, 0], dtype=torch.long)
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.as_tensor(self.x), y), batch_size=17)


def _data(likelihood: str, inputs: int, outputs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, inputs))
    scores = np.stack([np.sin(x @ rng.normal(size=inputs) + k) for k in range(outputs)], axis=1)
    if likelihood == "regression":
        y = scores + 0.2 * rng.normal(size=scores.shape)
    else:
        y = np.argmax(scores + 0.3 * rng.gumbel(size=scores.shape), axis=1).astype(float)[:, None]
    return x, y, 2.0 * rng.normal(size=(9, inputs))


def _train(module: nn.Sequential, likelihood: str, x: np.ndarray, y: np.ndarray) -> nn.Sequential:
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-2, weight_decay=1e-3)
    inputs = torch.as_tensor(x)
    for _ in range(300):
        optimizer.zero_grad()
        outputs = module(inputs)
        if likelihood == "regression":
            loss = nn.functional.mse_loss(outputs, torch.as_tensor(y))
        else:
            loss = nn.functional.cross_entropy(outputs, torch.as_tensor(y[:, 0], dtype=torch.long))
        loss.backward()
        optimizer.step()
    return module.eval()


def _case(name: str, likelihood: str, sizes: tuple[int, int, int], hidden: list[nn.Module], seed: int) -> Case:
    inputs, width, outputs = sizes
    torch.manual_seed(seed)
    x, y, new = _data(likelihood, inputs, outputs, seed)
    module = nn.Sequential(nn.Linear(inputs, width), *hidden, nn.Linear(width, outputs)).double()
    return Case(name, likelihood, _train(module, likelihood, x, y), x, y, new)


def cases() -> list[Case]:
    """Regression, two and many classes; tanh, relu and LayerNorm."""
    return [
        _case("regression tanh", "regression", (2, 8, 1), [nn.Tanh()], 1),
        _case("two outputs relu", "regression", (3, 7, 2), [nn.ReLU()], 2),
        _case("two classes tanh", "classification", (2, 6, 2), [nn.Tanh()], 3),
        _case("five classes relu", "classification", (3, 8, 5), [nn.ReLU()], 4),
        _case("three classes LayerNorm", "classification", (2, 6, 3), [nn.LayerNorm(6), nn.Tanh()], 5),
    ]
