"""Data of every kind give the same posterior."""

from __future__ import annotations

import numpy as np
import pytest

from riemannian_laplace import InputError, Laplace
from riemannian_laplace.layers import Linear

pytestmark = pytest.mark.filterwarnings("ignore::riemannian_laplace.LaplaceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 2))
Y = X @ np.array([1.0, -2.0]) + 0.1 * RNG.normal(size=20)
NETWORK = [Linear([[1.0, -2.0]], [0.0])]


def fitted(*data: object, **options: object) -> Laplace:
    return Laplace(NETWORK, "regression", "all", "full", **options).fit(*data)


def test_arrays_lists_pairs_and_batches_agree() -> None:
    expected = fitted(X, Y).log_marginal_likelihood()
    assert fitted(X.tolist(), Y.tolist()).log_marginal_likelihood() == expected
    assert fitted((X, Y[:, None])).log_marginal_likelihood() == expected
    assert fitted([(X[:7], Y[:7]), (X[7:], Y[7:])]).log_marginal_likelihood() == expected
    assert fitted(batch for batch in [(X[:7], Y[:7]), (X[7:], Y[7:])]).log_marginal_likelihood() == expected
    assert fitted(np.asfortranarray(X), Y).log_marginal_likelihood() == expected


def test_tensors_agree_and_give_tensors() -> None:
    torch = pytest.importorskip("torch")
    la = fitted(torch.as_tensor(X), torch.as_tensor(Y))
    assert la.log_marginal_likelihood() == fitted(X, Y).log_marginal_likelihood()
    mean, covariance = la(torch.as_tensor(X))
    assert mean.dtype == torch.float64 and covariance.shape == (20, 1, 1)
    assert la(torch.as_tensor(X, dtype=torch.float32))[0].dtype == torch.float32
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.as_tensor(X), torch.as_tensor(Y)), batch_size=6
    )
    assert fitted(loader).log_marginal_likelihood() == la.log_marginal_likelihood()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_frames_are_matched_by_name(library: str) -> None:
    frames = pytest.importorskip(library)
    columns = {"a": X[:, 0], "b": X[:, 1], "y": Y}
    frame = frames.DataFrame(columns)
    la = fitted(frame, "y")
    assert la.posterior.input_names == ["a", "b"] and la.posterior.target_names == ["y"]
    assert la.log_marginal_likelihood() == fitted(X, Y).log_marginal_likelihood()
    expected = la(X)[0]
    assert np.array_equal(la(frames.DataFrame({name: columns[name] for name in ("b", "a")}))[0], expected)
    assert np.array_equal(la(frame)[0], expected)
    with pytest.raises(InputError, match="no column `b`; the frame has a"):
        la(frames.DataFrame({"a": X[:, 0]}))
    with pytest.raises(InputError, match="`c` is neither an input nor a target"):
        la(frames.DataFrame({**columns, "c": Y}))
    with pytest.raises(InputError, match="column `a` is not numeric"):
        fitted(frames.DataFrame({"a": ["u", "v"], "b": [1.0, 2.0], "y": [1.0, 2.0]}), "y")
    with pytest.raises(InputError, match="no column `z`"):
        fitted(frame, "z")


def test_labels_may_be_words() -> None:
    network = [Linear([[1.0, -2.0], [0.0, 0.5]], [0.0, 0.0])]
    words = np.where(Y > 0, "yes", "no")
    la = Laplace(network, "classification", "all", "full").fit(X, words)
    assert la.classes == ["no", "yes"]
    by_number = Laplace(network, "classification", "all", "full").fit(X, (Y > 0).astype(int))
    assert la.log_marginal_likelihood() == by_number.log_marginal_likelihood()
    assert la.evaluate(X, words) == by_number.evaluate(X, Y > 0)
    with pytest.raises(InputError, match="`maybe` is not one of the classes no, yes"):
        la.evaluate(X[:1], ["maybe"])


def test_scaled_networks_predict_in_the_units_of_the_data() -> None:
    """A network of standardised data, against the same function written out in the data's own units."""
    mean, scale = np.array([3.0, -1.0]), np.array([2.0, 0.5])
    raw, targets = X * scale + mean, 10 * Y + 100
    scaling = {"inputs": {"mean": mean, "scale": scale}, "targets": {"mean": [100.0], "scale": [10.0]}}
    scaled = fitted(raw, targets, scaling=scaling, sigma_noise=1.0)
    plain = fitted(X, Y, sigma_noise=0.1)
    assert np.allclose(scaled(raw)[0], 10 * plain(X)[0] + 100)
    assert np.allclose(scaled(raw)[1], 100 * plain(X)[1])
    assert np.allclose(scaled(raw, joint=True)[1], 100 * plain(X, joint=True)[1])
    assert scaled.sigma_noise == pytest.approx(1.0)
    shift = -len(Y) * np.log(10)
    assert scaled.log_marginal_likelihood() == pytest.approx(plain.log_marginal_likelihood() + shift)


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(InputError, match="targets are missing"):
        fitted(X)
    with pytest.raises(InputError, match="20 inputs and 19 targets"):
        fitted(X, Y[:-1])
    with pytest.raises(InputError, match="no batches"):
        fitted([])
    with pytest.raises(InputError, match="not a pair"):
        fitted([(X, Y, Y)])
    with pytest.raises(InputError, match="not finite|finite"):
        fitted(np.full_like(X, np.nan), Y)
    with pytest.raises(InputError, match="not numbers"):
        fitted(np.array([["a", "b"]]), [1.0])
    with pytest.raises(InputError, match="3"):
        fitted(np.ones((4, 3)), np.ones(4))
