#!/usr/bin/env bash
# packaging/archive.sh TARGET FOLDER: builds `rla` for a target and puts the program, its manual pages, completions, README and licences
# into one archive there.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
folder=$2
version=$(sed -nE 's/^version = "(.*)"$/\1/p' Cargo.toml | head -n 1)
name=riemannian-laplace-$version-$target
case "$target" in *windows*) program=rla.exe ;; *) program=rla ;; esac

rustup target add "$target" 2> /dev/null || true
cargo build --release --locked --bin rla --target "$target"
built=${CARGO_TARGET_DIR:-target}/$target/release/$program
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name/completions"
cp "$built" README.md LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$work/$name"
# The program that was built says what is in it; one for another processor cannot.
if "$built" doctor; then
    "$built" man "$work/$name/man"
    for shell in bash zsh fish powershell elvish; do "$built" completions "$shell" > "$work/$name/completions/rla.$shell"; done
fi
tar -czf "$folder/$name.tar.gz" -C "$work" "$name"
echo "$folder/$name.tar.gz"
