# SPDX-License-Identifier: Apache-2.0
"""Builders of small Programs for the tests of the engines, and the comparison of their results."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_custom_ops.engine.reference import run_reference
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import ISA

SCOPE_BYTES = {"ub": 65536, "l1": 131072, "l0a": 65536, "l0b": 65536, "l0c": 131072}


class Builder:
    """A Program under construction: buffers by name, one statement per call, locations ``kernel.py:<n>``."""

    def __init__(self, saturate: bool = True, scope_bytes: dict[str, int] | None = None, name: str = "probe"):
        self.program = ir.Program(name, "Ascend910B1", dict(scope_bytes or SCOPE_BYTES), saturate)
        self.body = self.program.body
        self.used: dict[str, int] = {}

    def loc(self) -> int:
        """A new source location."""
        self.program.locations.append(("kernel.py", len(self.program.locations)))
        return len(self.program.locations) - 1

    def gm(self, name: str, dtype: str, count: int, kind: str, **more: Any) -> ir.Buffer:
        """A global tensor of ``count`` elements; kind "input", "output" or "workspace"."""
        p = self.program
        buffer = ir.Buffer(len(p.buffers), name, "gm", dtype, (count,), count * SIZE[dtype], 0, kind, **more)
        p.buffers.append(buffer)
        {"input": p.inputs, "output": p.outputs, "workspace": p.workspaces}[kind].append(buffer.index)
        return buffer

    def local(self, name: str, scope: str, dtype: str, count: int) -> ir.Buffer:
        """A local tensor placed after the ones before it, aligned to 512 bytes."""
        size = count * SIZE[dtype]
        address = -(-self.used.get(scope, 0) // 512) * 512
        self.used[scope] = address + size
        buffer = ir.Buffer(len(self.program.buffers), name, scope, dtype, (count,), size, address, "local")
        self.program.buffers.append(buffer)
        self.body.append(ir.Alloc(buffer, self.loc()))
        return buffer

    def register(self, name: str, dtype: str, kind: str = "scalar") -> int:
        """A scalar register; its number."""
        index = len(self.program.registers)
        self.program.registers.append(ir.Register(index, name, dtype, kind))
        if kind == "input":
            self.program.input_scalars.append(index)
        return index

    def instr(
        self, op: str, tensors: dict[str, ir.Ref] | list[ir.Ref], attrs: dict[str, int] | None = None, **args: Any
    ) -> ir.Instr:
        """Append an instruction; arguments and attributes not given are 0."""
        spec = ISA[op]
        attrs = attrs or {}
        unknown = set(args) - set(spec.args) | set(attrs) - set(spec.attrs)
        assert not unknown, f"{op} has no {sorted(unknown)}"
        if isinstance(tensors, dict):
            tensors = [tensors[t] for t in spec.tensors]
        values = tuple(args.get(a, 0) for a in spec.args)
        s = ir.Instr(
            op, tuple(tensors), tuple(as_arg(v) for v in values), tuple(attrs.get(a, 0) for a in spec.attrs), self.loc()
        )
        self.body.append(s)
        return s

    def move(self, dst: ir.Buffer, src: ir.Buffer, size_bytes: int | None = None) -> None:
        """Copy the start of ``src`` to the start of ``dst``."""
        count = min(dst.size_bytes, src.size_bytes) if size_bytes is None else size_bytes
        self.instr("data_move", [ref(dst), ref(src)], nburst=1, burst=count)


def as_arg(value: Any) -> Any:
    """A Python float as an immediate (arguments are expressions or Python integers)."""
    return const(value) if isinstance(value, float) else value


def ref(buffer: ir.Buffer, offset: Any = 0, dtype: str | None = None) -> ir.Ref:
    """A tensor operand."""
    return ir.Ref(buffer, dtype or buffer.dtype, offset)


def outputs_of(program: ir.Program) -> list[np.ndarray]:
    """Zeroed output arrays."""
    return [np.zeros(program.buffers[i].shape, DTYPES[program.buffers[i].dtype].numpy) for i in program.outputs]


def reference(program: ir.Program, inputs: list[np.ndarray], scalars: list[int | float] = ()) -> list[np.ndarray]:
    """Outputs of the reference engine."""
    outputs = outputs_of(program)
    run_reference(program, list(inputs), list(scalars), outputs)
    return outputs


def vector_args(op: str, mask: int | tuple[int, int], repeat: int, sizes: dict[str, int], **args: Any) -> dict:
    """Arguments of a vector instruction with contiguous strides; ``args`` override; a pair is (high, low)."""
    spec = ISA[op]
    high, low = mask if isinstance(mask, tuple) else (0, mask)
    values: dict[str, Any] = {"mask0": low, "mask1": high, "repeat": repeat}
    lanes = 256 // max(sizes.values())
    for name in spec.args:
        operand, _, kind = name.rpartition("_")
        if kind == "blk":
            values[name] = 32
        elif kind == "rep" and operand in sizes:
            values[name] = lanes * sizes[operand]
    values.update(args)
    return {k: v for k, v in values.items() if k in spec.args}


def run_vector(
    op: str,
    sources: dict[str, np.ndarray],
    dst: np.ndarray,
    dtypes: dict[str, str],
    attrs: dict[str, int] | None = None,
    saturate: bool = True,
    mask: Any = None,
    repeat: int = 1,
    **args: Any,
) -> np.ndarray:
    """The new dst of one vector instruction in UB, every operand in a tensor of its own."""
    b = Builder(saturate)
    operands, feed = {}, []
    for name, array in {"dst": dst, **sources}.items():
        gm = b.gm(f"{name}_gm", dtypes[name], array.size, "input")
        operands[name] = b.local(name, "ub", dtypes[name], array.size)
        b.move(operands[name], gm)
        feed.append(array)
    sizes = {n: SIZE[d] for n, d in dtypes.items() if n != "sel" and not (op.startswith("vcmp") and n == "dst")}
    lanes = 256 // max(sizes.values())
    kind = 1 if isinstance(mask, tuple) else 0
    attrs = {"mask_kind": kind, **(attrs or {})}
    b.instr(
        op,
        {n: ref(o) for n, o in operands.items()},
        {k: v for k, v in attrs.items() if k in ISA[op].attrs},
        **vector_args(op, lanes if mask is None else mask, repeat, sizes, **args),
    )
    out = b.gm("out", dtypes["dst"], dst.size, "output")
    b.move(out, operands["dst"])
    return reference(b.program, feed)[0]


def add_program(**changes) -> Builder:
    """vadd of two float16 rows of 128 with some arguments or attributes changed; no input."""
    b = Builder()
    u, v = b.local("u", "ub", "float16", 128), b.local("v", "ub", "float16", 128)
    args = {
        "mask0": 128,
        "repeat": 1,
        "dst_blk": 32,
        "src0_blk": 32,
        "src1_blk": 32,
        "dst_rep": 256,
        "src0_rep": 256,
        "src1_rep": 256,
    }
    attrs = {k: changes.pop(k) for k in list(changes) if k == "mask_kind"}
    b.instr("vadd", {"dst": ref(u), "src0": ref(u), "src1": ref(v)}, attrs, **{**args, **changes})
    return b


SPECIALS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    65504.0,
    -65504.0,
    65520.0,
    6e-8,
    -6e-8,
    6.1e-5,
    2.0**-133,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.4e38,
    1e-40,
    2049.0,
    100000.0,
)


def values(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """Random values of a dtype: plain ones, specials, and raw bit patterns (subnormals among them)."""
    numpy = DTYPES[dtype].numpy
    raw = rng.integers(0, 256, count * numpy.itemsize, np.uint8).view(numpy)
    if dtype not in FLOATS:
        small = rng.integers(0, 20, count).astype(numpy)
        return np.where(rng.random(count) < 0.5, raw, small)
    with np.errstate(all="ignore"):
        plain = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(numpy)
        special = rng.choice(np.array(SPECIALS), count).astype(numpy)
    kind = rng.random(count)
    return np.where(kind < 0.7, plain, np.where(kind < 0.85, special, raw))


def same_bits(a: np.ndarray, b: np.ndarray, dtype: str, ulp: int = 0) -> np.ndarray:
    """Where two arrays agree as ``dtype``: equal bits, both NaN, or at most ``ulp`` float32 steps apart."""
    x, y = (np.ascontiguousarray(v).reshape(-1).view(np.uint8).view(DTYPES[dtype].numpy) for v in (a, b))
    raw = np.dtype(f"u{x.dtype.itemsize}")
    equal = x.view(raw) == y.view(raw)
    if dtype in FLOATS:
        with np.errstate(invalid="ignore"):
            equal |= np.isnan(x) & np.isnan(y)
    if ulp and dtype == "float32":
        steps = [
            np.where(v.view(np.int32) < 0, -(v.view(np.int32) & 0x7FFFFFFF).astype(np.int64), v.view(np.int32))
            for v in (x, y)
        ]
        equal |= (np.abs(steps[0] - steps[1]) <= ulp) & ~np.isnan(x) & ~np.isnan(y)
    return equal
