"""The same numbers as laplace-torch, which is a different implementation throughout.

Both compute in float64; 1e-6 leaves room for how laplace-torch sums, and differences are around 1e-13.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
laplace_torch = pytest.importorskip("laplace")

from networks import Case, cases  # noqa: E402

from riemannian_laplace import Laplace  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("float64"),
]
CASES = cases()
TOLERANCE = 1e-6


def pair(case: Case, subset: str, structure: str) -> tuple[Any, Laplace]:
    """Their posterior and ours."""
    settings: dict[str, Any] = {"prior_precision": 0.7}
    if case.is_regression:
        settings["sigma_noise"] = 0.4
    theirs = laplace_torch.Laplace(case.module, case.likelihood, subset, structure, **settings)
    try:
        theirs.fit(case.loader())
    except NotImplementedError:
        pytest.skip("laplace-torch has no Kronecker factors for this layer")
    return theirs, Laplace(case.module, case.likelihood, subset, structure, **settings).fit(case.loader())


def close(theirs: Any, ours: Any) -> bool:
    expected = theirs.detach().numpy()
    return bool(np.allclose(np.asarray(ours), expected, rtol=TOLERANCE, atol=TOLERANCE))


@pytest.mark.parametrize("structure", ["full", "kron", "diag"])
@pytest.mark.parametrize("subset", ["all", "last_layer"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evidence_mean_and_covariance_agree(case: Case, subset: str, structure: str) -> None:
    theirs, ours = pair(case, subset, structure)
    assert close(theirs.log_marginal_likelihood(), ours.log_marginal_likelihood())
    assert close(theirs.log_likelihood, ours.log_likelihood)
    new = torch.as_tensor(case.new)
    mean, covariance = theirs._glm_predictive_distribution(new)
    latent = ours.predict(case.new).latent()
    assert latent is not None
    assert close(mean, latent[0]) and close(covariance, latent[1])
    if case.is_regression:
        our_mean, our_covariance = ours(new)
        assert isinstance(our_mean, torch.Tensor)
        assert close(theirs(new)[0], our_mean) and close(theirs(new)[1], our_covariance)
    else:
        for link in ("probit", "bridge"):
            assert close(theirs(new, link_approx=link), ours(new, link_approx=link))


@pytest.mark.parametrize("case", CASES[:2], ids=lambda case: case.name)
def test_joint_covariances_agree(case: Case) -> None:
    theirs, ours = pair(case, "all", "full")
    new = torch.as_tensor(case.new)
    mean, covariance = theirs(new, joint=True)
    our_mean, our_covariance = ours(new, joint=True)
    assert close(mean, our_mean) and close(covariance, our_covariance)


def test_the_evidence_has_the_same_derivatives() -> None:
    theirs, ours = pair(CASES[0], "all", "full")
    slopes = []
    for la in (theirs, ours):
        prior = torch.tensor([0.3], requires_grad=True)
        noise = torch.tensor([0.6], requires_grad=True)
        value = la.log_marginal_likelihood(prior.exp(), noise.exp())
        value.backward()
        slopes.append((value.item(), prior.grad.item(), noise.grad.item()))
    assert np.allclose(*slopes, rtol=TOLERANCE)
    assert ours.prior_precision.item() == pytest.approx(np.exp(0.3))
    new = torch.as_tensor(CASES[0].new)
    assert close(theirs(new)[1], ours(new)[1])


def test_tuned_evidence_is_no_lower_than_after_their_steps() -> None:
    theirs, ours = pair(CASES[2], "all", "full")
    theirs.optimize_prior_precision(method="marglik", prior_structure="scalar", n_steps=500)
    ours.optimize_prior_precision(method="marglik")
    assert ours.log_marginal_likelihood() >= theirs.log_marginal_likelihood().item() - 1e-9
    assert ours.prior_precision.item() == pytest.approx(theirs.prior_precision.item(), rel=1e-3)
