#!/bin/sh
# Writes the three hashed, universal locks (to run, to build, to develop) from setup.cfg and pyproject.toml. Needs uv; run by `make lock`.
# httpbin asks for greenlet < 3 on Python 3.11 and uses it nowhere; playwright needs 3.1.1. The override says so, and
# mkvenv.sh installs with --no-deps, since a lock is complete.
set -eu
cd "$(dirname "$0")/.."
override=$(mktemp)
trap 'rm -f "$override"' EXIT
echo "greenlet >= 3.1.1" > "$override"
compile() {
    out=$1
    shift
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
        --no-emit-index-url --no-emit-find-links --override "$override" "$@" --output-file "$out"
    if grep -nE '^--(index|extra|find)|file:|://' "$out"; then
        echo "lock.sh: $out names a place of this machine (see above)" >&2
        exit 1
    fi
}
compile deploy/requirements.txt setup.cfg
compile deploy/requirements-build.txt --group build
# constrained, so that tests run on the very versions that users get
compile deploy/requirements-dev.txt setup.cfg --group dev --constraints deploy/requirements.txt
