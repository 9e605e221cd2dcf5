# SPDX-License-Identifier: Apache-2.0
"""Running Programs: the native engine (:mod:`.native`) and the definition of every instruction (:mod:`.reference`)."""

from ms_custom_ops.engine.native import (
    ENGINES,
    MODES,
    Handle,
    count,
    get_num_threads,
    isa,
    library_path,
    load,
    put_in_table,
    run,
    set_isa,
    set_num_threads,
)

__all__ = [
    "ENGINES",
    "MODES",
    "Handle",
    "count",
    "get_num_threads",
    "isa",
    "library_path",
    "load",
    "put_in_table",
    "run",
    "set_isa",
    "set_num_threads",
]
