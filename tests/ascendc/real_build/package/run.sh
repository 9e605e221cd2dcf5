#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh MODE CHIP BUILD: builds, installs and runs as the samples' scripts do.
set -e
source "$ASCEND_INSTALL_PATH/bin/setenv.bash"
cmake -S "$(dirname "$0")" -B "$3" -DRUN_MODE="$1" -DSOC_VERSION="$2" -DCMAKE_INSTALL_PREFIX="$3/out" \
  -DASCEND_CANN_PACKAGE_PATH="$ASCEND_HOME_PATH" > "$3.log"
cmake --build "$3" -j 2 >> "$3.log"
cmake --install "$3" >> "$3.log"
export LD_LIBRARY_PATH="$3/out/lib:$3/out/lib64:$ASCEND_HOME_PATH/lib64:$LD_LIBRARY_PATH"
"$3/out/bin/main"
