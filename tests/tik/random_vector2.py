# SPDX-License-Identifier: Apache-2.0
"""Random uses of further instructions: gather, compaction, fused conversions, sorting, proposals."""

from __future__ import annotations

from programs import ref
from random_vector import VectorMachine

from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import ISA, MASK_PER_REPEAT

MOVED = ("float16", "bfloat16", "float32", "int16", "uint16", "int32", "uint32", "int8", "uint8")
GATHERED = ("float16", "float32", "int16", "uint16", "int32", "uint32")
SCORED = ("float16", "float32")
PICK_BYTES = 1024
# Offsets are random bits cut down to multiples of 4 (of 32 for blocks) below 2048.
ELEMENT_PICKS, BLOCK_PICKS = 0x07FC, 0x07E0


class Vector2Machine(VectorMachine):
    """Random instructions that :class:`VectorMachine` does not draw."""

    def vector2(self, op: str) -> None:
        """One random use of an instruction."""
        if op in ("vgather", "vscatter", "vgatherb", "vbi"):
            self.gathered(op)
        elif op == "vreduce":
            self.compacted()
        elif op == "vmrgsort":
            self.merged()
        elif op == "set_mode":
            self.b.instr(op, [], {"which": self.draw.integer(0, 1), "value": self.draw.integer(0, 1)})
        elif "mask_kind" in ISA[op].attrs:
            self.masked(op)
        elif op == "vbcb":
            self.broadcast()
        else:
            self.grouped(op)

    def picks(self, count: int, kept: int) -> ir.Ref:
        """``count`` uint32 byte offsets, random multiples of a power of two."""
        b = self.b
        if "picks" not in self.registers:
            self.registers["picks"] = 0
            self.picked = b.local("picks", "ub", "uint32", PICK_BYTES // 4)
            self.kept = b.local("kept", "ub", "uint32", 64)
        b.instr("data_move", [ref(self.picked), ref(self.ub["uint32"])], nburst=1, burst=PICK_BYTES)
        full = {"mask0": 64, "repeat": 1, "dst_blk": 32}
        b.instr("vector_dup", [ref(self.kept)], **full, scalar=kept)
        half = {"mask0": 128, "repeat": PICK_BYTES // 256, "dst_blk": 32, "src0_blk": 32, "src1_blk": 32}
        words = [ref(t, 0, "uint16") for t in (self.picked, self.picked, self.kept)]
        b.instr("vand", words, **half, dst_rep=256, src0_rep=256)
        return ref(self.picked)

    def gathered(self, op: str) -> None:
        """Instructions that take offsets."""
        dtype = self.draw.choice(SCORED if op == "vbi" else GATHERED)
        size, tensor = SIZE[dtype], self.ub[dtype]
        lanes = 256 // size
        args, kind, repeats = self.mask(lanes)
        repeats = min(repeats, 2)
        args["repeat"] = min(args["repeat"], 2)
        if kind == 2:
            args["mask0"] = min(args["mask0"], 2 * lanes)
        if op == "vgatherb":
            repeats = args["repeat"]  # it has no mask: every repeat writes its 8 blocks
        low = self.draw.integer(0, 8) * 32
        offsets = self.picks(256, BLOCK_PICKS if op in ("vgatherb", "vbi") else ELEMENT_PICKS)
        side = "src" if op == "vscatter" else "dst"
        strided: dict = {}
        place, _, _ = self.strided(strided, side, dtype, lanes, repeats, None)
        if op == "vgatherb":
            self.b.instr(op, [place, ref(tensor, low // size), offsets], repeat=args["repeat"], **strided)
            return
        if op == "vbi":
            steps, mode = self.draw.integer(0, 3), self.draw.integer(0, 1)
            weights = self.place(tensor, 2 * 3 * 8 * size, size)
            self.b.instr(
                op,
                {"dst": place, "src0": ref(tensor, low // size), "src1": weights, "offset": offsets},
                {"mask_kind": kind, "repeat_mode": mode},
                **args,
                **strided,
                h_repeat=steps,
            )
            return
        other = ref(tensor, low // size)
        tensors = {"dst": other, "src": place} if op == "vscatter" else {"dst": place, "src": other}
        base = 4 * self.draw.integer(0, 64)
        signed = ref(offsets.buffer, 0, self.draw.choice(("uint32", "int32")))
        self.b.instr(op, {**tensors, "offset": signed}, {"mask_kind": kind}, **args, **strided, base=base)

    def compacted(self) -> None:
        """vreduce with fixed and given patterns, in its three mask kinds."""
        dtype = self.draw.choice(MOVED)
        size = SIZE[dtype]
        kind = self.draw.choice((0, 2, MASK_PER_REPEAT))
        repeat, lanes = self.draw.integer(0, 3), 256 // size
        count = self.draw.integer(0, lanes * 2)
        args = {"mask0": count, "repeat": repeat, "src1_rep": self.draw.choice((0, 32, 64))}
        most = max(lanes, count)
        src, _, _ = self.strided(args, "src0", dtype, 2 * lanes, max(repeat, 2), None)
        args["src0_blk"] = min(args["src0_blk"], 32)
        args["src0_rep"] = min(args["src0_rep"], 256)
        dst = src if self.chance(30) else self.place(self.ub[dtype], 3 * most * size)
        if 3 * most * size > 4096:
            return
        bits = self.place(self.ub["uint16"], 2 * 64 + 64)
        counted = self.place(self.ub["uint32"], 4, 4)
        self.b.instr(
            "vreduce",
            {"dst": dst, "src0": src, "src1": bits, "count": counted},
            {"mask_kind": kind, "pattern": self.draw.integer(0, 7)},
            **args,
        )

    def merged(self) -> None:
        """Merges of 1 to 4 lists of any content, repeated for whole groups."""
        dtype, record = self.draw.choice(SCORED), self.draw.integer(0, 1)
        size = 8 if record else 8 * SIZE[dtype]
        repeat, lists = self.draw.integer(0, 2), self.draw.integer(1, 4)
        lengths = [self.draw.integer(0, 6) for _ in range(4)]
        tensor = self.ub[dtype]
        span = max(repeat, 1) * sum(lengths) * size + 64
        self.b.instr(
            "vmrgsort",
            {
                "dst": self.place(tensor, span),
                **{f"src{i}": self.place(tensor, span) for i in range(4)},
                "sr": self.place(self.ub["uint16"], 8, 2),
            },
            {"lists": lists, "suspend": self.draw.integer(0, 1), "record": record},
            repeat=repeat,
            valid_bit=(1 << self.draw.integer(1, lists)) - 1,
            **{f"len{i}": n for i, n in enumerate(lengths)},
        )

    def masked(self, op: str) -> None:
        """Instructions whose operands are all lanes with strides."""
        kinds = {
            "vci": {"dst": self.draw.choice(GATHERED)},
            "vmulconv": {"dst": self.draw.choice(("int8", "uint8")), "src0": "float16", "src1": "float16"},
            "vadddeqrelu": {"dst": "float16", "src0": "int32", "src1": "int32"},
            "vconv_deq": {"dst": self.draw.choice(("int8", "uint8")), "src": "int16"},
        }.get(op)
        if kinds is None:
            dtype = self.draw.choice(MOVED)
            kinds = {t: dtype for t in ISA[op].tensors if t != "sel"}
        lanes = 256 // max(SIZE[d] for d in kinds.values())
        args, kind, repeats = self.mask(lanes)
        operands: dict[str, ir.Ref] = {}
        same = None
        for name, dtype in kinds.items():
            if op == "vconv_deq" and name == "dst":
                operands[name] = self._half_blocks(args, dtype, repeats)
                continue
            found = self.strided(args, name, dtype, lanes, repeats, same)
            same = found if name == "dst" else same
            operands[name] = found[0]
        attrs = {
            "mask_kind": kind,
            "pad_mode": self.draw.integer(0, 2),
            "pad_side": self.draw.integer(0, 1),
            "mode": self.draw.integer(0, 2),
            "high": self.draw.integer(0, 1),
            "vector": 0,
        }
        if op in ("vsels0", "vselss"):
            operands["sel"] = self.place(self.ub["uint8"], max(repeats, 1) * lanes // 8)
        if op == "vconv_deq":
            operands["scale"] = ref(self.ub["int64"], 0, "uint64")
            attrs["vector"] = self.draw.integer(0, 1)
            word = self.draw.choice((0x3F800000, 0x400040E00000, 0x1FE03DCCCCCD, 2**63 + 5))
            args["deqscale"] = const(word, "uint64")
        elif "deqscale" in ISA[op].args:
            args["deqscale"] = const(self.draw.choice((1.0, 0.5, 0.001)), "float16")
        for name in ("scalar", "scalar1"):
            if name in ISA[op].args:
                args[name] = self.scalar(kinds["dst"])
        self.b.instr(op, operands, {k: v for k, v in attrs.items() if k in ISA[op].attrs}, **args)

    def _half_blocks(self, args: dict, dtype: str, repeats: int) -> ir.Ref:
        """The 8-bit dst of vconv_deq: one block for each block of src."""
        args["dst_blk"], args["dst_rep"] = self.draw.choice((32, 32, 64, 0)), self.draw.choice((256, 0, 32))
        return self.place(self.ub[dtype], max(repeats - 1, 0) * args["dst_rep"] + 7 * args["dst_blk"] + 32)

    def broadcast(self) -> None:
        """vbcb."""
        dtype = self.draw.choice(MOVED)
        repeat = self.draw.integer(0, 4)
        blk, rep = self.draw.choice((32, 64, 0, 16)), self.draw.choice((256, 32, 0))
        dst = self.place(self.ub[dtype], max(repeat - 1, 0) * rep + 7 * blk + 32)
        src = self.place(self.ub[dtype], max(repeat, 1) * 8 * SIZE[dtype])
        self.b.instr("vbcb", [dst, src], repeat=repeat, dst_blk=blk, dst_rep=rep)

    def grouped(self, op: str) -> None:
        """Instructions on groups of 16 or 32 elements or proposals."""
        dtype = self.draw.choice(("float16", "int8", "uint16") if op == "vmrgch" else SCORED)
        size, repeat, tensor = SIZE[dtype], self.draw.integer(0, 2), self.ub[dtype]
        wide, narrow, square = (max(repeat, 1) * 16 * n * size for n in (8, 1, 16))
        pair = {
            "vconcat": (wide, narrow),
            "vextract": (narrow, wide),
            "vrpsort16": (wide, wide),
            "vrpac": (narrow, wide),
            "vmrgch": (max(repeat, 1) * 32 * size, max(repeat, 1) * 256),
        }
        extra = {"field": self.draw.integer(0, 5)} if op in ("vconcat", "vextract") else {}
        extra |= {"scalar": self.draw.choice((0.0, 1.0, 0.5))} if op in ("vrpac", "viou") else {}
        if op in pair:
            operands = [self.place(tensor, n) for n in pair[op]]
        elif op == "vsort32":
            operands = [
                self.place(tensor, max(repeat, 1) * 256),
                self.place(tensor, max(repeat, 1) * 32 * size),
                self.place(self.ub["uint32"], max(repeat, 1) * 128),
            ]
        elif op in ("viou", "vaadd"):
            side = wide if op == "viou" else narrow
            operands = [self.place(tensor, square), self.place(tensor, side), self.place(tensor, side)]
        else:
            words = self.ub["uint16"]
            vector = ref(words, 0) if self.chance(50) else self.place(words, 192)
            operands = [self.place(words, 32, 2), self.place(words, 192), vector]
            if op == "rpn_cor_diag":
                self.b.instr(op, operands)
                return
            self.b.instr(op, operands, repeat=repeat, src0_rep=self.draw.choice((32, 64)), src1_rep=32)
            return
        self.b.instr(op, operands, repeat=repeat, **extra)
