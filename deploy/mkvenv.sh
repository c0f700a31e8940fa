#!/bin/sh
# Makes the virtual environment: `deploy/mkvenv.sh runtime|dev|service`. In it: the hashed lock and this checkout
# (editable; `service` has a copy of its own, or the wheel of WHEEL=file). Does nothing while the locks, the metadata and
# the place of the checkout are what they were. Uses uv if there is one, else pip. Names what is missing instead of leaving
# a half-made environment behind.
#
# PYTHON=python3.12 chooses an interpreter, VENV=dir another place.
set -eu

kind=${1:-runtime}
case $kind in
    runtime | service) lock=deploy/requirements.txt ;;
    dev) lock=deploy/requirements-dev.txt ;;
    *) echo "usage: deploy/mkvenv.sh runtime|dev|service" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
here=$(pwd -P)
venv=${VENV:-.venv}
stamp=$venv/.checkvisor
build=deploy/requirements-build.txt

say() { echo "mkvenv: $*" >&2; }

# --- is there anything to do? ---

# The console script's metadata come from setup.cfg and pyproject.toml; the editable install knows the path.
want() { # want KIND LOCK
    { echo "$1 $here"; cat "$2" "$build" setup.cfg pyproject.toml; } | cksum | cut -d ' ' -f 1,2
}

if [ -x "$venv/bin/python" ] && [ -f "$stamp" ]; then
    have=$(cat "$stamp")
    if [ "$have" = "$kind $(want "$kind" "$lock")" ]; then
        exit 0
    fi
    # what development needs includes what running needs
    if [ "$kind" = runtime ] && [ "$have" = "dev $(want dev deploy/requirements-dev.txt)" ]; then
        exit 0
    fi
    # a changed runtime lock must not take the development tools away again
    case $have in dev\ *) kind=dev; lock=deploy/requirements-dev.txt ;; esac
fi

# --- which Python, and with what ---

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1; }

if [ -x "$venv/bin/python" ] && ! fits "$venv/bin/python"; then
    say "$venv is too old or broken: making it anew"
    rm -rf "$venv"
fi

uv=
if command -v uv > /dev/null 2>&1 && uv --version > /dev/null 2>&1; then
    uv=uv
fi

# An environment made by uv has no pip; without uv it can't be changed any more.
if [ -x "$venv/bin/python" ] && [ -z "$uv" ] && ! "$venv/bin/python" -m pip --version > /dev/null 2>&1; then
    say "$venv has no pip and uv is not there any more: making it anew"
    rm -rf "$venv"
fi

if [ ! -x "$venv/bin/python" ]; then
    python=
    for candidate in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3}; do
        if command -v "$candidate" > /dev/null 2>&1 && fits "$candidate"; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        say "no Python 3.11 or newer found${PYTHON:+ (PYTHON=$PYTHON)}. On Debian and Ubuntu: sudo apt install python3-venv"
        exit 1
    fi
    if [ -z "$uv" ] && ! "$python" -c 'import ensurepip, venv' > /dev/null 2>&1; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        say "$python can't make virtual environments: its module ensurepip is missing."
        say "On Debian and Ubuntu: sudo apt install python$version-venv (or python3-venv)"
        exit 1
    fi
    # From here on, whatever goes wrong (Ctrl-C too), the half-made environment goes away again.
    trap 'status=$?; if [ ! -f "$stamp" ]; then rm -rf "$venv"; say "failed: $venv is removed again"; fi; exit $status' EXIT
    trap 'exit 130' INT TERM HUP
    say "making $venv with $("$python" -V 2>&1) ($python)${uv:+ and uv}"
    if [ -n "$uv" ]; then
        uv venv --quiet --clear --python "$(command -v "$python")" "$venv"
    else
        "$python" -m venv --clear "$venv"
    fi
else
    say "the locked packages changed: bringing $venv up to date"
fi
rm -f "$stamp"

# --- fill it ---

install() {
    if [ -n "$uv" ]; then
        uv pip install --quiet --python "$venv/bin/python" "$@"
    else
        "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --quiet --no-warn-script-location "$@"
    fi
}

# A lock is complete: --no-deps says so, and lets it override one wrong pin of a test tool (lock.sh has the story).
install --require-hashes --no-deps -r "$lock" -r "$build"
# setuptools came with the line before, so nothing is fetched to build with. Installed, not just on the path: the
# forkserver of the pool preloads only what is importable from site-packages.
if [ "$kind" != service ]; then
    install --no-build-isolation --no-deps --editable .
elif [ -n "${WHEEL:-}" ]; then
    install --no-deps "$WHEEL"
else
    copy=$(mktemp -d)
    cp -R supervisor webui setup.cfg pyproject.toml README.md LICENSE "$copy"
    find "$copy" -name __pycache__ -type d -prune -exec rm -rf {} +
    done=0
    install --no-build-isolation --no-deps "$copy" || done=$?
    rm -rf "$copy"
    [ "$done" = 0 ] || exit "$done"
fi

echo "$kind $(want "$kind" "$lock")" > "$stamp.new"
mv "$stamp.new" "$stamp"
