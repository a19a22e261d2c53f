"""The report's verdict on overfitting, counted on 40 networks: eight data sets, each with the default training and four plain
trainings by Adam of different length and width. And what `rla loo --compare` says of the default beside each of the others.

    venv/bin/python benches/first_hour/overfitting.py --rla target/release/rla            # the networks of the rules
    venv/bin/python benches/first_hour/overfitting.py --rla target/release/rla --fresh    # others, on sets chosen by name

Half of the held-out rows are given to the report. The others say what is true: a network is overfitted if, although it explains more
of its training rows than the best of the five, its negative log likelihood on them is worse by more than 0.1 nats a row. Leave-one-out
misleads if it prefers a network that is worse on them; with --refit it is asked of the default beside 1,000 epochs.
"""

import argparse
import json
import pathlib
import subprocess
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
FRESH = ["auto", "college", "credit", "carseats", "oj", "mroz", "hprice1", "bwght"]
WORSE = 0.1
REFITTED = 2


def preferred(program, folder, index, *refit):
    """Which of the default (0) and another network leave-one-out prefers: a place, None if it cannot tell, or "refused"."""
    names = [str(folder / f"p{place}.safetensors") for place in (0, index)]
    run = subprocess.run([program, "loo", "--posterior", names[0], "--compare", names[1], "--json", *refit], capture_output=True, text=True)
    if run.returncode == 2 and "other weights" in run.stderr:
        return "refused"
    outcome = json.loads(run.stdout)
    better = (outcome["refit"] if refit else outcome)["comparison"]["better"]
    return None if better is None else (0, index)[names.index(better)]


def judge(program, name, seed=0):
    likelihood, load = SETS[name]
    table, target = load()
    table = table.dropna()
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
            if index > 0:
                rows[-1]["loo"] = (index, preferred(program, folder, index))
            if index == REFITTED:
                rows[-1]["refit"] = (index, preferred(program, folder, index, "--refit", "5"))
    best = min(rows, key=lambda row: row["nll"])
    for row in rows:
        row["truth"] = row["training"] > best["training"] and row["nll"] > best["nll"] + WORSE
    return rows


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rla", default="target/release/rla")
    options.add_argument("--sets", default=",".join(CHOSEN))
    options.add_argument("--fresh", action="store_true")
    chosen = options.parse_args()
    sets = FRESH if chosen.fresh else chosen.sets.split(",")
    rows, said = [], {"loo": [], "refit": []}
    print("| set | network | explained, training | NLL, held out | overfitted | verdict with held-out rows | without |")
    print("|---|---|---|---|---|---|---|")
    for name in sets:
        judged = judge(chosen.rla, name)
        for row in judged:
            rows.append(row)
            for way in said:
                if way in row:
                    index, better = row[way]
                    worse = None if better in (None, "refused") else judged[index if better == 0 else 0]["nll"] < judged[better]["nll"]
                    said[way].append((better, worse))
            yes = lambda value: "yes" if value else "no"
            print(f"| {row['set']} | {row['network']} | {row['training']:.3f} | {row['nll']:.3f} | {yes(row['truth'])} | "
                  f"{yes(row['with'])} | {yes(row['without'])} |", flush=True)
    for kind in ("with", "without"):
        right = sum(row[kind] == row["truth"] for row in rows)
        alarms = sum(bool(row[kind]) and not row["truth"] for row in rows)
        print(f"{kind} held-out rows: right on {right} of {len(rows)}, false alarms {alarms}")
    for way, answers in said.items():
        refused = sum(better == "refused" for better, _ in answers)
        cannot = sum(better is None for better, _ in answers)
        wrong = sum(bool(worse) for _, worse in answers)
        print(f"loo --compare{' --refit 5' if way == 'refit' else ''}: {len(answers)} pairs, {refused} refused, "
              f"{cannot} cannot be told, {wrong} prefer the worse network")


if __name__ == "__main__":
    main()
