#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which TIK methods exist, on which chips, and which test runs them on both engines.

scripts/tik_coverage.py            one line per method that public kernels call, and the count
scripts/tik_coverage.py --write    also writes docs/tik_support.md: method x chip, supported or why not
scripts/tik_coverage.py --check    exit status 1 when that file is not what the tables of the code say, or a method
                                   is neither there nor refused with a reason
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ms_custom_ops import tik
from ms_custom_ops.compat import absent, cce_conf, platform, support
from ms_custom_ops.debug import Debugger
from ms_custom_ops.program.isa import ISA, gather, sort
from ms_custom_ops.soc.support import LONG, codes, known_instructions
from ms_custom_ops.tik import proposal, registers
from ms_custom_ops.tik.refused import REFUSED

ROOT = Path(__file__).resolve().parent.parent
HISTOGRAM = ROOT / "tests" / "tik" / "data" / "method_histogram.tsv"
DOCUMENT = ROOT / "docs" / "tik_support.md"
TESTS = ROOT / "tests" / "tik"
CHIPS = {
    "310": "Ascend310",
    "910A": "Ascend910A",
    "310P": "Ascend310P3",
    "310PV": "Ascend310P3 vector core",
    "910B": "Ascend910B, 910_93",
}

_IR = "an internal of the IR builder, not public TIK"
_REGISTER = "register-vector API of 310B and 610L, out of scope"
EXCLUDED = {
    "access_ptr": _IR,
    "emit": _IR,
    "scope_attr": _IR,
    "new_scope": _IR,
    "allocate": _IR,
    "get_shape": "no public method: a helper of the kernels themselves",
    **dict.fromkeys(
        (
            "Vector",
            "vector_cast",
            "vector_store",
            "vector_load",
            "vector_vmul",
            "vector_vdintlv",
            "vector_vdup",
            "vector_vintlv",
            "vector_vdhistv2",
        ),
        _REGISTER,
    ),
}
# Rows of the support table of methods whose own name and rename map do not lead there.
ROWS = {
    "vmla": "vmla",
    "vec_cpadd": "vcpadd",
    "set_rpn_cor_ir": "vrpac",
    "rpn_cor": "vrpac",
    "rpn_cor_diag": "vrpac",
    "mov_rpn_cor_ir_to_scalar": "vrpac",
    "vec_axpy": "vaxpy",
    "vec_conv": "vconv",
    "h_conv": "vconv",
}
# Families of methods that have no dtypes of their own, from the tables that refuse the others.
FAMILIES: dict[str, tuple[str, ...]] = {
    "set_rpn_offset": proposal.OFFSET_FAMILIES,
    "set_fp2int_mode": tuple(f for f in CHIPS if f not in registers._NO_FP2INT),
    "set_fp2fp_mode": registers._FP2FP_FAMILIES,
    "set_overflow_status": registers._OVERFLOW_FAMILIES,
    "get_overflow_status": registers._OVERFLOW_FAMILIES,
    **support._ANY_DTYPE,
}
# Files whose tests run kernels on both engines, and compare with formulas.
DIFFERENTIAL = (
    "test_differential_vector2.py",
    "test_differential_sort.py",
    "test_differential_h.py",
    "test_differential_control.py",
    "test_wheel_kernels.py",
)
# Names that a host answers while tracing: no engine has a part in them.
HOST = frozenset(
    (
        "get_soc_spec",
        "api_check_support",
        "intrinsic_check_support",
        "set_current_compile_soc_info",
        "Dprofile",
        "get_aicore_num",
        "get_unified_buffer_size",
        "get_l1_buffer_size",
        "get_product_name",
        "get_available_buffer_size",
        "start_debug",
        "set_tiling_params",
    )
)
HOST_TESTS = (
    "test_frontend_core.py",
    "test_tikdb_run.py",
    "test_compat_platform.py",
    "test_compat_forms.py",
    "test_differential_control.py",
)
# Objects whose attributes are methods of the language, as the tests name them; views of tensors have any name.
OBJECTS = frozenset(("t", "k", "tik", "profile", "tik_instance", "inst", "self", "platform", "d_profiling"))
ANY_OBJECT = frozenset(("set_as", "reshape", "flatten", "reinterpret_cast_to", "start_debug"))
OTHER_OPS = {
    "vec_sel": "vsel",
    "vec_trans_scatter": "vnchwconv",
    "vec_trans": "vtranspose",
    "vreducev2": "vreduce",
    "vmrgsort4": "vmrgsort",
    "load2dv1": "load2d",
    "load2dv2": "load2d",
    "vec_conv": "vconv",
    "vcbd": "vconv",
    "data_move_multi_nd2nz": "nd2nz",
    "tensor_mov": "l0c_out",
    "broadcast_ub_to_l0c": "broadcast_l0c",
    "mmad_broadcast": "broadcast_l0c",
    "fixpipe": "l0c_out",
    "tensor_padding_with_matrix": "fill",
}
# Tests of methods that become statements, not instructions.
OPS = {
    "for_range": "test_random_programs",
    "if_scope": "test_random_programs",
    "elif_scope": "test_random_programs",
    "else_scope": "test_random_programs",
    "tik_break": "test_random_programs",
    "tik_continue": "test_random_programs",
}


class Method(NamedTuple):
    """A method of the language: who has it, how it is refused, where it works, what tests it."""

    name: str
    owner: str
    refused: str
    chips: dict[str, str]
    test: str


def _owners() -> dict[str, Any]:
    return {
        "Tik": tik.Tik,
        "Tensor": tik.Tensor,
        "Scalar": tik.Scalar,
        "Dprofile": tik.Dprofile,
        "tikdb": Debugger,
        "tik": tik,
        "tbe.common.platform": platform,
        "te.platform.cce_conf": cce_conf,
        "compat": support,
        "absent": absent,
    }


def owner_of(name: str) -> str:
    """Which public object has the name, "" for none."""
    return next((label for label, o in _owners().items() if hasattr(o, name)), "")


def row_of(name: str) -> str:
    """The row of the support table that decides about a method, "" for none."""
    row = ROWS.get(name) or support._instruction(name)
    if row in known_instructions():
        return row
    for mode in ("lt", "gt", "ge", "eq", "ne", "le"):
        if name == f"vcmp_{mode}":
            return "vcmp"
    return ""


def chips_of(name: str) -> dict[str, str]:
    """For each chip family: the dtypes it takes, "yes" without a restriction, or "no"."""
    row = row_of(name)
    if name in FAMILIES and not codes(row, "910B"):
        return {f: "yes" if f in FAMILIES[name] else "no" for f in CHIPS}
    if not row:
        return dict.fromkeys(CHIPS, "yes")
    return {f: " ".join(codes(row, f)) or "no" for f in CHIPS}


def _mentions(files: tuple[str, ...]) -> dict[str, str]:
    """First function of some test files that calls or names each method."""
    found: dict[str, str] = {}
    for file in files:
        for function in _functions(ast.parse((TESTS / file).read_text())):
            place = f"{file}::{function.name}" if function.name.startswith("test_") else f"{file} ({function.name})"
            for name in _names(function):
                found.setdefault(name, place)
    return found


def _names(function: ast.FunctionDef) -> Iterator[str]:
    arguments = {
        n.value
        for d in function.decorator_list
        for n in ast.walk(d)
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    yield from arguments
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            if (
                node.attr in ANY_OBJECT
                or isinstance(node.value, ast.Name)
                and node.value.id in OBJECTS
                or (isinstance(node.value, ast.Attribute) and node.value.attr in OBJECTS)
            ):
                yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and hasattr(tik.Tik, node.value):
            yield node.value
        elif isinstance(node, ast.Name) and node.id in HOST:
            yield node.id


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (n for n in node.body if isinstance(n, ast.FunctionDef))


def op_of(name: str) -> str:
    """The instruction of the isa module that a method becomes, "" when it has none of its own."""
    bare = name.removeprefix("vec_")
    for start, op in (("cmpv_", "vcmpv"), ("vcmpv_", "vcmpv"), ("vcmpvs_", "vcmpvs"), ("vcmp_", "vcmpv")):
        if bare.startswith(start):
            return op
    for candidate in (name, f"v{bare}", support._instruction(name)):
        if candidate in ISA:
            return candidate
    return OTHER_OPS.get(name, "")


def inspect(names: list[str]) -> list[Method]:
    """Everything about the methods."""
    mentions, host = _mentions(DIFFERENTIAL), _mentions(HOST_TESTS)
    known = known_tests()
    result = []
    for name in names:
        owner = owner_of(name)
        op = op_of(name)
        test = host.get(name, "") if name in HOST else mentions.get(name, "")
        if op in known:
            test = f"{known[op]}, {test}" if test else known[op]
        elif name in OPS:
            by_op = f"test_differential.py::{OPS[name]}"
            test = f"{by_op}, {test}" if test else by_op
        refused = REFUSED.get(name, "")
        result.append(Method(name, owner, refused, {} if refused or not owner else chips_of(name), test))
    return result


def known_tests() -> dict[str, str]:
    """For each instruction the test that draws programs with it at random."""
    found: dict[str, str] = {}
    for file in ("random_programs.py", "random_vector.py", "random_vector2.py", "random_moves.py"):
        for node in ast.walk(ast.parse((TESTS / file).read_text())):
            if isinstance(node, ast.Constant) and node.value in ISA:
                found[node.value] = f"test_differential.py::test_instruction[{node.value}]"
    for op, spec in ISA.items():  # drawn by a rule, not by name
        if "mask_kind" in spec.attrs or spec in (*gather.ROWS, *sort.ROWS):
            found[op] = f"test_differential.py::test_instruction[{op}]"
    for function in _functions(ast.parse((TESTS / "test_differential_cube.py").read_text())):
        if function.name in ISA:
            found[function.name] = f"test_differential_cube.py::test_instruction[{function.name}]"
    return found


def histogram() -> dict[str, tuple[int, int]]:
    """Calls and files of each method."""
    lines = [line.split("\t") for line in HISTOGRAM.read_text().splitlines() if line and not line.startswith("#")]
    return {name: (int(calls), int(files)) for name, calls, files in lines[1:]}


def report(counts: dict[str, tuple[int, int]]) -> tuple[list[str], bool]:
    """Lines about the methods that public kernels call, and whether each one works or is refused with a reason."""
    methods = inspect([n for n in counts if n not in EXCLUDED])
    lines = [f"{'method':28}{'calls':>6}  {'chips':28}test"]
    for m in methods:
        where = f"refused: {m.refused}" if m.refused else "MISSING" if not m.owner else _short(m.chips)
        lines.append(f"{m.name:28}{counts[m.name][0]:>6}  {where:28}{'' if m.refused else m.test or 'NO TEST'}")
    refused = [m for m in methods if m.refused]
    there = [m for m in methods if m.owner and not m.refused and any(v != "no" for v in m.chips.values())]
    tested = [m for m in there if m.test]
    host = [m for m in tested if m.name in HOST]
    calls = sum(counts[m.name][0] for m in methods)
    done = sum(counts[m.name][0] for m in there)
    share, called = 100 * len(there) / len(methods), 100 * done / calls
    lines += [
        "",
        f"not counted: {', '.join(f'{n} ({w})' for n, w in EXCLUDED.items())}",
        f"refused by name: {', '.join(m.name for m in refused) or 'none'}",
        f"{len(there)} of {len(methods)} methods work on at least one chip ({share:.1f} %), {done} of "
        f"{calls} calls ({called:.1f} %); {len(tested) - len(host)} have a "
        f"test on both engines, {len(host)} more are answered while tracing and have a test of that",
    ]
    return lines, len(there) + len(refused) == len(methods) and len(tested) == len(there)


def _short(chips: dict[str, str]) -> str:
    have = [f for f, v in chips.items() if v != "no"]
    return "all" if len(have) == len(chips) else ", ".join(have) or "none"


def _cell(value: str) -> str:
    return " ".join(LONG.get(c, c) for c in value.split()) if value != "no" else "-"


def document() -> str:
    """The text of docs/tik_support.md."""
    names = sorted({n for n in dir(tik.Tik) if not n.startswith("_") and callable(getattr(tik.Tik, n))} | set(REFUSED))
    lines = [
        "# TIK methods by chip",
        "",
        "Generated by `scripts/tik_coverage.py --write` from the tables of the front end; do not edit. A cell "
        "holds the",
        "accepted dtypes (conversions as source2destination and rounding suffix, products as in "
        "`support_table.py`), `yes` where",
        "dtypes make no difference to the chip, `-` where the chip lacks the "
        "instruction: then a call raises `TikSupportError`",
        "with the chips that have it.",
        "",
        "| method | " + " | ".join(CHIPS.values()) + " |",
        "|" + "---|" * (len(CHIPS) + 1),
    ]
    methods = inspect(names)
    lines += [f"| {m.name} | " + " | ".join(_cell(m.chips[f]) for f in CHIPS) + " |" for m in methods if not m.refused]
    lines += ["", "## Refused on every chip", "", "| method | reason |", "|---|---|"]
    lines += [f"| {m.name} | {m.refused} |" for m in methods if m.refused]
    lines += ["", "## Not part of this package", "", "| name | reason |", "|---|---|"]
    lines += [f"| {n} | {why} |" for n, why in EXCLUDED.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.relative_to(ROOT)}")
    parser.add_argument("--check", action="store_true", help="fail when a method is missing or the document is old")
    options = parser.parse_args()
    lines, complete = report(histogram())
    text = document()
    if options.write:
        DOCUMENT.write_text(text)
    if not options.check:
        print("\n".join(lines))
        return 0
    stale = not DOCUMENT.exists() or DOCUMENT.read_text() != text
    if stale:
        print(f"{DOCUMENT.relative_to(ROOT)} is not up to date; run scripts/tik_coverage.py --write", file=sys.stderr)
    if not complete:
        print("\n".join(line for line in lines if "MISSING" in line or "NO TEST" in line), file=sys.stderr)
    return int(stale or not complete)


if __name__ == "__main__":
    sys.exit(main())
