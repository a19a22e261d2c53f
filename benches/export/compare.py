#!/usr/bin/env python3
"""Runs exported graphs in onnxruntime and compares them with `rla predict`.

    compare.py cases RLA FOLDER [NAME…]   eleven networks, every structure and method, f32 and f64, opsets 17 and 21
    compare.py latency RLA FOLDER         one row and 1,000 rows, relative to the plain network, by structure
    compare.py wide RLA FOLDER [STRUCTURE]  128 inputs, 50 hidden units, 3,100 outputs, last layer

Prints tables in Markdown; exits with status 1 where a number is off. Needs onnx (for the first), onnxruntime and numpy.
"""

import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# A network of random weights, whose log rates a wide prior moves out of the range of numbers.
PRIOR = {"unet": 1000}
LIMITS = {"f32": 1e-5, "f64": 1e-9}
STRUCTURES = ["full", "kron", "diag", "low-rank:10", "matrix-free:16"]


def run(*words):
    """Runs the program, and returns what it prints."""
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode not in (0, 3):
        sys.exit(f"{' '.join(map(str, words))}\n{result.stderr}")
    return result.stdout


def session(path, threads=0):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def read(path):
    """The columns of a table by name."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def write(path, names, columns):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(names)
        out.writerows(zip(*columns))


def group(columns, name, targets):
    """An output of the graph from the columns of `rla predict`."""
    if name == "probabilities":
        own = [n for n in columns if n.startswith("p") and n[1:2].isdigit() or n.startswith("p_") or n.startswith("class_")]
        return np.array([columns[n] for n in own], dtype=float).T
    if name in columns:
        return np.array(columns[name], dtype=float).reshape(-1, 1)
    own = [n for n in columns if n in [f"{name}_{target}" for target in targets]]
    return np.array([columns[n] for n in own], dtype=float).T if own else None


def make_data(folder, name, inputs, likelihood, rows=80, seed=0):
    """A table from a fixed seed, with targets that a network can learn."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, inputs))
    f = np.sin(x[:, 0]) + 0.5 * x[:, 1 % inputs] ** 2
    if likelihood in ("gaussian", "heteroscedastic"):
        y = 3 + 2 * f + 0.2 * rng.normal(size=rows)
    elif likelihood == "poisson":
        y = rng.poisson(np.exp(0.5 * f))
    elif likelihood == "bernoulli":
        y = (f + 0.3 * rng.normal(size=rows) > 0.4).astype(int)
    else:
        y = np.digitize(f + 0.3 * rng.normal(size=rows), [0.0, 0.8])
    path = folder / f"{name}.csv"
    write(path, [f"x{i}" for i in range(inputs)] + ["y"], [*x.T, y])
    return path


def networks(rla, folder, only):
    """Ten networks as (name, model, data, targets, likelihood)."""
    for name, likelihood, hidden, activation in [
        ("mlp-tanh", "gaussian", "20,20", "tanh"),
        ("mlp-relu", "gaussian", "20,20", "relu"),
        ("mlp-noisy", "heteroscedastic", "12", "silu"),
        ("mlp-classes", "categorical", "12,12", "gelu"),
        ("mlp-yes-no", "bernoulli", "12", "softplus"),
        ("mlp-counts", "poisson", "12", "tanh"),
    ]:
        if only and name not in only:
            continue
        data = make_data(folder, name, 3, likelihood)
        model = folder / f"{name}.safetensors"
        run(rla, "train", "-q", "--data", data, "--target", "y", "--likelihood", likelihood, "--hidden", hidden,
            "--activation", activation, "--epochs", 300, "--seed", 1, "--out", model)
        yield name, model, data, ["y"], likelihood
    for name, likelihood in [("ft-transformer", "gaussian"), ("gru", "categorical"), ("dense-conv", "gaussian"),
                             ("gated", "bernoulli"), ("unet", "poisson")]:
        if only and name not in only:
            continue
        own = ROOT / "tests/fixtures/graph" / name
        names = next(csv.reader(open(own / "train.csv")))
        yield name, own / "model.onnx", own / "train.csv", [n for n in names if n.startswith("y")], likelihood


def compare(path, inputs, expected, targets, precision, likelihood):
    """The largest difference of each output, relative to the largest number of it."""
    run_session = session(path)
    kind = np.float32 if precision == "f32" else np.float64
    names = [output.name for output in run_session.get_outputs()]
    worst = {}
    for name, found in zip(names, run_session.run(None, {"inputs": inputs.astype(kind)})):
        wanted = group(expected, name, targets)
        if wanted is None:
            # Tables of counts have the total variance alone, those of yes and no the probability.
            left_out = {"poisson": ("epistemic_variance", "aleatoric_variance"),
                        "bernoulli": ("entropy", "logit_variance", "mutual_information")}
            if name not in left_out.get(likelihood, ()):
                sys.exit(f"no column of the table is {name}")
            continue
        found = np.asarray(found, dtype=float).reshape(wanted.shape)
        worst[name] = float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300))
    return worst


def cases(rla, folder, *only):
    import onnx

    bad, lines, count = 0, {}, 0
    for name, model, data, targets, likelihood in networks(rla, folder, only):
        with open(data) as file:
            first = next(csv.reader(file))
        columns = read(data)
        inputs = np.array([columns[n] for n in first if n not in targets], dtype=float).T
        for structure in STRUCTURES:
            for weights in ["all", "last-layer"] if structure == "kron" else ["all"]:
                posterior = folder / "posterior.safetensors"
                run(rla, "fit", "-q", "--model", model, "--data", data, "--target", ",".join(targets), "--likelihood",
                    likelihood, "--structure", structure, "--weights", weights, "--prior-precision", PRIOR.get(name, 1),
                    *(["--sigma", 0.3] if likelihood == "gaussian" else []), "--out", posterior)
                methods = [("glm", [])]
                if structure == "kron" and weights == "all":
                    methods = [("glm", []), ("map", []), ("nn", ["--samples", 8])]
                if structure == "full" and name.startswith("mlp"):
                    samples = folder / "samples.safetensors"
                    run(rla, "sample", "-q", "--posterior", posterior, "--metric", "fisher", "--samples", 4, "--out",
                        samples, "--allow-uncertified", 1)
                    methods.append(("riemannian", ["--samples-file", samples]))
                for method, options in methods:
                    table = folder / "predictions.csv"
                    words = ["--posterior", posterior, "--method", method, *options]
                    if method == "riemannian":
                        words += ["--allow-uncertified", 1]
                    run(rla, "predict", "-q", *words, "--inputs", data, "--target", ",".join(targets), "--out", table)
                    expected = read(table)
                    for precision, opset in [("f32", 17), ("f64", 17), ("f32", 21)]:
                        out = folder / "bars.onnx"
                        run(rla, "export", "-q", *words, "--precision", precision, "--opset", opset, "--out", out)
                        onnx.checker.check_model(str(out), full_check=True)
                        worst = compare(out, inputs, expected, targets, precision, likelihood)
                        count += 1
                        key = (structure if weights == "all" else weights, method, precision)
                        for output, error in worst.items():
                            lines[key] = max(lines.get(key, (0.0, "")), (error, f"{name}, {output}"))
                            if not error < LIMITS[precision]:
                                bad += 1
                                print(f"{name} {structure} {weights} {method} {precision} opset {opset}: {output} is off by {error:.1e}",
                                      file=sys.stderr)
    print("| structure | method | precision | largest relative difference | of |\n|---|---|---|---|---|")
    for (structure, method, precision), (error, what) in sorted(lines.items()):
        print(f"| {structure} | {method} | {precision} | {error:.1e} | {what} |")
    import onnxruntime

    print(f"\n{count} files, onnx checker passed, onnxruntime {onnxruntime.__version__}, {bad} numbers off")
    return bad == 0 and (count >= 282 or bool(only))


def timed(run_session, inputs, least=0.4):
    """Seconds of a run: the fastest of batches."""
    feed = {"inputs": inputs}
    run_session.run(None, feed)
    best, end = np.inf, time.perf_counter() + least
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(5):
            run_session.run(None, feed)
        best = min(best, (time.perf_counter() - start) / 5)
    return best


def latency(rla, folder):
    data = make_data(folder, "latency", 10, "gaussian", rows=500)
    print("| network | structure | one row, ms | relative | 1,000 rows, ms | relative |\n|---|---|---|---|---|---|")
    rng = np.random.default_rng(1)
    one, many = (rng.normal(size=(n, 10)).astype(np.float32) for n in (1, 1000))
    for hidden in ["50,50", "200,200,200"]:
        model = folder / "latency.safetensors"
        run(rla, "train", "-q", "--data", data, "--target", "y", "--likelihood", "gaussian", "--hidden", hidden,
            "--epochs", 50, "--seed", 1, "--out", model)
        plain = None
        for structure, weights in [("map", "all"), ("diag", "last-layer"), ("kron", "last-layer"), ("full", "last-layer"),
                                   ("low-rank:10", "last-layer"), ("diag", "all"), ("kron", "all"),
                                   ("low-rank:10", "all"), ("full", "all")]:
            if structure == "full" and weights == "all" and hidden != "50,50":
                continue
            posterior, out = folder / "latency-p.safetensors", folder / "latency.onnx"
            run(rla, "fit", "-q", "--model", model, "--data", data, "--target", "y", "--likelihood", "gaussian", "--structure",
                "kron" if structure == "map" else structure, "--weights", weights, "--prior-precision", 1, "--sigma", 0.3,
                "--out", posterior)
            run(rla, "export", "-q", "--posterior", posterior, "--method", "map" if structure == "map" else "glm", "--out", out)
            own = session(out, threads=1)
            times = [timed(own, one), timed(own, many)]
            plain = plain or times
            cells = [f"{1e3 * t:.3f} | {t / p:.1f}" for t, p in zip(times, plain)]
            label = "the network alone" if structure == "map" else f"{structure}, {weights}"
            print(f"| 10-{hidden.replace(',', '-')}-1 tanh | {label} | {cells[0]} | {cells[1]} |", flush=True)
    return True


def wide(rla, folder, structure="kron"):
    """The memory is the growth of this process, with the runtime loaded."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    model, data = folder / "wide.safetensors", folder / "wide.csv"
    save_file({"0.weight": rng.normal(size=(50, 128)) / 11, "0.bias": np.zeros(50), "2.weight": rng.normal(size=(3100, 50)) / 7,
               "2.bias": np.zeros(3100)}, str(model), {"activation": "tanh"})
    x = rng.normal(size=(40, 128))
    y = rng.normal(size=(40, 3100))
    write(data, [f"x{i}" for i in range(128)] + [f"y{i}" for i in range(3100)], [*x.T, *y.T])
    posterior, out = folder / "wide-p.safetensors", folder / "wide.onnx"
    run(rla, "fit", "-q", "--model", model, "--data", data, "--target", ",".join(f"y{i}" for i in range(3100)), "--likelihood",
        "gaussian", "--structure", structure, "--weights", "last-layer", "--prior-precision", 1, "--sigma", 0.5,
        "--without-data", "--out", posterior)
    run(rla, "export", "-q", "--posterior", posterior, "--out", out)
    import onnxruntime  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    own = session(out, threads=1)
    one = rng.normal(size=(1, 128)).astype(np.float32)
    seconds = timed(own, one)
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"one row of 3,100 outputs: {1e3 * seconds:.2f} ms, {megabytes:.0f} MB for the graph, {whole:.0f} MB the whole process, "
          f"file {out.stat().st_size / 1e6:.1f} MB")
    return seconds < 0.05 and megabytes < 200


if __name__ == "__main__":
    verb, rla, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if {"cases": cases, "latency": latency, "wide": wide}[verb](rla, folder, *sys.argv[4:]) else 1)
