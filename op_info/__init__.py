# SPDX-License-Identifier: Apache-2.0
"""op_info YAML files, one per op: the single source of truth of arguments, dtypes, gradients and chips."""

from __future__ import annotations

if __name__ == "op_info":
    raise ImportError("import ms_custom_ops.op_info: 'op_info' from the checkout would be a second copy of it")
