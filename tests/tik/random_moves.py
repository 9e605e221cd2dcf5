# SPDX-License-Identifier: Apache-2.0
"""Moves, transposes, the cube and synchronisation of random Programs."""

from __future__ import annotations

from programs import ref
from random_machine import BLOCK, FLOATING, PIPE_BYTES, UB_BYTES, WORDS, Machine

from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import binary, const

CUBE = (
    ("float16", "float32"),
    ("float16", "float16"),
    ("bfloat16", "float32"),
    ("float32", "float32"),
    ("int8", "int32"),
    ("uint8", "uint32"),
)
SYNC = ("set_flag", "wait_flag", "pipe_barrier")


class MoveMachine(Machine):
    """Random moves and matrix products."""

    def moved(self, op: str) -> None:
        """data_move or data_move_pad between tensors of one dtype."""
        dtype = self.draw.choice(tuple(self.l1))
        nburst, burst = self.draw.integer(0, 4), BLOCK * self.draw.integer(1, 6)
        gaps = [BLOCK * self.draw.integer(0, 3) for _ in range(2)]
        spans = [max(nburst - 1, 0) * (burst + 256 + g) + burst + 256 for g in gaps]
        if op == "data_move_pad":
            size = SIZE[dtype]
            burst -= size * self.draw.integer(0, 3)
            pads = [self.draw.integer(0, BLOCK // size) for _ in range(2)]
            self.b.instr(
                op,
                {"dst": self.place(self.ub[dtype], spans[0]), "src": self.place(self.inputs[dtype], spans[1], size)},
                nburst=nburst,
                burst=burst,
                dst_gap=gaps[0],
                src_gap=gaps[1],
                left_pad=pads[0],
                right_pad=pads[1],
                pad_value=self.scalar(dtype),
            )
            return
        source, target = self.draw.choice(
            ((self.ub, self.ub), (self.ub, self.l1), (self.l1, self.ub), (self.inputs, self.ub), (self.inputs, self.l1))
        )
        self.b.instr(
            op,
            {"dst": self.place(target[dtype], spans[0]), "src": self.place(source[dtype], spans[1])},
            nburst=nburst,
            burst=burst,
            dst_gap=gaps[0],
            src_gap=gaps[1],
        )

    def nd2nz(self) -> None:
        """Row-major GM to blocked L1."""
        dtype = self.draw.choice(FLOATING)
        num, n, d = self.draw.integer(0, 2), self.draw.integer(0, 9), self.draw.integer(0, 40)
        k0 = BLOCK // SIZE[dtype]
        wide = -(-d // k0) * max(n, 1) * k0
        self.b.instr(
            "nd2nz",
            {
                "dst": self.place(self.l1[dtype], max(num, 1) * wide * SIZE[dtype]),
                "src": self.place(self.inputs[dtype], max(num * n * d, 1) * SIZE[dtype], SIZE[dtype]),
            },
            nd_num=num,
            nd_n=n,
            nd_d=d,
            src_nd_stride=n * d,
            src_n_stride=d,
            dst_c0_stride=n,
            dst_n_stride=1,
            dst_nd_stride=wide,
        )

    def load2d(self) -> None:
        """Fractals of L1 into L0A or L0B."""
        dtype, scope = self.draw.choice(("float16", "bfloat16", "int8")), self.draw.choice(("l0a", "l0b"))
        repeat, gap, step = self.draw.integer(0, 3), self.draw.integer(0, 1), self.draw.integer(0, 2)
        index = self.draw.integer(0, 1)
        self.b.instr(
            "load2d",
            {
                "dst": self.place(self.l0[scope, dtype], 512 * (1 + 2 * (1 + gap)), 512),
                "src": self.place(self.l1[dtype], 512 * (index + 1 + 2 * step)),
            },
            {"transpose": self.draw.integer(0, 1) if SIZE[dtype] == 2 else 0},
            index=index,
            repeat=repeat,
            src_stride=step,
            dst_gap=gap,
        )

    def cube(self, op: str) -> None:
        """mmad from L0 or matmul from L1, at most 32 x 32 x 32."""
        dtype, out = self.draw.choice(CUBE)
        m, n = self.draw.choice((1, 2, 16, 17, 32)), self.draw.choice((1, 15, 16, 31))
        k = self.draw.choice((0, 1, 7, 16, 32))
        tensors = [ref(self.l0["l0c", out])]
        if op == "mmad":
            self.b.instr(
                op,
                [*tensors, ref(self.l0["l0a", dtype]), ref(self.l0["l0b", dtype])],
                {"accumulate": self.draw.integer(0, 1)},
                m=m,
                k=k,
                n=n,
            )
        else:
            self.b.instr(
                op,
                [*tensors, ref(self.l1[dtype]), ref(self.l1[dtype])],
                {"m": m, "k": k, "n": n, "init": self.draw.integer(0, 1)},
            )

    def l0c(self) -> None:
        """L0C to UB with conversion."""
        source, target = self.draw.choice(
            (
                ("float32", "float16"),
                ("float32", "float32"),
                ("float16", "float32"),
                ("int32", "float16"),
                ("int32", "int32"),
            )
        )
        mode, burst = self.draw.integer(0, 1), self.draw.integer(1, 2)
        src_gap, dst_gap = 256 * SIZE[source] * self.draw.integer(0, 1), BLOCK * self.draw.integer(0, 1)
        steps = burst * 256 * SIZE[source] + src_gap, burst * (16 if mode else 256) * SIZE[target] + dst_gap
        nburst = min(self.draw.integer(0, 2), *[UB_BYTES // step for step in steps])
        self.b.instr(
            "data_move_l0c",
            {"dst": self.place(self.ub[target], nburst * steps[1]), "src": ref(self.l0["l0c", source])},
            {"block_mode": mode, "relu": self.draw.integer(0, 1)},
            nburst=nburst,
            burst=burst,
            src_gap=src_gap,
            dst_gap=dst_gap,
            deqscale=const(0.25, "float16"),
        )

    def fixpipe(self) -> None:
        """L0C to its GM output with conversion."""
        quantize = self.draw.integer(0, 2)
        source, target = (("float32", "float32"), ("float32", "float16"), ("int32", "float16"))[quantize]
        count, fractals, gap = self.draw.integer(0, 2), self.draw.integer(1, 2), self.draw.integer(0, 1)
        length = fractals * 256 * SIZE[source]
        src_gap = 256 * SIZE[source] * gap if fractals == 1 else 0
        step = length // SIZE[source] * SIZE[target]
        free = PIPE_BYTES // SIZE[target] - 2 * (step + 96) // SIZE[target]
        at = binary("+", binary("*", self.block, PIPE_BYTES // SIZE[target]), self.draw.integer(0, free))
        self.b.instr(
            "fixpipe",
            {"dst": ref(self.pipe[target], at), "src": ref(self.l0["l0c", source])},
            {"quantize": quantize, "relu": self.draw.integer(0, 1)},
            cburst_num=count,
            burst_len=length,
            src_gap=src_gap,
            dst_gap=96 * gap,
            deqscale=const(0.25, "float16"),
        )

    def synchronised(self, op: str) -> None:
        """Flags and barriers, which change nothing."""
        self.b.instr(
            op,
            [],
            {"pipe": self.draw.integer(0, 7), "trigger": self.draw.integer(0, 6)}
            if op != "pipe_barrier"
            else {"pipe": self.draw.integer(0, 7)},
        )

    def exchange(self) -> None:
        """Every block hands its float32 tensor to the block before it."""
        count = UB_BYTES // 4
        after = binary("%", binary("+", self.block, 1), self.blocks)
        self.b.instr(
            "data_move",
            {"dst": ref(self.shared, binary("*", self.block, count)), "src": ref(self.ub["float32"])},
            nburst=1,
            burst=UB_BYTES,
        )
        self.b.instr("block_barrier", [ref(self.barrier)])
        self.b.instr(
            "data_move",
            {"dst": ref(self.ub["float32"]), "src": ref(self.shared, binary("*", after, count))},
            nburst=1,
            burst=UB_BYTES,
        )
        self.b.instr("block_barrier", [ref(self.barrier)])

    def transposed(self, op: str) -> None:
        """vtranspose or vnchwconv."""
        if op == "vtranspose":
            tensor = self.ub[self.draw.choice(WORDS + FLOATING[:2])]
            dst = self.place(tensor, 512)
            self.b.instr(op, {"dst": dst, "src": dst if self.chance(30) else self.place(tensor, 512)})
            return
        tensor = self.ub[self.draw.choice(("int16", "float16", "int32", "uint8", "float32"))]
        repeat = self.draw.integer(0, 3)
        reps = [BLOCK * self.draw.integer(0, 4) if repeat > 1 else 0 for _ in range(2)]
        operands = [self.place(tensor, 2 * rep + BLOCK) for rep in reps for _ in range(16)]
        self.b.instr(
            op,
            operands,
            {"dst_high": self.draw.integer(0, 1), "src_high": self.draw.integer(0, 1)},
            repeat=repeat,
            dst_rep=reps[0],
            src_rep=reps[1],
        )
