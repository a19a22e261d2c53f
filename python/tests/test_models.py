"""Models of every kind become the engine's networks, and what cannot is refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from riemannian_laplace import InputError, Laplace, UnsupportedError, layers, torch_export  # noqa: E402
from riemannian_laplace.data import Inputs  # noqa: E402
from riemannian_laplace.torch_models import bind  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")


class Plain(nn.Module):
    """Layers with names, and functions between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class Residual(nn.Module):
    """Sums, nested and with a layer in the shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.deep, self.beside = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(3, 4)
        self.norm, self.last = nn.LayerNorm(4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.silu(self.inside(x))
        h = h + torch.sin(self.deep(h))
        return self.last(self.norm(h + self.beside(x)))


class Images(nn.Module):
    """Convolutions, both poolings, normalisations and a view."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, (3, 2), stride=(1, 2), padding="valid", groups=2),
            nn.GroupNorm(3, 6),
            nn.GELU(approximate="tanh"),
            nn.Dropout(0.3),
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.features(x)
        return self.head(nn.functional.adaptive_avg_pool2d(h, 1).view(x.size(0), -1))


class Averaged(nn.Module):
    """The mean over pixels, a flatten method and an average pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(2, 3, 2, padding=1, dilation=2), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.avg_pool2d(self.conv(x).tanh(), 2, padding=1)
        return self.head(h.mean((2, 3))).squeeze(-1)


def trained(module: nn.Module) -> nn.Module:
    """Running statistics that are not trivial."""
    torch.manual_seed(0)
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            part.running_mean = 0.3 * torch.randn_like(part.running_mean)
            part.running_var = 1 + torch.rand_like(part.running_var)
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    return module


class Tied(nn.Module):
    """An autoencoder whose decoder is the encoder's transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.shift = nn.Linear(3, 2), nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.encoder(x)) @ self.encoder.weight + self.shift


class Repeated(nn.Module):
    """A layer that is called twice, a concatenation and a learned slope."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.slope, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.PReLU(), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.first(x))
        return self.last(torch.cat([h, self.slope(self.again(torch.tanh(self.again(h))))], 1))


class Disordered(nn.Module):
    """Parameters that are defined in another order than they are used, one of which is not used at all."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.idle, self.first = nn.Linear(4, 2), nn.Parameter(torch.ones(2)), nn.Linear(3, 4)
        self.register_buffer("offset", torch.tensor([0.1, 0.2, 0.3]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.first(x + self.offset)))


class Transformer(nn.Module):
    """Columns as tokens, attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Linear(1, 4), nn.Linear(4, 1)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation="gelu", batch_first=True)
        self.position = nn.Parameter(0.1 * torch.randn(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embedding(x.unsqueeze(-1)) + self.position).mean(1))


class Recurrent(nn.Module):
    """An LSTM over the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x.unsqueeze(-1))[0][:, -1])


class Categories(nn.Module):
    """Integers that stand for vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.head = nn.Embedding(5, 3), nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.vectors(x).flatten(1)))


class Attention(nn.Module):
    """Attention written out, with a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(2, 2, bias=False) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(2), nn.Linear(2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.unflatten(1, (2, 2))
        h = nn.functional.scaled_dot_product_attention(self.queries(tokens), self.keys(tokens), self.values(tokens))
        return self.head(self.norm(h * torch.sigmoid(tokens)).mean(1))


MODULES = [
    (Plain(), (3,)),
    (Residual(), (3,)),
    (Images(), (2, 8, 8)),
    (Averaged(), (2, 7, 7)),
    (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ELU(), nn.Sequential(nn.Linear(4, 4), nn.Softplus())), (3,)),
    (nn.Sequential(nn.Flatten(), nn.Linear(98, 2, bias=False), nn.LeakyReLU(0.2), nn.Identity(), nn.Sigmoid()), (2, 7, 7)),
    (nn.Linear(3, 2), (3,)),
    (Tied(), (3,)),
    (Repeated(), (3,)),
    (nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(15, 2)), (2, 5)),
    (Disordered(), (3,)),
    (Transformer(), (3,)),
    (Recurrent(), (5,)),
    (Categories(), (2,)),
    (Attention(), (4,)),
]


def points(module: nn.Module, count: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if isinstance(module, Categories):
        return torch.randint(5, (count, *shape))
    return torch.randn(count, *shape, dtype=dtype)


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize(("module", "shape"), MODULES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_a_lowered_module_computes_what_the_module_does(module: nn.Module, shape: tuple[int, ...], double: bool) -> None:
    dtype = torch.float64 if double else torch.float32
    module = trained(module).to(dtype)
    module.train()
    x = points(module, 11, shape, dtype)
    bound = bind(module, "regression", Inputs(x), last_layer=None, features_suffice=False, n_checked=5)
    with torch.no_grad():
        expected = module.eval()(x).double().numpy().reshape(11, -1)
    network = bound.network
    assert np.allclose(network.outputs(x.double().numpy().reshape(11, -1)), expected, atol=1e-12 if double else 1e-5)
    # The flat weights are PyTorch's, and a tied weight counts once.
    flat = torch.nn.utils.parameters_to_vector(module.parameters()).detach().double().numpy()
    assert np.array_equal(network.parameters, flat)
    assert [name for name, _ in network.tensors] == [name for name, _ in module.named_parameters()]


@pytest.mark.parametrize("module", [Images(), Tied(), Disordered(), Transformer(), Recurrent()], ids=lambda m: type(m).__name__)
def test_the_second_exporter_gives_the_same_network(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript")
    shape = next(shape for known, shape in MODULES if type(known) is type(module))
    module = trained(module).double()
    x = Inputs(torch.randn(7, *shape, dtype=torch.float64))

    def lowered() -> np.ndarray:
        network = bind(module, "regression", x, last_layer=None, features_suffice=False, n_checked=5).network
        assert np.array_equal(network.parameters, torch_export.flat_parameters(module))
        return network.outputs(x.matrix())

    first = lowered()
    monkeypatch.setattr(torch_export, "_trace", torch_export._capture)
    assert np.allclose(lowered(), first, rtol=1e-12, atol=1e-14)


def jacobian(module: nn.Module, x: torch.Tensor) -> np.ndarray:
    parameters = list(module.parameters())
    outputs = module(x).reshape(-1)
    rows = [torch.autograd.grad(f, parameters, retain_graph=True, materialize_grads=True) for f in outputs]
    return np.stack([torch.cat([part.flatten() for part in row]).numpy() for row in rows])


@pytest.mark.parametrize(("module", "shape"), MODULES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_the_precision_of_a_lowered_module_is_that_of_torchs_jacobian(module: nn.Module, shape: tuple[int, ...]) -> None:
    module = trained(module).double().eval()
    x = points(module, 9, shape, torch.float64)
    y = module(x).detach().reshape(9, -1)
    la = Laplace(module, "regression", "all", "full", sigma_noise=0.5, prior_precision=0.7).fit(x, y)
    rows = jacobian(module, x)
    expected = rows.T @ rows / 0.25 + 0.7 * np.eye(rows.shape[1])
    # Softplus and LayerNorm lose a few digits in either of the two.
    assert np.allclose(la.posterior_precision, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("module", [Plain(), Attention(), Recurrent(), Transformer()], ids=lambda m: type(m).__name__)
def test_derivatives_by_torch_are_those_of_the_engine(module: nn.Module) -> None:
    torch.manual_seed(3)
    module = module.double().eval()
    shape = {"Attention": 4, "Recurrent": 5}.get(type(module).__name__, 3)
    x, new = torch.randn(20, shape, dtype=torch.float64), torch.randn(6, shape, dtype=torch.float64)
    y = module(x).detach() + 0.1 * torch.randn(20, 1, dtype=torch.float64)
    ours, theirs = (
        Laplace(module, "regression", "all", "full", sigma_noise=0.3, derivatives=derivatives).fit(x, y)
        for derivatives in ("engine", "torch")
    )
    assert np.isclose(ours.log_marginal_likelihood(), theirs.log_marginal_likelihood(), rtol=1e-8)
    for one, other in zip(ours(new), theirs(new)):
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-12)
    for la in (ours, theirs):
        la.optimize_prior_precision()
    assert np.isclose(ours.prior_precision, theirs.prior_precision, rtol=1e-5)
    if not isinstance(module, Transformer):
        for la in (ours, theirs):
            la.prior_precision = 2.0
        # Both solvers stop at the same tolerance, along steps that rounding may change.
        assert np.allclose(ours.samples(2).theta, theirs.samples(2).theta, rtol=1e-5, atol=1e-6)


def test_a_posterior_with_derivatives_by_torch_is_not_saved(tmp_path: Path) -> None:
    x, y = torch.randn(20, 3), torch.randn(20, 1)
    la = Laplace(Plain(), "regression", "all", "full", derivatives="torch").fit(x, y)
    with pytest.raises(UnsupportedError, match="cannot be saved"):
        la.save(tmp_path / "posterior.safetensors")
    with pytest.raises(UnsupportedError, match="cannot be saved"):
        pickle.dumps(la)
    with pytest.raises(InputError, match="derivatives"):
        Laplace(Plain(), "regression", derivatives="jax")


class Once(torch.autograd.Function):
    """A sine that torch differentiates once."""

    @staticmethod
    def forward(ctx, x):  # noqa: ANN001, ANN205
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):  # noqa: ANN001, ANN205
        return gradient * torch.cos(ctx.saved_tensors[0])


class OnceDifferentiable(nn.Module):
    """The same network with a sine that has second derivatives, and with one that has none."""

    def __init__(self, once: bool) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.last, self.once = nn.Linear(3, 4), nn.Linear(4, 1), once

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return self.last(Once.apply(h) if self.once else torch.sin(h))


def test_second_derivatives_that_torch_lacks_are_differences_of_first_ones() -> None:
    x = torch.randn(12, 3, dtype=torch.float64)
    y = x.sum(1, keepdim=True)
    fits = []
    for once in (False, True):
        module = OnceDifferentiable(once).double()
        la = Laplace(module, "regression", "all", "full", sigma_noise=0.5, derivatives="torch" if once else "engine")
        fits.append(la.fit(x, y))
    # Differences have an error of about 1e-10, the solver one of 1e-6.
    assert np.allclose(fits[0].samples(2).theta, fits[1].samples(2).theta, rtol=1e-4, atol=1e-5)


def test_wrappers_of_modules_are_taken_off() -> None:
    torch.manual_seed(2)
    x, y = torch.randn(12, 3), torch.randn(12, 1)
    expected = Laplace(Plain(), "regression", "all", "full").fit(x, y).n_params
    for module in (nn.DataParallel(Plain()), torch.compile(Plain())):
        assert Laplace(module, "regression", "all", "full").fit(x, y).n_params == expected


class Sorted(nn.Module):
    """Something that has no derivatives by the engine, and has by torch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cumsum(torch.sort(torch.tanh(self.layer(x)), dim=1).values, 1))


def test_what_the_engine_refuses_torch_differentiates() -> None:
    torch.manual_seed(2)
    module, x, y = Sorted().double(), torch.randn(15, 3, dtype=torch.float64), torch.randn(15, 2, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="derivatives='torch'"):
        Laplace(module, "regression", "all", "full").fit(x, y)
    la = Laplace(module, "regression", "all", "full", sigma_noise=0.5, derivatives="torch").fit(x, y)
    rows = jacobian(module, x)
    assert np.allclose(la.posterior_precision, rows.T @ rows / 0.25 + np.eye(rows.shape[1]))
    assert la(x)[1].shape == (15, 2, 2) and len(la.samples(1)) == 1


def test_fitting_leaves_the_modules_mode_and_weights_alone() -> None:
    module = trained(Images())
    module.train()
    module.features[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x, y = torch.randn(12, 2, 8, 8), torch.randint(3, (12,))
    Laplace(module, "classification", "last_layer", "full").fit(x, y)
    assert module.training and not module.features[1].training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_images_are_fitted_and_predicted_in_their_own_shape() -> None:
    module = trained(Images())
    x, y = torch.randn(12, 2, 8, 8), torch.randint(3, (12,))
    la = Laplace(module, "classification", "all", "diag").fit(
        torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=5)
    )
    probabilities = la(x, pred_type="map")
    assert torch.allclose(probabilities, torch.softmax(module.eval()(x), dim=1).detach(), atol=1e-5)
    assert np.allclose(la(x.numpy().reshape(12, -1)), la(x).numpy(), atol=1e-6)


class Unknown(nn.Module):
    """Something that the engine has no operators for, in front of a linear layer."""

    def __init__(self, last: bool = True) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.embedding = nn.Linear(1, 4)
        self.readout = nn.Linear(4, 2)
        self.last = last

    def features(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(torch.sort(x, dim=1).values.unsqueeze(-1))
        return self.attention(h, h, h)[0].mean(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.readout(self.features(x))
        return h if self.last else torch.cumsum(h, 1)


def test_what_is_not_known_is_refused_by_name() -> None:
    x, y = torch.randn(10, 3), torch.randn(10, 2)
    with pytest.raises(UnsupportedError, match=r"Unknown: node .*\(operator (TopK|Sort)\).*derivatives='torch'"):
        Laplace(Unknown(), "regression", "all", "full").fit(x, y)
    with pytest.raises(UnsupportedError, match="of type dict is not known"):
        Laplace({}, "regression")
    with pytest.raises(InputError, match=r"no\.onnx: there is no such file"):
        Laplace("no.onnx", "regression")


class Counting(nn.Module):
    """A forward pass whose value depends on more than its inputs."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Counting.calls += 1
        return self.layer(x) + 0.1 * Counting.calls


def test_a_graph_that_disagrees_with_the_module_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="does not compute what its graph does"):
        Laplace(Counting(), "regression", "all", "full").fit(torch.randn(10, 3), torch.randn(10, 2))


def test_any_module_has_a_posterior_of_its_last_layer() -> None:
    torch.manual_seed(1)
    module, x, y = Unknown(), torch.randn(30, 3), torch.randn(30, 2)
    la = Laplace(module, "regression", "last_layer", "full", sigma_noise=0.5).fit(x, y)
    assert la.n_params == 10
    mean, covariance = la(x)
    assert torch.allclose(mean, module(x).detach(), atol=1e-6)
    # In closed form: features φ with a one, and a precision per output of φᵀφ/σ² + α.
    features = module.features(x).detach().double()
    features = torch.cat([features, torch.ones(30, 1)], 1).numpy()
    precision = features.T @ features / 0.25 + np.eye(5)
    expected = np.einsum("nd,dn->n", features, np.linalg.solve(precision, features.T))
    assert np.allclose(covariance[:, 0, 0].numpy(), expected, atol=1e-5)
    assert np.allclose(covariance[:, 0, 1].numpy(), 0, atol=1e-6)
    with pytest.raises(UnsupportedError, match="are not those of its layer"):
        Laplace(Unknown(last=False), "regression", "last_layer", "full").fit(x, y)
    named = Laplace(module, "regression", "last_layer", "full", sigma_noise=0.5, last_layer_name="readout").fit(x, y)
    assert np.array_equal(named(x.numpy())[1], la(x.numpy())[1])


def test_the_last_layer_of_a_file_needs_its_model(tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, x, y = Unknown(), torch.randn(30, 3), torch.randn(30, 2)
    la = Laplace(module, "regression", "last_layer", "full").fit(x, y)
    la.save(tmp_path / "posterior.safetensors")
    loaded = Laplace.load(tmp_path / "posterior.safetensors", model=module)
    assert torch.equal(loaded(x)[1], la(x)[1])
    with pytest.raises(InputError, match="3 columns, the network 4"):
        Laplace.load(tmp_path / "posterior.safetensors")(x)


def test_state_dicts_and_pickles_of_modules_hold_the_posterior(tmp_path: Path) -> None:
    torch.manual_seed(1)
    x, y = torch.randn(30, 3), torch.randn(30, 2)
    for module, subset in ((Residual(), "all"), (Unknown(), "last_layer")):
        la = Laplace(module, "regression", subset, "full").fit(x, y)
        la.optimize_prior_precision()
        torch.save(la.state_dict(), tmp_path / "state_dict.bin")
        other = Laplace(module, "regression", subset, "full")
        other.load_state_dict(torch.load(tmp_path / "state_dict.bin"))
        for copy in (other, pickle.loads(pickle.dumps(la))):
            assert torch.equal(copy(x)[1], la(x)[1])
            assert copy.sigma_noise.item() == la.sigma_noise.item()


def test_onnx_files_are_models(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    module, x = trained(Residual()), torch.randn(20, 3)
    path = tmp_path / "net.onnx"
    torch.onnx.export(module.eval(), (x,), str(path), dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    y = torch.randn(20, 2)
    ours = Laplace(path, "regression", "all", "full").fit(x, y)
    lowered = Laplace(module, "regression", "all", "full").fit(x, y)
    assert np.allclose(ours(x.numpy())[1], lowered(x.numpy())[1], rtol=1e-4)


def test_weight_arrays_are_models() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 2)), rng.normal(size=(1, 4))
    x = rng.normal(size=(15, 2))
    network = [layers.Linear(first, np.zeros(4)), "tanh", layers.Linear(second)]
    la = Laplace(network, "regression", "all", "full").fit(x, rng.normal(size=15))
    assert np.allclose(la(x)[0], np.tanh(x @ first.T) @ second.T)
    with pytest.raises(InputError, match=r"layer 2 \(linear 3 → 1 .*\): takes 3 inputs, but .* 4 outputs"):
        layers.network([layers.Linear(first), "tanh", layers.Linear(np.ones((1, 3)))])
    with pytest.raises(InputError, match="activation"):
        layers.network([layers.Linear(first), "tan"])
