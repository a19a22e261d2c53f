"""The table of `links.md`: links from a Gaussian over logits to class probabilities, on the classification data of `data/`.

For ten random splits of each data set (3/4 for training), `rla` trains a tanh network and fits its exact posterior, with
the prior precision tuned by evidence; the Gaussian over the logits (`--link none`) is then turned into probabilities
here, by the links that `rla` has and by some that did not earn their place. Printed: test NLL less that of the network
alone, mean ± standard error over the splits, and the expected calibration error (15 bins).

    python docs/links.py target/release/rla [data set ...]        (needs numpy and pandas; about ten minutes)
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).parent.parent / "data"
# file, target column, likelihoods, hidden layers
SETS = {
    "two moons": ("two_moons", "moon", ["bernoulli", "categorical"], "16,16"),
    "breast cancer": ("breast_cancer", "diagnosis", ["bernoulli", "categorical"], "16"),
    "wine": ("wine", "cultivar", ["categorical"], "16"),
    "digits": ("digits", "digit", ["categorical"], "32"),
    "australian": ("australian", "y", ["bernoulli"], "16"),
    "german": ("german", "y", ["bernoulli"], "16"),
    "heart": ("heart", "y", ["bernoulli"], "16"),
    "pima": ("pima", "y", ["bernoulli"], "16"),
    "ripley": ("ripley", "y", ["bernoulli"], "16"),
}
SPLITS = 10


def log_sum_exp(f, axis):
    top = f.max(axis, keepdims=True)
    return top + np.log(np.exp(f - top).sum(axis, keepdims=True))


def log_softmax(f):
    return f - log_sum_exp(f, -1)


def shrunk(f, variance):
    return f / np.sqrt(1 + np.pi / 8 * variance)


def bridge(f, variance):
    """log of the means of Hobbhahn et al.'s Dirichlet; certain logits are their own softmax."""
    k = f.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_alpha = np.log(1 - 2 / k + np.exp(f + log_sum_exp(-f, 1)) / k**2) - np.log(variance)
        return np.where((variance > 0).all(1, keepdims=True), log_alpha - log_sum_exp(log_alpha, 1), log_softmax(f))


def links(mean, covariance, likelihood, draws):
    """log probabilities by the name of the link; points × classes."""
    k = mean.shape[1]
    variance = np.einsum("tkk->tk", covariance)
    projection = np.eye(k) - 1 / k
    centred, centred_covariance = mean @ projection, projection @ covariance @ projection
    centred_variance = np.maximum(np.einsum("tkk->tk", centred_covariance), 0)
    row = covariance.sum(2)
    share = row / np.maximum(row.sum(1, keepdims=True), 1e-300)
    conditioned = mean - share * mean.sum(1, keepdims=True)
    of_differences = variance[:, :, None] + variance[:, None, :] - 2 * covariance
    gaps = shrunk(mean[:, :, None] - mean[:, None, :], of_differences)
    mean_field = -log_sum_exp(-gaps, 2)[:, :, 0]
    values, vectors = np.linalg.eigh(covariance)
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    sampled = mean[:, None, :] + draws.standard_normal((len(mean), 2000, k)) @ roots.swapaxes(1, 2)
    centred_probit = log_softmax(shrunk(centred, centred_variance))
    centred_bridge = bridge(centred, centred_variance)
    return {
        "MAP": log_softmax(mean),
        "centred": centred_probit if k == 2 else centred_bridge,
        # The one logit of a 0/1 output is the difference of its two classes.
        "probit": log_softmax(mean_field if likelihood == "bernoulli" else shrunk(mean, variance)),
        "mc": log_sum_exp(log_softmax(sampled), 1)[:, 0] - np.log(2000),
        "bridge": bridge(conditioned, np.maximum(variance - share * row, 0)),
        "mean-field, full covariance": log_softmax(mean_field),
        "centred probit": centred_probit,
        "centred bridge": centred_bridge,
    }


def calibration_error(log_probabilities, labels, bins=15):
    confidence, right = np.exp(log_probabilities.max(1)), log_probabilities.argmax(1) == labels
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(confidence[place == b].mean() - right[place == b].mean()) * (place == b).mean() for b in set(place)]
    return sum(gaps)


def gaussian(table):
    """Means and covariances of `--link none`; one logit f becomes the two logits (−f/2, f/2)."""
    p = sum(name.startswith("f_mean") for name in table.columns)
    mean = table[[f"f_mean_{i + 1}" for i in range(p)]].to_numpy()
    covariance = table[[f"f_cov_{i + 1}_{j + 1}" for i in range(p) for j in range(p)]].to_numpy().reshape(-1, p, p)
    if p == 1:
        halves = np.array([[-0.5, 0.5]])
        return mean * halves, covariance * (halves.T @ halves)
    return mean, covariance


def one_split(rla, name, likelihood, split, folder):
    file, target, _, hidden = SETS[name]
    data = pd.read_csv(DATA / f"{file}.csv")
    order = np.random.default_rng(split).permutation(len(data))
    cut = round(0.75 * len(data))
    for part, rows in (("train", order[:cut]), ("test", order[cut:])):
        data.iloc[rows].to_csv(folder / f"{part}.csv", index=False)
    options = f"--data train.csv --target {target} --likelihood {likelihood}"
    network = f"--hidden {hidden} --activation tanh --standardize --epochs 1000 --weight-decay 1e-3 --seed {split}"
    for command in (
        f"train {options} {network} --out model.safetensors",
        f"fit --model model.safetensors {options} --structure full --optimize --out posterior.safetensors",
        f"predict --posterior posterior.safetensors --inputs test.csv --target {target} --link none --out logits.csv",
    ):
        subprocess.run([rla, *command.split(), "--quiet"], cwd=folder, check=True)
    # Words and numbers are classes in their sorted order.
    labels = data[target].astype("category").cat.codes.to_numpy()[order[cut:]]
    scores = {}
    logits = gaussian(pd.read_csv(folder / "logits.csv"))
    for link, logs in links(*logits, likelihood, np.random.default_rng(split)).items():
        nll = -logs[np.arange(len(labels)), labels].mean()
        scores[link] = (nll, calibration_error(logs, labels), (logs.argmax(1) == labels).mean())
    return scores


def main():
    rla, wanted = str(Path(sys.argv[1]).resolve()), sys.argv[2:] or list(SETS)
    for name in wanted:
        for likelihood in SETS[name][2]:
            with tempfile.TemporaryDirectory() as folder:
                splits = [one_split(rla, name, likelihood, split, Path(folder)) for split in range(SPLITS)]
            print(f"\n{name}, {likelihood}")
            for link in splits[0]:
                nll, ece, accuracy = (np.array([split[link][i] for split in splits]) for i in range(3))
                gap = nll - np.array([split["MAP"][0] for split in splits])
                error = gap.std(ddof=1) / SPLITS**0.5
                gap = f"{gap.mean():+.4f} ± {error:.4f}"
                print(f"{link:28} {nll.mean():.4f} {gap}   {ece.mean():.3f} {accuracy.mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
