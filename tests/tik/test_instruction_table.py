# SPDX-License-Identifier: Apache-2.0
"""The instruction table: every row is whole, and what is generated from it agrees with the checkout."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from programs import Builder, add_program, ref, reference

from ms_custom_ops import engine
from ms_custom_ops.cli import main
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import generate
from ms_custom_ops.program.access import boxes
from ms_custom_ops.program.isa import ISA, KINDS, PIPES, UnknownRouteError
from ms_custom_ops.program.isa.args import BY_ROUTE
from ms_custom_ops.program.isa.row import MARKS, row

SMALL = {"count": 1, "bytes": 32, "elements": 16, "blocks": 1, "fractals": 1, "mask": 1, "word": 0, "value": 1}


@pytest.mark.parametrize("name", ISA)
def test_every_row_has_marks_kinds_a_pipe_and_access(name):
    spec = ISA[name]
    assert spec.doc and name == spec.name
    assert all(o.mark in MARKS for o in spec.operands)
    assert all(a.kind in KINDS for a in spec.arguments)
    assert all(a.read_if is None or a.read_if[0] in spec.attrs for a in spec.operands)
    if isinstance(spec.pipe, str):
        assert f"PIPE_{spec.pipe}" in PIPES
    else:
        assert spec.pipe is BY_ROUTE
    args = [max(SMALL[a.kind], a.low or 0) for a in spec.arguments]
    attrs = [a.low for a in spec.attributes]
    count = len(spec.operands)
    for i in range(count):
        found = boxes(spec, i, ["float16"] * count, args, attrs, ["ub"] * count, [4096] * count)
        assert all(b.start >= 0 and b.bytes > 0 and b.count > 0 and b.outer_count > 0 for b in found)


def test_pipes_of_moves_by_route_and_core():
    move = ISA["data_move"]
    assert move.pipe_on(False, ["ub", "gm"]) == move.pipe_on(True, ["ub", "gm"]) == "MTE2"
    assert move.pipe_on(True, ["gm", "l1"]) == "MTE3"
    assert ISA["l0c_out"].pipe_on(False, ["ub", "l0c", "ub", "ub", "ub"]) == "V"
    assert ISA["l0c_out"].pipe_on(True, ["gm", "l0c", "gm", "gm", "gm"]) == "FIX"
    assert ISA["vadd"].pipe_on(True, ["ub", "ub", "ub"]) == "V"
    with pytest.raises(UnknownRouteError, match=r"^data_move: route on a split core is l1 to ub; accepted: gm to ub, "):
        move.pipe_on(True, ["ub", "l1"])


def test_reads_follow_the_attributes():
    for name, flag, reading in (("mmad", "accumulate", 1), ("matmul", "init", 0), ("conv2d", "init", 0)):
        spec = ISA[name]
        for value in (0, 1):
            attrs = [value if a == flag else 0 for a in spec.attrs]
            assert spec.reads(0, attrs) == (value == reading)
    assert ISA["vmla"].reads(0, [0]) and ISA["vmla"].writes(0) and not ISA["vadd"].reads(0, [0])


@pytest.mark.parametrize(
    "part, message",
    [
        ({"operands": "dst:x"}, "row probe: 'dst:x' is none of"),
        ({"args": "count:apples"}, "row probe: kind of count is apples; accepted: count, bytes,"),
        ({"attrs": "mode"}, "row probe: 'mode' is none of"),
        ({"args": "dst:count"}, "probe: a name stands twice in ('dst', 'dst')"),
    ],
)
def test_a_row_that_says_nothing_is_refused(part, message):
    parts = {"operands": "dst:w", "args": "", "attrs": "", **part}
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        row("probe", parts["operands"], parts["args"], parts["attrs"], "V", lambda use, operand: [], "a probe")


def test_rows_of_a_layout_agree(monkeypatch):
    assert {"unary", "binary", "scalar", "reduction"} <= set(generate.layouts())
    monkeypatch.setitem(ISA, "vadd", replace(ISA["vadd"], layout="unary"))
    with pytest.raises(ValueError, match="^layout unary: vadd and vabs differ"):
        generate.layouts()


@pytest.mark.skipif(generate.checkout() is None, reason="an installed package has no csrc and no docs")
def test_generated_files_agree_and_a_stale_one_is_named(tmp_path):
    assert generate.drift(generate.checkout()) == ""
    (tmp_path / "csrc").mkdir()
    (tmp_path / "docs").mkdir()
    assert len(generate.write(tmp_path)) == len(generate.generate()) and generate.write(tmp_path) == []
    names = tmp_path / generate.NAMES_FILE
    names.write_text(names.read_text().replace("mask0, mask1", "mask1, mask0", 1))
    assert "+enum Arg : int { mask0, mask1" in generate.drift(tmp_path)


def test_gen_check_covers_the_table(monkeypatch, tmp_path):
    monkeypatch.setattr(generate, "checkout", lambda: None)
    told = CliRunner().invoke(main, ["gen", "--check"])
    assert told.exit_code == 0 and "are not here to compare (an installed package)" in told.output
    monkeypatch.setattr(generate, "checkout", lambda: tmp_path)
    told = CliRunner().invoke(main, ["gen", "--check"])
    assert told.exit_code == 1
    assert "csrc/*.inc or docs/instructions.md differ from ms_custom_ops/program; " in told.output


def _refusals(program) -> list[str]:
    found = []
    for run in (lambda: reference(program, []), lambda: engine.run(program, [], engine="native")):
        with pytest.raises(EngineError) as caught:
            run()
        found.append(str(caught.value))
    return found


def test_both_engines_check_attributes_and_arguments_by_the_table():
    text = "vadd: mask_kind is 7; accepted: 0 to 2 [kernel.py:3]"
    assert _refusals(add_program(mask_kind=7).program) == [text, text]
    b = Builder()
    u = b.local("u", "ub", "float16", 128)
    b.instr("vsel", [ref(u)] * 4, {"mode": 1}, mask0=128, repeat=1)
    text = "vsel: mode is 1; accepted: 0 or 2 [kernel.py:2]"
    assert _refusals(b.program) == [text, text]
    text = "vadd: dtype of repeat is a float; accepted: an integer [kernel.py:3]"
    told = _refusals(add_program(repeat=1.0).program)
    assert told == [text, text.replace("a float", "float32")]
