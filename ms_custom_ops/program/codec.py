# SPDX-License-Identifier: Apache-2.0
"""Binary form of a Program (little endian), read by the native engine and kept in the cache.

Layout: ``magic "MCOP"``, ``u32 version``, ``u64 payload length``, ``u32 CRC-32 of the payload``, ``u32 0``, payload:

* strings: ``u32 count`` x (``u32 length``, UTF-8 bytes); string 0 is the kernel name, 1 the soc
* ``u8 saturate``; scope sizes: ``u32 count`` x (``u8 scope``, ``i64 bytes``)
* buffers: ``u32 count`` x (``u32 name, u8 scope, u8 dtype, u8 kind, u8 flags, i64 size_bytes, i64 address, u32 loc,
  f64 init_value, u32 rank, i64 dims[rank]``); flags bit 0 atomic_init, bit 1 has init_value; unknown dims are -1
* registers: ``u32 count`` x (``u32 name, u8 dtype, u8 kind``); kind 0 scalar, 1 loop, 2 input
* expressions: ``u32 count`` x (``u8 op, u8 dtype, u16 0, u32 a, u32 b, 8 bytes value``); a and b are smaller indices;
  the value is i64 for integer constants and register numbers, f64 for float constants; op numbers are EXPR_OPS
* locations: ``u32 count`` x (``u32 file string, u32 line``)
* inputs, outputs, workspaces (buffer numbers), input scalars (register numbers): each ``u32 count`` x ``u32``
* meta: ``u32 count`` x (``u32 key, u32 value``) strings
* body: block = ``u32 count`` x statement; statement = ``u8 kind, u32 loc`` and
  0 instr: ``u32 op name, u8 tensors, u8 args, u8 attrs, u8 0``, tensors x (``u32 buffer, u32 offset expr, u8 dtype``),
  args x ``u32 expr``, attrs x ``i64``; 1 for: ``u32 register, u32 begin, u32 end, u8 block, u8 threads``, block;
  2 if: ``u32 cond``, block, block; 3 assign: ``u32 register, u32 expr``; 4 load: ``u32 register``, tensor;
  5 store: tensor, ``u32 expr``; 6 alloc: ``u32 buffer``; 7 jump: ``u8 kind`` (0 break, 1 continue, 2 return)
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import BY_CODE, DTYPES, FLOATS
from ms_custom_ops.program.expr import BINARY_OPS, UNARY_OPS, Expr, int_dtype_of

MAGIC = b"MCOP"
VERSION = 1
EXPR_OPS = ("const", "var", "cast", "bitcast", *UNARY_OPS, *BINARY_OPS)
_EXPR_CODE = {name: i for i, name in enumerate(EXPR_OPS)}
_JUMPS = ("break", "continue", "return")
_REGISTER_KINDS = ("scalar", "loop", "input")
_HEADER = struct.Struct("<4sIQII")
_EXPR = struct.Struct("<BBHIIq")
_EXPR_F = struct.Struct("<BBHIId")
_TENSOR = struct.Struct("<IIB")
_BUFFER = struct.Struct("<IBBBBqqIdI")
_NONE = 0xFFFFFFFF


class _Encoder:
    def __init__(self, program: ir.Program):
        self.program = program
        self.strings: dict[str, int] = {}
        self.exprs: list[bytes] = []
        self.constants: dict[bytes, int] = {}
        self.nodes: dict[int, int] = {}
        self.keep: list[Expr] = []

    def string(self, s: str) -> int:
        return self.strings.setdefault(s, len(self.strings))

    def expr(self, value: Any) -> int:
        if isinstance(value, int):
            return self._const(int_dtype_of(value), value)
        if value.op == "const":
            return self._const(value.dtype, value.value)
        known = self.nodes.get(id(value))
        if known is not None:
            return known
        a = self.expr(value.a) if value.a is not None else _NONE
        b = self.expr(value.b) if value.b is not None else _NONE
        register = value.value if value.op == "var" else 0
        index = len(self.exprs)
        self.exprs.append(_EXPR.pack(_EXPR_CODE[value.op], DTYPES[value.dtype].code, 0, a, b, register))
        self.nodes[id(value)] = index
        self.keep.append(value)  # keeps id() unique while encoding
        return index

    def _const(self, dtype: str, value: Any) -> int:
        if dtype in FLOATS:
            raw = _EXPR_F.pack(0, DTYPES[dtype].code, 0, _NONE, _NONE, float(value))
        else:
            value = int(value)
            signed = value - (1 << 64) if value >> 63 > 0 else value
            raw = _EXPR.pack(0, DTYPES[dtype].code, 0, _NONE, _NONE, signed)
        index = self.constants.get(raw)
        if index is None:
            index = self.constants[raw] = len(self.exprs)
            self.exprs.append(raw)
        return index

    def tensor(self, ref: ir.Ref) -> bytes:
        return _TENSOR.pack(ref.buffer.index, self.expr(ref.offset), DTYPES[ref.dtype].code)

    def block(self, body: list) -> bytes:
        parts = [struct.pack("<I", len(body))]
        parts += [self.statement(s) for s in body]
        return b"".join(parts)

    def statement(self, s: ir.Statement) -> bytes:
        if isinstance(s, ir.Instr):
            head = struct.pack("<BIIBBBB", 0, s.loc, self.string(s.op), len(s.tensors), len(s.args), len(s.attrs), 0)
            tensors = b"".join([self.tensor(t) for t in s.tensors])
            args = [self.expr(a) for a in s.args]
            return head + tensors + struct.pack(f"<{len(args)}I", *args) + struct.pack(f"<{len(s.attrs)}q", *s.attrs)
        if isinstance(s, ir.For):
            return struct.pack(
                "<BIIIIBB", 1, s.loc, s.register, self.expr(s.begin), self.expr(s.end), int(s.block), s.threads
            ) + self.block(s.body)
        if isinstance(s, ir.If):
            return self.chain(s)
        if isinstance(s, ir.Assign):
            return struct.pack("<BIII", 3, s.loc, s.register, self.expr(s.value))
        if isinstance(s, ir.Load):
            return struct.pack("<BII", 4, s.loc, s.register) + self.tensor(s.ref)
        if isinstance(s, ir.Store):
            return struct.pack("<BI", 5, s.loc) + self.tensor(s.ref) + struct.pack("<I", self.expr(s.value))
        if isinstance(s, ir.Alloc):
            return struct.pack("<BII", 6, s.loc, s.buffer.index)
        return struct.pack("<BIB", 7, s.loc, _JUMPS.index(s.kind))

    def chain(self, s: ir.If) -> bytes:
        """An elif chain nests in ``orelse``; written without recursion, since it may have hundreds of branches."""
        parts = []
        while True:
            parts += [struct.pack("<BII", 2, s.loc, self.expr(s.cond)), self.block(s.then)]
            if len(s.orelse) != 1 or not isinstance(s.orelse[0], ir.If):
                return b"".join([*parts, self.block(s.orelse)])
            parts.append(struct.pack("<I", 1))
            s = s.orelse[0]

    def buffers(self) -> bytes:
        parts = [struct.pack("<I", len(self.program.buffers))]
        for b in self.program.buffers:
            dims = [d if isinstance(d, int) else -1 for d in b.shape]
            flags = int(b.atomic_init) | (2 if b.init_value is not None else 0)
            parts.append(
                _BUFFER.pack(
                    self.string(b.name),
                    ir.SCOPES.index(b.scope),
                    DTYPES[b.dtype].code,
                    ir.KINDS.index(b.kind),
                    flags,
                    b.size_bytes,
                    b.address,
                    b.loc,
                    float(b.init_value or 0),
                    len(dims),
                )
            )
            parts.append(struct.pack(f"<{len(dims)}q", *dims))
        return b"".join(parts)

    def run(self) -> bytes:
        p = self.program
        self.string(p.name)
        self.string(p.soc)
        body = self.block(p.body)
        buffers = self.buffers()
        registers = b"".join(
            [
                struct.pack("<IBB", self.string(r.name), DTYPES[r.dtype].code, _REGISTER_KINDS.index(r.kind))
                for r in p.registers
            ]
        )
        locations = b"".join([struct.pack("<II", self.string(f), line) for f, line in p.locations])
        meta = b"".join([struct.pack("<II", self.string(k), self.string(v)) for k, v in sorted(p.meta.items())])
        lists = b"".join(
            [struct.pack(f"<I{len(x)}I", len(x), *x) for x in (p.inputs, p.outputs, p.workspaces, p.input_scalars)]
        )
        names = [s.encode() for s in self.strings]
        scopes = sorted(p.scope_bytes.items(), key=lambda kv: ir.SCOPES.index(kv[0]))
        payload = b"".join(
            [
                struct.pack("<I", len(names)),
                *[struct.pack("<I", len(n)) + n for n in names],
                struct.pack("<B", int(p.saturate)),
                struct.pack("<I", len(scopes)),
                *[struct.pack("<Bq", ir.SCOPES.index(k), v) for k, v in scopes],
                buffers,
                struct.pack("<I", len(p.registers)),
                registers,
                struct.pack("<I", len(self.exprs)),
                *self.exprs,
                struct.pack("<I", len(p.locations)),
                locations,
                lists,
                struct.pack("<I", len(p.meta)),
                meta,
                body,
            ]
        )
        return _HEADER.pack(MAGIC, VERSION, len(payload), zlib.crc32(payload), 0) + payload


def encode(program: ir.Program) -> bytes:
    """Binary form of ``program``; equal programs give equal bytes."""
    return _Encoder(program).run()


class _Decoder:
    def __init__(self, raw: bytes):
        self.raw = raw
        self.at = 0
        self.strings: list[str] = []
        self.exprs: list[Expr] = []

    def take(self, fmt: str) -> tuple:
        values = struct.unpack_from("<" + fmt, self.raw, self.at)
        self.at += struct.calcsize("<" + fmt)
        return values

    def count(self) -> int:
        n = self.take("I")[0]
        if n > len(self.raw) - self.at:
            raise EngineError(f"program bytes: a table of {n} entries at offset {self.at} is longer than the file")
        return n

    def tensor(self, p: ir.Program) -> ir.Ref:
        buffer, offset, dtype = self.take("IIB")
        return ir.Ref(p.buffers[buffer], BY_CODE[dtype].name, self.exprs[offset])

    def expression(self) -> Expr:
        op, dtype, _, a, b = self.take("BBHII")
        name, kind = EXPR_OPS[op], BY_CODE[dtype].name
        value = self.take("d" if name == "const" and kind in FLOATS else "q")[0]
        if name == "const" and kind == "uint64" and value < 0:
            value += 1 << 64
        return Expr(
            name,
            kind,
            self.exprs[a] if a != _NONE else None,
            self.exprs[b] if b != _NONE else None,
            value if name in ("const", "var") else None,
        )

    def block(self, p: ir.Program) -> list:
        return [self.statement(p) for _ in range(self.count())]

    def statement(self, p: ir.Program) -> ir.Statement:
        kind, loc = self.take("BI")
        if kind == 0:
            op, nt, na, nattr, _ = self.take("IBBBB")
            tensors = tuple(self.tensor(p) for _ in range(nt))
            args = tuple(self.exprs[i] for i in self.take(f"{na}I"))
            return ir.Instr(self.strings[op], tensors, args, self.take(f"{nattr}q"), loc)
        if kind == 1:
            register, begin, end, block, threads = self.take("IIIBB")
            return ir.For(register, self.exprs[begin], self.exprs[end], self.block(p), bool(block), threads, loc)
        if kind == 2:
            return self.chain(p, loc)
        if kind == 3:
            register, value = self.take("II")
            return ir.Assign(register, self.exprs[value], loc)
        if kind == 4:
            register = self.take("I")[0]
            return ir.Load(register, self.tensor(p), loc)
        if kind == 5:
            ref = self.tensor(p)
            return ir.Store(ref, self.exprs[self.take("I")[0]], loc)
        if kind == 6:
            return ir.Alloc(p.buffers[self.take("I")[0]], loc)
        if kind == 7:
            return ir.Jump(_JUMPS[self.take("B")[0]], loc)
        raise EngineError(f"program bytes: unknown statement kind {kind} at offset {self.at}")

    def chain(self, p: ir.Program, loc: int) -> ir.If:
        first = last = ir.If(self.exprs[self.take("I")[0]], self.block(p), [], loc)
        while True:
            count = self.count()
            if count != 1 or self.raw[self.at] != 2:
                last.orelse.extend(self.statement(p) for _ in range(count))
                return first
            _, loc = self.take("BI")
            last.orelse.append(ir.If(self.exprs[self.take("I")[0]], self.block(p), [], loc))
            last = last.orelse[0]

    def buffer(self, index: int) -> ir.Buffer:
        name, scope, dtype, kind, flags, size, address, loc, init, rank = self.take("IBBBBqqIdI")
        return ir.Buffer(
            index,
            self.strings[name],
            ir.SCOPES[scope],
            BY_CODE[dtype].name,
            self.take(f"{rank}q"),
            size,
            address,
            ir.KINDS[kind],
            bool(flags & 1),
            init if flags & 2 else None,
            loc,
        )

    def run(self) -> ir.Program:
        for _ in range(self.count()):
            n = self.count()
            self.strings.append(self.raw[self.at : self.at + n].decode())
            self.at += n
        saturate = bool(self.take("B")[0])
        scopes = dict((ir.SCOPES[s], size) for s, size in (self.take("Bq") for _ in range(self.count())))
        p = ir.Program(self.strings[0], self.strings[1], scopes, saturate)
        for i in range(self.count()):
            p.buffers.append(self.buffer(i))
        for i in range(self.count()):
            name, dtype, kind = self.take("IBB")
            p.registers.append(ir.Register(i, self.strings[name], BY_CODE[dtype].name, _REGISTER_KINDS[kind]))
        for _ in range(self.count()):
            self.exprs.append(self.expression())
        p.locations = [(self.strings[f], line) for f, line in (self.take("II") for _ in range(self.count()))]
        for target in (p.inputs, p.outputs, p.workspaces, p.input_scalars):
            target.extend(self.take(f"{self.count()}I"))
        p.meta = {self.strings[k]: self.strings[v] for k, v in (self.take("II") for _ in range(self.count()))}
        p.body = self.block(p)
        if self.at != len(self.raw):
            raise EngineError(f"program bytes: {len(self.raw) - self.at} bytes after the end of the program")
        return p


def decode(raw: bytes) -> ir.Program:
    """Program of ``raw``; EngineError when the header, checksum or content is wrong."""
    if len(raw) < _HEADER.size or raw[:4] != MAGIC:
        raise EngineError("program bytes: not a ms_custom_ops program (no MCOP header)")
    _, version, length, crc, _ = _HEADER.unpack_from(raw)
    if version != VERSION:
        raise EngineError(f"program bytes: version {version}; this release reads version {VERSION}")
    payload = raw[_HEADER.size :]
    if len(payload) != length or zlib.crc32(payload) != crc:
        raise EngineError(
            f"program bytes: {len(payload)} bytes of payload do not match the header (length {length}, "
            "CRC-32): the file is truncated or corrupt"
        )
    try:
        return _Decoder(payload).run()
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise EngineError(f"program bytes: malformed program ({error})") from error
