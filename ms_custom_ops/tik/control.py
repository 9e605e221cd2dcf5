# SPDX-License-Identifier: Apache-2.0
"""Control flow of a kernel: loops, branches, scopes, break, continue, return."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.program import ir, limits
from ms_custom_ops.program.dtypes import INT_RANGE
from ms_custom_ops.program.expr import Expr, as_expr, cast
from ms_custom_ops.tik.builder import Builder, Chain, Frame
from ms_custom_ops.tik.checks import check_condition, flag, number
from ms_custom_ops.tik.names import stored_name
from ms_custom_ops.tik.ranges import decided
from ms_custom_ops.tik.scalar import LoopVar
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location

DEFAULT_LOOP = "i"


class Scope:
    """A scope as a context manager: ``opening`` runs at entry and gives the value of ``as``."""

    def __init__(self, builder: Builder, opening: Callable[[], Any], closing: Callable[[Frame], None] | None = None):
        self._builder = builder
        self._opening = opening
        self._closing = closing

    def __enter__(self) -> Any:
        return self._opening()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        frame = self._builder.pop()
        if kind is None and self._closing is not None:
            self._closing(frame)


class ControlMixin:
    """Methods of ``Tik`` for control flow."""

    _b: Builder

    def for_range(
        self,
        begint: Any,
        endt: Any,
        name: str = DEFAULT_LOOP,
        thread_num: int = 1,
        thread_type: str = "whole",
        block_num: Any = 1,
        dtype: str = "int32",
        for_type: str = "serial",
        subblock_num: int = 0,
        sub_dtype: str = "int32",
        enable_subblk: bool = False,
    ) -> Scope:
        """``with for_range(begin, end) as i``: i in [begin, end). ``block_num=n`` makes the multi-core loop
        over n blocks, ``thread_num`` double buffering. Raises TikError for a bad range or nesting."""
        b = self._b
        api = "for_range"
        if dtype not in INT_RANGE:
            raise b.fail(TikError, api, "dtype", dtype, ", ".join(INT_RANGE))
        if subblock_num or enable_subblk:
            raise b.fail(TikError, api, "subblock_num", subblock_num, "0")
        begin, end = number(begint, api, "begint"), number(endt, api, "endt")
        threads = number(thread_num, api, "thread_num")
        if threads.__class__ is not int or not 1 <= threads <= limits.THREADS:
            raise b.fail(TikError, api, "thread_num", thread_num, f"1..{limits.THREADS}")
        blocks = number(block_num, api, "block_num")
        is_block = blocks.__class__ is not int or blocks != 1
        if is_block and not b.dead:
            self._check_block_loop(begin, end, endt, blocks, block_num, threads)
        elif begin.__class__ is int and end.__class__ is int and not b.dead:
            top = INT_RANGE[dtype][1]
            if not 0 <= begin <= end <= top:
                raise b.fail(TikError, api, "range", f"[{begin}, {end})", f"0 <= begin <= end <= {top}")

        def opening() -> LoopVar:
            dead = begin.__class__ is int and end.__class__ is int and end <= begin
            frame = Frame("block" if is_block else "for", [], dead, threads)
            loc = b.loc()
            b.push(frame)
            # The author's name: an argument that is not the default, else the target of `as`.
            loop_var = LoopVar(b, dtype, name if name != DEFAULT_LOOP else stored_name(), "loop")
            if begin.__class__ is int and end.__class__ is int:
                b.ranges[loop_var.node.value] = (begin, end - 1)
            loop = ir.For(loop_var.node.value, begin, end, frame.body, is_block, threads, loc)
            if not b.dead:
                frame.outer_body.append(loop)
            if is_block and not b.dead:
                b.block_loop = loop
            return loop_var

        return Scope(b, opening)

    def _check_block_loop(self, begin: Any, end: Any, endt: Any, blocks: Any, block_num: Any, threads: int) -> None:
        b = self._b
        api = "for_range with block_num"
        if begin.__class__ is not int or begin != 0:
            raise b.fail(TikError, api, "begint", begin, "0")
        if blocks.__class__ is int:
            if not 1 <= blocks <= limits.BLOCKS:
                raise b.fail(TikError, api, "block_num", blocks, f"1..{limits.BLOCKS}")
            if end.__class__ is not int or end != blocks:
                raise b.fail(TikError, api, "endt", end, f"block_num {blocks}")
        elif endt is not block_num:
            raise b.fail(TikError, api, "endt", end, "the Scalar given as block_num")
        if threads != 1:
            raise b.fail(TikError, api, "thread_num", threads, "1")
        if b.block_loop is not None:
            raise TikError(
                "for_range: a second loop with block_num; accepted: one multi-core loop per kernel", user_location()
            )

    def new_scope(self) -> Scope:
        """new_stmt_scope under the name that older kernels have for it."""
        return self.new_stmt_scope()

    def new_stmt_scope(self, disable_sync: bool = False) -> Scope:
        """A scope whose tensors and scalars end with it; ``disable_sync`` allows set_flag, wait_flag and
        barriers."""
        b = self._b
        off = flag(disable_sync, "new_stmt_scope", "disable_sync")
        if off and any(f.disable_sync for f in b.frames):
            raise TikError("new_stmt_scope: disable_sync scopes cannot be nested", user_location())

        def opening() -> None:
            if not off:
                b.push(Frame("stmt", b.body))
                return
            region = ir.NoSync([], b.loc())
            outer = b.body
            b.push(Frame("stmt", region.body, disable_sync=True))
            if not b.dead:
                outer.append(region)

        return Scope(b, opening)

    def if_scope(self, cond: Any) -> Scope:
        """``with if_scope(cond)``: a comparison, bool expression, Python bool, tik.all or tik.any."""
        return self._branch("if_scope", None, self._condition("if_scope", cond))

    def elif_scope(self, cond: Any) -> Scope:
        """A further branch; directly after an if_scope or elif_scope."""
        chain = self._open_chain("elif_scope")
        return self._branch("elif_scope", chain, self._condition("elif_scope", cond))

    def else_scope(self) -> Scope:
        """The last branch; directly after an if_scope or elif_scope."""
        return self._branch("else_scope", self._open_chain("else_scope"), True)

    def _condition(self, api: str, cond: Any) -> Any:
        if isinstance(cond, Tensor):
            cond = cond.__tik_expr__()
        if isinstance(cond, Expr):
            e = cond.get()
            check_condition(self._b, api, e)
            known = decided(e, self._b.ranges)
            return cast(e, "bool") if known is None else known
        if isinstance(cond, (bool, int, np.bool_, np.integer)):
            return bool(cond)
        raise self._b.fail(TikError, api, "cond", type(cond).__name__, "a comparison, bool expression or Python bool")

    def _open_chain(self, api: str) -> Chain:
        b = self._b
        chain = b.frames[-1].closed_chain
        # The condition of this branch may have loaded tensor elements since the last one was closed.
        loads = b.body[chain.length :] if chain is not None else []
        if chain is None or not all(isinstance(s, ir.Load) for s in loads):
            raise TikError(f"{api}: does not directly follow an if_scope or elif_scope", user_location())
        if loads and chain.target is not b.body:
            del b.body[chain.length :]
            chain.target.extend(loads)
        return chain

    def _branch(self, api: str, chain: Chain | None, cond: Any) -> Scope:
        """One branch. Static conditions vanish: a taken branch is recorded in place, the others are dead."""
        b = self._b
        state: dict[str, Any] = {}
        count = (chain.count if chain is not None else 0) + (not isinstance(cond, bool))

        def opening() -> None:
            outer = b.frames[-1]
            target = b.body if chain is None else chain.target
            taken = chain is not None and chain.taken
            dead = taken or cond is False
            state.update(outer=outer, target=target, taken=taken)
            if dead:
                b.push(Frame("branch", [], dead=True))
            elif cond is True:
                state["taken"] = True
                kind = "stmt" if target is outer.body and chain is None else "branch"
                b.push(Frame(kind, target))
            else:
                if count > limits.BRANCHES:
                    raise b.fail(TikError, api, "length of the chain", count, f"at most {limits.BRANCHES}")
                loc = b.loc()
                node = ir.If(cond, [], [], loc)
                if not b.dead:
                    target.append(node)
                state["target"] = node.orelse
                b.push(Frame("branch", node.then))

        def closing(frame: Frame) -> None:
            state["outer"].closed_chain = (
                None if api == "else_scope" else Chain(state["target"], state["taken"], len(b.body), count)
            )

        return Scope(b, opening, closing)

    def tik_break(self) -> None:
        """End the innermost for_range; not in the multi-core loop."""
        self._jump("tik_break", "break")

    def tik_continue(self) -> None:
        """Next iteration of the innermost for_range; not in the multi-core loop."""
        self._jump("tik_continue", "continue")

    def tik_return(self) -> None:
        """End the kernel (this block of the multi-core loop)."""
        if not self._b.dead:
            self._b.body.append(ir.Jump("return", self._b.loc()))

    def _jump(self, api: str, kind: str) -> None:
        b = self._b
        if b.dead:
            return
        loop = next((f for f in reversed(b.frames) if f.kind in ("for", "block")), None)
        if loop is None or loop.kind == "block":
            raise TikError(f"{api}: is not inside a for_range without block_num", user_location())
        b.body.append(ir.Jump(kind, b.loc()))


def all_(*conds: Any) -> Expr:
    """True where every condition is (``tik.all``)."""
    return _join("and", "tik.all", conds)


def any_(*conds: Any) -> Expr:
    """True where at least one condition is (``tik.any``)."""
    return _join("or", "tik.any", conds)


def negate(cond: Any) -> Expr:
    """True where the condition is not (``tik.negate``)."""
    from ms_custom_ops.program.expr import unary

    return unary("not", cond)


def _join(op: str, api: str, conds: tuple) -> Expr:
    from ms_custom_ops.program.expr import binary

    if not conds:
        raise TikError(describe(api, "number of conditions", 0, "at least 1"), user_location())
    result = cast(as_expr(conds[0]), "bool")
    for cond in conds[1:]:
        result = binary(op, result, cast(as_expr(cond), "bool"))
    return result
