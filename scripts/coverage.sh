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
"$venv/bin/python" -m coverage run -m pytest "$@"
"$venv/bin/python" -m coverage combine -q
"$venv/bin/python" -m coverage report
