# SPDX-License-Identifier: Apache-2.0
"""rms_norm and its gradient in TIK. All arithmetic is float32; float16 and bfloat16 are widened on the way in."""

from ms_custom_ops.op_impl.common.kernel import Kernel, round_mode_to
from ms_custom_ops.soc.table import BLOCK_BYTES, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.budget import DTYPE_BYTES

from ...tiling.rms_norm import BLOCK, LANES, Problem, plan

REPEAT_BLOCKS = VECTOR_REPEAT_BYTES // BLOCK_BYTES


class Rows(Kernel):
    """A kernel whose task is one row."""

    def prepare(self):
        """Once on every core: weight into UB. ``product`` keeps zeros behind the width, for ``sum``."""
        super().prepare()
        self.width = self.problem.width
        self.load("weight", 0, "weight")
        self.vector.dup(self.buffers["product"], 0.0, self.width + -self.width % LANES)
        self.vector.dup(self.buffers["ones"], 1.0, BLOCK)

    def move(self, dst, src, dtype, count):
        """``count`` elements between GM and UB."""
        self.tik.data_move(dst, src, 0, 1, count * DTYPE_BYTES[dtype] // BLOCK_BYTES, 0, 0)

    def load(self, name, row, buffer):
        """Row ``row`` of tensor ``name`` as float32."""
        dtype, target = self.problem.dtype, self.buffers[buffer]
        source = target if dtype == "float32" else self.buffers["narrow"]
        self.move(source[0], self.gm[name][row * self.width], dtype, self.width)
        if source is not target:
            self.vector.convert(target, source, self.width)

    def store(self, name, row, buffer):
        """The other way."""
        dtype, source = self.problem.dtype, self.buffers[buffer]
        if dtype != "float32":
            self.vector.convert(self.buffers["narrow"], source, self.width, round_mode_to(dtype))
            source = self.buffers["narrow"]
        self.move(self.gm[name][row * self.width], source[0], dtype, self.width)

    def first(self):
        """The first element of ``total`` in a register."""
        scalar = self.tik.Scalar("float32")
        scalar.set_as(self.buffers["total"][0])
        return scalar

    def mean(self, a, b):
        """Mean of a * b over the row, in the first element of ``total``."""
        total, product = self.buffers["total"], self.buffers["product"]
        self.vector.mul(product, self.buffers[a], self.buffers[b], self.width)
        self.vector.dup(total, 0.0, LANES)
        repeats = -(-self.width // LANES)
        self.tik.vec_add(LANES, total[0], product[0], total[0], repeats, 0, REPEAT_BLOCKS, 0)
        self.tik.vcadd(LANES, total[0], total[0], 1, 1, 1, REPEAT_BLOCKS)
        self.vector.muls(total, total, 1.0 / self.width, 1)


class Forward(Rows):
    """x (M, N), weight (N) -> y (M, N), rstd (M, 8)."""

    def task(self, row):
        """y and rstd of one row."""
        v, b, n = self.vector, self.buffers, self.width
        self.load("x", row, "x")
        self.mean("x", "x")
        total = b["total"]
        v.adds(total, total, self.call.attrs["eps"], 1)
        self.tik.vsqrt(1, total[0], total[0], 1, 1, 1, REPEAT_BLOCKS, REPEAT_BLOCKS)
        v.div(total, b["ones"], total, 1)
        rstd = self.first()
        v.muls(b["x"], b["x"], rstd, n)
        v.mul(b["x"], b["x"], b["weight"], n)
        self.store("y", row, "x")
        v.dup(total, rstd, BLOCK)
        self.move(self.gm["rstd"][row * BLOCK], total[0], "float32", BLOCK)


class Backward(Rows):
    """x, dy (M, N), weight (N), rstd (M, 8) -> dx (M, N), dweight (N)."""

    summed = ("dweight",)  # every core adds the sum of its rows

    def prepare(self):
        """The core's share of dweight starts at zero."""
        super().prepare()
        self.vector.dup(self.buffers["dweight"], 0.0, self.width)

    def task(self, row):
        """dx of one row; its part of dweight is added up."""
        v, b, n = self.vector, self.buffers, self.width
        self.load("x", row, "x")
        self.load("dy", row, "dy")
        self.move(b["total"][0], self.gm["rstd"][row * BLOCK], "float32", BLOCK)
        rstd = self.first()
        v.muls(b["x"], b["x"], rstd, n)
        v.mul_add(b["dweight"], b["dy"], b["x"], n)
        v.mul(b["dy"], b["dy"], b["weight"], n)
        self.mean("dy", "x")
        v.muls(b["x"], b["x"], self.first(), n)
        v.sub(b["x"], b["dy"], b["x"], n)
        v.muls(b["x"], b["x"], rstd, n)
        self.store("dx", row, "x")

    def finish(self):
        """Once on every core, at its end."""
        self.tik.set_atomic_add(1)
        self.move(self.gm["dweight"][0], self.buffers["dweight"][0], "float32", self.width)
        self.tik.set_atomic_add(0)


def _problem(call):
    rows, width = call["x"].shape
    return Problem(rows, width, call["x"].dtype)


def rms_norm(call):
    """Entry of the kernel."""
    return Forward(call, plan(_problem(call), call.soc, ("x", "weight", "product"))).build()


def rms_norm_grad(call):
    """Entry of the gradient's kernel."""
    return Backward(call, plan(_problem(call), call.soc, ("x", "dy", "weight", "product", "dweight"))).build()
