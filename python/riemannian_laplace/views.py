"""Read-only views of a posterior in laplace-torch's words: its precision, covariance and curvature as arrays or tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from riemannian_laplace.data import Matrix, is_torch
from riemannian_laplace.errors import InputError, UnsupportedError
from riemannian_laplace.fitted import FittedModel
from riemannian_laplace.settings import floats

__all__ = ["KroneckerView", "ViewedModel"]


class KroneckerView:
    """A matrix with Kronecker factors, as laplace-torch's ``KronDecomposed`` shows it.

    >>> import numpy as np
    >>> view = KroneckerView(np.diag([2.0, 4.0]), lambda values: values)
    >>> view.to_matrix(exponent=-1).diagonal().tolist(), round(float(np.exp(view.logdet())), 9)
    ([0.5, 0.25], 8.0)
    """

    def __init__(self, matrix: Matrix, given: Any) -> None:
        self._matrix, self._given = matrix, given

    def to_matrix(self, exponent: float = 1) -> Any:
        """The matrix, or a power of it."""
        if exponent == 1:
            return self._given(self._matrix)
        values, vectors = np.linalg.eigh(self._matrix)
        return self._given((vectors * values**exponent) @ vectors.T)

    def logdet(self) -> Any:
        """The logarithm of the determinant."""
        return self._given(np.linalg.slogdet(self._matrix)[1])

    def diag(self, exponent: float = 1) -> Any:
        """The diagonal of the matrix, or of a power of it."""
        matrix = self.to_matrix(exponent)
        return matrix.diagonal()

    def inv_square_form(self, jacobians: Any) -> Any:
        """J G⁻¹ Jᵀ of each point."""
        inverse = self.to_matrix(-1)
        return jacobians @ inverse @ jacobians.swapaxes(-1, -2)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self._matrix, dtype=dtype)

    def __mul__(self, factor: float) -> KroneckerView:
        return KroneckerView(self._matrix * float(factor), self._given)

    __rmul__ = __mul__


class ViewedModel(FittedModel):
    """What :class:`riemannian_laplace.Laplace` shows of its matrices."""

    def _dense_precision(self) -> Matrix:
        return self._ready().precision()

    def _prior_diagonal(self) -> Matrix:
        """The prior precision of every uncertain weight."""
        posterior = self._ready()
        values = np.asarray(posterior.prior_precision)
        if values.size == posterior.n_params:
            return values
        return np.repeat(values, posterior.groups if values.size > 1 else posterior.n_params)

    def _shown(self, matrix: Matrix) -> Any:
        if self.hessian_structure == "diag":
            return self._given(np.diagonal(matrix).copy())
        if self.hessian_structure == "kron":
            return KroneckerView(matrix, self._given)
        return self._given(matrix)

    @property
    def posterior_precision(self) -> Any:
        """G: a matrix; its diagonal for ``"diag"``; for ``"kron"`` an object whose ``to_matrix()`` is the matrix."""
        return self._shown(self._dense_precision())

    @property
    def H(self) -> Any:
        """The curvature of the data at θ̂ without prior, noise and temperature, in the form of the precision."""
        matrix = self._dense_precision() - np.diag(self._prior_diagonal())
        scale = self._ready().temperature
        if self._ready().sigma is not None:
            sigma = self._ready().sigma
            if len(sigma) > 1:
                raise UnsupportedError("with one noise per output there is no H: it does not factor out")
            scale *= float(sigma[0]) ** 2
        return self._shown(matrix * scale)

    @property
    def posterior_covariance(self) -> Any:
        """G⁻¹ as a matrix."""
        return self._given(self._dense_covariance())

    def _dense_covariance(self) -> Matrix:
        posterior = self._ready()
        if self._covariance is None or self._covariance[0] is not posterior:
            self._covariance = posterior, np.linalg.inv(self._dense_precision())
        return self._covariance[1]

    @property
    def posterior_variance(self) -> Any:
        """The diagonal of G⁻¹."""
        return self._given(np.diagonal(self._dense_covariance()).copy())

    @property
    def posterior_scale(self) -> Any:
        """A root of G⁻¹: its Cholesky factor; standard deviations for ``"diag"``."""
        covariance = self._dense_covariance()
        if self.hessian_structure == "diag":
            return self._given(np.sqrt(np.diagonal(covariance)))
        return self._given(np.linalg.cholesky(covariance))

    @property
    def prior_precision_diag(self) -> Any:
        """The prior precision of every uncertain weight."""
        return self._given(self._prior_diagonal())

    @property
    def scatter(self) -> Any:
        """(θ̂ − μ)ᵀA(θ̂ − μ)."""
        deviations = np.asarray(self._ready().mean) - np.asarray(self._prior_mean)
        return self._given(np.sum(self._prior_diagonal() * deviations**2))

    @property
    def loss(self) -> Any:
        """The loss of the training data that laplace-torch keeps: ½ Σ (y − f)² in regression, −log p(D | θ̂) otherwise."""
        posterior = self._ready()
        if posterior.sigma is None:
            return self._given(-posterior.log_likelihood)
        sigma = np.broadcast_to(posterior.sigma, posterior.n_outputs)
        if len(set(sigma.tolist())) > 1:
            raise UnsupportedError("with one noise per output there is no single loss")
        constant = posterior.n_data * np.sum(np.log(sigma * np.sqrt(2 * np.pi)))
        return self._given(-(posterior.log_likelihood + constant) * sigma[0] ** 2)

    @property
    def n_params_subnet(self) -> int:
        """The number of uncertain weights."""
        return self._ready().n_params

    def functional_variance(self, Js: Any) -> Any:  # noqa: N803, laplace-torch's name
        """J G⁻¹ Jᵀ for Jacobians of N × P × D: N × P × P."""
        jacobians = self._jacobians_of(Js)
        found = np.einsum("npd,de,nqe->npq", jacobians, self._dense_covariance(), jacobians, optimize=True)
        return self._given(found) if is_torch(Js) else found

    def functional_covariance(self, Js: Any) -> Any:  # noqa: N803, laplace-torch's name
        """The same over all points jointly, for Jacobians of N × P × D or NP × D: NP × NP."""
        jacobians = self._jacobians_of(Js)
        rows = jacobians.reshape(-1, jacobians.shape[-1])
        found = rows @ self._dense_covariance() @ rows.T
        return self._given(found) if is_torch(Js) else found

    def _jacobians_of(self, values: Any) -> Matrix:
        jacobians = np.asarray(values.detach().cpu().numpy() if is_torch(values) else values, dtype=np.float64)
        if jacobians.shape[-1] != self._ready().n_params:
            raise InputError(f"the Jacobians have {jacobians.shape[-1]} columns, the posterior {self._ready().n_params} weights")
        return jacobians

    def log_prob(self, value: Any, normalized: bool = True) -> Any:
        """The log density of the posterior at flat weights."""
        deviation = np.asarray(floats(value, "value")) - np.asarray(self._ready().mean)
        precision = self._dense_precision()
        density = -0.5 * float(deviation @ precision @ deviation)
        if normalized:
            density += 0.5 * float(np.linalg.slogdet(precision)[1]) - 0.5 * len(deviation) * np.log(2 * np.pi)
        return self._given(np.float64(density))
