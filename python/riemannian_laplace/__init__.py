"""Post-hoc uncertainty for trained neural networks: the Laplace approximation and its Riemannian extension.

The verbs are those of laplace-torch:

>>> import numpy as np
>>> from riemannian_laplace import Laplace
>>> from riemannian_laplace.layers import Linear
>>> x = np.linspace(-1, 1, 20)[:, None]
>>> la = Laplace([Linear([[2.0]], [0.0])], "regression", "all", "full").fit(x, 2 * x + 0.1 * np.cos(7 * x))
>>> _ = la.optimize_prior_precision()
>>> mean, covariance = la(np.array([[0.5]]))

torch, scikit-learn, pandas and polars are optional, and imported only when they are used.
"""

from __future__ import annotations

from riemannian_laplace import layers
from riemannian_laplace._core import (
    LeaveOneOut,
    Network,
    Posterior,
    Samples,
    __version__,
    set_memory_limit,
    set_num_threads,
)
from riemannian_laplace.decisions import Influence, Suggestion
from riemannian_laplace.errors import (
    FileError,
    InputError,
    LaplaceError,
    LaplaceWarning,
    MemoryLimitError,
    MissingKeyError,
    NotFittedError,
    NumericalError,
    UnsupportedError,
)
from riemannian_laplace.laplace import Laplace
from riemannian_laplace.results import MeanCovariance, Prediction

__all__ = [
    "FileError",
    "Influence",
    "InputError",
    "Laplace",
    "LaplaceError",
    "LaplaceWarning",
    "LeaveOneOut",
    "MeanCovariance",
    "MemoryLimitError",
    "MissingKeyError",
    "Network",
    "NotFittedError",
    "NumericalError",
    "Posterior",
    "Prediction",
    "Samples",
    "Suggestion",
    "UnsupportedError",
    "__version__",
    "layers",
    "set_memory_limit",
    "set_num_threads",
]
