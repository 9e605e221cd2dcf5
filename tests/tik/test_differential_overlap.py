# SPDX-License-Identifier: Apache-2.0
"""Operands that share bytes, repeats of one between repeats of the other: both engines give the same bits, with
places that are known when a Program is loaded and with places that are not."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import need_engine
from programs import Builder, ref, reference

from ms_custom_ops.engine import native as engine
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.expr import binary, const, var

need_engine()

BYTES = 16384
START = 4096  # of dst, in bytes, so that sources may lie on both sides
BITS = 12288  # of vsel
DISTANCES = (-256, -128, -64, -32, 0, 32, 64, 128, 256)  # bytes from dst to the source
STRIDES = ((32, 256), (32, 128), (64, 512), (64, 1024), (32, 64), (0, 256), (32, 0))
COUNTS = (8, 16, 40, 64)


@pytest.fixture(params=["generic", "avx2", "avx512"])
def simd_level(request):
    """Each SIMD level that this machine has."""
    try:
        engine.set_isa(request.param)
    except engine.EngineError as error:
        pytest.skip(str(error))
    yield request.param
    engine.set_isa("auto")


class Probe:
    """One tensor in UB that is filled from an input, changed in place, and written out."""

    def __init__(self, dtype: str, settled: bool):
        self.b, self.dtype = Builder(), dtype
        self.source = self.b.gm("x", dtype, BYTES // SIZE[dtype], "input")
        self.out = self.b.gm("y", dtype, BYTES // SIZE[dtype], "output")
        self.ub = self.b.local("u", "ub", dtype, BYTES // SIZE[dtype])
        self.b.move(self.ub, self.source)
        self.zero = None if settled else self.b.register("zero", "int32")
        if self.zero is not None:
            self.b.body.append(ir.Assign(self.zero, const(0, "int32"), self.b.loc()))

    def place(self, at: int) -> ir.Ref:
        """Operand at byte ``at``; its place is a constant, or known when the instruction runs."""
        element = at // SIZE[self.dtype]
        if self.zero is None:
            return ref(self.ub, element)
        return ref(self.ub, binary("+", var(self.zero, "int32"), element))

    def check(self) -> None:
        self.b.move(self.out, self.ub)
        rng = np.random.default_rng(5)
        x = rng.standard_normal(BYTES // SIZE[self.dtype]).astype(DTYPES[self.dtype].numpy)
        want, got = reference(self.b.program, [x]), engine.run(self.b.program, [x])
        assert want[0].tobytes() == got[0].tobytes()


def lanes_args(count: int, stride: tuple[int, int], names: tuple[str, ...]) -> dict[str, int]:
    args = {"mask0": count, "repeat": 4}
    for name in names:
        args |= {f"{name}_blk": stride[0], f"{name}_rep": stride[1]}
    return args


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "run_time"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("stride", STRIDES, ids=lambda s: f"blk{s[0]}_rep{s[1]}")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_two_sources(dtype, stride, count, settled, simd_level):
    for distance in DISTANCES:
        p = Probe(dtype, settled)
        operands = {"dst": p.place(START), "src0": p.place(START), "src1": p.place(START + distance)}
        p.b.instr("vadd", operands, **lanes_args(count, stride, ("dst", "src0", "src1")))
        p.b.instr("vmla", operands, **lanes_args(count, stride, ("dst", "src0", "src1")))
        p.check()


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "run_time"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dst_rep, src_rep", [(256, 512), (512, 256), (128, 96)])
def test_other_repeat_strides(dst_rep, src_rep, count, settled):
    for distance in DISTANCES:
        p = Probe("float32", settled)
        args = {"mask0": count, "repeat": 3, "dst_blk": 32, "src_blk": 32, "dst_rep": dst_rep}
        p.b.instr("vabs", [p.place(START), p.place(START + distance)], **args, src_rep=src_rep)
        p.check()


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "run_time"])
@pytest.mark.parametrize("mode", [0, 2], ids=["one_mask", "successive"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("stride", STRIDES, ids=lambda s: f"blk{s[0]}_rep{s[1]}")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_select(dtype, stride, count, mode, settled, simd_level):
    for distance in DISTANCES:
        p = Probe(dtype, settled)
        operands = {
            "dst": p.place(START),
            "sel": ref(p.ub, BITS, "uint8"),
            "src0": p.place(START),
            "src1": p.place(START + distance),
        }
        p.b.instr("vsel", operands, {"mode": mode}, **lanes_args(count, stride, ("dst", "src0", "src1")))
        p.check()


@pytest.mark.parametrize("behind", [0, 4, 31, 32, 250, 260, 1000])
@pytest.mark.parametrize("mode", [0, 2], ids=["one_mask", "successive"])
def test_select_that_overwrites_its_bits(mode, behind, simd_level):
    p = Probe("float32", True)
    operands = {
        "dst": p.place(START),
        "sel": ref(p.ub, START + behind, "uint8"),
        "src0": p.place(0),
        "src1": p.place(1024),
    }
    p.b.instr("vsel", operands, {"mode": mode}, **lanes_args(64, (32, 256), ("dst", "src0", "src1")))
    p.check()
