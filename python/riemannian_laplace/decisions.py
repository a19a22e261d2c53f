"""What one does with a posterior besides predicting: promise intervals, choose what to measure, find suspicious rows, export."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from riemannian_laplace import _core
from riemannian_laplace.data import read_data
from riemannian_laplace.errors import LaplaceWarning
from riemannian_laplace.files import SavedModel
from riemannian_laplace.progress import watch
from riemannian_laplace.settings import method_settings

__all__ = ["Decisions", "Influence", "Suggestion"]


class Suggestion(NamedTuple):
    """A row of a pool that is worth measuring."""

    #: The row of the pool, from zero.
    row: int
    #: Its score when it was chosen (for ``"uncertainty"`` nats about the weights), before it was divided by the cost.
    score: float
    #: What the posterior expects there; logits, for classes.
    mean: Any
    #: The standard deviation of that, with the rows chosen before taken as measured.
    standard_deviation: Any


@dataclass(frozen=True)
class Influence:
    """What leaving each training row out would change, to first order at these weights."""

    #: How much worse a row is predicted without itself, in nats: the larger, the more suspicious.
    on_itself: Any
    #: The change of the raw outputs at the given inputs, training rows × inputs × outputs; none where none were given.
    on_outputs: Any
    #: The change of the mean loss over the given data, negative for rows that harm; none where none were given.
    on_loss: Any

    def suspicious(self, count: int = 10) -> list[int]:
        """The training rows that are worth a look, the most suspicious first."""
        return [int(row) for row in np.argsort(-self.on_itself, kind="stable")[:count]]


class Decisions(SavedModel):
    """The verbs that act on a posterior, for :class:`~riemannian_laplace.Laplace`."""

    def calibrate(
        self,
        x: Any,
        y: Any = None,
        *,
        methods: Sequence[str] = ("map", "glm"),
        level: float = 0.9,
        link_approx: str | None = None,
        n_samples: int = 100,
        samples: _core.Samples | None = None,
        seed: int = 0,
        progress_bar: bool = True,
    ) -> Any:
        """Calibrates intervals, or sets of classes, on rows that were held out; :meth:`Prediction.promised` then has them.

        A new row of the same kind is inside with probability at least ``level``, whatever the network and the posterior are worth
        (split conformal prediction). Saved posteriors keep it, and ``rla predict`` uses it. Returns this object.

        >>> import numpy as np
        >>> from riemannian_laplace import Laplace
        >>> from riemannian_laplace.layers import Linear
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(60, 1))
        >>> y = 2 * x + rng.standard_t(2, size=(60, 1))
        >>> la = Laplace([Linear([[2.0]], [0.0])], "regression", "all", "full", sigma_noise=0.1).fit(x[:30], y[:30])
        >>> prediction = la.calibrate(x[30:], y[30:]).predict(x[30:])
        >>> lower, upper = prediction.promised()
        >>> float(np.mean((lower <= y[30:]) & (y[30:] <= upper))) >= 0.9
        True
        """
        posterior = self._ready()
        given = read_data(x, y, self._keys)
        settings = [method_settings(name, link_approx, n_samples, seed, samples) for name in methods]
        inputs, targets = self._matrix(given.inputs), self._targets(given.targets)
        with watch("calibrating", len(inputs) * len(settings), enabled=progress_bar) as bar:
            self._posterior, overlap = posterior.calibrated(inputs, targets, methods=settings, level=level, watch=bar)
        if overlap:
            warnings.warn(
                f"{overlap} calibration rows are training rows, too: fine where rows repeat by nature, else intervals are too narrow",
                LaplaceWarning,
                stacklevel=2,
            )
        return self

    def suggest(
        self,
        pool: Any,
        count: int = 10,
        goal: str = "uncertainty",
        *,
        by: str = "improvement",
        target_inputs: Any = None,
        costs: Sequence[float] | None = None,
        seed: int = 0,
    ) -> list[Suggestion]:
        """Rows of a pool to measure next, chosen one after the other from their exact joint covariance.

        ``goal`` is ``"uncertainty"`` (know the whole function), ``"target"`` (predict better at ``target_inputs``),
        ``"maximum"`` or ``"minimum"`` (``by`` expected ``"improvement"``, upper confidence ``"bound"`` or ``"thompson"``), or
        ``"label"`` (classes). Rows that are training rows are left out; scores are divided by ``costs``.

        Ask and tell: ``chosen = la.suggest(pool)``, measure, ``la.fit(x_new, y_new, override=False)``.

        >>> import numpy as np
        >>> from riemannian_laplace import Laplace
        >>> from riemannian_laplace.layers import Linear
        >>> la = Laplace([Linear([[1.0]], [0.0])], "regression", "all", "full", sigma_noise=0.1)
        >>> la = la.fit(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]))
        >>> pool = np.arange(-3.0, 6.0)[:, None]
        >>> [float(pool[chosen.row, 0]) for chosen in la.suggest(pool, 2)]
        [5.0, -3.0]
        """
        settings = {"goal": goal, "by": by, "count": count, "costs": None if costs is None else [float(c) for c in costs], "seed": seed}
        matrix = self._matrix(self._inputs(pool))
        targets = None if target_inputs is None else self._matrix(self._inputs(target_inputs))
        rows, _, cut = _core.suggest(self._ready(), matrix, settings, targets)
        if cut:
            warnings.warn(
                f"{cut} rows of the pool are not compared: it is too large for one joint covariance", LaplaceWarning, stacklevel=2
            )
        return [
            Suggestion(row["row"], row["score"], np.array(row["mean"]), np.array(row["standard_deviation"])) for row in rows
        ]

    def influence(self, x: Any = None, y: Any = None) -> Influence:
        """Which training rows made a prediction, and which look wrong: leave-one-out changes in closed form.

        With ``x`` the change of the outputs there, with ``y`` too that of the mean loss. Hidden units that a row has shaped stay as
        they are, so real refits differ by more on overfitted networks; a suspicious row is one to look at, not one to delete.
        With hidden units the order by self-influence agrees with refits, and the effects on other rows are hints, because the
        curvature is not the Hessian.

        >>> import numpy as np
        >>> from riemannian_laplace import Laplace
        >>> from riemannian_laplace.layers import Linear
        >>> x, y = np.arange(5.0)[:, None], np.array([[0.0], [1.0], [2.0], [3.0], [9.0]])
        >>> la = Laplace([Linear([[2.0]], [-1.0])], "regression", "all", "full", prior_precision=1e-6).fit(x, y)
        >>> la.influence().suspicious(1)
        [4]
        """
        posterior, inputs, targets = self._ready(), None, None
        if x is not None and y is None:
            inputs = self._matrix(self._inputs(x))
        elif x is not None:
            given = read_data(x, y, self._keys)
            inputs, targets = self._matrix(given.inputs), self._targets(given.targets)
        found = _core.influence(posterior, inputs, targets)
        return Influence(found["on_itself"], found.get("on_outputs"), found.get("on_loss"))

    def export(
        self,
        path: str | os.PathLike[str],
        pred_type: str = "glm",
        *,
        link_approx: str = "centred",
        precision: str = "f32",
        opset: int = 17,
        level: float = 0.9,
        n_samples: int = 100,
        samples: _core.Samples | None = None,
        seed: int = 0,
    ) -> list[str]:
        """Writes the posterior as one ONNX graph, whose outputs have error bars in any runtime; returns their names.

        Inputs are in the units of the data. The training data are never inside. ``"nn"`` and ``"riemannian"`` hold a network per
        sample, and cost as many evaluations.
        """
        method = method_settings(pred_type, link_approx, n_samples, seed, samples)
        return _core.export(self._ready(), path, method, precision=precision, opset=opset, level=level)
