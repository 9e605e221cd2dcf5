#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up .venv if needed and trains a small GPT with the TIK flash attention and with MindSpore's own operators.
# Arguments go to examples/train_gpt.py (--help lists them).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ensure_environment
# MindSpore's warnings about its own deprecated modules would bury the progress bar.
export GLOG_v="${GLOG_v:-3}"
"$venv/bin/python" "$root/examples/train_gpt.py" --out "$root/runs/gpt" "$@"
