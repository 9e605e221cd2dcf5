#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds csrc/tests/driver.cc and the engine with AddressSanitizer and UndefinedBehaviorSanitizer:
#   bash scripts/build_sanitized.sh OUTPUT_FILE
# The program is run as OUTPUT_FILE SEED COUNT PROGRAM_FILE..., see csrc/tests/driver.cc. SANITIZE=thread builds with
# ThreadSanitizer instead; MAIN=fuzz SANITIZE=fuzzer,address,undefined CXX=clang++ builds csrc/tests/fuzz.cc (scripts/fuzz.sh).
set -euo pipefail

output=${1:?usage: build_sanitized.sh OUTPUT_FILE}
root=$(cd "$(dirname "$0")/.." && pwd)
compiler=${CXX:-g++}
sanitize=${SANITIZE:-address,undefined}
main=${MAIN:-driver}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v "$compiler" >/dev/null || { echo "build_sanitized.sh: $compiler is missing; accepted: a C++17 compiler (CXX)" >&2; exit 1; }

flags=(-std=c++17 "-O${OPTIMIZE:-1}" -g1 -w -fno-omit-frame-pointer -ffp-contract=off -fno-strict-aliasing -pthread)
[ "$main" != fuzz ] || flags+=(-DMCO_FUZZ)
all=(-fsanitize="$sanitize" -fno-sanitize-recover=all)
# Checks of undefined behaviour double the time of the inner loops, which wrap only unsigned integers.
inner=(-fsanitize="${sanitize%,undefined}" -fno-sanitize-recover=all)

sources=()
for source in "$root"/csrc/*.cc; do
  case "$(basename "$source")" in
    pymodule.cc | mindspore_glue.cc) ;; # need Python and MindSpore's ABI, and no engine code lies there
    *) sources+=("$source") ;;
  esac
done
sources+=("$root/csrc/tests/$main.cc")

# Half of what the other sources take is reading the standard library: once for all of them. A header beside its .gch is
# taken from there by g++ and clang++ alike, or read as it is.
grep -hoE '^#include <[a-z_]+>' "$root"/csrc/*.{h,cc} | sort -u >"$work/standard.h"
"$compiler" "${flags[@]}" "${all[@]}" -x c++-header "$work/standard.h" -o "$work/standard.h.gch"

compile() {
  local some=("${all[@]}" -include "$work/standard.h")
  case "$1" in */simd_*) some=("${inner[@]}") ;; esac
  "$compiler" "${flags[@]}" "${some[@]}" -c "$1" -o "$work/$(basename "$1" .cc).o"
}

pids=()
for source in $(ls -S "${sources[@]}"); do # the large ones first
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  compile "$source" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
"$compiler" "${flags[@]}" "${all[@]}" "$work"/*.o -o "$output"
echo "$output"
