# SPDX-License-Identifier: Apache-2.0
"""Binary form of a Program, version 3 (little endian), read by the native engine and kept in the cache.

Layout: ``magic "MCOP"``, ``u32 version``, ``u64 payload length``, ``u32 CRC-32 of the payload``, ``u32 0``, payload:

* strings: ``u32 count`` x (``u32 length``, UTF-8 bytes); string 0 is the kernel name, 1 the soc
* ``u8 flags``: bit 0 saturate, bit 1 split cores; scope sizes: ``u32 count`` x (``u8 scope``, ``i64 bytes``)
* buffers: ``u32 count`` x (``u32 name, u8 scope, u8 dtype, u8 kind, u8 flags, i64 size_bytes, u32 loc,
  f64 init_value, u32 rank, u32 copies, i64 dims[rank], i64 addresses[copies], u8 table[size_bytes if bit 2]``); flags
  bit 0 atomic_init, bit 1 has init_value, bit 2 has a table: the bytes that a GM buffer of known size starts with;
  unknown dims are -1; there is one address per thread of the loops with thread_num around the buffer
* registers: ``u32 count`` x (``u32 name, u8 dtype, u8 kind``); kind 0 scalar, 1 loop, 2 input
* expressions: ``u32 count`` x (``u8 op, u8 dtype, u16 0, u32 a, u32 b, 8 bytes value``); a and b are smaller indices;
  the value is i64 for integer constants and register numbers, f64 for float constants; op numbers are EXPR_OPS;
  equal expressions stand once
* locations: ``u32 count`` x (``u32 file string, u32 line``); 0 is unknown, the others in the order of their first use
* inputs, outputs, workspaces (buffer numbers), input scalars (register numbers): each ``u32 count`` x ``u32``
* meta: ``u32 count`` x (``u32 key, u32 value``) strings
* body: block = ``u32 count`` x statement; statement = ``u8 kind, u32 loc`` and
  0 instr: ``u32 op name, u8 tensors, u8 args, u8 attrs, u8 0``, tensors x (``u32 buffer, u32 offset expr, u8 dtype``),
  args x ``u32 expr``, attrs x ``i64``; 1 for: ``u32 register, u32 begin, u32 end, u8 block, u8 threads``, block;
  2 if: ``u32 cond``, block, block; 3 assign: ``u32 register, u32 expr``; 4 load: ``u32 register``, tensor;
  5 store: tensor, ``u32 expr``; 6 alloc: ``u32 buffer``; 7 jump: ``u8 kind`` (0 break, 1 continue, 2 return);
  8 free: ``u32 buffer``; 9 nosync: block
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir, limits
from ms_custom_ops.program.dtypes import BY_CODE, DTYPES, FLOATS
from ms_custom_ops.program.expr import BINARY_OPS, UNARY_OPS, Expr, int_dtype_of
from ms_custom_ops.program.verify import check_limits

MAGIC = b"MCOP"
VERSION = 3
EXPR_OPS = ("const", "var", "cast", "bitcast", *UNARY_OPS, *BINARY_OPS)
_EXPR_CODE = {name: i for i, name in enumerate(EXPR_OPS)}
_JUMPS = ("break", "continue", "return")
_REGISTER_KINDS = ("scalar", "loop", "input")
_HEADER = struct.Struct("<4sIQII")
_EXPR = struct.Struct("<BBHIIq")
_EXPR_F = struct.Struct("<BBHIId")
_TENSOR = struct.Struct("<IIB")
_BUFFER = struct.Struct("<IBBBBqIdII")
_INSTR = struct.Struct("<BIIBBBB")
_NONE = 0xFFFFFFFF
_INT64 = 1 << 63


class _Encoder:
    """Tables of one Program. Strings, expressions and locations are numbered in the order of their first use, so that
    equal Programs give equal bytes whatever objects they are made of."""

    def __init__(self, program: ir.Program):
        self.program = program
        self.strings: dict[str, int] = {}
        self.exprs: dict[bytes, int] = {}
        self.ints: dict[int, int] = {}
        self.nodes: dict[int, int] = {}  # by id: the Program holds every node while it is encoded
        self.refs: dict[int, bytes] = {}
        self.args: dict[int, list[int]] = {}
        self.places: dict[int, int] = {0: 0}
        self.locations: dict[tuple[str, int], int] = {program.locations[0]: 0}
        self.depth = 0

    def string(self, s: str) -> int:
        return self.strings.setdefault(s, len(self.strings))

    def loc(self, number: int) -> int:
        index = self.places.get(number)
        if index is None:
            place = self.program.locations[number]
            index = self.places[number] = self.locations.setdefault(place, len(self.locations))
        return index

    def expr(self, value: Any) -> int:
        if value.__class__ is int:
            index = self.ints.get(value)
            if index is None:
                index = self.ints[value] = self._const(int_dtype_of(value), value)
            return index
        if isinstance(value, int):
            return self._const(int_dtype_of(value), value)
        if value.op == "const":
            return self._const(value.dtype, value.value)
        known = self.nodes.get(id(value))
        return known if known is not None else self._tree(value)

    def _tree(self, root: Expr) -> int:
        """Operands before their operator, without recursion."""
        stack = [root]
        while True:
            e = stack[-1]
            a = b = _NONE
            if e.b is not None:
                b = self._operand(e.b, stack)
            if e.a is not None:
                a = self._operand(e.a, stack)
            if stack[-1] is not e:
                continue
            stack.pop()
            raw = _EXPR.pack(_EXPR_CODE[e.op], DTYPES[e.dtype].code, 0, a, b, e.value if e.op == "var" else 0)
            index = self.nodes[id(e)] = self._entry(raw)
            if not stack:
                return index

    def _operand(self, e: Expr, stack: list[Expr]) -> int:
        """Number of a node that is known, else the node on the stack."""
        if e.op == "const":
            return self._const(e.dtype, e.value)
        index = self.nodes.get(id(e))
        if index is None:
            stack.append(e)
            return _NONE
        return index

    def _entry(self, raw: bytes) -> int:
        return self.exprs.setdefault(raw, len(self.exprs))

    def _const(self, dtype: str, value: Any) -> int:
        if dtype in FLOATS:
            return self._entry(_EXPR_F.pack(0, DTYPES[dtype].code, 0, _NONE, _NONE, float(value)))
        value = int(value)
        signed = value - (1 << 64) if value >= _INT64 else value
        return self._entry(_EXPR.pack(0, DTYPES[dtype].code, 0, _NONE, _NONE, signed))

    def tensor(self, ref: ir.Ref) -> bytes:
        raw = self.refs.get(id(ref))
        if raw is None:
            raw = _TENSOR.pack(ref.buffer.index, self.expr(ref.offset), DTYPES[ref.dtype].code)
            self.refs[id(ref)] = raw
        return raw

    def block(self, body: list) -> bytes:
        if self.depth > limits.NESTING:
            where = f" [{self.program.location(body[0].loc)}]" if body else ""
            raise EngineError(f"program: statements nest deeper than {limits.NESTING}{where}")
        self.depth += 1
        parts = [struct.pack("<I", len(body))]
        parts += [self.instr(s) if s.__class__ is ir.Instr else self.statement(s) for s in body]
        self.depth -= 1
        return b"".join(parts)

    def instr(self, s: ir.Instr) -> bytes:
        tensors, args, attrs = s.tensors, s.args, s.attrs
        loc = self.loc(s.loc)
        head = _INSTR.pack(0, loc, self.string(s.op), len(tensors), len(args), len(attrs), 0)
        places = b"".join([self.tensor(t) for t in tensors])
        numbers = self.args.get(id(args))
        if numbers is None:
            numbers = self.args[id(args)] = [self.expr(a) for a in args]
        for k, value in enumerate(attrs):
            self.number(value, f"{s.op}: attribute {k}", s.loc)
        return head + places + struct.pack(f"<{len(numbers)}I{len(attrs)}q", *numbers, *attrs)

    def number(self, value: int, what: str, loc: int) -> int:
        """A number that a table can hold."""
        if not -_INT64 <= value < _INT64:
            raise EngineError(f"program: {what} is {value}; accepted: 64-bit integers [{self.program.location(loc)}]")
        return value

    def statement(self, s: ir.Statement) -> bytes:
        if isinstance(s, ir.If):
            return self.chain(s)
        loc = self.loc(s.loc)
        if isinstance(s, ir.For):
            bounds = self.expr(s.begin), self.expr(s.end)
            head = struct.pack("<BIIIIBB", 1, loc, s.register, *bounds, int(s.block), s.threads)
            return head + self.block(s.body)
        if isinstance(s, ir.NoSync):
            return struct.pack("<BI", 9, loc) + self.block(s.body)
        if isinstance(s, ir.Assign):
            return struct.pack("<BIII", 3, loc, s.register, self.expr(s.value))
        if isinstance(s, ir.Load):
            return struct.pack("<BII", 4, loc, s.register) + self.tensor(s.ref)
        if isinstance(s, ir.Store):
            return struct.pack("<BI", 5, loc) + self.tensor(s.ref) + struct.pack("<I", self.expr(s.value))
        if isinstance(s, (ir.Alloc, ir.Free)):
            return struct.pack("<BII", 6 if isinstance(s, ir.Alloc) else 8, loc, s.buffer.index)
        assert isinstance(s, ir.Jump)  # an If goes through chain, an Instr is packed above
        return struct.pack("<BIB", 7, loc, _JUMPS.index(s.kind))

    def chain(self, s: ir.If) -> bytes:
        """An elif chain nests in ``orelse``; written without recursion, since it may have hundreds of branches."""
        parts = []
        while True:
            parts += [struct.pack("<BII", 2, self.loc(s.loc), self.expr(s.cond)), self.block(s.then)]
            if len(s.orelse) != 1 or not isinstance(s.orelse[0], ir.If):
                return b"".join([*parts, self.block(s.orelse)])
            parts.append(struct.pack("<I", 1))
            s = s.orelse[0]

    def buffers(self) -> bytes:
        parts = [struct.pack("<I", len(self.program.buffers))]
        for b in self.program.buffers:
            dims = [d if isinstance(d, int) else -1 for d in b.shape]
            table = b.init_value if isinstance(b.init_value, bytes) else b""
            if table and len(table) != b.size_bytes:
                raise EngineError(f"program: tensor {b.name} has {b.size_bytes} bytes and a table of {len(table)}")
            flags = int(b.atomic_init) | (0 if b.init_value is None else 4 if table else 2)
            for value in (b.size_bytes, *dims, *b.addresses):
                self.number(value, f"a size of tensor {b.name}", b.loc)
            parts.append(
                _BUFFER.pack(
                    self.string(b.name),
                    ir.SCOPES.index(b.scope),
                    DTYPES[b.dtype].code,
                    ir.KINDS.index(b.kind),
                    flags,
                    b.size_bytes,
                    self.loc(b.loc),
                    0.0 if table else float(b.init_value or 0),
                    len(dims),
                    len(b.addresses),
                )
            )
            parts.append(struct.pack(f"<{len(dims) + len(b.addresses)}q", *dims, *b.addresses))
            parts.append(table)
        return b"".join(parts)

    def run(self) -> bytes:
        p = self.program
        self.string(p.name)
        self.string(p.soc)
        buffers = self.buffers()
        body = self.block(p.body)
        registers = b"".join(
            [
                struct.pack("<IBB", self.string(r.name), DTYPES[r.dtype].code, _REGISTER_KINDS.index(r.kind))
                for r in p.registers
            ]
        )
        locations = b"".join([struct.pack("<II", self.string(f), line) for f, line in self.locations])
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
                struct.pack("<B", int(p.saturate) | 2 * int(p.split_cores)),
                struct.pack("<I", len(scopes)),
                *[struct.pack("<Bq", ir.SCOPES.index(k), self.number(v, f"size of scope {k}", 0)) for k, v in scopes],
                buffers,
                struct.pack("<I", len(p.registers)),
                registers,
                struct.pack("<I", len(self.exprs)),
                *self.exprs,
                struct.pack("<I", len(self.locations)),
                locations,
                lists,
                struct.pack("<I", len(p.meta)),
                meta,
                body,
            ]
        )
        return _HEADER.pack(MAGIC, VERSION, len(payload), zlib.crc32(payload), 0) + payload


def encode(program: ir.Program) -> bytes:
    """Binary form of ``program``; equal programs give equal bytes. EngineError for nesting or a number that the form
    cannot hold."""
    return _Encoder(program).run()


class _Decoder:
    def __init__(self, raw: bytes):
        self.raw = raw
        self.at = 0
        self.strings: list[str] = []
        self.exprs: list[Expr] = []
        self.depth = 0

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
        if self.depth > limits.NESTING:
            raise EngineError(f"program bytes: statements nest deeper than {limits.NESTING}")
        self.depth += 1
        body = [self.statement(p) for _ in range(self.count())]
        self.depth -= 1
        return body

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
        if kind == 8:
            return ir.Free(p.buffers[self.take("I")[0]], loc)
        if kind == 9:
            return ir.NoSync(self.block(p), loc)
        raise EngineError(f"program bytes: unknown statement kind {kind} at offset {self.at}")

    def chain(self, p: ir.Program, loc: int) -> ir.If:
        first = last = ir.If(self.exprs[self.take("I")[0]], self.block(p), [], loc)
        while True:
            if self.raw[self.at : self.at + 5] != b"\1\0\0\0\2":  # one statement, an if
                last.orelse = self.block(p)
                return first
            _, _, loc = self.take("IBI")
            last.orelse.append(ir.If(self.exprs[self.take("I")[0]], self.block(p), [], loc))
            last = last.orelse[0]

    def buffer(self, index: int) -> ir.Buffer:
        name, scope, dtype, kind, flags, size, loc, init, rank, copies = self.take("IBBBBqIdII")
        if not 0 < copies <= limits.THREADS or rank > limits.RANK:
            raise EngineError(
                f"program bytes: buffer {self.strings[name]} has rank {rank} and {copies} copies; accepted: rank 0 to "
                f"{limits.RANK}, 1 to {limits.THREADS} copies"
            )
        dims, addresses = self.take(f"{rank}q"), self.take(f"{copies}q")
        value: float | bytes | None = init if flags & 2 else None
        if flags & 4:
            value = self.table(self.strings[name], ir.SCOPES[scope], size)
        return ir.Buffer(
            index,
            self.strings[name],
            ir.SCOPES[scope],
            BY_CODE[dtype].name,
            dims,
            size,
            addresses[0],
            ir.KINDS[kind],
            bool(flags & 1),
            value,
            loc,
            addresses,
        )

    def table(self, name: str, scope: str, size: int) -> bytes:
        """The bytes that a buffer starts with."""
        if scope != ir.GM or not 0 < size <= len(self.raw) - self.at:
            raise EngineError(
                f"program bytes: buffer {name} has a table of {size} bytes in {scope}; accepted: of as many bytes as a "
                f"gm buffer of known size has, and at most the {len(self.raw) - self.at} that are left"
            )
        self.at += size
        return bytes(self.raw[self.at - size : self.at])

    def run(self) -> ir.Program:
        for _ in range(self.count()):
            n = self.count()
            self.strings.append(self.raw[self.at : self.at + n].decode())
            self.at += n
        flags = self.take("B")[0]
        scopes = dict((ir.SCOPES[s], size) for s, size in (self.take("Bq") for _ in range(self.count())))
        p = ir.Program(self.strings[0], self.strings[1], scopes, bool(flags & 1), split_cores=bool(flags & 2))
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
    """Program of ``raw``; EngineError when the header, checksum, version or content is wrong."""
    if len(raw) < _HEADER.size or raw[:4] != MAGIC:
        raise EngineError("program bytes: not a ms_custom_ops program (no MCOP header)")
    _, version, length, crc, _ = _HEADER.unpack_from(raw)
    if version != VERSION:
        raise EngineError(f"program bytes: version {version}; this release reads version {VERSION}: trace again")
    payload = raw[_HEADER.size :]
    if len(payload) != length or zlib.crc32(payload) != crc:
        raise EngineError(
            f"program bytes: {len(payload)} bytes of payload do not match the header (length {length}, "
            "CRC-32): the file is truncated or corrupt"
        )
    try:
        program = _Decoder(payload).run()
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise EngineError(f"program bytes: malformed program ({error})") from error
    check_limits(program)
    return program
