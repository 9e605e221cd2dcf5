# SPDX-License-Identifier: Apache-2.0
"""Vector instructions of random Programs: dtypes, masks and strides of any kind, operands that overlap."""

from __future__ import annotations

from collections.abc import Sequence

from programs import ref
from random_machine import BLOCK, FLOATING, WORDS, Machine

from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import COMPARES, ISA, MASK_BITS, MASK_COUNT, MASK_COUNTER, gather, sort

NUMERIC = (*FLOATING, "int16", "int32")
SHIFTED = ("int16", "uint16", "int32", "uint32")
# float32 results of these are only within one unit in the last place (docs/instructions.md).
INEXACT = ("vexp", "vln", "vrec", "vsqrt", "vrsqrt", "vdiv")
CONVERSIONS = (
    ("float32", "float16"),
    ("float32", "bfloat16"),
    ("float32", "float32"),
    ("float32", "int64"),
    ("float32", "int32"),
    ("float32", "int16"),
    ("float16", "float32"),
    ("float16", "int32"),
    ("float16", "int16"),
    ("float16", "int8"),
    ("float16", "uint8"),
    ("int32", "float32"),
    ("int32", "int64"),
    ("int32", "int16"),
    ("int16", "float16"),
    ("int16", "float32"),
    ("int64", "int32"),
    ("int64", "float32"),
    ("uint8", "float16"),
    ("int8", "float16"),
    ("bfloat16", "float32"),
    ("bfloat16", "int32"),
)
# Drawn by random_vector2.py.
VECTOR2_OPS = (
    *(r.name for r in (*gather.ROWS, *sort.ROWS)),
    *("vci", "vcopy", "vreduce", "vmulconv", "vadddeqrelu", "vsels0", "vselss", "vconv_deq", "set_mode"),
)
VECTOR_OPS = tuple(
    n for n, s in ISA.items() if ("mask_kind" in s.attrs or n in ("vcmpv", "vcmpvs")) and n not in VECTOR2_OPS
)


class VectorMachine(Machine):
    """Random vector instructions."""

    def dtypes(self, op: str) -> dict[str, str]:
        """dtypes of the operands of a vector instruction."""
        names = list(ISA[op].tensors)
        if op == "vconv":
            source, target = self.draw.choice(CONVERSIONS)
            return {"dst": target, "src": source}
        if op in ("vmla", "vaxpy") and self.chance(30):
            return {n: "float32" if n == "dst" else "float16" for n in names}
        if op in ("vnot", "vand", "vor"):
            options: Sequence[str] = WORDS
        elif op in ("vshl", "vshr"):
            options = SHIFTED
        elif op in INEXACT:
            options = FLOATING[:2] if self.exact else FLOATING
        elif op in ("vlrelu", "vcadd", "vcgadd", "vcpadd", "vsel", "vsels"):
            options = FLOATING
        else:
            options = NUMERIC
        dtype = self.draw.choice(options)
        kinds = dict.fromkeys(names, dtype)
        kinds.update({"dst": "uint8"} if op.startswith("vcmp") else {"sel": "uint8"} if "sel" in kinds else {})
        return kinds

    def mask(self, lanes: int) -> tuple[dict[str, int], int, int]:
        """(mask0, mask1, repeat), mask kind and the number of repeats."""
        kind = self.draw.choice((MASK_COUNT, MASK_COUNT, MASK_BITS, MASK_COUNTER))
        repeat = self.draw.choice((0, 1, 1, 2, 3, 4))
        if kind == MASK_COUNTER:
            count = self.draw.integer(0, 4 * lanes)
            return {"mask0": count, "mask1": 0, "repeat": repeat}, kind, -(-count // lanes)
        if kind == MASK_BITS and lanes <= 128:
            words = [self.draw.choice((0, 1, 2**64 - 1, self.draw.integer(0, 2**62), 1 << 63)) for _ in range(2)]
            bits = (words[1] << 64 | words[0]) & ((1 << lanes) - 1)
            return {"mask0": bits & (2**64 - 1), "mask1": bits >> 64, "repeat": repeat}, kind, repeat
        count = self.draw.choice((lanes, lanes, self.draw.integer(0, lanes)))
        return {"mask0": count, "mask1": 0, "repeat": repeat}, MASK_COUNT, repeat

    def strided(self, args: dict, name: str, dtype: str, lanes: int, repeats: int, same: tuple | None) -> tuple:
        """Place, block and repeat stride of an operand, at times those of dst (``same``), or of its neighbour:
        repeats of the one between repeats of the other."""
        beside = self.neighbour(same) if same is not None and same[0].buffer.dtype == dtype else None
        if beside is not None and self.chance(30):
            operand, blk, rep = same
        elif beside is not None and self.chance(20):
            operand, blk, rep = beside
        else:
            blocks = lanes * SIZE[dtype] // BLOCK
            natural = blocks * BLOCK
            blk = self.draw.choice((32, 32, 32, 0, 64, 16) if name != "dst" else (32, 32, 32, 64, 0, 16))
            rep = self.draw.choice((natural, natural, 0, 32, natural + 32, natural // 2))
            operand = self.place(self.ub[dtype], max(repeats - 1, 0) * rep + (blocks - 1) * blk + BLOCK)
        args.update({f"{name}_blk": blk, f"{name}_rep": rep})
        return operand, blk, rep

    def neighbour(self, operand: tuple) -> tuple:
        """The operand, moved by about half a repeat where its place is known and that fits into its tensor."""
        place, blk, rep = operand
        back = rep // 2 // BLOCK * BLOCK // SIZE[place.buffer.dtype]
        if not isinstance(place.offset, int) or place.offset < back:
            return operand
        return ref(place.buffer, place.offset - back), blk, rep

    def vector(self, op: str) -> None:
        """A vector instruction with masks and strides of any kind."""
        spec, kinds = ISA[op], self.dtypes(op)
        counted = {n: d for n, d in kinds.items() if n != "sel" and not (n == "dst" and op.startswith("vcmp"))}
        lanes = 256 // max(SIZE[d] for d in counted.values())
        args, kind, repeats = self.mask(lanes)
        if "mask0" not in spec.args:
            repeats = args["repeat"]
        operands: dict[str, ir.Ref] = {}
        same = None
        for name, dtype in kinds.items():
            if f"{name}_blk" in spec.args:
                found = self.strided(args, name, dtype, lanes, repeats, same)
                same = found if name == "dst" else same
                operands[name] = found[0]
            elif name == "dst" and "dst_rep" in spec.args:
                operands[name] = self.reduced(op, args, dtype, lanes, repeats)
            else:
                operands[name] = self.place(self.ub[dtype], max(repeats, 1) * lanes // 8)
        if "scalar" in spec.args:
            args["scalar"] = self.scalar(kinds.get("src", kinds["dst"]))
            if op in ("vshl", "vshr"):
                args["scalar"] = self.draw.integer(0, 8 * SIZE[kinds["dst"]])
        attrs = {
            "mask_kind": kind,
            "compare": self.draw.integer(0, len(COMPARES) - 1),
            "round_en": self.draw.integer(0, 1),
            "index_low": self.draw.integer(0, 1),
            "round_mode": self.draw.integer(0, 6),
            "mode": self.draw.choice((0, 2) if op == "vsel" else (0, 1)),
            "has_deq": 0,
        }
        if op == "vconv" and kinds == {"dst": "float16", "src": "int32"}:
            attrs["has_deq"], args["deqscale"] = 1, const(0.5, "float16")
        self.b.instr(
            op,
            operands,
            {k: v for k, v in attrs.items() if k in spec.attrs},
            **{k: v for k, v in args.items() if k in spec.args},
        )

    def reduced(self, op: str, args: dict, dtype: str, lanes: int, repeats: int) -> ir.Ref:
        """The dst of a reduction: one to lanes/2 consecutive elements per repeat."""
        size = SIZE[dtype]
        count = {"vcadd": 1, "vcmax": 2, "vcmin": 2, "vcpadd": lanes // 2}.get(op, 8)
        args["dst_rep"] = size * count * self.draw.choice((1, 1, 2, 0))
        return self.place(self.ub[dtype], max(repeats - 1, 0) * args["dst_rep"] + count * size, size)
