"""The report's verdict on overfitting, counted on 40 networks: eight data sets, each with the default training and four plain
trainings by Adam of different length and width.

    venv/bin/python benches/first_hour/overfitting.py --rla target/release/rla

Half of the held-out rows are given to the report. The others say what is true: a network is overfitted if, although it explains more
of its training rows than the best of the five, its negative log likelihood on them is worse by more than 0.1 nats a row.
"""

import argparse
import json
import pathlib
import tempfile

from compare import SETS, rla
from sklearn.model_selection import train_test_split

NETWORKS = [
    ("default", ["--hidden", "10"]),
    ("100 epochs", ["--hidden", "10", "--epochs", "100"]),
    ("1,000 epochs", ["--hidden", "10", "--epochs", "1000"]),
    ("5,000 epochs", ["--hidden", "10", "--epochs", "5000"]),
    ("3,000 epochs, 30 wide", ["--hidden", "30", "--epochs", "3000"]),
]
CHOSEN = ["diabetes", "boston", "quakes", "gagurine", "pima", "wine", "breast_cancer", "birthwt"]
WORSE = 0.1


def judge(program, name, seed=0):
    likelihood, load = SETS[name]
    table, target = load()
    labels = table[target] if likelihood != "gaussian" else None
    train, rest = train_test_split(table, test_size=0.5, random_state=seed, stratify=labels)
    shown, truth = train_test_split(rest, test_size=0.5, random_state=seed)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for part, frame in [("train", train), ("shown", shown), ("truth", truth)]:
            frame.to_csv(folder / f"{part}.csv", index=False)
        about = ["--target", target, "--likelihood", likelihood]
        for index, (words, options) in enumerate(NETWORKS):
            model, posterior = folder / f"m{index}.safetensors", folder / f"p{index}.safetensors"
            rla(program, "train", "--data", folder / "train.csv", *about, *options, "--out", model)
            tuned = [] if index == 0 else ["--optimize"]
            rla(program, "fit", "--model", model, "--data", folder / "train.csv", *about, *tuned, "--out", posterior)
            report = lambda *data: json.loads(
                rla(program, "report", "--posterior", posterior, *data, "--method", "map,glm", "--json", "--out", folder / "r.html")
            )
            with_rows, without = report("--data", folder / "shown.csv", "--target", target), report()
            outcome = json.loads(
                rla(program, "evaluate", "--posterior", posterior, "--data", folder / "truth.csv", "--target", target, "--method", "map", "--json")
            )
            rows.append(
                {"set": name, "network": words, "training": with_rows["explained"]["training"], "nll": outcome["nll"],
                 "with": with_rows["overfitted"], "without": without["overfitted"]}
            )
    best = min(rows, key=lambda row: row["nll"])
    for row in rows:
        row["truth"] = row["training"] > best["training"] and row["nll"] > best["nll"] + WORSE
    return rows


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rla", default="target/release/rla")
    options.add_argument("--sets", default=",".join(CHOSEN))
    chosen = options.parse_args()
    rows = []
    print("| set | network | explained, training | NLL, held out | overfitted | verdict with held-out rows | without |")
    print("|---|---|---|---|---|---|---|")
    for name in chosen.sets.split(","):
        for row in judge(chosen.rla, name):
            rows.append(row)
            yes = lambda value: "yes" if value else "no"
            print(f"| {row['set']} | {row['network']} | {row['training']:.3f} | {row['nll']:.3f} | {yes(row['truth'])} | "
                  f"{yes(row['with'])} | {yes(row['without'])} |", flush=True)
    for kind in ("with", "without"):
        right = sum(row[kind] == row["truth"] for row in rows)
        alarms = sum(bool(row[kind]) and not row["truth"] for row in rows)
        print(f"{kind} held-out rows: right on {right} of {len(rows)}, false alarms {alarms}")


if __name__ == "__main__":
    main()
