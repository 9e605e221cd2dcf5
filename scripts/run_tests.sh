#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the cases of the ops against their goldens: ms-custom-ops test. Arguments go to it (--help lists them).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
exec "$venv/bin/ms-custom-ops" test "$@"
