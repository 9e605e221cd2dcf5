#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up .venv with the engine, then traces every declared case: ms-custom-ops compile. Arguments go to it, such as
# -j 4 or --target tbe --out build.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
exec "$venv/bin/ms-custom-ops" compile "$@"
