#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts a vendor package where CANN looks for it: ms-custom-ops install. Arguments go to it (--help lists them).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
exec "$venv/bin/ms-custom-ops" install "$@"
