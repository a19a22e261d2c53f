"""Times the fits of the MNIST table on both sides in one run, in turn: ours, laplace-torch's, ours, …

    python3 benches/mnist/side_by_side.py BENCH FOLDER [rows] [--repeats 3] [--threads N] [--limit SECONDS]

BENCH is the program that `cargo bench --bench mnist --no-run` names. Rows are kronecker, last-layer-kronecker and
last-layer-full. Every fit is a process of its own with the images in its memory; what is timed is fitting and tuning the
prior precision, without the start of the process and without reading images, by the clock and by processor time of all
threads. The peak is that of the whole process. Threads of either side wait for each other by spinning, so that on a machine with
other work processor time is only fair with --threads 1. Prints each run, and the least of each side.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

PEER = Path(__file__).with_name("laplace_torch.py")


def run(command, limit, threads):
    """The last line of JSON that a fit prints."""
    names = ["RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] if threads else []
    environment = os.environ | {name: str(threads) for name in names}
    try:
        done = subprocess.run(command, timeout=limit, capture_output=True, text=True, check=True, env=environment)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, command))}: {error.stderr[-500:]}")
    line = [line for line in done.stdout.splitlines() if "{" in line][-1]
    return json.loads(line[line.index("{"):])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("folder")
    parser.add_argument("rows", nargs="?", type=lambda text: text.split(","),
                        default=["kronecker", "last-layer-kronecker", "last-layer-full"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=float, default=1800)
    options = parser.parse_args()
    for row in options.rows:
        sides = {
            "ours": [options.bench, options.folder, row, "--only-fit"],
            "laplace-torch": [sys.executable, PEER, options.folder, row, "--inside", "--only-fit"],
        }
        best = {}
        for repeat in range(options.repeats):
            for side, command in sides.items():
                cell = run(command, options.limit, options.threads)
                if cell is None:
                    print(f"{row}, {side}: not finished within {options.limit:.0f} s", flush=True)
                    continue
                wall, cpu = cell["fit"] + cell["tune"], cell["fit_cpu"]
                print(f"{row}, {side}, run {repeat + 1}: {wall:.2f} s (fit {cell['fit']:.2f}), CPU {cpu:.2f} s, "
                      f"peak {cell['peak_megabytes']:.0f} MB, evidence {cell['evidence']:.2f}, "
                      f"prior precision {cell['prior_precision']:.3f}", flush=True)
                least = best.setdefault(side, [wall, cpu])
                best[side] = [min(least[0], wall), min(least[1], cpu)]
        if len(best) == 2:
            ours, peer = best["ours"], best["laplace-torch"]
            print(f"{row}: {peer[0] / ours[0]:.1f} times by the clock, {peer[1] / ours[1]:.1f} by CPU (least of each)",
                  flush=True)


if __name__ == "__main__":
    main()
