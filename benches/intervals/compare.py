"""Do 90 % intervals hold? Coverage and width of intervals as fitted, by split conformal scores, by scores of folds, by CV+ and by
closed-form leave-one-out, on eight regression sets; sets of classes on four; MAPIE's intervals of the same networks, and wrong
labels found by self-influence beside cleanlab.

    python -m venv venv && venv/bin/pip install scikit-learn pandas mapie cleanlab
    venv/bin/python benches/intervals/compare.py --rla target/release/rla --data FOLDER    # FOLDER has airfoil and bikesharing, too
    venv/bin/python benches/intervals/compare.py --rla target/release/rla --quick          # three sets, one split

mapie and cleanlab may be missing: their columns are then empty. A fifth of the rows tests. Of the others (at most --rows) a
quarter calibrates for the split intervals; folds, CV+ and leave-one-out use all of them. Fifths are those of the predicted spread.
Exit status 1: a command failed, or the mean coverage over sets of a calibrated method is more than three standard errors (of its
mean over sets and splits) below what it promises.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.metrics import average_precision_score

LEVEL = 0.9
ROOT = pathlib.Path(__file__).parents[2]


def uci(name, target):
    return lambda folder: (pd.read_csv(first(name, folder)), target)


def first(name, folder):
    for place in [ROOT / "data" / "uci", ROOT / "data", folder]:
        if place and (place / f"{name}.csv").exists():
            return place / f"{name}.csv"
    raise FileNotFoundError(f"{name}.csv is in none of the folders; name one with --data")


def diabetes(_):
    return datasets.load_diabetes(as_frame=True).frame, "target"


def friedman(_):
    x, y = datasets.make_friedman1(n_samples=800, noise=1.0, random_state=0)
    table = pd.DataFrame(x, columns=[f"x{k}" for k in range(x.shape[1])])
    return table.assign(y=y), "y"


REGRESSION = {
    "concrete": uci("concrete", "strength"),
    "energy": uci("energy", "heating"),
    "wine": uci("wine_red", "quality"),
    "yacht": uci("yacht", "resistance"),
    "airfoil": uci("airfoil", "sound_level"),
    "bikesharing": uci("bikesharing", "count"),
    "diabetes": diabetes,
    "friedman": friedman,
}
CLASSES = {
    "digits": uci("digits", "digit"),
    "wine": uci("wine", "cultivar"),
    "two moons": uci("two_moons", "moon"),
    "breast cancer": uci("breast_cancer", "diagnosis"),
}


class Runs:
    """The program, in a folder."""

    def __init__(self, rla, folder):
        self.rla, self.folder = str(pathlib.Path(rla).resolve()), pathlib.Path(folder)

    def __call__(self, command):
        done = subprocess.run([self.rla, *command.split(), "--threads", "1"], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"rla {command}\n{done.stderr}")
        return done.stdout

    def write(self, name, table):
        table.to_csv(self.folder / name, index=False)

    def read(self, name):
        return pd.read_csv(self.folder / name)


def split(table, seed, most):
    """Training rows and test rows."""
    order = np.random.default_rng(seed).permutation(len(table))
    test = len(table) // 5
    return table.iloc[order[test:][:most]], table.iloc[order[:test][:1000]]


def held(lower, upper, y, spread):
    inside = (lower <= y) & (y <= upper)
    fifth = np.argsort(np.argsort(spread, kind="stable"), kind="stable") * 5 // len(y)
    return inside.mean(), (upper - lower).mean(), [inside[fifth == k].mean() for k in range(5)]


def mapie_interval(run, test, target):
    """MAPIE's split conformal with absolute residuals around the same network's predictions."""
    try:
        from mapie.regression import SplitConformalRegressor
        from sklearn.base import BaseEstimator, RegressorMixin
    except ImportError:
        return None

    class Predicted(BaseEstimator, RegressorMixin):
        """Predictions that were made: its only input is their row."""

        def __init__(self, means=None):
            self.means = means

        def fit(self, x, y):
            self.fitted_ = True
            return self

        def predict(self, x):
            return self.means[np.asarray(x)[:, 0].astype(int)]

    means, y = [], []
    for name in ["calibration.csv", "test.csv"]:
        run(f"predict --posterior half.safetensors --inputs {name} --target {target} --method map --quiet --out o.csv")
        means.append(run.read("o.csv")["mean"].to_numpy())
        y.append(run.read(name)[target].to_numpy())
    rows = np.arange(len(means[0]) + len(means[1]))[:, None]
    model = Predicted(np.concatenate(means)).fit(rows[:1], [0.0])
    conformal = SplitConformalRegressor(model, confidence_level=LEVEL, prefit=True)
    conformal.conformalize(rows[: len(means[0])], y[0])
    _, interval = conformal.predict_interval(rows[len(means[0]) :])
    return interval[:, 0, 0], interval[:, 1, 0]


def regression(run, table, target, seed, options):
    """One split: coverage, width and coverage by fifths of every kind of interval."""
    training, test = split(table, seed, options.rows)
    cut = 3 * len(training) // 4
    for name, rows in [("all", training), ("half", training[:cut]), ("calibration", training[cut:]), ("test", test)]:
        run.write(f"{name}.csv", rows)
    y, found = test[target].to_numpy(), {}
    for name in ["all", "half"]:
        train = f"--target {target} --likelihood gaussian --hidden {options.hidden} --cross-validate --folds 5"
        run(f"train --data {name}.csv {train} --seed {seed + 1} --quiet --out {name}.model")
        run(f"fit --model {name}.model --data {name}.csv --quiet --out {name}.safetensors")
    run("calibrate --posterior half.safetensors --data calibration.csv --quiet --out split.safetensors")
    predict = f"predict --inputs test.csv --target {target} --quiet --out o.csv"
    kinds = {
        "as fitted": "all.safetensors --interval-method as-fitted",
        "split": "split.safetensors",
        "folds": "all.safetensors --interval-method folds",
        "cv+": "all.safetensors --interval-method cv+",
    }
    for kind, posterior in kinds.items():
        run(f"{predict} --posterior {posterior}")
        out = run.read("o.csv")
        found[kind] = held(out["lower"], out["upper"], y, np.sqrt(out["total_variance"]))
    # Closed-form leave-one-out: its ranks say by how much the spread is too small.
    run("loo --posterior all.safetensors --quiet --out loo.csv")
    z = np.sort(np.abs(normal_quantile(run.read("loo.csv")["pit"].clip(1e-12, 1 - 1e-12).to_numpy())))
    q = z[min(int(np.ceil(LEVEL * (len(z) + 1))), len(z)) - 1]
    spread = np.sqrt(out["total_variance"])
    found["leave-one-out"] = held(out["mean"] - q * spread, out["mean"] + q * spread, y, spread)
    interval = mapie_interval(run, test, target)
    if interval is not None:
        found["MAPIE"] = held(*interval, y, spread)
    return found


def normal_quantile(p):
    from scipy.stats import norm

    return norm.ppf(p)


def classes(run, table, target, seed, options):
    """One split: coverage and mean size of sets, and the size of MAP's own."""
    training, test = split(table, seed, options.rows + options.rows // 2)
    cut = 2 * len(training) // 3
    for name, rows in [("half", training[:cut]), ("calibration", training[cut:]), ("test", test)]:
        run.write(f"{name}.csv", rows)
    train = f"--target {target} --likelihood categorical --hidden {options.hidden}"
    run(f"train --data half.csv {train} --epochs 300 --lr 0.02 --seed {seed + 1} --quiet --out half.model")
    run("fit --model half.model --data half.csv --structure kron --optimize --quiet --out half.safetensors")
    run("calibrate --posterior half.safetensors --data calibration.csv --method map --quiet --out map.safetensors")
    run("calibrate --posterior half.safetensors --data calibration.csv --quiet --out glm.safetensors")
    found = {}
    for sets in ["lac", "aps"]:
        for method in ["glm", "map"]:
            evaluate = f"evaluate --posterior {method}.safetensors --data test.csv --method {method} --sets {sets} --json"
            hold = json.loads(run(f"{evaluate} --quiet"))["hold"]
            found[f"{sets} {method}"] = (hold[1]["coverage"], hold[1]["mean_size"])
            found[f"as fitted {method}"] = (hold[0]["coverage"], hold[0]["mean_size"])
    return found


def wrong_labels(run, options):
    """Area under the precision-recall curve of finding 5 % flipped labels of digits."""
    table, target = CLASSES["digits"](options.data)
    table = table.sample(n=min(len(table), options.rows), random_state=0).reset_index(drop=True)
    random = np.random.default_rng(0)
    flipped = np.zeros(len(table), dtype=int)
    flipped[random.choice(len(table), len(table) // 20, replace=False)] = 1
    labels = table[target].to_numpy()
    table[target] = np.where(flipped == 1, (labels + random.integers(1, 10, len(table))) % 10, labels)
    run.write("all.csv", table)
    train = f"--target {target} --likelihood categorical --hidden {options.hidden} --classes 10 --weight-decay 1e-3"
    run(f"train --data all.csv {train} --epochs 300 --lr 0.02 --quiet --out all.model")
    run("fit --model all.model --data all.csv --structure full --optimize --quiet --out all.safetensors")
    run("influence --posterior all.safetensors --quiet --out influence.csv")
    run("loo --posterior all.safetensors --quiet --out loo.csv")
    found = {
        "self-influence": average_precision_score(flipped, run.read("influence.csv")["self_influence"]),
        "leave-one-out": average_precision_score(flipped, -run.read("loo.csv")["log_density"]),
    }
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return found
    from sklearn.model_selection import KFold

    probabilities = np.zeros((len(table), 10))
    for training, left_out in KFold(5, shuffle=True, random_state=0).split(table):
        run.write("fold.csv", table.iloc[training])
        run.write("left_out.csv", table.iloc[left_out])
        run(f"train --data fold.csv {train} --epochs 300 --lr 0.02 --quiet --out fold.model")
        run("fit --model fold.model --data fold.csv --structure kron --quiet --out fold.safetensors")
        run(f"predict --posterior fold.safetensors --inputs left_out.csv --target {target} --method map --quiet --out o.csv")
        probabilities[left_out] = run.read("o.csv")[[f"p{k}" for k in range(10)]].to_numpy()
    found["cleanlab"] = average_precision_score(flipped, -get_label_quality_scores(table[target].to_numpy(), probabilities))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rla", required=True)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--hidden", default="50")
    parser.add_argument("--sets", help="of these alone, separated by commas")
    parser.add_argument("--parts", default="regression,classes,labels")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    regressions, kinds = dict(REGRESSION), dict(CLASSES)
    if options.quick:
        options.splits, options.rows, options.hidden = 1, 160, "4"
        regressions = {name: regressions[name] for name in ["yacht", "diabetes", "friedman"]}
        kinds = {name: kinds[name] for name in ["wine", "two moons"]}
    if options.sets:
        regressions = {name: load for name, load in regressions.items() if name in options.sets.split(",")}
        kinds = {name: load for name, load in kinds.items() if name in options.sets.split(",")}
    began, failures, all_found = time.time(), [], {}
    with tempfile.TemporaryDirectory() as folder:
        run = Runs(options.rla, folder)
        for name, load in regressions.items() if "regression" in options.parts else []:
            table, target = load(options.data)
            splits = [regression(run, table, target, seed, options) for seed in range(options.splits)]
            fitted = np.mean([one["as fitted"][1] for one in splits])
            for kind in splits[0]:
                coverage = np.array([one[kind][0] for one in splits])
                width, fifths = np.mean([one[kind][1] for one in splits]), np.mean([one[kind][2] for one in splits], axis=0)
                all_found.setdefault(kind, []).append((coverage, width / fitted))
                by = " ".join(f"{share:.3f}" for share in fifths)
                print(f"{name:12} {kind:14} coverage {coverage.mean():.3f}  width/as fitted {width / fitted:.2f}  fifths {by}", flush=True)
        for kind, sets in all_found.items():
            means = np.array([coverage.mean() for coverage, _ in sets])
            error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else 0.05
            ratios = np.array([ratio for _, ratio in sets])
            print(f"all sets     {kind:14} coverage {means.mean():.3f} ± {error:.3f}, lowest {means.min():.3f}, width {ratios.mean():.2f}")
            if kind in ("split", "cv+") and means.mean() < LEVEL - 3 * max(error, 0.02):
                failures.append(f"{kind} covers {means.mean():.3f}")
        for name, load in kinds.items() if "classes" in options.parts else []:
            table, target = load(options.data)
            splits = [classes(run, table, target, seed, options) for seed in range(options.splits)]
            for kind in splits[0]:
                coverage, size = np.mean([one[kind] for one in splits], axis=0)
                print(f"{name:14} {kind:14} coverage {coverage:.3f}  classes {size:.2f}", flush=True)
        if "labels" in options.parts:
            for kind, area in wrong_labels(run, options).items():
                print(f"wrong labels of digits, {kind:14} area under precision and recall {area:.3f}", flush=True)
    print(f"{options.splits} splits, at most {options.rows} rows, {options.hidden} hidden units, {time.time() - began:.0f} s")
    sys.exit("; ".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
