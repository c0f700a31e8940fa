#!/bin/sh
# Builds wheel and sdist from a copy of what belongs to them: `deploy/build.sh PYTHON OUT`. Leaves nothing in the checkout.
# PYTHON has `build` and setuptools (a development environment); nothing is fetched.
set -eu
python=$1
mkdir -p "$2"
out=$(cd "$2" && pwd -P)
case $python in */*) python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") ;; esac
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -cf - --exclude=__pycache__ --exclude='*.egg-info' \
    supervisor webui deploy docs tests bench setup.cfg pyproject.toml MANIFEST.in Makefile README.md CHANGELOG.md LICENSE config.yaml \
    | tar -xf - -C "$copy"
"$python" -m build --no-isolation --outdir "$out" "$copy" > "$copy/build.log" 2>&1 || { cat "$copy/build.log" >&2; exit 1; }
tail -n 1 "$copy/build.log"
