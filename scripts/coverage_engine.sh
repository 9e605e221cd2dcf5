#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which lines of the engine (csrc, without csrc/acl and csrc/tests) the tests run, by gcov:
#   bash scripts/coverage_engine.sh [pytest arguments, default tests/tik and tests/cost]
# Builds an engine of its own into build/coverage/engine and leaves the installed one alone. Children that a test starts with
# another engine do not count. The report ends with the total.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

compiler=${CXX:-g++}
command -v "${compiler%% *}" >/dev/null || die "${compiler%% *} is missing; accepted: g++ with gcov (CXX)"
[ -x "$venv/bin/python" ] || ensure_environment
"$venv/bin/python" -c 'import gcovr' 2>/dev/null ||
    "$venv/bin/python" -m pip install --disable-pip-version-check -q gcovr

work="$root/build/coverage/engine"
mkdir -p "$work"
find "$work" -name '*.gcda' -delete  # counts of an earlier run
include=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
suffix=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
flags=(-std=c++17 -O0 -g0 -w --coverage -fprofile-update=atomic -fPIC -ffp-contract=off -fno-strict-aliasing
       -fvisibility=hidden -pthread "-I$include")
say "building an engine that counts its lines into $work"
pids=()
for source in $(ls -S "$root"/csrc/*.cc); do # the large ones first
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    $compiler "${flags[@]}" -c "$source" -o "$work/$(basename "$source" .cc).o" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
$compiler -shared -pthread --coverage "$work"/*.o -o "$work/_engine$suffix"

# A pytest plugin that puts this library before the installed one.
cat > "$work/counting_engine.py" <<'PLUGIN'
import pathlib

import ms_custom_ops
from ms_custom_ops import engine

ms_custom_ops.__path__.insert(0, str(pathlib.Path(__file__).parent))
assert engine.library_path().parent == pathlib.Path(__file__).parent
PLUGIN

cd "$root"
[ $# -gt 0 ] || set -- tests/tik tests/cost
status=0
PYTHONPATH="$work" "$venv/bin/python" -m pytest -p counting_engine -p no:cacheprovider -q "$@" || status=$?
"$venv/bin/python" -m gcovr --root "$root/csrc" --object-directory "$work" --exclude '.*/csrc/tests/.*' \
    --merge-lines --gcov-ignore-parse-errors=negative_hits.warn "$work"
exit "$status"
