# SPDX-License-Identifier: Apache-2.0
# Shared by quickstart.sh and test.sh: `ensure_environment` makes or reuses .venv in the checkout and installs the
# package into it, editable, with everything the examples and the tests need.
# To be sourced under `set -euo pipefail`.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"
supported="Python 3.10, 3.11 or 3.12"

say() { printf '%s\n' "[ms_custom_ops] $*" >&2; }
die() { say "ERROR: $*"; exit 1; }

python_is_supported() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))' >/dev/null 2>&1; }

# Prints the first interpreter of a supported version. A name on PATH may be a shim that does not run: it is tried.
find_python() {
    local name
    for name in python3.11 python3.12 python3.10 python3; do
        if python_is_supported "$name"; then command -v "$name"; return; fi
    done
    die "no usable Python on PATH: needs $supported, found $(python3 --version 2>/dev/null || echo 'no python3')." \
        "Install one, for example: apt-get install python3.11 python3.11-venv"
}

make_venv() {
    local python
    if [ -e "$venv/bin/python" ] || [ -L "$venv/bin/python" ]; then
        "$venv/bin/python" -c '' 2>/dev/null || die "$venv/bin/python does not run; remove $venv and start again"
        python_is_supported "$venv/bin/python" ||
            die "$venv holds $("$venv/bin/python" --version); needs $supported. Remove it and start again"
        "$venv/bin/python" -m pip --version >/dev/null 2>&1 ||
            die "$venv has no pip; remove it and start again"
        return
    fi
    python="$(find_python)"
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        die "$python has no venv module; install it, for example: apt-get install python3-venv"
    say "creating $venv with $("$python" --version)"
    "$python" -m venv "$venv" || die "$python -m venv $venv failed"
}

# What decides whether the installation is current: the metadata, the engine's sources and the place of the checkout.
fingerprint() {
    (cd "$root" && { pwd; cat setup.cfg setup.py pyproject.toml; find csrc -type f | LC_ALL=C sort | xargs -r sha256sum; }) |
        sha256sum | cut -d' ' -f1
}

# Names the usual reasons of a failed installation that pip's own text buries.
explain_failure() {
    if grep -qE 'name resolution|ConnectionError|Max retries|NewConnectionError|Network is unreachable|Read timed out' "$1"; then
        say "the package index could not be reached: a network connection is needed for the first set-up"
    elif grep -qF 'from versions: none' "$1"; then
        say "the package index knows no version of a dependency at all; is there a network connection, and is it" \
            "the right index (pip config list)?"
    elif grep -qE 'No matching distribution|Could not find a version' "$1"; then
        say "the package index has no fitting version of a dependency for this Python and machine ($(uname -m))"
    elif grep -qF 'Python.h' "$1"; then
        say "the Python headers are missing; install them, for example: apt-get install python3-dev"
    elif grep -qF 'No space left' "$1"; then
        say "the disk is full"
    fi
}

install_package() {
    local log="$venv/install.log" stamp="$venv/installed.sha256" current compiler
    current="$(fingerprint)"
    if [ "$(cat "$stamp" 2>/dev/null)" = "$current" ]; then return; fi
    compiler="${CXX:-g++}"
    # CXX may carry options: only its first word is the program.
    command -v "${compiler%% *}" >/dev/null 2>&1 ||
        die "no C++ compiler: ${compiler%% *} was not found; install one, for example: apt-get install g++"
    say "installing ms_custom_ops and what it needs into $venv (some minutes the first time)"
    if ! "$venv/bin/python" -m pip install --disable-pip-version-check -e "$root[mindspore,test,examples]" >"$log" 2>&1; then
        tail -n 25 "$log" >&2
        explain_failure "$log"
        die "the installation failed; the full text is in $log"
    fi
    printf '%s\n' "$current" >"$stamp"
}

# The lock keeps two scripts that start together from installing into one environment at once.
ensure_environment() {
    [ "$(uname -s)" = Linux ] || die "MindSpore's wheels used here are for Linux, this is $(uname -s)"
    (
        flock 9
        make_venv
        install_package
    ) 9<"$root/setup.cfg"
}
