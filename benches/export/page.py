#!/usr/bin/env python3
"""Compares the page of examples/browser, as a browser has drawn it, with predictions: page.py DOM PREDICTIONS."""

import csv
import re
import sys

page = open(sys.argv[1]).read()
if ">ready<" not in page:
    sys.exit("the page is not ready: " + "".join(re.findall(r'id="state">([^<]*)', page)))
band = re.search(r'class="band" points="([^"]+)"', page)
if not band or len(band.group(1).split()) != 402:
    sys.exit("no band is drawn")
rows = re.findall(r"<tr><td>([^<]+)</td><td>([^<]+)</td><td>([^<]+)</td><td>([^<]+)</td></tr>", page)
expected = list(csv.DictReader(open(sys.argv[2])))
if len(rows) != 10 or len(expected) != 10:
    sys.exit(f"{len(rows)} points on the page, {len(expected)} predictions")
size = max(abs(float(row[name])) for row in expected for name in ("mean", "lower", "upper"))
worst = max(
    abs(float(value) - float(row[name]))
    for found, row in zip(rows, expected)
    for value, name in zip(found[1:], ("mean", "lower", "upper"))
)
# Single precision, and seven digits in the table.
if not worst < 1e-5 * size:
    sys.exit(f"the page is off by {worst:.1e} of {size:.1e}")
print(f"the page: a band, and ten points within {worst / size:.0e} of the program's")
