"""Times what one would run instead: laplace-torch for fitting, tuning and linearised predictions, and a jitted f64
JAX/diffrax exponential map for Fisher geodesics, on the same weights, data and velocities as `rla`, in one run.

    python3 benches/peers/compare.py [--quick] [--only evidence,geodesics,images] [--mnist FOLDER]

Needs a Rust toolchain and Python 3.10 or newer; everything else goes into an environment of its own under
target/peers. Both sides may use all cores. Times are the shortest of a few runs; compilation by XLA is not counted.
"""

import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "peers"
PYTHON = WORK / "venv" / "bin" / "python"
PACKAGES = ["numpy", "scipy", "safetensors", "jax", "diffrax", "laplace-torch"]
RLA = ROOT / "target" / "release" / "rla"


def prepare():
    """The program, and an environment with the peers; then this script again, inside it."""
    subprocess.run(["cargo", "build", "--release", "--bin", "rla"], cwd=ROOT, check=True)
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(WORK / "venv")], check=True)
        subprocess.run([str(PYTHON), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    os.execv(str(PYTHON), [str(PYTHON), __file__, *sys.argv[1:], "--inside"])


def fastest(work, seconds=4.0, most=7):
    """The shortest time of a few calls, and the last result."""
    begin, best, result = time.perf_counter(), float("inf"), None
    for _ in range(most):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - begin > seconds:
            break
    return best, result


def cpu_seconds(work):
    """The result, and the processor time that it took here and in other programs."""
    before = os.times()
    result = work()
    after = os.times()
    return result, sum(after[:4]) - sum(before[:4])


def rla(*arguments):
    """Runs the program and returns what it prints as JSON."""
    command = [str(RLA), *map(str, arguments), "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.strip().splitlines()[-1]) if output.strip() else {}


def snelson():
    """Training points of the paper's `complete` split, as a CSV file."""
    with open(ROOT / "data" / "snelson.csv") as values, open(ROOT / "data" / "snelson_split.csv") as split:
        rows = [row for row, part in zip(csv.DictReader(values), csv.DictReader(split)) if part["complete"] == "train"]
    with open(WORK / "train.csv", "w") as out:
        out.write("x,y\n")
        out.writelines(f"{row['x']},{row['y']}\n" for row in rows)
    return WORK / "train.csv"


def sine(points):
    """Noisy sine data, as in laplace-torch's example of regression."""
    import numpy as np

    generator = np.random.default_rng(711)
    x = 8 * generator.random(points)
    y = np.sin(x) + 0.3 * generator.standard_normal(points)
    path = WORK / f"sine_{points}.csv"
    np.savetxt(path, np.stack([(x - x.mean()) / x.std(), (y - y.mean()) / y.std()], 1), delimiter=",", header="x,y", comments="")
    return path


def read(path):
    import numpy as np

    values = np.loadtxt(path, delimiter=",", skiprows=1)
    return values[:, :1], values[:, 1:]


def sequential(weights):
    """The network as a torch module in f64."""
    import torch

    layers = []
    names = sorted({name.rsplit(".", 1)[0] for name in weights}, key=lambda name: int("".join(filter(str.isdigit, name)) or 0))
    for index, name in enumerate(names):
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0]).double()
        layer.weight.data, layer.bias.data = weight.double(), bias.double()
        layers += [layer] + ([torch.nn.Tanh()] if index + 1 < len(names) else [])
    return torch.nn.Sequential(*layers)


def tuned_by_laplace_torch(model, x, y, steps):
    """Full fit, then prior precision and noise by gradient ascent on the evidence: the library's own recipe."""
    import torch
    from laplace import Laplace

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x))
    posterior = Laplace(model, "regression", subset_of_weights="all", hessian_structure="full")
    posterior.fit(loader)
    log_prior = torch.zeros(1, requires_grad=True, dtype=torch.float64)
    log_sigma = torch.zeros(1, requires_grad=True, dtype=torch.float64)
    optimizer = torch.optim.Adam([log_prior, log_sigma], lr=1e-1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -posterior.log_marginal_likelihood(log_prior.exp(), log_sigma.exp())
        loss.backward()
        optimizer.step()
    return posterior, -loss.item()


def evidence(rows, name, weights_path, data_path, steps):
    import safetensors.torch
    import torch

    torch.set_default_dtype(torch.float64)
    x, y = (torch.tensor(values) for values in read(data_path))
    model = sequential(safetensors.torch.load_file(str(weights_path)))
    posterior_path = WORK / "posterior.safetensors"

    def ours():
        return rla("fit", "--model", weights_path, "--activation", "tanh", "--data", data_path, "--target", "y",
                   "--likelihood", "gaussian", "--optimize", "--out", posterior_path)

    wall, report = fastest(ours)
    inside = min(ours()["seconds"] for _ in range(5))
    torch_time, (posterior, value) = fastest(lambda: tuned_by_laplace_torch(model, x, y, steps), most=2)
    rows.append((f"fit + tuning, {name}, D = {report['n_params']}", inside, torch_time,
                 f"laplace-torch, {steps} steps; evidence {report['log_marginal_likelihood']:.4f} and {value:.4f}; whole program {wall:.3f} s"))
    return posterior


def predictions(rows, posterior, points):
    """Linearised predictions at many points, so that starting a program does not count for much."""
    import numpy as np
    import torch

    inputs = WORK / "inputs.csv"
    x = np.linspace(0.0, 6.0, points)[:, None]
    np.savetxt(inputs, x, header="x", comments="")
    torch_time, (mean, variance) = fastest(lambda: posterior(torch.tensor(x)))
    command = [str(RLA), "predict", "--posterior", str(WORK / "posterior.safetensors"), "--inputs", str(inputs),
               "--method", "glm", "--out", str(WORK / "predictions.csv")]
    wall, _ = fastest(lambda: subprocess.run(command, check=True, capture_output=True))
    ours = np.loadtxt(WORK / "predictions.csv", delimiter=",", skiprows=1)
    theirs = np.stack([mean.detach().numpy().ravel(), variance.detach().numpy().ravel()], 1)
    difference = np.abs(ours[:, 1:3] / theirs - 1).max()
    rows.append((f"linearised predictions, {points} points", wall, torch_time,
                 f"laplace-torch; ours with start, reading and writing; relative difference {difference:.0e}"))


def geodesics(rows, weights_path, data_path, samples):
    import diffrax
    import jax
    import jax.numpy as jnp
    import numpy as np
    from safetensors.numpy import load_file

    jax.config.update("jax_enable_x64", True)
    report = rla("fit", "--model", weights_path, "--activation", "tanh", "--data", data_path, "--target", "y",
                 "--likelihood", "gaussian", "--optimize", "--out", WORK / "posterior.safetensors")
    alpha, sigma = report["prior_precision"], report["sigma"]
    rla("sample", "--posterior", WORK / "posterior.safetensors", "--metric", "euclidean", "--samples", samples,
        "--out", WORK / "straight.safetensors")
    weights = load_file(str(weights_path))
    names = sorted(weights, key=lambda name: (int("".join(filter(str.isdigit, name)) or 0), "bias" in name))
    shapes = [weights[name].shape for name in names]
    theta = jnp.concatenate([jnp.asarray(weights[name], jnp.float64).ravel() for name in names])
    velocities = jnp.asarray(load_file(str(WORK / "straight.safetensors"))["theta"]) - theta
    x = jnp.asarray(read(data_path)[0])

    def outputs(theta):
        pieces, start = [], 0
        for shape in shapes:
            size = int(np.prod(shape))
            pieces.append(theta[start:start + size].reshape(shape))
            start += size
        h = x
        for layer in range(0, len(pieces), 2):
            h = h @ pieces[layer].T + pieces[layer + 1]
            h = jnp.tanh(h) if layer + 2 < len(pieces) else h
        return h[:, 0]

    def acceleration(theta, velocity):
        tangent = lambda at: jax.jvp(outputs, (at,), (velocity,))[1]
        _, bend = jax.jvp(tangent, (theta,), (velocity,))
        jacobian = jax.jacrev(outputs)(theta) / sigma
        metric = jacobian.T @ jacobian + alpha * jnp.eye(theta.size)
        return -jax.scipy.linalg.solve(metric, jacobian.T @ (bend / sigma), assume_a="pos")

    def speed(theta, velocity):
        tangent = jax.jvp(outputs, (theta,), (velocity,))[1] / sigma
        return tangent @ tangent + alpha * velocity @ velocity

    def exponential(rtol, atol):
        def run(velocity):
            term = diffrax.ODETerm(lambda t, state, _: (state[1], acceleration(*state)))
            control = diffrax.PIDController(rtol=rtol, atol=atol)
            solution = diffrax.diffeqsolve(term, diffrax.Dopri5(), 0.0, 1.0, None, (theta, velocity),
                                           stepsize_controller=control, max_steps=4096)
            end = jax.tree_util.tree_map(lambda values: values[-1], solution.ys)
            drift = jnp.abs(speed(*end) / speed(theta, velocity) - 1)
            return end[0], solution.stats["num_steps"], drift
        return run

    def ours(*arguments):
        report = {"seconds_per_sample": float("inf")}
        for _ in range(3):
            latest = rla(*arguments)
            if latest["seconds_per_sample"] < report["seconds_per_sample"]:
                report = latest
        return report

    certified = ours("sample", "--posterior", WORK / "posterior.safetensors", "--metric", "fisher",
                     "--samples", samples, "--out", WORK / "certified.safetensors")
    for rtol in (1e-3, 1e-4):
        fixed = ours("sample", "--posterior", WORK / "posterior.safetensors", "--metric", "fisher", "--samples", samples,
                     "--rtol", rtol, "--atol", rtol * 1e-3, "--out", WORK / "fixed.safetensors")
        single = jax.jit(exponential(rtol, rtol * 1e-3))
        many = jax.jit(jax.vmap(exponential(rtol, rtol * 1e-3)))
        jax.block_until_ready(single(velocities[0]))
        some = velocities[:min(samples, 100)]
        each, ends = fastest(lambda: [jax.block_until_ready(single(v)) for v in some], seconds=20, most=2)
        each /= len(some)
        together_some = velocities[:min(samples, 50)]
        jax.block_until_ready(many(together_some))
        together, _ = fastest(lambda: jax.block_until_ready(many(together_some)), seconds=20, most=2)
        together /= len(together_some)
        drifts = np.array([float(end[2]) for end in ends])
        steps = np.mean([float(end[1]) for end in ends])
        best = min(each, together)
        note = (f"diffrax one by one {1e3 * each:.1f} ms, vmapped {1e3 * together:.1f} ms; {6 * steps:.0f} evaluations and "
                f"ours {fixed['mean_nfev']:.0f}; {np.mean(drifts <= 1e-3):.0%} of its samples drift by at most 1e-3")
        rows.append((f"Fisher geodesic, rtol {rtol:g}", fixed["seconds_per_sample"], best, note))
        rows.append((f"  ours certified, diffrax at rtol {rtol:g}", certified["seconds_per_sample"], best,
                     f"all of ours drift by at most 1e-3 ({certified['mean_nfev']:.0f} evaluations)"))
        single_ends = np.stack([np.asarray(end[0]) for end in ends])
        if rtol == 1e-4:
            mine = load_file(str(WORK / "fixed.safetensors"))["theta"][:len(some)]
            reference = np.median(np.abs(mine - single_ends).max(1))
            print(f"median difference of the end points, rtol 1e-4: {reference:.1e}")


def images(points, folder):
    """Images of 28 x 28 pixels and their labels: MNIST's from a folder of idx files, or ten noisy shapes."""
    import numpy as np

    if folder:
        def idx(kind, header):
            path = next(Path(folder).glob(f"*train-{kind}*"))
            with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
                return np.frombuffer(file.read(), np.uint8, offset=header)

        chosen = np.random.default_rng(1).choice(60_000, points, replace=False)
        return idx("images", 16).reshape(-1, 784)[chosen] / 255, idx("labels", 8)[chosen].astype(int)
    generator = np.random.default_rng(1)
    shapes = generator.random((10, 784)) * (generator.random((10, 784)) < 0.2)
    labels = generator.integers(0, 10, points)
    return np.clip(shapes[labels] + 0.3 * generator.standard_normal((points, 784)), 0, 1), labels


def classifier(x, y, epochs):
    """A 784-256-10 network with tanh units, trained as usual."""
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.Tanh(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model


def structures(rows, points, folder):
    """Fitting and tuning with Kronecker factors and for the last layer, eigendecompositions included, on the same weights
    and data. laplace-torch computes in f32 here, as its users do, with its data in memory, and takes its own 100 steps. Ours
    reads its CSV within the time, and checks the fit."""
    import numpy as np
    import safetensors.torch
    import torch
    from laplace import Laplace

    torch.set_default_dtype(torch.float32)
    pixels, labels = images(points, folder)
    x, y = torch.tensor(pixels, dtype=torch.float32), torch.tensor(labels)
    model = classifier(x, y, 10)
    weights, data = WORK / "classifier.safetensors", WORK / "images.csv"
    safetensors.torch.save_file(model.state_dict(), str(weights))
    header = ",".join(f"p{pixel}" for pixel in range(784)) + ",label"
    np.savetxt(data, np.concatenate([x.numpy(), labels[:, None]], 1), delimiter=",", header=header, comments="", fmt="%.7g")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=500)

    def theirs(subset, structure):
        posterior = Laplace(model, "classification", subset_of_weights=subset, hessian_structure=structure)
        posterior.fit(loader)
        fitted = time.perf_counter()
        posterior.optimize_prior_precision(method="marglik")
        return posterior, fitted

    def ours(*options):
        return rla("fit", "--model", weights, "--activation", "tanh", "--data", data, "--target", "label",
                   "--likelihood", "categorical", *options, "--out", WORK / "posterior.safetensors")

    for name, subset, structure, options in (
        ("Kronecker, all weights", "all", "kron", ["--structure", "kron"]),
        ("full, last layer", "last_layer", "full", ["--weights", "last-layer"]),
        ("Kronecker, last layer", "last_layer", "kron", ["--weights", "last-layer", "--structure", "kron"]),
    ):
        # Seconds of CPU tell more than wall clock where other programs run: ours include starting, reading and writing.
        plain = min(ours(*options)["seconds"] for _ in range(2))
        (report, our_cpu), other = (cpu_seconds(lambda: ours(*options, "--optimize")) for _ in range(2))
        report = min(report, other[0], key=lambda report: report["seconds"])
        began = time.perf_counter()
        (posterior, fitted), peer_cpu = cpu_seconds(lambda: theirs(subset, structure))
        first = time.perf_counter() - began
        again, (posterior, _) = fastest(lambda: theirs(subset, structure), seconds=1, most=1)
        value = posterior.log_marginal_likelihood().item()
        note = (f"laplace-torch, 100 steps, fit alone {fitted - began:.2f} s, ours {plain:.2f} s; "
                f"CPU {our_cpu:.1f} s and {peer_cpu:.1f} s, {peer_cpu / our_cpu:.0f}x; "
                f"evidence {report['log_marginal_likelihood']:.1f} and {value:.1f}, "
                f"prior precision {report['prior_precision']:.3g} and {posterior.prior_precision.mean().item():.3g}")
        peer = min(first, again)
        rows.append((f"{name}, 784-256-10, N = {points}", report["seconds"], peer, note))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer evidence steps, samples and images, no wide networks")
    parser.add_argument("--only", type=lambda text: text.split(","), default=["evidence", "geodesics", "images"],
                        help="parts to run: evidence, geodesics, images (default: all)")
    parser.add_argument("--mnist", metavar="FOLDER", help="MNIST's idx files; without it, synthetic images of the same shape")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if not options.inside:
        prepare()
    steps, samples = (100, 50) if options.quick else (3000, 500)
    rows = []
    train = snelson()
    weights = ROOT / "data" / "snelson_map_complete_raw.safetensors"
    if "evidence" in options.only:
        posterior = evidence(rows, "Snelson 1-10-1", weights, train, steps)
        predictions(rows, posterior, 1_000)
        for width, points in () if options.quick else ((10, 1000), (30, 200), (45, 200)):
            data = sine(points)
            model = WORK / f"sine_{width}.safetensors"
            rla("train", "--data", data, "--target", "y", "--likelihood", "gaussian", "--hidden", f"{width},{width}",
                "--epochs", 300, "--out", model)
            evidence(rows, f"1-{width}-{width}-1, N = {points}", model, data, steps if width <= 30 else 300)
    if "geodesics" in options.only:
        geodesics(rows, weights, train, samples)
    if "images" in options.only:
        structures(rows, 1_000 if options.quick else 8_000, options.mnist)
    print(f"{'job':50}  {'ours, s':>10}  {'peer, s':>10}  {'ratio':>7}  peer")
    for job, ours, peer, note in rows:
        print(f"{job:50}  {ours:>10.5f}  {peer:>10.5f}  {peer / ours:>6.1f}x  {note}")


if __name__ == "__main__":
    main()
