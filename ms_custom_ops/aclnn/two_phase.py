# SPDX-License-Identifier: Apache-2.0
"""The two functions of an op: GetWorkspaceSize checks a call and gives an executor, the other one runs it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ms_custom_ops.aclnn.interface import OUTPUT, Interface, Job
from ms_custom_ops.aclnn.status import StatusError, fail, succeed
from ms_custom_ops.errors import describe


class Executor:
    """A checked call that runs once, on the thread that asks for it. ``workspace_size`` in bytes."""

    def __init__(self, op: str, job: Job):
        self.op = op
        self.workspace_size = job.workspace_size
        self._job: Job | None = job
        self._lock = threading.Lock()

    def run(self) -> None:
        """Runs the job, once: StatusError (runtime) afterwards. A run that fails leaves it to be tried again."""
        with self._lock:
            job, self._job = self._job, None
        if job is None:
            raise StatusError("runtime", describe(self.op, "executor", "used already", "a new executor for each run"))
        try:
            job.run()
        except BaseException:
            self._job = job
            raise


@dataclass(frozen=True)
class TwoPhase:
    """Both functions of one op."""

    name: str
    get_workspace_size: Callable[..., tuple[int, int, Executor | None]]
    execute: Callable[..., int]


def build(interface: Interface) -> TwoPhase:
    """The functions of an interface, with names, signatures and docstrings of their own."""

    def get_workspace_size(*args: Any, **kwargs: Any) -> tuple[int, int, Executor | None]:
        values = interface.bind(args, kwargs)
        try:
            executor = Executor(interface.name, interface.prepare(values))
        except Exception as error:  # a C interface: whatever a caller passes ends in a status
            return fail(interface.name, error, interface.status), 0, None
        return succeed(), executor.workspace_size, executor

    def execute(workspace: Any, workspace_size: int, executor: Executor | None, stream: Any = None) -> int:
        try:
            _check(interface.name, workspace, workspace_size, executor).run()
        except Exception as error:
            return fail(interface.name, error, interface.status)
        return succeed()

    _describe(interface, get_workspace_size, execute)
    return TwoPhase(interface.name, get_workspace_size, execute)


def _check(op: str, workspace: Any, workspace_size: Any, executor: Any) -> Executor:
    """The executor, after the checks of the second phase."""
    if executor is None:
        raise StatusError("null_pointer", describe(op, "executor", "None", f"what {op}GetWorkspaceSize returned"))
    if not isinstance(executor, Executor) or executor.op != op:
        given = f"of {executor.op}" if isinstance(executor, Executor) else f"a {type(executor).__name__}"
        raise StatusError("runtime", describe(op, "executor", given, f"what {op}GetWorkspaceSize returned"))
    need = executor.workspace_size
    if isinstance(workspace_size, bool) or not isinstance(workspace_size, Integral) or workspace_size < need:
        raise StatusError("runtime", describe(op, "workspace_size", repr(workspace_size), f"at least {need} bytes"))
    have = _bytes(op, workspace)
    if need and have is not None and have < need:
        given = "None" if workspace is None else f"of {have} bytes"
        raise StatusError("runtime", describe(op, "workspace", given, f"at least {need} bytes"))
    return executor


def _bytes(op: str, workspace: Any) -> int | None:
    """Size of a workspace; None for an address, whose size cannot be seen."""
    if workspace is None:
        return 0
    if isinstance(workspace, Integral) and not isinstance(workspace, bool) and int(workspace) >= 0:
        return None if workspace else 0
    size = getattr(workspace, "nbytes", None)
    if isinstance(size, Integral):
        return int(size)
    try:
        return memoryview(workspace).nbytes
    except TypeError:
        given = f"a {type(workspace).__name__}"
        raise StatusError("runtime", describe(op, "workspace", given, "an array, a buffer or an address")) from None


def _describe(interface: Interface, first: Any, second: Any) -> None:
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first.__name__ = first.__qualname__ = f"{interface.name}GetWorkspaceSize"
    second.__name__ = second.__qualname__ = interface.name
    first.__signature__ = inspect.Signature([inspect.Parameter(p.name, keyword) for p in interface.parameters])
    lines = [
        f"    {p.name}{' (None or left out: absent)' if p.optional and p.kind != 'attribute' else ''}"
        f"{f' (default {p.default!r})' if p.optional and p.kind == 'attribute' else ''}"
        f"{', written' if p.kind == OUTPUT else ''}: {p.doc or 'see docs/aclnn.md'}"
        for p in interface.parameters
    ]
    first.__doc__ = (
        f"First phase of {interface.name}: checks the call.\n\n"
        + "\n".join(lines)
        + "\n\nReturns (status, workspace_size in bytes, executor); after a failure (status, 0, None), and\n"
        "get_recent_error() says why. The executor keeps references to the tensors: they are read and written in the\n"
        "second phase."
    )
    second.__doc__ = (
        f"Second phase of {interface.name}: runs an executor, once, and writes its output tensors. One that\n"
        "failed can be run again.\n\n"
        "workspace has at least workspace_size bytes (an array, a buffer or an address; the engine does not touch\n"
        "it). The call returns when the outputs are written; stream is not used. Returns the status."
    )
