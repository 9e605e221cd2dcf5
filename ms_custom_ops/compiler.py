# SPDX-License-Identifier: Apache-2.0
"""From an op, shapes, dtypes, attributes and a chip to its Program: memory, then the disk cache, then
tracing. Where the op's Ascend C kernel is chosen (``set_impl``), to a launch of that kernel instead.

A Program is found by its key: a prefix (op, IR version, source hash, chip, attributes, which optional tensors are
there) and dtype and shape of the tensors that are there, in the order of the op's arguments. Needs no MindSpore.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_custom_ops import tuned
from ms_custom_ops.cache import content_key, default_cache
from ms_custom_ops.errors import EngineError, OpArgumentError, describe
from ms_custom_ops.program import codec, ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.registry.call_values import full_attrs
from ms_custom_ops.registry.implementation import ASCENDC, TIK, current_impl
from ms_custom_ops.sources import sources_of

if TYPE_CHECKING:
    from ms_custom_ops.ascendc.op import Launch
    from ms_custom_ops.registry.spec import OpSpec

Tensors = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True)
class CompiledOp:
    """A traced op. ``key`` finds it in every cache, ``program_bytes`` is what the engine loads, ``path`` its
    file on disk (None when the folder did not take it), ``inputs`` and ``outputs`` name the Program's tensors
    in order. ``launch``: that of an Ascend C kernel, which has no Program."""

    op: str
    key: str
    program_bytes: bytes
    path: Path | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    launch: Launch | None = None

    @property
    def program(self) -> ir.Program:
        """The decoded Program."""
        return ir.Program.from_bytes(self.program_bytes)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of GM workspace that it asks for."""
        if self.launch is not None:
            return self.launch.user_workspace
        program = self.program
        return sum(max(program.buffers[i].size_bytes, 0) for i in program.workspaces)


@dataclass(frozen=True)
class Call:
    """One call of an op, checked. ``inputs`` and ``outputs`` are (name, shape, dtype) of the tensors that are
    there, ``returns`` (shape, dtype) of every return, placeholders included."""

    spec: OpSpec
    soc: str
    attrs: dict[str, Any]
    inputs: tuple[tuple[str, tuple[int, ...], str], ...]
    outputs: tuple[tuple[str, tuple[int, ...], str], ...]
    returns: tuple[tuple[tuple[int, ...], str], ...]
    impl: str = TIK

    @property
    def prefix(self) -> str:
        """The part of the key that does not depend on shapes and dtypes."""
        return key_prefix(self.spec, self.attrs, tuple(name for name, _, _ in self.inputs), self.soc, self.impl)

    @property
    def key(self) -> str:
        """The content key."""
        return content_key(self.prefix, tuple((shape, dtype) for _, shape, dtype in self.inputs))


MEMORY_BYTES = 256 << 20
"""Programs kept in this process for the next call of the same key; live graphs hold theirs apart from these."""


class _Memory:
    """Programs by key; the least recently used go when all of them exceed MEMORY_BYTES."""

    def __init__(self) -> None:
        self._programs: OrderedDict[str, CompiledOp] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, key: str) -> CompiledOp | None:
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
            return found

    def put(self, key: str, compiled: CompiledOp) -> CompiledOp:
        with self._lock:
            self._bytes += len(compiled.program_bytes)
            self._programs[key] = compiled
            while self._bytes > MEMORY_BYTES and len(self._programs) > 1:
                self._bytes -= len(self._programs.popitem(last=False)[1].program_bytes)
        return compiled

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()
            self._bytes = 0


_memory = _Memory()
_lock = threading.RLock()  # one trace at a time: kernels build their Program through module state


def key_prefix(spec: OpSpec, attrs: Mapping[str, Any], present: Sequence[str], soc: str, impl: str = TIK) -> str:
    """Canonical JSON of everything but shapes and dtypes that a Program, or a launch, depends on."""
    parts = {
        "op": spec.name,
        "ir": codec.VERSION,
        "source": sources_of(spec).hash,
        "soc": soc,
        "attrs": dict(attrs),
        "present": list(present),
    }
    if choices := tuned.digest(spec.name):
        parts["tuned"] = choices
    if impl != TIK:
        from ms_custom_ops.compile_launch import sources_digest

        parts |= {"impl": impl, "kernel": sources_digest(spec)}
    return json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def impl_of(spec: OpSpec, attrs: Mapping[str, Any], present: Sequence[str], soc: str) -> str:
    """The implementation in force for calls of an op: the chosen one where the op has it for the chip and these
    attributes (all of them) and tensors, else "tik"."""
    from ms_custom_ops.soc import get_soc

    chosen = spec.impl.ascendc
    if current_impl() != ASCENDC or chosen is None or get_soc(soc).family not in chosen.families:
        return TIK
    there = {f"present:{arg.name}": arg.name in present for arg in spec.tensors}
    return ASCENDC if chosen.when is None or chosen.when.evaluate({**attrs, **there}) else TIK


def _by_name(spec: OpSpec, values: Tensors, what: str) -> dict[str, Any]:
    names = [arg.name for arg in spec.tensors]
    if isinstance(values, Mapping):
        return dict(values)
    if len(values) > len(names):
        raise OpArgumentError(
            describe(spec.name, what, f"{len(values)} entries", f"at most {len(names)}: {', '.join(names)}")
        )
    return dict(zip(names, values, strict=False))


def describe_call(
    spec: OpSpec, shapes: Tensors, dtypes: Tensors, attrs: Mapping[str, Any], soc: str | None = None
) -> Call:
    """Checks a call of ``spec`` (errors of :meth:`OpSpec.check_call`) and fills in what was left out."""
    from ms_custom_ops.soc import current_soc, get_soc

    chip = (current_soc() if soc is None else get_soc(soc)).name
    by_name, types = _by_name(spec, shapes, "shapes"), _by_name(spec, dtypes, "dtypes")
    returns = spec.infer(by_name, types, attrs, chip)
    inputs = tuple(
        (arg.name, tuple(int(size) for size in by_name[arg.name]), types[arg.name])
        for arg in spec.tensors
        if by_name.get(arg.name) is not None
    )
    there = {name for name, _, _ in inputs}
    outputs = tuple(
        (ret.name, tuple(shape), dtype)
        for ret, (shape, dtype) in zip(spec.returns, returns, strict=True)
        if ret.present_if is None or ret.present_if in there
    )
    answers = tuple((tuple(shape), dtype) for shape, dtype in returns)
    values = full_attrs(spec, attrs)
    return Call(spec, chip, values, inputs, outputs, answers, impl_of(spec, values, [n for n, _, _ in inputs], chip))


def compile_op(
    op: str, shapes: Tensors, dtypes: Tensors, attrs: Mapping[str, Any] | None = None, soc: str | None = None
) -> CompiledOp:
    """Program of one call of an op.

    Args:
        op: name of the op.
        shapes: tensor argument -> shape (None where absent), or a list in the order of the op's tensor
            arguments.
        dtypes: the same for full dtype names ("float16").
        attrs: attribute -> value; attributes with a default may be left out.
        soc: chip, by default the current one.

    Raises:
        The errors of :meth:`OpSpec.check_call`, of the tiling plan and of the kernel's trace.
    """
    from ms_custom_ops.registry import get_op

    return compile_call(describe_call(get_op(op), shapes, dtypes, attrs or {}, soc))


def compile_call(call: Call) -> CompiledOp:
    """Program of a checked call; see :func:`compile_op`."""
    key = call.key
    compiled = _memory.get(key)
    if compiled is not None:
        return compiled
    with _lock:
        compiled = _memory.get(key)
        if compiled is None:
            compiled = _memory.put(key, _load_or_trace(call, key))
    return compiled


def publish(call: Call) -> None:
    """Compiles a checked call and makes it known to the engine under its key, where a graph finds it."""
    compiled = compile_call(call)
    if compiled.launch is not None:
        from ms_custom_ops.compile_launch import put

        put(call, compiled)
        return
    from ms_custom_ops import engine

    engine.put_in_table(compiled.key, compiled.program_bytes)


def drop_memory() -> None:
    """Forgets the Programs kept in this process (not those on disk, nor those a live graph holds)."""
    with _lock:
        _memory.clear()


def _load_or_trace(call: Call, key: str) -> CompiledOp:
    if call.impl == ASCENDC:
        from ms_custom_ops.compile_launch import launch_of

        given, made = (tuple(name for name, _, _ in side) for side in (call.inputs, call.outputs))
        return CompiledOp(call.spec.name, key, b"", None, given, made, launch_of(call))
    cache, op = default_cache(), call.spec.name
    inputs, outputs = (tuple(name for name, _, _ in tensors) for tensors in (call.inputs, call.outputs))
    raw = cache.get(op, key)
    if raw is not None:
        return CompiledOp(op, key, raw, cache.path(op, key), inputs, outputs)
    raw, kept = trace_call(call)
    path = cache.put(op, key, raw) if kept else None
    return CompiledOp(op, key, raw, path, inputs, outputs)


def trace_call(call: Call) -> tuple[bytes, bool]:
    """Program of a checked call, traced now without a look at any cache, and whether its key covers all that ran."""
    with _lock:
        before = set(sys.modules)
        raw = _trace(call).to_bytes()
        return raw, _may_be_kept(call.spec, before)


def _may_be_kept(spec: OpSpec, before: set[str]) -> bool:
    """Whether the key covers all that the trace ran; ``before`` names the modules loaded before it."""
    sources = sources_of(spec)
    strangers = sources.strangers(set(sys.modules) - before)
    if strangers:
        warnings.warn(
            f"{spec.name}: its kernel loads {', '.join(strangers)} in a way that its import statements do not tell, so "
            "that a change there could not be noticed; the Program is kept in memory only. Accepted: import "
            "statements that can be resolved before the kernel runs",
            RuntimeWarning,
            stacklevel=2,
        )
    return not strangers and sources.settled


@functools.lru_cache(maxsize=256)
def _entry(entry: str) -> Any:
    module, _, name = entry.partition(":")
    loaded = importlib.import_module(module)
    if not callable(getattr(loaded, name, None)):
        file = getattr(loaded, "__file__", None) or module
        raise OpArgumentError(describe("impl in the op_info file", "entry", entry, f"a function of {file}"))
    return getattr(loaded, name)


def _tbe_dict(shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype, "format": "ND", "ori_shape": shape, "ori_format": "ND"}


def _takes_call(entry: Any) -> bool:
    """The entry takes the call as one object; otherwise it is written the public CANN way."""
    parameters = list(inspect.signature(entry).parameters.values())
    return len(parameters) == 1 and parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


def _trace(call: Call) -> ir.Program:
    """Runs the kernel's entry: with a :class:`KernelCall` where it takes one argument, else in the TBE convention
    (tensors in, tensors out, attributes, kernel_name)."""
    from ms_custom_ops.soc import get_soc
    from ms_custom_ops.tik.call import KernelCall, TensorInfo
    from ms_custom_ops.tik.trace import trace

    impl = call.spec.impl
    entry = _entry(impl.entry)
    if _takes_call(entry):
        given, made = (
            {n: TensorInfo(shape, dtype) for n, shape, dtype in side} for side in (call.inputs, call.outputs)
        )
        kernel_call = KernelCall(call.spec.name, impl.kernel_name, get_soc(call.soc), given, made, call.attrs)
        program = trace(entry, kernel_call, soc=call.soc)
    else:
        there = {name: _tbe_dict(shape, dtype) for name, shape, dtype in (*call.inputs, *call.outputs)}
        names = [arg.name for arg in call.spec.tensors] + [ret.name for ret in call.spec.returns]
        arguments = [there.get(name) for name in names]
        program = trace(entry, *arguments, *call.attrs.values(), soc=call.soc, kernel_name=impl.kernel_name)
    _check_io(call, program)
    return program


def _check_io(call: Call, program: ir.Program) -> None:
    """The kernel's BuildCCE lists must be the op's tensors, since they are bound by position."""
    for what, tensors, indices in (("inputs", call.inputs, program.inputs), ("outputs", call.outputs, program.outputs)):
        given = [(program.buffers[i].dtype, program.buffers[i].size_bytes) for i in indices]
        wanted = [(dtype, _bytes(shape, dtype)) for _, shape, dtype in tensors]
        if len(given) != len(wanted) or any(
            g[0] != w[0] or g[1] not in (-1, w[1]) for g, w in zip(given, wanted, strict=True)
        ):
            text = ", ".join(f"{name} {dtype}{list(shape)}" for name, shape, dtype in tensors)
            kernel = ", ".join(
                f"{program.buffers[i].name} {program.buffers[i].dtype}{list(program.buffers[i].shape)}" for i in indices
            )
            raise EngineError(describe(call.spec.name, f"{what} of BuildCCE in the kernel", kernel or "(none)", text))


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    size = SIZE[dtype]
    for n in shape:
        size *= n
    return size
