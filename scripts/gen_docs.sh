#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the documentation as a site into build/site; any broken link or missing page fails. Arguments go to mkdocs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
"$venv/bin/python" -c 'import mkdocs, material, mkdocstrings' 2>/dev/null ||
    "$venv/bin/python" -m pip install --disable-pip-version-check -q -e "$root[docs]"
cd "$root"
"$venv/bin/python" -m mkdocs build --strict --site-dir build/site "$@"
