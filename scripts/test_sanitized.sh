#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of TIK and of Ascend C on an engine built with AddressSanitizer and UndefinedBehaviorSanitizer, Ascend C
# kernels and programs too:
#   bash scripts/test_sanitized.sh [pytest arguments, default tests/tik and the parts of tests/ascendc without MindSpore]
# A report of a sanitizer ends the process, so that the run fails. Needs .venv (scripts/test.sh makes it).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python="$root/.venv/bin/python"
compiler=${CXX:-g++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v "$compiler" >/dev/null || { echo "test_sanitized.sh: $compiler is missing; accepted: a C++17 compiler (CXX)" >&2; exit 1; }

include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
flags=(-std=c++17 -O1 -g1 -w -fPIC -fno-omit-frame-pointer -ffp-contract=off -fno-strict-aliasing -fvisibility=hidden -pthread
       -fno-sanitize-recover=all "-I$include")
pids=()
for source in $(ls -S "$root"/csrc/*.cc); do # the large ones first
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  checks=address,undefined
  # The inner loops wrap unsigned integers only, and the checks double their time; the glue mirrors a class of MindSpore.
  case "$source" in */simd_* | */mindspore_glue.cc) checks=address ;; esac
  "$compiler" "${flags[@]}" "-fsanitize=$checks" -c "$source" -o "$work/$(basename "$source" .cc).o" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
"$compiler" -shared -pthread -fsanitize=address,undefined "$work"/*.o -o "$work/_engine$suffix"

# A pytest plugin that puts the sanitized library before the installed one.
cat > "$work/sanitized_engine.py" <<'PLUGIN'
import pathlib

import ms_custom_ops
from ms_custom_ops import engine

ms_custom_ops.__path__.insert(0, str(pathlib.Path(__file__).parent))
assert engine.library_path().parent == pathlib.Path(__file__).parent
PLUGIN

# Ascend C kernels are built with the same checks, but for those that have errors of their own there.
cat > "$work/cxx" <<CXX
#!/bin/sh
exec "$compiler" -fsanitize=address,undefined -fno-sanitize-recover=all -fno-sanitize=integer-divide-by-zero,null "\$@"
CXX
chmod +x "$work/cxx"
export MS_CUSTOM_OPS_CXX="$work/cxx" MS_CUSTOM_OPS_CACHE_DIR="$work/cache"

cd "$root"
# The fuzz target has a sanitizer of its own, which does not go beside that of this run.
[ $# -gt 0 ] || set -- tests/tik --ignore=tests/tik/test_fuzz.py tests/ascendc/test_{atomics,base,cases,cube,idioms,library,matmul,program,project,random}.py
PYTHONPATH="$work" ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:log_path="$work/report" UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  LD_PRELOAD="$("$compiler" -print-file-name=libasan.so):$("$compiler" -print-file-name=libubsan.so)" \
  "$python" -m pytest -p sanitized_engine -p no:cacheprovider -q "$@" || { status=$?; cat "$work"/report* >&2 2>/dev/null || true; exit "$status"; }
