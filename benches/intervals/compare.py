"""Do 90 % intervals hold? Coverage and width of intervals as fitted, by split conformal scores, by scores of folds, by CV+ and by
closed-form leave-one-out, on eight regression sets; sets of classes on four; MAPIE's intervals of the same networks, and wrong
labels found by self-influence and leave-one-out beside cleanlab.

    python -m venv venv && venv/bin/pip install scikit-learn pandas mapie cleanlab
    venv/bin/python benches/intervals/compare.py --rla target/release/rla --results cells.jsonl
    venv/bin/python benches/intervals/compare.py --rla target/release/rla --quick          # few sets, one split

mapie and cleanlab may be missing: their columns are then empty. A fifth of the rows tests. Of the others (at most --rows) a
quarter calibrates for the split intervals; folds, CV+ and leave-one-out use all of them. Fifths are those of the predicted spread.
Finished splits are kept in the file of --results, and an interrupted run continues; --table prints the tables of what it has.
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


def shipped(name, target, folder="data"):
    return lambda: (pd.read_csv(ROOT / folder / f"{name}.csv"), target)


def diabetes():
    return datasets.load_diabetes(as_frame=True).frame, "target"


def friedman():
    x, y = datasets.make_friedman1(n_samples=800, noise=1.0, random_state=0)
    table = pd.DataFrame(x, columns=[f"x{k}" for k in range(x.shape[1])])
    return table.assign(y=y), "y"


REGRESSION = {
    "concrete": shipped("concrete", "strength", "data/uci"),
    "energy": shipped("energy", "heating", "data/uci"),
    "wine": shipped("wine_red", "quality", "data/uci"),
    "yacht": shipped("yacht", "resistance", "data/uci"),
    "airfoil": shipped("airfoil", "sound_level", "data/uci"),
    "bikesharing": shipped("bikesharing", "count", "data/uci"),
    "diabetes": diabetes,
    "friedman": friedman,
}
CLASSES = {
    "digits": shipped("digits", "digit"),
    "wine": shipped("wine", "cultivar"),
    "two moons": shipped("two_moons", "moon"),
    "breast cancer": shipped("breast_cancer", "diagnosis"),
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


class Cells:
    """What was measured, one line per set and split, in a file where one is named."""

    def __init__(self, path):
        self.path, self.all = path, []
        if path and path.exists():
            self.all = [json.loads(line) for line in path.read_text().splitlines()]

    def measure(self, part, name, seed, of):
        key = {"part": part, "set": name, "split": seed}
        for cell in self.all:
            if all(cell[word] == value for word, value in key.items()):
                return
        began = time.time()
        cell = {**key, "found": of(), "seconds": round(time.time() - began, 1)}
        self.all.append(cell)
        if self.path:
            with open(self.path, "a") as out:
                out.write(json.dumps(cell) + "\n")

    def of(self, part):
        """Of each set, the splits."""
        sets = {}
        for cell in self.all:
            if cell["part"] == part:
                sets.setdefault(cell["set"], []).append(cell["found"])
        return sets


def split(table, seed, most):
    """Training rows and test rows."""
    order = np.random.default_rng(seed).permutation(len(table))
    test = len(table) // 5
    return table.iloc[order[test:][:most]], table.iloc[order[:test][:1000]]


def held(lower, upper, y, spread):
    """Coverage, mean width, and coverage by fifths of the spread."""
    inside = ((lower <= y) & (y <= upper)).to_numpy()
    fifth = np.argsort(np.argsort(spread, kind="stable"), kind="stable") * 5 // len(y)
    return [float(inside.mean()), float((upper - lower).mean()), [float(inside[fifth == k].mean()) for k in range(5)]]


def mapie_interval(run, target):
    """MAPIE's split conformal with absolute residuals around the same network's predictions."""
    try:
        from mapie.regression import SplitConformalRegressor
        from sklearn.base import BaseEstimator, RegressorMixin
    except ImportError:
        return None

    class Predicted(RegressorMixin, BaseEstimator):
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
    return pd.Series(interval[:, 0, 0]), pd.Series(interval[:, 1, 0])


def regression(run, table, target, seed, options):
    """One split: coverage, width and coverage by fifths of every kind of interval."""
    training, test = split(table, seed, options.rows)
    cut = 3 * len(training) // 4
    for name, rows in [("all", training), ("half", training[:cut]), ("calibration", training[cut:]), ("test", test)]:
        run.write(f"{name}.csv", rows)
    y, found = pd.Series(test[target].to_numpy()), {}
    for name in ["all", "half"]:
        train = f"--target {target} --likelihood gaussian --hidden {options.hidden} --cross-validate --folds {options.folds}"
        run(f"train --data {name}.csv {train} --seed {seed + 1} --quiet --out {name}.model")
        run(f"fit --model {name}.model --data {name}.csv --quiet --out {name}.safetensors")
    run("calibrate --posterior half.safetensors --data calibration.csv --quiet --out split.safetensors")
    predict = f"predict --inputs test.csv --target {target} --quiet --out o.csv"
    kinds = {
        "split": "split.safetensors",
        "as fitted": "all.safetensors --interval-method as-fitted",
        "folds": "all.safetensors --interval-method folds",
        "CV+": "all.safetensors --interval-method cv+",
    }
    for kind, posterior in kinds.items():
        run(f"{predict} --posterior {posterior}")
        out = run.read("o.csv")
        spread = np.sqrt(out["total_variance"])
        found[kind] = held(out["lower"], out["upper"], y, spread)
        if kind == "split":
            interval = mapie_interval(run, target)
            if interval is not None:
                found["MAPIE"] = held(*interval, y, spread)
    # Closed-form leave-one-out: its ranks say by how much the spread is too small.
    run("loo --posterior all.safetensors --quiet --out loo.csv")
    z = np.sort(np.abs(normal_quantile(run.read("loo.csv")["pit"].clip(1e-12, 1 - 1e-12).to_numpy())))
    q = z[min(int(np.ceil(LEVEL * (len(z) + 1))), len(z)) - 1]
    found["leave-one-out"] = held(out["mean"] - q * spread, out["mean"] + q * spread, y, spread)
    return found


def normal_quantile(p):
    from scipy.stats import norm

    return norm.ppf(p)


def classes(run, table, target, seed, options):
    """One split: coverage and mean size of sets, by each method as fitted and calibrated."""
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


def wrong_labels(run, seed, options):
    """Area under the precision-recall curve of finding 5 % flipped labels of digits."""
    table, target = CLASSES["digits"]()
    table = table.sample(n=min(len(table), options.rows), random_state=seed).reset_index(drop=True)
    random = np.random.default_rng(seed)
    flipped = np.zeros(len(table), dtype=int)
    flipped[random.choice(len(table), len(table) // 20, replace=False)] = 1
    labels = table[target].to_numpy()
    table[target] = np.where(flipped == 1, (labels + random.integers(1, 10, len(table))) % 10, labels)
    run.write("all.csv", table)
    # The default, which holds rows out: a network that has learnt the wrong labels by heart cannot find them.
    train = f"--target {target} --likelihood categorical --hidden {options.hidden} --classes 10"
    run(f"train --data all.csv {train} --seed {seed + 1} --quiet --out all.model")
    run("fit --model all.model --data all.csv --structure full --quiet --out all.safetensors")
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
        run(f"train --data fold.csv {train} --seed {seed + 1} --quiet --out fold.model")
        run("fit --model fold.model --data fold.csv --structure kron --quiet --out fold.safetensors")
        run(f"predict --posterior fold.safetensors --inputs left_out.csv --target {target} --method map --quiet --out o.csv")
        probabilities[left_out] = run.read("o.csv")[[f"p{k}" for k in range(10)]].to_numpy()
    found["cleanlab"] = average_precision_score(flipped, -get_label_quality_scores(table[target].to_numpy(), probabilities))
    return found


def mean_and_error(values):
    values = np.array(values)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return values.mean(), error


def in_words(values):
    """Mean ± standard error; of one value, itself."""
    mean, error = mean_and_error(values)
    return f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ± {error:.3f}"


def regression_tables(cells):
    """Prints the tables; returns what does not hold."""
    sets, failures = cells.of("regression"), []
    if not sets:
        return failures
    kinds = list(next(iter(sets.values()))[0])
    print("\n| coverage | splits | " + " | ".join(kinds) + " |\n|---|---|" + "---|" * len(kinds))
    for name, splits in sets.items():
        print(f"| {name} | {len(splits)} | " + " | ".join(in_words([one[kind][0] for one in splits]) for kind in kinds) + " |")
    means = {kind: [np.mean([one[kind][0] for one in splits]) for splits in sets.values()] for kind in kinds}
    print("| **mean of sets** | | " + " | ".join(in_words(means[kind]) for kind in kinds) + " |")
    print("| lowest set | | " + " | ".join(f"{min(means[kind]):.3f}" for kind in kinds) + " |")
    widths = {kind: [np.mean([one[kind][1] for one in splits]) for splits in sets.values()] for kind in kinds}
    print("\n| width / as fitted | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for index, name in enumerate(sets):
        print(f"| {name} | " + " | ".join(f"{widths[kind][index] / widths['as fitted'][index]:.3f}" for kind in kinds) + " |")
    ratios = {kind: np.array(widths[kind]) / np.array(widths["as fitted"]) for kind in kinds}
    print("| **mean of sets** | " + " | ".join(in_words(ratios[kind]) for kind in kinds) + " |")
    if "MAPIE" in kinds:
        against = np.array(widths["split"]) / np.array(widths["MAPIE"])
        print("\nsplit / MAPIE: " + ", ".join(f"{name} {ratio:.3f}" for name, ratio in zip(sets, against)))
        print("mean " + in_words(against))
    print("\n| coverage by fifths of the spread | least | | | | greatest |\n|---|---|---|---|---|---|")
    for kind in kinds:
        fifths = np.mean([np.mean([one[kind][2] for one in splits], axis=0) for splits in sets.values()], axis=0)
        print(f"| {kind} | " + " | ".join(f"{share:.3f}" for share in fifths) + " |")
    for kind in ("split", "CV+"):
        mean, error = mean_and_error(means[kind])
        if mean < LEVEL - 3 * np.nanmax([error, 0.02]):
            failures.append(f"{kind} covers {mean:.3f}")
    return failures


def other_tables(cells):
    sets = cells.of("classes")
    if sets:
        kinds = list(next(iter(sets.values()))[0])
        print("\n| coverage (classes in a set) | splits | " + " | ".join(kinds) + " |\n|---|---|" + "---|" * len(kinds))
    for name, splits in sets.items():
        line = []
        for kind in kinds:
            line.append(f"{in_words([one[kind][0] for one in splits])} ({np.mean([one[kind][1] for one in splits]):.2f})")
        print(f"| {name} | {len(splits)} | " + " | ".join(line) + " |")
    for splits in cells.of("labels").values():
        print("\n| wrong labels of digits | area under precision and recall |\n|---|---|")
        for kind in splits[0]:
            print(f"| {kind} | {in_words([one[kind] for one in splits])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rla", default="target/release/rla")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--hidden", default="50")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--sets", help="of these alone, separated by commas")
    parser.add_argument("--parts", default="regression,classes,labels")
    parser.add_argument("--results", type=pathlib.Path, help="where finished splits are kept")
    parser.add_argument("--table", action="store_true", help="print the tables of --results and measure nothing")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    regressions, kinds, parts = dict(REGRESSION), dict(CLASSES), options.parts.split(",")
    if options.quick:
        options.splits, options.rows, options.hidden = 1, 160, "4"
        regressions = {name: regressions[name] for name in ["yacht", "airfoil", "diabetes"]}
        kinds = {name: kinds[name] for name in ["wine", "two moons"]}
    if options.sets:
        regressions = {name: load for name, load in regressions.items() if name in options.sets.split(",")}
        kinds = {name: load for name, load in kinds.items() if name in options.sets.split(",")}
    began, cells = time.time(), Cells(options.results)
    with tempfile.TemporaryDirectory() as folder:
        run = Runs(options.rla, folder)
        # Split after split, so that what is there has all sets.
        for seed in range(0 if options.table else options.splits):
            for part, of, sets in [("regression", regression, regressions), ("classes", classes, kinds)]:
                for name, load in sets.items() if part in parts else []:
                    cells.measure(part, name, seed, lambda: of(run, *load(), seed, options))
            if "labels" in parts:
                cells.measure("labels", "digits", seed, lambda: wrong_labels(run, seed, options))
    failures = regression_tables(cells)
    other_tables(cells)
    print(f"\nat most {options.rows} rows, {options.hidden} hidden units, {time.time() - began:.0f} s")
    sys.exit("; ".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
