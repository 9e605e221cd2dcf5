#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up .venv if needed and runs every check: lint, generated files, tests.
# Tests run side by side, one process per core. Arguments go to pytest; tests marked nightly run only when asked
# for: bash scripts/test.sh -m nightly
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
cd "$root"
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
"$venv/bin/ms-custom-ops" gen --check
"$venv/bin/python" scripts/tik_coverage.py --check
"$venv/bin/pytest" -n auto --dist worksteal "$@"
