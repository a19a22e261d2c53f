#!/usr/bin/env bash
# The picture of the report in guide.md: runs the guide's commands in a temporary folder and photographs the page in headless
# Chromium. Usage, in the root of the repository after `cargo build --release`: docs/guide_figures.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$root/data" "$work/data"
cd "$work"
{
    echo "rla() { '${RLA:-$root/target/release/rla}' \"\$@\"; }"
    awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/docs/guide.md"
} > commands.sh
bash -eu commands.sh > /dev/null
"$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$work/profile" \
    --window-size=1180,1360 --blink-settings=preferredColorScheme=1 --screenshot="$work/report.png" \
    "file://$work/guide/report.html" 2> /dev/null
# Larger than Cargo's packages should carry, smaller than a photograph: docs/figures is not in the package.
mv report.png "$root/docs/figures/report.png"
