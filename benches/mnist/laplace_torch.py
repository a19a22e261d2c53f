"""laplace-torch's rows of the MNIST table, on the network that `cargo bench --bench mnist` trained.

    python3 benches/mnist/laplace_torch.py FOLDER [rows] [--limit SECONDS] [--only-fit]

Needs torch, laplace-torch, numpy and safetensors. Rows are last-layer-full, last-layer-kronecker, diagonal and kronecker;
finished ones are kept in target/mnist and shown by the next `cargo bench --bench mnist -- FOLDER`. Each is computed in a
process of its own, in f32 with its data in memory, tuned by 100 steps of the library's own marginal likelihood, and given
up after the limit; with --only-fit nothing is predicted, which for all weights takes long. Predictions are linearised with the probit link, the library's default.
"""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / "target" / "mnist"
ROWS = {
    "last-layer-full": ("last_layer", "full"),
    "last-layer-kronecker": ("last_layer", "kron"),
    "diagonal": ("all", "diag"),
    "kronecker": ("all", "kron"),
}
TRAINED = 55_000


def idx(folder, name, header):
    """The bytes of one file after its header."""
    import numpy as np

    path = Path(folder) / f"{name}.gz"
    with gzip.open(path) if path.exists() else open(Path(folder) / name, "rb") as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def images(folder, name):
    import torch

    return torch.tensor(idx(folder, f"{name}-images-idx3-ubyte", 16).reshape(-1, 784) / 255, dtype=torch.float32)


def labels(folder, name):
    import torch

    return torch.tensor(idx(folder, f"{name}-labels-idx1-ubyte", 8).astype("int64"))


def network():
    """The trained network, its layers in the order of their numbers."""
    import safetensors.torch
    import torch

    weights = safetensors.torch.load_file(str(KEPT / "network.safetensors"))
    names = sorted({name.rsplit(".", 1)[0] for name in weights}, key=lambda name: int("".join(filter(str.isdigit, name)) or 0))
    layers = []
    for index, name in enumerate(names):
        weight, bias = weights[f"{name}.weight"].float(), weights[f"{name}.bias"].float()
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.data, layer.bias.data = weight, bias
        layers += [layer] + ([torch.nn.Tanh()] if index + 1 < len(names) else [])
    return torch.nn.Sequential(*layers)


def calibration_error(confidences, correct, bins=15):
    """Expected calibration error over bins (a, b] of equal width."""
    import numpy as np

    places = np.clip(np.ceil(confidences * bins).astype(int), 1, bins)
    return sum(abs(correct[places == b].mean() - confidences[places == b].mean()) * (places == b).mean()
               for b in range(1, bins + 1) if (places == b).any())


def auroc(inside, outside):
    """The share of pairs in which the outside one scores higher, ties counting half."""
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([inside, outside]))[len(inside):]
    return (ranks.sum() - len(outside) * (len(outside) + 1) / 2) / (len(inside) * len(outside))


def compute(key, folder, only_fit):
    import numpy as np
    import torch
    from laplace import Laplace

    subset, structure = ROWS[key]
    x, y = images(folder, "mnist-train")[:TRAINED], labels(folder, "mnist-train")[:TRAINED]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=500)
    began, cpu = time.perf_counter(), time.process_time()
    posterior = Laplace(network(), "classification", subset_of_weights=subset, hessian_structure=structure)
    posterior.fit(loader)
    fit = time.perf_counter() - began
    posterior.optimize_prior_precision(method="marglik")
    tune = time.perf_counter() - began - fit
    cell = {
        "parameters": posterior.n_params,
        "prior_precision": posterior.prior_precision.mean().item(),
        "evidence": posterior.log_marginal_likelihood().item(),
        "scores": [], "fit": fit, "tune": tune, "fit_cpu": time.process_time() - cpu, "sample": None, "uncertified": None,
    }
    print(f"{key}: fitted in {fit:.1f} s, tuned in {tune:.1f} s, evidence {cell['evidence']:.1f}", flush=True)
    finish(key, cell)
    if only_fit:
        return

    def probabilities(name):
        parts = images(folder, name).split(200 if subset == "last_layer" else 25)
        return torch.cat([posterior(part, pred_type="glm", link_approx="probit").detach() for part in parts]).double().numpy()

    began = time.perf_counter()
    inside, outside = probabilities("mnist-t10k"), probabilities("fashion-t10k")
    seconds = time.perf_counter() - began
    digits = labels(folder, "mnist-t10k").numpy()
    entropy = lambda p: -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    correct = inside.argmax(1) == digits
    cell["scores"] = [{
        "link": "probit",
        "nll": -np.log(inside[np.arange(len(digits)), digits]).mean(),
        "accuracy": correct.mean(),
        "ece": calibration_error(inside.max(1), correct),
        "auroc": auroc(entropy(inside), entropy(outside)),
        "seconds": seconds,
    }]
    finish(key, cell)


def finish(key, cell):
    """Keeps a row; without scores, where only its fit is finished."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cell["peak_megabytes"], cell["cpu_seconds"] = used.ru_maxrss * 1024 / 1e6, used.ru_utime + used.ru_stime
    path = KEPT / f"laplace-torch-{key}.json"
    if not cell["scores"] and path.exists() and json.loads(path.read_text())["scores"]:
        print(key, json.dumps(cell), flush=True)
        return
    path.with_suffix(".tmp").write_text(json.dumps(cell, indent=2))
    path.with_suffix(".tmp").rename(path)
    print(key, json.dumps(cell), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("rows", nargs="?", type=lambda text: text.split(","), default=list(ROWS))
    parser.add_argument("--limit", type=float, default=1200)
    parser.add_argument("--only-fit", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return compute(options.rows[0], options.folder, options.only_fit)
    for row in options.rows:
        path = KEPT / f"laplace-torch-{row}.json"
        if path.exists() and json.loads(path.read_text())["scores"]:
            continue
        try:
            command = [sys.executable, __file__, options.folder, row, "--inside"] + ["--only-fit"] * options.only_fit
            subprocess.run(command, timeout=options.limit, check=True)
        except subprocess.TimeoutExpired:
            print(f"{row}: not finished within {options.limit:.0f} s")
        except subprocess.CalledProcessError as error:
            print(f"{row}: {error}")


if __name__ == "__main__":
    main()
