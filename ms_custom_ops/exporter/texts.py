# SPDX-License-Identifier: Apache-2.0
"""Files around the sources: json for msopgen, CMake, README, the test of an exported project."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.exporter.kernel import CaseFacts
from ms_custom_ops.exporter.model import CONFIG, Subject

_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "float"}
_JSON_KIND = {"int": "int", "float": "float", "bool": "bool", "str": "string"}


def msopgen(subject: Subject) -> list[dict[str, Any]]:
    """The description that ``msopgen gen`` takes."""

    def tensors(parameters: Any) -> list[dict[str, Any]]:
        return [
            {"name": p.name, "param_type": "optional" if p.optional else "required",
             "format": ["ND"] * len(subject.rows),
             "type": [_SHORT.get(row[p.name], row[p.name]) for row in subject.rows]}
            for p in parameters
        ]  # fmt: skip

    attributes = [
        {"name": a.name, "param_type": "optional" if a.has_default else "required", "type": _JSON_KIND[a.kind],
         **({"default_value": a.default} if a.has_default else {})}
        for a in subject.attributes
    ]  # fmt: skip
    return [{"op": subject.type, "language": "cpp", "input_desc": tensors(subject.inputs),
             "output_desc": tensors(subject.outputs), "attr": attributes}]  # fmt: skip


def cmake(subject: Subject) -> str:
    """A package of this one op, by the CMake functions of CANN."""
    return f"""\
# Builds the op as a vendor package with CANN's own CMake package; needs ASCEND_HOME_PATH. An alternative is the project
# that `msopgen gen -i {subject.entry}.json -c ai_core-{subject.soc} -lan cpp -out project` makes, with op_host and
# op_kernel copied into it.
cmake_minimum_required(VERSION 3.16)
project({subject.entry})
find_package(ASC REQUIRED HINTS $ENV{{ASCEND_HOME_PATH}}/compiler/tikcpp/ascendc_kernel_cmake)

npu_op_package({subject.entry}_package TYPE RUN CONFIG ENABLE_SOURCE_PACKAGE True ENABLE_BINARY_PACKAGE True
               INSTALL_PATH ${{CMAKE_BINARY_DIR}}/)
npu_op_code_gen(SRC op_host/{subject.entry}.cpp PACKAGE {subject.entry}_package COMPILE_OPTIONS -g
                OUT_DIR ${{CMAKE_BINARY_DIR}}/autogen OPTIONS ENABLE_SOURCE_PACKAGE ENABLE_BINARY_PACKAGE)
npu_op_kernel_library(ascendc_kernels SRC_BASE ${{CMAKE_SOURCE_DIR}}/op_kernel
                      TILING_LIBRARY cust_optiling)
npu_op_kernel_sources(ascendc_kernels OP_TYPE {subject.type} KERNEL_FILE {subject.entry}.cpp
                      COMPUTE_UNIT {CONFIG[subject.family]})
npu_op_package_add({subject.entry}_package LIBRARY ascendc_kernels cust_optiling)
"""


def readme(subject: Subject, facts: dict[str, CaseFacts]) -> str:
    """What is here, what was run, and what was not."""
    lines = [
        f"# {subject.type}", "",
        f"Exported from the TIK kernel {subject.origin}, traced for {subject.soc}.", "",
        "| case | tiling key | inputs | blocks | workspace bytes | cores |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for key, case in enumerate(subject.cases, 1):
        fact = facts[case.name]
        tensors = ", ".join(f"{t.name} {t.dtype}{list(t.shape)}" for t in case.inputs)
        kind = fact.kind.removeprefix("KERNEL_TYPE_") or "one core for cube and vector"
        lines.append(f"| {case.name} | {key} | {tensors} | {fact.blocks} | {fact.workspace} | {kind} |")
    lines += [
        "", "Shapes, dtypes and attributes of a call must be those of a case: tiling fails for others. Export again",
        "with further cases to have them.", "",
        "## What was run", "",
        f"Nothing of this has run on an Ascend. `python test_{subject.entry}.py` compiles op_host and op_kernel",
        "with g++ against the headers of ms_custom_ops, runs every case there, and compares every bit with the",
        "TIK Program in `programs/`; `prove(..., layout=\"ms_custom_ops_package\")` of ms_custom_ops.exporter.proof",
        "does the same with the sources of that layout. CMakeLists.txt, the json file, the glue and the MindSpore",
        "module are written after the public documentation and were not run.",
        "",
        "## What to know", "",
        "* Tensors on the chip keep the addresses that the TIK kernel had.",
        "* SetFlag and WaitFlag stand where an access of one pipe meets an earlier one of another; within a pipe",
        "  nothing is ordered further, which is left to the compiler (so no `--cce-auto-sync=off`).",
        *_of_some(subject, facts),
        "* What an atomic addition of several blocks gives depends on their order on a chip.",
        "", "## Files", "",
        "| file | is |", "|---|---|",
        f"| op_kernel/{subject.entry}.cpp | the kernel |",
        f"| op_host/{subject.entry}.cpp | OpDef, tiling, shapes and dtypes |",
        f"| op_host/{subject.entry}_cases.h | the table of cases |",
        f"| CMakeLists.txt, {subject.entry}.json | to build with CANN |",
        *([] if subject.in_place else [f"| {subject.entry}_mindspore.py | the op by ops.Custom |"]),
        "| ms_custom_ops_package/ | the op in the layout of MindSpore's own package of operators |",
        f"| test_{subject.entry}.py, programs/ | the proof |", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _of_some(subject: Subject, facts: dict[str, CaseFacts]) -> list[str]:
    """What is to know of kernels for two cores, and of those that change an input."""
    lines = []
    if any("MIX" in fact.kind for fact in facts.values()):
        lines += ["* Between cube and vector core of a block, CrossCoreSetFlag and CrossCoreWaitFlag stand where",
                  "  tiles in GM do."]  # fmt: skip
    if subject.in_place:
        first = subject.in_place[0]
        lines += [
            f"* {', '.join(subject.in_place)}: input and output are one memory. The kernel gets it by two parameters,",
            f"  aclnn takes it once, as {first}Ref. ops.Custom has no form for that: there is no module with it.",
        ]
    return lines


def golden_test(subject: Subject) -> str:
    """A script, and a test of pytest: every case against the Program it came from."""
    return f'''\
"""Every case of {subject.type}: the exported sources, compiled here, give the bits of the TIK Program."""

from pathlib import Path

from ms_custom_ops.exporter.proof import prove

HERE = Path(__file__).parent


def test_bits():
    rows = prove(HERE, {subject.entry!r}, {subject.soc!r}, {subject.op!r})
    assert all(row.equal for row in rows), rows


if __name__ == "__main__":
    for row in prove(HERE, {subject.entry!r}, {subject.soc!r}, {subject.op!r}):
        print(row)
'''
