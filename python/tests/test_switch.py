"""A switch from laplace-torch holds: no silent traps, its words, gradients, forks, data of every kind."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest

from riemannian_laplace import InputError, Laplace, UnsupportedError
from riemannian_laplace.layers import Linear

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(30, 3))
Y = np.sin(X[:, :1]) + 0.1 * RNG.normal(size=(30, 1))
NEW = RNG.normal(size=(4, 3))


def module(width: int = 6, outputs: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, outputs)).double()


def fitted(subset: str = "all", structure: str = "full", **options: object) -> Laplace:
    return Laplace(module(), "regression", subset, structure, sigma_noise=0.3, **options).fit(X, Y)


# Silently wrong


class Tied(nn.Module):
    """One layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


def test_a_layer_that_is_called_twice_counts_once() -> None:
    torch.manual_seed(1)
    tied = Tied().double()
    la = Laplace(tied, "regression", "all", "full", sigma_noise=0.3).fit(X, Y)
    parameters = dict(tied.named_parameters())

    def outputs(values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(tied, values, (x,))

    def jacobian(x: np.ndarray) -> np.ndarray:
        blocks = torch.func.jacrev(outputs)(parameters, torch.as_tensor(x))
        return torch.cat([block.reshape(len(x), -1) for block in blocks.values()], 1).detach().numpy()

    precision = jacobian(X).T @ jacobian(X) / 0.09 + np.eye(la.n_params)
    expected = np.einsum("nd,dn->n", jacobian(NEW), np.linalg.solve(precision, jacobian(NEW).T))
    assert la.n_params == 16
    assert np.allclose(la(NEW)[1][:, 0, 0], expected, rtol=1e-9)


def test_draws_continue_a_stream_unless_a_seed_is_given() -> None:
    la, again = fitted(), fitted()
    one_by_one = torch.cat([la.sample(1) for _ in range(4)])
    assert not torch.equal(one_by_one[0], one_by_one[1])
    assert torch.equal(one_by_one, again.sample(4))
    assert torch.equal(la.sample(2, seed=5), again.sample(2, seed=5))
    assert not torch.equal(fitted(seed=1).sample(1), fitted(seed=2).sample(1))
    first, second = la.predictive_samples(NEW, n_samples=2), la.predictive_samples(NEW, n_samples=2)
    assert not np.array_equal(first, second)
    generator = torch.Generator().manual_seed(7)
    drawn = [la.sample(2, generator=generator) for _ in range(2)]
    assert not torch.equal(*drawn)
    assert torch.equal(drawn[0], la.sample(2, generator=torch.Generator().manual_seed(7)))
    copied = pickle.loads(pickle.dumps(la))
    assert torch.equal(copied.sample(3), la.sample(3))


def test_a_state_dict_of_another_posterior_is_refused_with_every_difference() -> None:
    state = fitted().state_dict()
    other = Laplace(nn.Sequential(nn.Linear(3, 12), nn.Linear(12, 2)), "classification", "all", "kron")
    with pytest.raises(InputError, match="likelihood is gaussian.*hessian_structure is full.*31 uncertain weights, the model 74"):
        other.load_state_dict(state)
    moved = module()
    with torch.no_grad():
        moved[0].bias += 0.5
    with pytest.raises(InputError, match="other values than those of the model"):
        Laplace(moved, "regression", "all", "full").load_state_dict(state)
    with pytest.raises(UnsupportedError, match="state dict of laplace-torch"):
        other.load_state_dict({"H": None, "mean": None, "cls_name": "FullLaplace"})
    same = Laplace(module(), "regression", "all", "full")
    same.load_state_dict(state)
    assert np.array_equal(same(NEW)[1], fitted()(NEW)[1])


def test_categories_keep_their_order() -> None:
    pandas = pytest.importorskip("pandas")
    labels = pandas.Categorical(np.where(Y[:, 0] > 0, "low", "high"), categories=["low", "high"])
    for given in (labels, pandas.Series(labels)):
        la = Laplace(module(outputs=2), "classification", "all", "full").fit(X, given)
        assert la.classes == ["low", "high"]
        by_number = Laplace(module(outputs=2), "classification", "all", "full").fit(X, labels.codes.astype(int))
        assert la.log_likelihood == by_number.log_likelihood


def test_a_grid_search_refuses_a_structure_that_it_does_not_tune() -> None:
    la = fitted()
    with pytest.raises(InputError, match="tunes one prior precision"):
        la.optimize_prior_precision(method="gridsearch", val_loader=(X, Y), prior_structure="layerwise")
    la.optimize_prior_precision(method="gridsearch", val_loader=(X, Y), pred_type="nn", grid_size=3, n_samples=5)
    loss = lambda mean, y: float(np.mean((mean - y) ** 2))  # noqa: E731
    report = la.optimize_prior_precision(method="gridsearch", val_loader=(X, Y), loss=loss, grid_size=3)
    assert la.prior_precision.item() in report["grid"]


# Forks


def _draws_in_a_child(la: Laplace) -> tuple[np.ndarray, float]:
    refitted = Laplace(la.model, "regression", "all", "full", sigma_noise=0.3).fit(X, Y)
    return la.samples(3, seed=0).theta, float(refitted.log_marginal_likelihood())


def test_forked_children_compute_the_same() -> None:
    """In a process of its own, which is forked after the engine has started its threads; without the new pool it would
    wait for ever."""
    code = """
import multiprocessing, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from riemannian_laplace import Laplace
from riemannian_laplace.layers import Linear
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 3)); y = np.sin(x[:, :1])
layers = [Linear(rng.normal(size=(40, 3)), np.zeros(40)), "tanh", Linear(rng.normal(size=(1, 40)), [0.0])]
la = Laplace(layers, "regression", "all", "full").fit(x, y)
expected = la.samples(4, seed=0).theta
def child(queue):
    again = Laplace(layers, "regression", "all", "full").fit(x, y)
    queue.put((la.samples(4, seed=0).theta, float(again.log_marginal_likelihood())))
context = multiprocessing.get_context("fork")
queue = context.Queue()
workers = [context.Process(target=child, args=(queue,)) for _ in range(2)]
[worker.start() for worker in workers]
for _ in workers:
    theta, evidence = queue.get(timeout=100)
    assert np.array_equal(theta, expected)
    assert abs(evidence - float(la.log_marginal_likelihood())) < 1e-8
[worker.join() for worker in workers]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_spawned_children_and_joblib_compute_the_same() -> None:
    joblib = pytest.importorskip("joblib")
    layers = [Linear([[1.0, 0.5, -1.0]], [0.0])]
    la = Laplace(layers, "regression", "all", "full", sigma_noise=0.3).fit(X, Y)
    expected = la.samples(3, seed=0).theta
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        theta, _ = pool.apply_async(_draws_in_a_child, (la,)).get(timeout=100)
    assert np.array_equal(theta, expected)
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(_draws_in_a_child)(la) for _ in range(2))
    assert all(np.array_equal(theta, expected) for theta, _ in found)


# The last layer


class Deep(nn.Module):
    """Its features need an operator that no exporter knows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(3, 8), nn.Linear(8, 2)
        self.largest = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.largest = max(self.largest, len(x))
        assert not torch.is_grad_enabled() and not self.training
        return self.head(torch.sort(torch.relu(self.first(x)))[0])


def test_the_last_layer_is_streamed_through_the_modules_own_forward_pass() -> None:
    deep = Deep()
    x, y = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(np.tile(Y, 2), dtype=torch.float32)
    batches = [(x[start : start + 5], y[start : start + 5]) for start in range(0, 30, 5)]
    la = Laplace(deep, "regression", "last_layer", "kron").fit(iter(batches))
    assert deep.training and la.n_data == 30 and deep.largest == 5
    whole = Laplace(deep, "regression", "last_layer", "kron").fit(x, y)
    assert la.log_marginal_likelihood() == whole.log_marginal_likelihood()
    assert la(x[:3])[0].dtype == torch.float32
    assert torch.equal(la(batches)[0], whole(x)[0])


def test_batches_may_be_dictionaries() -> None:
    class FromDict(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module(outputs=2)

        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.inner(batch["features"])

    y = torch.as_tensor(Y[:, 0] > 0).long()
    batches = [{"features": torch.as_tensor(X), "labels": y}]
    for subset in ("all", "last_layer"):
        la = Laplace(FromDict(), "classification", subset, "full", dict_key_x="features").fit(batches)
        plain = Laplace(module(outputs=2), "classification", subset, "full").fit(X, y)
        assert torch.allclose(la(batches[0]), plain(torch.as_tensor(X)))
    with pytest.raises(KeyError, match="dict_key_x"):
        Laplace(FromDict(), "classification", "last_layer").fit(batches)


# laplace-torch's words


@pytest.mark.parametrize("structure", ["full", "kron", "diag"])
def test_views_are_consistent_with_predictions(structure: str) -> None:
    la = fitted(structure=structure, prior_precision=2.0)
    matrix = la.posterior_precision
    dense = {"full": lambda: matrix, "kron": lambda: matrix.to_matrix(), "diag": lambda: torch.diag(matrix)}[structure]()
    curvature = {"full": lambda: la.H, "kron": lambda: la.H.to_matrix(), "diag": lambda: torch.diag(la.H)}[structure]()
    assert torch.allclose(curvature / 0.09 + 2.0 * torch.eye(31, dtype=torch.float64), dense)
    _, jacobians = la._in_torch().jacobians(torch.as_tensor(NEW))
    assert torch.allclose(la.functional_variance(jacobians), la(torch.as_tensor(NEW))[1], rtol=1e-9)
    assert torch.allclose(la.posterior_variance, torch.linalg.inv(dense).diagonal())
    half = -0.5 * la.scatter + 0.5 * (31 * np.log(2.0) - torch.logdet(dense))
    assert torch.allclose(la.log_marginal_likelihood(), la.log_likelihood + half)
    assert torch.allclose(la.loss, 0.5 * ((module()(torch.as_tensor(X)) - torch.as_tensor(Y)) ** 2).sum())


def test_parameters_that_need_no_gradient_are_fixed() -> None:
    part = module()
    part[2].requires_grad_(False)
    la = Laplace(part, "regression", "all", "full", sigma_noise=0.3).fit(X, Y)
    rows = Laplace(module(), "regression", "subnetwork", "full", sigma_noise=0.3, subnetwork_indices=np.arange(24)).fit(X, Y)
    assert la.n_params == 24 and np.array_equal(la(NEW)[1], rows(NEW)[1])


def test_a_prior_precision_per_tensor_is_one_per_weight() -> None:
    per_tensor = fitted(prior_precision=[1.0, 2.0, 3.0, 4.0])
    per_weight = fitted(prior_precision=np.repeat([1.0, 2.0, 3.0, 4.0], [18, 6, 6, 1]))
    assert per_tensor.log_marginal_likelihood() == per_weight.log_marginal_likelihood()
    with pytest.raises(InputError, match="17 values, not 1, 2"):
        fitted(prior_precision=np.ones(17))
    with pytest.raises(InputError, match="not a string"):
        fitted(prior_precision="1.5")


def test_the_temperature_can_be_set() -> None:
    la = fitted()
    la.temperature = 2.0
    assert np.allclose(la(NEW)[1], fitted(temperature=2.0)(NEW)[1], rtol=1e-12)


# Gradients by the inputs


@pytest.mark.parametrize("subset", ["all", "last_layer", "subnetwork"])
def test_mean_and_covariance_have_gradients_by_the_inputs(subset: str) -> None:
    options = {"subnetwork_indices": [30, 2, 19]} if subset == "subnetwork" else {}
    la = fitted(subset, **options)
    x = torch.as_tensor(NEW).requires_grad_(True)
    plain = la(torch.as_tensor(NEW))
    mean, covariance = la(x)
    assert torch.allclose(mean, plain[0]) and torch.allclose(covariance, plain[1])
    assert torch.autograd.gradcheck(lambda points: la(points)[0], x)
    assert torch.autograd.gradcheck(lambda points: la(points)[1], x)
    assert torch.autograd.gradcheck(lambda points: la(points, joint=True)[1], x)
    with pytest.raises(InputError, match="require gradients"):
        Laplace([Linear([[1.0, 0.0, 0.0]], [0.0])], "regression", "all", "full").fit(X, Y)(x)


# Data and objects


def test_data_of_every_kind_are_right_or_refused_with_a_good_sentence() -> None:
    pandas = pytest.importorskip("pandas")
    sparse = pytest.importorskip("scipy.sparse")
    expected = fitted()(NEW)[0]
    la = Laplace(module(), "regression", "all", "full", sigma_noise=0.3)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    assert np.array_equal(la.fit(frame.astype(object), Y)(NEW)[0], expected)
    assert np.array_equal(la.fit(frame.astype("Float64"), Y)(NEW)[0], expected)
    assert np.array_equal(la.fit(sparse.csr_matrix(X), Y)(sparse.csr_matrix(NEW))[0], expected)
    polars = pytest.importorskip("polars")
    assert np.array_equal(la.fit(polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}).lazy(), Y)(NEW)[0], expected)
    halves = [(NEW[:2], Y[:2]), (NEW[2:], Y[2:4])]
    assert np.array_equal(la(halves)[0], expected)
    dummies = pandas.get_dummies(pandas.DataFrame({"k": ["u", "v"] * 15, "z": X[:, 0]}))
    assert Laplace([Linear([[1.0, 0.5, 0.0]], [0.0])], "regression", "all", "full").fit(dummies, Y).n_data == 30
    with pytest.raises(InputError, match="no rows"):
        la(np.zeros((0, 3)))
    with pytest.raises(InputError, match="no rows"):
        la.fit(np.zeros((0, 3)), np.zeros((0, 1)))
    broken = X.copy()
    broken[:2] = np.nan
    with pytest.raises(InputError, match="finite"):
        la.fit(broken, Y)
    half = Laplace(module().bfloat16(), "regression", "last_layer", "full").fit(
        torch.as_tensor(X, dtype=torch.bfloat16), torch.as_tensor(Y, dtype=torch.bfloat16)
    )
    assert half(torch.as_tensor(NEW, dtype=torch.bfloat16))[0].dtype == torch.bfloat16


def test_predictions_and_samples_are_forgiving_and_picklable() -> None:
    la = fitted()
    prediction = la.predict(NEW)
    again = pickle.loads(pickle.dumps(prediction))
    assert np.array_equal(again.mean, prediction.mean)
    y = RNG.normal(size=4)
    scores = prediction.scores(y[:, None])
    assert prediction.scores(y) == prediction.scores(y.tolist()) == prediction.scores(torch.as_tensor(y)) == scores
    assert prediction.draws(3).shape == (3, 4, 1)
    assert np.array_equal(prediction.quantiles(0.5), prediction.quantiles([0.5])[0])
    samples = la.samples(2, seed=0)
    copied = pickle.loads(pickle.dumps(samples))
    assert np.array_equal(copied.theta, samples.theta) and np.array_equal(copied.certified, samples.certified)
    assert isinstance(la.predict(torch.as_tensor(NEW)).mean, torch.Tensor)
    pytest.importorskip("pandas")
    assert list(prediction.to_frame().columns) == ["y", "y_sd", "y_lower", "y_upper"]


def test_predictions_become_inference_data() -> None:
    pytest.importorskip("arviz")
    data = fitted().predict(NEW).to_inference_data(n_draws=10)
    assert tuple(data["posterior_predictive"]["y"].shape) == (1, 10, 4, 1)
