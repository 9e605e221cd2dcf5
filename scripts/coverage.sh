#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which lines of the library's Python the tests run. Arguments go to pytest (default: all tests); the report ends with the
# total.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
"$venv/bin/python" -c 'import coverage' 2>/dev/null ||
    "$venv/bin/python" -m pip install --disable-pip-version-check -q coverage
cd "$root"
export COVERAGE_FILE="$root/build/coverage/data"
mkdir -p build/coverage
status=0
"$venv/bin/python" -m coverage run -m pytest "$@" || status=$? # counting takes time: a test of speed may fail by it
"$venv/bin/python" -m coverage combine -q
"$venv/bin/python" -m coverage report
exit "$status"
