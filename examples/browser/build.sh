#!/usr/bin/env bash
# Makes the page: trains a small network on Snelson's data, exports its posterior, and fetches onnxruntime-web from npm into
# `vendor/`. Then serve the folder (`python3 -m http.server`) and open it. Usage: build.sh [FOLDER], by default this one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$here}
rla=${RLA:-$root/target/release/rla}
[ -x "$rla" ] || (cd "$root" && cargo build --release --bin rla)
mkdir -p "$out/vendor"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
data=(--data "$root/data/snelson.csv" --target y --likelihood gaussian)
"$rla" train -q "${data[@]}" --hidden 10 --seed 1 --out model.safetensors
"$rla" fit -q --model model.safetensors "${data[@]}" --optimize --out "$out/posterior.safetensors"
"$rla" export -q --posterior "$out/posterior.safetensors" --out "$out/bars.onnx"
npm pack --silent onnxruntime-web@1.30.0 > /dev/null
tar xzf onnxruntime-web-*.tgz
for file in ort.wasm.min.js ort-wasm-simd-threaded.mjs ort-wasm-simd-threaded.wasm; do
    cp "package/dist/$file" "$out/vendor/"
done
[ "$out" = "$here" ] || cp "$here/index.html" "$out/"
