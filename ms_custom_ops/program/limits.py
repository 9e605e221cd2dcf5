# SPDX-License-Identifier: Apache-2.0
"""Limits of a Program, once: the front end, the reference engine and both decoders refuse what is beyond them.

``csrc/limits.inc`` is generated from the table by ``ms-custom-ops gen``. Python code reads the names through this
module (``limits.NESTING``), so that there is one value at any time.
"""

from __future__ import annotations

NESTING = 100  # loops, branches and regions inside one another; the branches of one if are one level
BRANCHES = 400  # conditions of one if with its elifs
BLOCKS = 65535  # of the multi-core loop
THREADS = 4  # thread_num of a loop, and copies of a tensor in it
RANK = 16  # dimensions of a tensor
ARGUMENTS = 192  # inputs, outputs, workspaces and input scalars of a kernel
TENSORS = 1 << 16
SCALARS = 1 << 20
EXPRESSION_OPERATORS = 4096  # of one expression as it is written out
EXPRESSION_DEPTH = 2000
SCOPE_BYTES = 64 << 20  # of one on-chip buffer
SIZE_BYTES = (1 << 63) - 1  # of a tensor, and the largest number in a table of the binary form

NAMES = (
    "NESTING",
    "BRANCHES",
    "BLOCKS",
    "THREADS",
    "RANK",
    "ARGUMENTS",
    "TENSORS",
    "SCALARS",
    "EXPRESSION_OPERATORS",
    "EXPRESSION_DEPTH",
    "SCOPE_BYTES",
)


def cpp_text() -> str:
    """Text of ``csrc/limits.inc``."""
    lines = [f"constexpr int64_t k{name.title().replace('_', '')} = {globals()[name]};" for name in NAMES]
    return "\n".join(
        [
            "// SPDX-License-Identifier: Apache-2.0",
            "// Limits of a Program: generated from ms_custom_ops/program/limits.py by ms-custom-ops gen; do not edit.",
            "#pragma once",
            "",
            "#include <cstdint>",
            "",
            "namespace mco::limits {",
            "",
            *lines,
            "",
            "}  // namespace mco::limits",
            "",
        ]
    )
