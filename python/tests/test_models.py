"""Models of every kind become the engine's networks, and what cannot is refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from riemannian_laplace import InputError, Laplace, UnsupportedError, layers  # noqa: E402
from riemannian_laplace.torch_models import walk  # noqa: E402

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


MODULES = [
    (Plain(), (3,)),
    (Residual(), (3,)),
    (Images(), (2, 8, 8)),
    (Averaged(), (2, 7, 7)),
    (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ELU(), nn.Sequential(nn.Linear(4, 4), nn.Softplus())), (3,)),
    (nn.Sequential(nn.Flatten(), nn.Linear(98, 2, bias=False), nn.LeakyReLU(), nn.Identity(), nn.Sigmoid()), (2, 7, 7)),
    (nn.Linear(3, 2), (3,)),
]


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize(("module", "shape"), MODULES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_a_walked_module_computes_what_the_module_does(module: nn.Module, shape: tuple[int, ...], double: bool) -> None:
    dtype = torch.float64 if double else torch.float32
    module = trained(module).to(dtype)
    module.train()
    x = torch.randn(11, *shape, dtype=dtype)
    network = layers.network(walk(module), shape)
    with torch.no_grad():
        expected = module.eval()(x).double().numpy().reshape(11, -1)
    found = network.outputs(x.double().numpy().reshape(11, -1))
    assert np.allclose(found, expected, atol=1e-12 if double else 1e-5)


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
    """Something that the engine has no layer for, in front of a linear layer."""

    def __init__(self, last: bool = True) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.embedding = nn.Linear(1, 4)
        self.readout = nn.Linear(4, 2)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(x.unsqueeze(-1))
        h, _ = self.attention(h, h, h)
        h = self.readout(h.mean(1))
        return h if self.last else torch.cumsum(h, 1)


def test_what_is_not_known_is_refused_by_name() -> None:
    x, y = torch.randn(10, 3), torch.randn(10, 2)
    with pytest.raises(UnsupportedError, match="unsqueeze|attention"):
        Laplace(Unknown(), "regression", "all", "full").fit(x, y)
    with pytest.raises(UnsupportedError, match=r"layer `1` \(PReLU\) is not known"):
        Laplace(nn.Sequential(nn.Linear(3, 2), nn.PReLU()), "regression", "all", "full").fit(x, y)
    with pytest.raises(UnsupportedError, match="negative_slope = 0.2"):
        Laplace(nn.Sequential(nn.Linear(3, 2), nn.LeakyReLU(0.2)), "regression", "all", "full").fit(x, y)
    with pytest.raises(UnsupportedError, match="of type dict is not known"):
        Laplace({}, "regression")
    with pytest.raises(InputError, match=r"no\.onnx: there is no such file"):
        Laplace("no.onnx", "regression")


class Twice(nn.Module):
    """A forward pass whose value depends on more than its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(torch.relu(x)) if self.calls % 2 else self.layer(x)


def test_a_walk_that_disagrees_with_the_module_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="does not compute what its layers do"):
        Laplace(Twice(), "regression", "all", "full").fit(torch.randn(10, 3), torch.randn(10, 2))


def test_any_module_has_a_posterior_of_its_last_layer() -> None:
    torch.manual_seed(1)
    module, x, y = Unknown(), torch.randn(30, 3), torch.randn(30, 2)
    la = Laplace(module, "regression", "last_layer", "full", sigma_noise=0.5).fit(x, y)
    assert la.n_params == 10
    mean, covariance = la(x)
    assert torch.allclose(mean, module(x).detach(), atol=1e-6)
    # In closed form: features φ with a one, and a precision per output of φᵀφ/σ² + α.
    features = module.attention(*[module.embedding(x.unsqueeze(-1))] * 3)[0].mean(1).detach().double()
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
    walked = Laplace(module, "regression", "all", "full").fit(x, y)
    assert np.allclose(ours(x.numpy())[1], walked(x.numpy())[1], rtol=1e-4)


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
