# SPDX-License-Identifier: Apache-2.0
"""The interactive debugger, driven by typed commands."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import numpy as np
import pytest

from ms_custom_ops import tik
from ms_custom_ops.debug import DebuggerQuit
from ms_custom_ops.errors import EngineError
from ms_custom_ops.soc import use_soc

HERE = __file__


def line_of(text: str) -> int:
    """Number of the line of this file that ends with the comment ``# <text>``."""
    with open(HERE, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}"))


def kernel() -> Any:
    """y = x + 3 in three steps, by two blocks."""
    t = tik.Tik(disable_debug=False)
    x = t.Tensor("int32", (2, 8), tik.scope_gm, "x")
    y = t.Tensor("int32", (2, 8), tik.scope_gm, "y")
    with t.for_range(0, 2, block_num=2, name="blk") as i:
        ub = t.Tensor("int32", (8,), tik.scope_ubuf, "ub")
        t.data_move(ub, x[i, 0], 0, 1, 1, 0, 0)  # load
        with t.for_range(0, 3, name="step"):
            t.vec_adds(8, ub, ub, 1, 1, 8, 8)  # add
        last = t.Scalar("int32", "last")
        last.set_as(ub[7])  # last
        t.data_move(y[i, 0], ub, 0, 1, 1, 0, 0)  # store
    t.BuildCCE("steps", inputs=[x], outputs=[y])
    return t


X = np.arange(16, dtype=np.int32).reshape(2, 8)


@pytest.fixture()
def session(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs commands; gives the outputs of start_debug (or the error) and what each command printed."""

    def run(commands: list[str], make: Any = kernel, feed: Any = None) -> tuple[Any, list[str]]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(commands) + "\n"))
        with use_soc("Ascend910B1"):
            instance = make()
            try:
                result: Any = instance.tikdb.start_debug({"x": X} if feed is None else feed)
            except (DebuggerQuit, EngineError) as error:
                result = error
        return result, [part.strip() for part in capsys.readouterr().out.split("(tikdb)")]

    return run


def finished(result: Any) -> None:
    np.testing.assert_array_equal(result[0], X + 3)


def test_continue_runs_to_the_end(session: Any) -> None:
    for command in ("continue", "c"):
        result, shown = session([command])
        finished(result)
        assert re.search(r"test_tikdb_prompt.py:\d+ block 0: for", shown[0])


def test_next_stops_at_each_line_also_in_a_loop(session: Any) -> None:
    result, shown = session(["n"] * 6 + ["p step", "next", "p ub[0]", "c"])
    finished(result)
    loads = [k for k, text in enumerate(shown) if f":{line_of('load')} " in text]
    adds = [k for k, text in enumerate(shown) if f":{line_of('add')} " in text]
    assert (loads, adds) == ([2], [4, 5, 6])
    assert "step = 2" in shown[6] and shown[7] == "2"
    assert f":{line_of('last')} " in shown[8] and shown[9] == "3"


@pytest.mark.parametrize("form", ["break {n}", "b {n}", "b test_tikdb_prompt.py:{n}"])
def test_breakpoint(session: Any, form: str) -> None:
    n = line_of("store")
    result, shown = session([form.format(n=n), "c", "p last", "w", "block", "c", "p last, blk", "c"])
    finished(result)
    assert shown[1] == f"1: {HERE}:{n} enabled, hit 0"
    assert shown[2].startswith(f"breakpoint 1: {HERE}:{n} enabled, hit 1")
    assert shown[3] == "10" and "data_move" in shown[4] and shown[5] == "block 0"
    assert "hit 2" in shown[6] and shown[7] == "(18, 1)"


def test_breakpoint_stops_at_every_pass(session: Any) -> None:
    result, shown = session([f"b {line_of('add')}"] + ["c"] * 7)
    finished(result)
    assert sum("breakpoint 1" in text for text in shown) == 6


def test_conditional_breakpoint(session: Any) -> None:
    result, shown = session([f"b {line_of('add')} if blk == 1 and step == 2", "c", "p ub.tolist()", "c"])
    finished(result)
    assert shown[3] == str(list(range(10, 18)))


def test_condition_that_fails_stops_and_says_so(session: Any) -> None:
    _, shown = session([f"b {line_of('add')} if nothing", "c", "clear", "c"])
    assert "condition of breakpoint 1: name 'nothing' is not defined" in shown[2]


def test_disable_enable_clear_and_list_of_breakpoints(session: Any) -> None:
    add, store = line_of("add"), line_of("store")
    result, shown = session(
        [
            "b",
            f"b {add}",
            f"b {store}",
            "disable 1",
            "b",
            "c",
            "enable 1",
            "disable 2",
            "c",
            "clear 1",
            "b",
            "clear",
            "b",
            "c",
        ]
    )
    finished(result)
    assert shown[1] == "no breakpoints"
    assert f"1: {HERE}:{add} disabled" in shown[5] and f"2: {HERE}:{store} enabled" in shown[5]
    assert shown[6].startswith("breakpoint 2") and shown[9].startswith("breakpoint 1")
    assert shown[11] == f"2: {HERE}:{store} disabled, hit 1"
    assert shown[13] == "no breakpoints"


def test_breakpoint_on_a_line_without_statement_takes_the_next_one(session: Any) -> None:
    _, shown = session([f"b {line_of('add') + 1}", "c", "c", "c"])
    assert shown[1] == f"1: {HERE}:{line_of('last')} enabled, hit 0"


def test_list(session: Any) -> None:
    n = line_of("load")
    _, shown = session(["n", "n", f"b {n + 2}", "l", "l", f"list {n}", f"l {n}, {n + 1}", "l x", "c", "c"])
    lines = shown[4].splitlines()
    assert len(lines) == 11 and f"{n:5d}  -> " in shown[4] and f"{n + 2:5d} B  " in shown[4]
    assert shown[5].splitlines()[0].split()[0] == str(n + 6)
    assert len(shown[7].splitlines()) == 2
    assert shown[8] == "list: range is 'x'; accepted: FIRST[, LAST]"


def test_memory_and_print(session: Any) -> None:
    _, shown = session(["n", "n", "n", "mi", "print x[1]", "p np.sum(ub)", "p nothing", "c"])
    assert "x                        gm    int32[2x8], 64 bytes" in shown[4]
    assert "ub                       ub    int32[8] at 0, 32 bytes" in shown[4]
    assert shown[5] == "[ 8  9 10 11 12 13 14 15]" and shown[6] == "28"
    assert shown[7].startswith("print: 'nothing': NameError") and "names: blk, ub, x, y" in shown[7]


def test_block(session: Any) -> None:
    result, shown = session(["block 1", "block", "block 1", "block x", "p y.tolist()[0]", "c"])
    finished(result)
    assert "block 1" in shown[1] and shown[2] == "block 1"
    assert shown[3] == "block: number is '1'; accepted: a block after 1"
    assert shown[4] == "block: number is 'x'; accepted: a block after 1"
    assert shown[5] == str((X[0] + 3).tolist())


@pytest.mark.parametrize("commands", [["quit"], ["q"], ["n", "q"], ["n"]], ids=["quit", "q", "later", "end-of-input"])
def test_quit(session: Any, commands: list[str]) -> None:
    result, _ = session(commands)
    assert isinstance(result, DebuggerQuit)
    assert re.match(r"tikdb: the debugger was left at .*test_tikdb_prompt.py:\d+", str(result))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "jump 3",
            "command is 'jump'; accepted: break, tbreak, clear, enable, disable, watch, unwatch, continue, next",
        ),
        ("set 3", "set: '3' is no assignment; accepted: NAME = EXPR, NAME[INDEX] = EXPR"),
        ("set other = 3", "set: 'other = 3': NameError: other; names: "),
        ("unwatch 3", "unwatch: number is '3'; accepted: none"),
        ("b x", "break: line is 'x'; accepted: [FILE:]LINE [if EXPR]"),
        ("b 99999", "break: line is 99999; accepted: up to"),
        ("b other.py:3", f"break: file is 'other.py'; accepted: {HERE}"),
        ("enable 3", "enable: number is '3'; accepted: none"),
    ],
)
def test_refused_commands(session: Any, command: str, message: str) -> None:
    result, shown = session([command, "c"])
    finished(result)
    assert shown[1].startswith(message)


def test_empty_line_does_nothing(session: Any) -> None:
    result, shown = session(["n", "", "w", "c"])
    finished(result)
    assert shown[2] == "" and shown[3] == shown[1]


def failing() -> Any:
    t = tik.Tik(disable_debug=False)
    y = t.Tensor("int32", (8,), tik.scope_gm, "y")
    n = t.InputScalar("int32", "n")
    with t.for_range(0, 2, name="turn") as i:
        ub = t.Tensor("int32", (8,), tik.scope_ubuf, "ub")
        t.vec_dup(8, ub, 7, 1, 8)
        t.data_move(y[i * n * 16], ub, 0, 1, 1, 0, 0)  # fails
    t.BuildCCE("failing", inputs=[n], outputs=[y])
    return t


@pytest.mark.parametrize("leave", ["c", "q", "n"])
def test_look_around_after_an_error(session: Any, leave: str) -> None:
    result, shown = session(["c", "p turn, ub[0], y[0]", "w", leave], failing, {"n": 1})
    wanted = DebuggerQuit if leave == "q" else EngineError
    assert isinstance(result, wanted) and f"test_tikdb_prompt.py:{line_of('fails')}" in str(result)
    assert shown[1].startswith("the kernel failed: data_move: dst needs bytes [64, 96) of y, it has 32")
    assert shown[2] == "(1, 7, 7)" and f":{line_of('fails')} block 0, turn = 1" in shown[3]


def test_step_stops_at_every_statement(session: Any) -> None:
    result, shown = session(["s"] * 4 + ["c"])
    finished(result)
    stops = [k for m in ("load", "add") for k, text in enumerate(shown) if f":{line_of(m)} " in text]
    assert len(stops) >= 2 and stops == sorted(stops)  # the loop, then what is in it


def test_tbreak_stops_once(session: Any) -> None:
    result, shown = session([f"tbreak {line_of('add')}", "c", "b", "c"])
    finished(result)
    assert "enabled, once" in shown[2] and f":{line_of('add')} " in shown[2] and shown[3] == "no breakpoints"


def test_watch_stops_where_a_value_changes(session: Any) -> None:
    result, shown = session([f"b {line_of('add')}", "c", "clear", "watch ub[0]", "c", "unwatch", "watch", "c"])
    finished(result)
    assert "1: ub[0] = 0" in shown[4]
    assert f"watch 1: ub[0]: 0 -> 1 at {HERE}:{line_of('add')}" in shown[5] and shown[7] == "no watches"


def test_set_changes_scalars_and_elements(session: Any) -> None:
    commands = [f"b {line_of('store')}", "c", "set ub[2:4] = -1", "set last = 7 + 1", "p last, ub[1:5]", "c", "c"]
    result, shown = session(commands)
    assert result[0][0].tolist() == [3, 4, -1, -1, 7, 8, 9, 10] and result[0][1].tolist() == (X[1] + 3).tolist()
    assert shown[5].startswith("(8, array([ 4, -1, -1,  7]")


def test_bytes_never_written_show(session: Any) -> None:
    result, shown = session([f"b {line_of('load')}", "c", "p ub", "p y[0]", "n", "p ub[:2]", "clear", "c"])
    finished(result)
    assert "--" in shown[3] and "--" in shown[4] and shown[6] == "[0 1]"


def test_quitting_ends_a_script_without_a_traceback() -> None:
    assert issubclass(DebuggerQuit, SystemExit) and DebuggerQuit("left").code == 0
