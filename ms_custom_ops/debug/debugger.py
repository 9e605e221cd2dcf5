# SPDX-License-Identifier: Apache-2.0
"""``tik_instance.tikdb``: run a traced kernel statement by statement on the reference engine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.debug.points import PrintPoint, Value, capture, parse_format, points_of
from ms_custom_ops.engine.checked import check_arrays
from ms_custom_ops.errors import EngineError, TikError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.where import user_frame, user_location


def _screen(text: str) -> None:
    sys.stdout.write(text)


class Debugger:
    """The debugger of one Tik instance."""

    def __init__(self, instance: Any, disabled: bool):
        self._instance = instance
        self._disabled = disabled
        self._printf_write: Callable[[str], None] = _screen
        self._printf_limit = 512

    def start_debug(
        self, feed_dict: dict[str, Any], interactive: bool = True, desc_tensor: dict[str, Any] | None = None
    ) -> list[np.ndarray]:
        """Run the kernel of the last BuildCCE on the reference engine; its outputs, in order.

        ``feed_dict`` holds an array (dtype and shape of the GM tensor) for each input and a number for each
        InputScalar, by name. An output that is also an input is written into the array given for it; one made
        with is_atomic_add starts as zeros, any other as NaN bits. ``desc_tensor`` gives shapes of outputs that
        are known at run time only. ``interactive`` stops before the first statement with a prompt.

        Raises TikError when the debugger is disabled, no kernel was built or the feed is wrong, EngineError
        when the kernel fails, DebuggerQuit when the user quits.
        """
        self._check_enabled("start_debug")
        programs = self._instance.programs
        if not programs:
            raise TikError(
                "tikdb.start_debug: no kernel was built; accepted: a call after tik_instance.BuildCCE(...)",
                user_location(),
            )
        return run_program(programs[-1], feed_dict, interactive, desc_tensor)

    def debug_print(self, expr: Any) -> None:
        """Print a value each time a debugging run passes here: a tensor, Scalar, expression, or a string of
        Python over the names of the calling function, e.g. ``"ub[0]"``."""
        if self._instance._b.dead:
            return
        label = expr if isinstance(expr, str) else None
        value = self._evaluate(expr) if label is not None else expr
        location = user_location() or "?"
        held = capture(value, "tikdb.debug_print")
        name = label or getattr(value, "name", None) or "value"

        def text(block: Any) -> str:
            shown = np.array2string(np.asarray(held.read(block, location)), separator=", ")
            return f"[{location}] block {block.index}: {name} = {shown}\n"

        self.add_point(location, text, _screen)

    def add_point(self, location: str, text: Callable[[Any], str], write: Callable[[str], None]) -> None:
        """A print point at the place the kernel has reached."""
        b = self._instance._b
        previous = b.body[-1] if b.body else None
        points_of(b.program).append(PrintPoint(b.body, previous, location, text, write))

    def _evaluate(self, text: str) -> Any:
        frame = user_frame()
        names = {} if frame is None else {**frame.f_globals, **frame.f_locals}
        try:
            return eval(text, names)
        except Exception as error:
            raise TikError(
                describe("tikdb.debug_print", "expr", repr(text), f"an expression that evaluates ({error})"),
                user_location(),
            ) from error

    def printf_to(self, write: Callable[[str], None], limit: int) -> None:
        """Where ``printf`` writes, and how many characters of one call."""
        self._printf_write, self._printf_limit = write, limit

    def printf(self, format_string: Any, values: tuple) -> None:
        """Record a ``printf``."""
        if self._instance._b.dead:
            return
        location = user_location() or "?"
        render = parse_format(format_string, len(values))
        held: list[Value] = [capture(v, "printf") for v in values]
        write, limit = self._printf_write, self._printf_limit

        def text(block: Any) -> str:
            return render([v.read(block, location) for v in held])[:limit]

        self.add_point(location, text, lambda shown: write(shown))

    def _check_enabled(self, what: str) -> None:
        if self._disabled:
            raise TikError(
                f"tikdb.{what}: the debugger is disabled; accepted: tik.Tik(disable_debug=False)", user_location()
            )


def _check(program: ir.Program, arrays: Any) -> None:
    """Print what a checked run of the native engine finds, before the kernel is walked; nothing where there is no
    engine, or where the kernel fails in a way that the walk will show."""
    copies = {id(a): a.copy() for a in (*arrays.inputs, *arrays.outputs)}
    inputs, outputs = ([copies[id(a)] for a in group] for group in (arrays.inputs, arrays.outputs))
    try:
        report = check_arrays(program, inputs, arrays.scalars, outputs)
    except EngineError as error:
        _screen(f"tikdb: not checked: {error}\n")
        return
    if not report.ok:
        _screen(f"{report}\n")


def run_program(
    program: ir.Program,
    feed: dict[str, Any],
    interactive: bool = False,
    desc_tensor: dict[str, Any] | None = None,
    api: str = "tikdb.start_debug",
) -> list[np.ndarray]:
    """Run a Program on the reference engine with its print points; see :meth:`Debugger.start_debug`."""
    from ms_custom_ops.debug.feed import Feed
    from ms_custom_ops.debug.shell import Shell
    from ms_custom_ops.debug.walker import run_observed

    arrays = Feed(program, feed, desc_tensor, api)
    _check(program, arrays)
    shell = Shell(program) if interactive else None
    try:
        run_observed(program, arrays.inputs, arrays.scalars, arrays.outputs, shell)
    finally:
        if shell is not None:
            shell.close()
    return arrays.finish()
