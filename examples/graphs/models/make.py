"""Trains the three small networks of the example `graphs` and writes them as ONNX, with the rows that they were trained on.

    python make.py            needs torch, onnx, onnxscript and numpy; run in this folder

- transformer: a tabular transformer (a token per column, a class token, one block) on 250 rows of yacht
- recurrent:   an LSTM that predicts the next value of a noisy oscillation from the last ten
- vision:      a vision transformer (16 patches of 2 × 2 pixels, one block) on 200 digits
"""
import csv
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "data"


def block(width, heads, hidden):
    layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return layer


class Transformer(nn.Module):
    def __init__(self, columns, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns, width) / 2)
        self.bias = nn.Parameter(torch.randn(columns, width) / 2)
        self.token = nn.Parameter(torch.randn(1, 1, width) / 2)
        self.block = block(width, 2, 16)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        tokens = x[:, :, None] * self.weight + self.bias
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1)
        return self.head(self.block(tokens)[:, 0])


class Recurrent(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.lstm(x[:, :, None])[0][:, -1])


class Vision(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.places = nn.Parameter(torch.randn(1, 16, width) / 2)
        self.block = block(width, 2, 16)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        tokens = self.patches(x.reshape(-1, 1, 8, 8)).flatten(2).transpose(1, 2) + self.places
        return self.head(self.block(tokens).mean(1))


def table(path):
    with open(path) as file:
        rows = list(csv.reader(file))
    return rows[0], np.array(rows[1:], dtype=float)


def write(path, names, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([[f"{value:.7g}" for value in row] for row in rows])


def train(net, x, y, loss, steps=1500, decay=1e-3):
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    optimizer = torch.optim.AdamW(net.parameters(), 5e-3, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
        schedule.step()
    print(type(net).__name__, sum(p.numel() for p in net.parameters()), "parameters, loss", float(value))
    return net.eval()


def export(net, x, name):
    path = HERE / f"{name}.onnx"
    torch.onnx.export(net, (torch.tensor(x[:3], dtype=torch.float32),), path, dynamo=True,
                      dynamic_shapes=({0: torch.export.Dim("points")},), external_data=False, verbose=False)
    # Without the traces of the machine that it was made on.
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    onnx.save(model, path)


def main():
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    names, yacht = table(DATA / "uci" / "yacht.csv")
    yacht = (yacht - yacht.mean(0)) / yacht.std(0)
    yacht = yacht[rng.permutation(len(yacht))]
    write(HERE / "transformer_train.csv", names, yacht[:200])
    write(HERE / "transformer_test.csv", names, yacht[200:])
    x, y = yacht[:200, :-1], yacht[:200, -1:].astype(np.float32)
    export(train(Transformer(x.shape[1]), x, y, nn.functional.mse_loss), x, "transformer")

    time = np.arange(260) * 0.4
    series = np.sin(time) * (1 + 0.3 * np.sin(0.23 * time)) + 0.1 * rng.standard_normal(260)
    rows = np.array([series[start:start + 11] for start in range(250)])
    names = [f"lag_{10 - i}" for i in range(10)] + ["next"]
    write(HERE / "recurrent_train.csv", names, rows[:180])
    write(HERE / "recurrent_test.csv", names, rows[180:])
    x, y = rows[:180, :10], rows[:180, 10:].astype(np.float32)
    export(train(Recurrent(), x, y, nn.functional.mse_loss), x, "recurrent")

    _, digits = table(DATA / "digits.csv")
    digits = digits[rng.permutation(len(digits))]
    digits[:, :64] /= 16
    names = [f"pixel_{i}" for i in range(64)] + ["digit"]
    write(HERE / "vision_train.csv", names, digits[:200])
    write(HERE / "vision_test.csv", names, digits[200:400])
    x, y = digits[:200, :64], digits[:200, 64].astype(np.int64)
    export(train(Vision(), x, y, nn.functional.cross_entropy, steps=300, decay=0.1), x, "vision")


main()
