#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the primitives and functions of the ops from op_info: ms-custom-ops gen. Arguments go to it (--help lists them).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
exec "$venv/bin/ms-custom-ops" gen "$@"
