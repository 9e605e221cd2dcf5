#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the decoder and the engine at every SIMD level, from Programs of traced kernels on:
#   bash scripts/fuzz.sh SECONDS [FOLDER]
# Needs clang++ with libFuzzer (Debian: clang and libclang-rt-*-dev) and an environment with ms_custom_ops (.venv, or PYTHON).
# FOLDER keeps the corpus between runs, with what was found in FOLDER/found; without one both go when nothing was found. One
# finding is run again as FOLDER/fuzz FILE. Nightly: bash scripts/fuzz.sh 1800 runs/fuzz
# FUZZ: a target that is built already; FUZZ_SEED: of libFuzzer, 0 a new one. scripts/sweep.py runs several.
set -euo pipefail

seconds=${1:?usage: fuzz.sh SECONDS [FOLDER]}
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
export CXX=${CXX:-clang++}
command -v "$CXX" >/dev/null || { echo "fuzz.sh: $CXX is missing; accepted: clang++ with libFuzzer (CXX)" >&2; exit 1; }

folder=${2:-$(mktemp -d)}
mkdir -p "$folder/corpus" "$folder/seeds" "$folder/found"
fuzz=${FUZZ:-}
if [ -z "$fuzz" ]; then
  fuzz=$folder/fuzz
  MAIN=fuzz SANITIZE=fuzzer,address,undefined bash "$root/scripts/build_sanitized.sh" "$fuzz"
fi
"$python" "$root/scripts/fuzz_seeds.py" "$folder/seeds"
status=0
"$fuzz" -seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=4096 -artifact_prefix="$folder/found/" \
  -print_final_stats=1 -verbosity=0 "$folder/corpus" "$folder/seeds" || status=$?
if [ "$status" -ne 0 ]; then
  echo "fuzz.sh: found, and kept in $folder/found: $(ls "$folder/found")" >&2
elif [ $# -lt 2 ]; then
  rm -rf "$folder"
fi
exit "$status"
