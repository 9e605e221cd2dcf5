# SPDX-License-Identifier: Apache-2.0
"""The cube family on both engines, bit for bit: geometry, layouts, conversions and offsets drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import Builder, ref, reference, same_bits, values

from ms_custom_ops.errors import EngineError, EngineMissingError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const, var

engine = pytest.importorskip("ms_custom_ops.engine", reason="the engines' front is not built")

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
SCOPES = {"ub": 1 << 18, "l1": 1 << 18, "l0a": 1 << 16, "l0b": 1 << 16, "l0c": 1 << 17}


@pytest.fixture(scope="module", autouse=True)
def native_engine():
    """Skip where no compiler built the native engine."""
    try:
        engine.library_path()
    except EngineMissingError as error:
        pytest.skip(str(error))


class Bench:
    """A Program around one instruction: tensors filled from random inputs, every byte of dst written back."""

    def __init__(self, data: st.DataObject):
        self.data = data
        self.b = Builder(self.integer(0, 1) == 1, SCOPES)
        self.feed: list[np.ndarray] = []
        self.rng = np.random.default_rng(self.integer(0, 2**20))

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def choice(self, options: Any) -> Any:
        return self.data.draw(st.sampled_from(list(options)))

    def tensor(self, name: str, scope: str, dtype: str, size_bytes: int, filled: bool = True) -> ir.Buffer:
        """A tensor of whole 32-byte blocks with random content."""
        count = max(-(-size_bytes // 32) * 32, 32) // SIZE[dtype]
        local = self.b.local(name, scope, dtype, count)
        if filled:
            gm = self.b.gm(f"{name}_in", dtype, count, "input")
            self.b.move(local, gm)
            self.feed.append(values(self.rng, dtype, count))
        return local

    def operand(self, buffer: ir.Buffer, elements: int) -> ir.Ref:
        """A view ``elements`` into the tensor; half of them by a scalar that is known only at run time."""
        if not elements or self.integer(0, 1):
            return ref(buffer, elements)
        register = self.b.register(f"at_{buffer.name}", "int32")
        self.b.body.append(ir.Assign(register, const(elements, "int32"), self.b.loc()))
        return ref(buffer, var(register, "int32"))

    def out(self, local: ir.Buffer) -> None:
        """Write a tensor back."""
        count = local.size_bytes // SIZE[local.dtype]
        self.b.move(self.b.gm(f"{local.name}_out", local.dtype, count, "output"), local)

    def check(self) -> None:
        """Both engines give the same bytes, or refuse with the same words."""
        results: list[Any] = []
        for run in (lambda: reference(self.b.program, self.feed), lambda: engine.run(self.b.program, self.feed)):
            try:
                results.append(run())
            except EngineError as error:
                results.append(str(error))
        want, got = results
        if isinstance(want, str) or isinstance(got, str):
            assert got == want
            return
        for index, w, g in zip(self.b.program.outputs, want, got, strict=True):
            buffer = self.b.program.buffers[index]
            same = same_bits(g, w, buffer.dtype)
            where = f"{buffer.name}: {np.flatnonzero(~same)[:9]} of {same.size} differ"
            assert same.all(), f"{where}\n{self.b.program.text()}"


def window(m: Bench, height: int, width: int) -> dict[str, int]:
    """Geometry of a small map; now and then a filter that does not fit."""
    return {
        **{f"pad_{s}": m.integer(0, 3) for s in "lrtb"},
        "l1_h": height,
        "l1_w": width,
        **{f"stride_{s}": m.integer(1, 3) for s in "wh"},
        **{f"filter_{s}": m.integer(1, 3) for s in "wh"},
        **{f"dilation_{s}": m.integer(1, 2) for s in "wh"},
    }


def pad_value(m: Bench, dtype: str) -> Any:
    return const(m.choice((0.0, 1.5, -3.25)), "float32") if "float" in dtype else m.choice((0, 7, 100))


def load3dv1(m: Bench) -> None:
    dtype, target = m.choice(("int8", "uint8", "float16")), m.choice(("l0a", "l0b", "ub"))
    height, width, channels = m.integer(1, 9), m.integer(1, 9), m.integer(1, 3)
    g, repeat, jump = window(m, height, width), m.integer(0, 5), m.integer(0, 2)
    src = m.tensor("src", "l1", dtype, height * width * channels * 32 + 64)
    dst = m.tensor("dst", target, dtype, 512 * 12 + 512)
    m.b.instr(
        "load3dv1",
        {"dst": m.operand(dst, 512 // SIZE[dtype]), "src": m.operand(src, 32 // SIZE[dtype])},
        {"repeat_mode": m.integer(0, 1)},
        c1=m.integer(0, channels - 1),
        fetch_w=m.integer(0, g["filter_w"] - 1),
        fetch_h=m.integer(0, g["filter_h"] - 1),
        first_w=m.integer(0, 4),
        first_h=m.integer(0, height + 4),
        jump=jump,
        repeat=repeat,
        pad_value=pad_value(m, dtype),
        **g,
    )
    m.out(dst)


def load3dv2(m: Bench) -> None:
    dtype, layout = m.choice(("int8", "float16", "bfloat16", "float32")), m.integer(0, 2)
    height, width, blocks = m.integer(1, 7), m.integer(1, 7), m.integer(1, 3)
    k0, g = 32 // SIZE[dtype], window(m, height, width)
    src = m.tensor("src", "l1", dtype, height * width * blocks * 32)
    dst = m.tensor("dst", "l0b" if layout == 1 else "l0a", dtype, 128 * 128 * SIZE[dtype])
    m.b.instr(
        "load3dv2",
        {"dst": ref(dst), "src": ref(src)},
        {"layout": layout},
        channels=blocks * k0,
        k_ext=m.integer(0, 70),
        m_ext=m.integer(0, 40),
        k_start=m.integer(0, 50),
        m_start=m.integer(0, 40),
        pad_value=pad_value(m, dtype),
        **g,
    )
    m.out(dst)


def col2img(m: Bench) -> None:
    dtype = m.choice(("float16", "float32"))
    height, width, repeat = m.integer(1, 9), m.integer(1, 9), m.integer(0, 4)
    g, size = window(m, height, width), SIZE[dtype]
    dst = m.tensor("dst", "ub", dtype, height * width * 16 * size + 64)
    src = dst if m.integer(0, 5) == 0 else m.tensor("src", "ub", dtype, repeat * 256 * size)
    m.b.instr(
        "col2img",
        {"dst": m.operand(dst, 32 // size), "src": ref(src)},
        fetch_w=m.integer(0, g["filter_w"] - 1),
        fetch_h=m.integer(0, g["filter_h"] - 1),
        first_w=m.integer(0, 4),
        first_h=m.integer(0, height + 4),
        repeat=repeat,
        **g,
    )
    m.out(dst)


def conv2d(m: Bench) -> None:
    dtype, result = m.choice(
        (
            ("int8", "int32"),
            ("uint8", "uint32"),
            ("float16", "float32"),
            ("float16", "float16"),
            ("bfloat16", "float32"),
            ("float32", "float32"),
        )
    )
    height, width, c1, cout = m.integer(1, 6), m.integer(1, 6), m.choice((1, 4, 2, 0)), 16 * m.integer(0, 2)
    g = window(m, height, width)
    if m.choice((True, False)):  # k of more than one pass of the native engine
        height, width, c1 = 4, 5, 4
        g.update(l1_h=height, l1_w=width, filter_w=3, filter_h=3, dilation_w=1, dilation_h=1)
    taps = g["filter_w"] * g["filter_h"]
    fm = m.tensor("fm", "l1", dtype, c1 * height * width * 32)
    weight = m.tensor("weight", "l1", dtype, c1 * taps * cout * 32)
    dst = m.tensor("dst", "l0c", result, 176 * 32 * SIZE[result], filled=False)
    m.b.instr("fill", {"dst": ref(dst)}, repeat=dst.size_bytes // 512, pad_value=3)
    attrs = {"c1": c1, "cout": cout, **g, "init": m.integer(0, 1)}
    m.b.instr("conv2d", [ref(dst), ref(fm), ref(weight)], attrs, pad_value=pad_value(m, dtype))
    out = m.b.local("out", "ub", result, dst.size_bytes // SIZE[result])
    fractals = dst.size_bytes // SIZE[result] // 256
    m.b.instr("data_move_l0c", {"dst": ref(out), "src": ref(dst)}, nburst=1, burst=fractals)
    m.out(out)


def in_l0c(m: Bench, dtype: str, fractals: int) -> ir.Buffer:
    """A tensor of L0C with random content, brought there through UB."""
    count = fractals * 256
    staged = m.tensor("staged", "ub", dtype, count * SIZE[dtype])
    local = m.b.local("src", "l0c", dtype, count)
    m.b.instr("data_move_l0c", {"dst": ref(local), "src": ref(staged)}, nburst=1, burst=fractals)
    return local


CONVERSIONS = (
    (0, "float32", "float32"),
    (0, "float16", "float16"),
    (0, "int32", "int32"),
    (0, "uint32", "uint32"),
    (0, "float32", "float16"),
    (0, "float32", "bfloat16"),
    (0, "float16", "float32"),
    (1, "int32", "float16"),
    (1, "float16", "float16"),
    (2, "int32", "int8"),
    (2, "int32", "uint8"),
    (2, "int32", "int16"),
    (2, "int32", "float16"),
    (2, "float32", "int8"),
    (2, "float32", "uint8"),
)


def word(m: Bench) -> int:
    """A 64-bit scale: float32 bits, shift, its switch, offset, sign and relu."""
    scale = int(np.float32(m.choice((1.0, 0.25, -0.5, 1e-4, 3e5, 0.1))).view(np.uint32))
    return scale | m.integer(0, 15) << 32 | m.integer(0, 1) << 36 | m.integer(0, 511) << 37 | m.integer(0, 3) << 46


def l0c_out(m: Bench) -> None:
    quant, source, target = m.choice(CONVERSIONS)
    mode, nburst, burst = m.integer(0, 4), m.integer(0, 3), m.integer(1, 5)
    to_gm = target not in ("int8", "uint8") and m.integer(0, 2) == 0
    store = m.integer(0, 2) if target in ("int8", "uint8") else 0
    src = in_l0c(m, source, 24)
    elements = burst * (256, 16, 64, 128, 8)[mode] * max(nburst, 1)
    size = elements * SIZE[target] * (2 if store else 1) + 32 * nburst
    flags, operands = m.integer(0, 1) * 8, {"src": ref(src)}
    names = ("scale", "bias", "add")
    dtypes = ("float16" if quant == 1 else "uint64", source, target)
    for flag, name, dtype in zip((1, 2, 4), names, dtypes, strict=True):
        allowed = quant > 0 if flag == 1 else flag == 2 or target in ("float16", "float32", "int32")
        if allowed and m.integer(0, 1):
            flags |= flag
            need = elements * SIZE[dtype] if flag == 4 else max(nburst, 1) * 16 * SIZE[dtype]
            operands[name] = ref(m.tensor(name, "ub", dtype, need))
            if dtype == "uint64":
                m.feed[-1] = np.array([word(m) for _ in range(m.feed[-1].size)], np.uint64)
    if to_gm:
        count = size // SIZE[target] + 8
        dst = m.b.gm("dst_gm", target, count, "output", atomic_init=True)
        if target in ("float16", "float32", "int32") and m.integer(0, 1):
            atomic = {"float32": 1, "float16": 2, "int32": 4}[target]
            m.b.instr("set_atomic_add", [], {"mode": atomic})
    else:
        dst = m.tensor("dst", "ub", target, size)
    operands["dst"] = ref(dst)
    value = word(m) if quant == 2 else const(m.choice((0.5, -2.0, 1e-3)), "float16")
    m.b.instr(
        "l0c_out",
        [operands.get(n, operands["src"]) for n in ("dst", "src", *names)],
        {"block_mode": mode, "relu": m.integer(0, 1), "quant": quant, "store": store, "flags": flags},
        nburst=nburst,
        burst=burst,
        src_gap=m.integer(0, 2) * 256 * SIZE[source],
        dst_gap=m.integer(0, 1) * 32,
        deqscale=value,
    )
    if not to_gm:
        m.out(dst)


def l0c_matrix(m: Bench) -> None:
    quant, source, target = m.choice(tuple(c for c in CONVERSIONS if c[0] != 1 and c[1] != "float16"))
    rows, columns, matrices = m.integer(0, 18), m.integer(0, 50), m.integer(0, 2)
    width = m.choice((0, 0, 8, 16, 32))
    gap, next_gap = 16 * m.integer(0, 2), 32 * m.integer(0, 1)
    src_stride = (rows + gap) * 16 * SIZE[source]
    src_next = -(-columns // 16) * src_stride
    src = in_l0c(m, source, -(-max(src_next * matrices, 512) // (256 * SIZE[source])) + 2)
    vector = m.integer(0, 1) if quant else 0
    scale = m.tensor("scale", "ub", "uint64", 64 * 8)
    m.feed[-1] = np.array([word(m) for _ in range(m.feed[-1].size)], np.uint64)
    dst_stride = (rows * width if width else columns) * SIZE[target] + next_gap
    if not width and m.integer(0, 4) == 0:
        dst_stride = m.integer(0, columns) * SIZE[target]  # rows that the next one covers in part
    dst_next = dst_stride * (-(-columns // width) if width else rows) + next_gap
    need = max(dst_next * matrices, 64) + 64
    if m.integer(0, 1):
        dst = m.b.gm("dst_gm", target, need // SIZE[target], "output", atomic_init=True)
        if target in ("float16", "float32", "int32") and m.integer(0, 1):
            m.b.instr("set_atomic_add", [], {"mode": {"float32": 1, "float16": 2, "int32": 4}[target]})
    else:
        dst = m.tensor("dst", "ub", target, need)
    m.b.instr(
        "l0c_matrix",
        [ref(dst), ref(src), ref(scale)],
        {"width": width, "quant": int(quant == 2), "relu": m.integer(0, 1), "vector": vector},
        matrices=matrices,
        rows=rows,
        columns=columns,
        src_stride=src_stride,
        src_next=src_next,
        dst_stride=dst_stride,
        dst_next=dst_next,
        deqscale=word(m) if quant == 2 else 0,
    )
    if dst.scope != "gm":
        m.out(dst)


def load2d_square(m: Bench) -> None:
    dtype = m.choice(("int8", "float16", "float32", "int32"))
    repeat, index, stride = m.integer(0, 3), m.integer(0, 2), m.integer(0, 2)
    gap, between = m.integer(0, 3), m.integer(0, 3)
    src = m.tensor("src", "l1", dtype, 8 * 1024)
    dst = m.tensor("dst", "l0b", dtype, 16 * 512)
    numbers = {"index": index, "repeat": repeat, "src_stride": stride, "dst_gap": gap, "fractal_gap": between}
    m.b.instr("load2d_square", {"dst": ref(dst), "src": ref(src)}, **numbers)
    m.out(dst)


def broadcast_l0c(m: Bench) -> None:
    source, target = m.choice(
        (("float16", "float16"), ("float32", "float32"), ("int32", "int32"), ("float16", "float32"))
    )
    nburst, burst, copies = m.integer(0, 2), m.integer(1, 3), m.integer(0, 3)
    src = m.tensor("src", "ub", source, 2 * 3 * 16 * 4 + 64)
    dst = m.b.local("dst", "l0c", target, 24 * 256)
    m.b.instr("fill", {"dst": ref(dst)}, repeat=dst.size_bytes // 512, pad_value=1)
    m.b.instr(
        "broadcast_l0c",
        {"dst": m.operand(dst, 256), "src": ref(src)},
        nburst=nburst,
        burst=burst,
        copies=copies,
        src_gap=32 * m.integer(0, 1),
        dst_gap=256 * SIZE[target] * m.integer(0, 1),
    )
    out = m.b.local("out", "ub", target, 24 * 256)
    m.b.instr("data_move_l0c", {"dst": ref(out), "src": ref(dst)}, nburst=1, burst=24)
    m.out(out)


def fill(m: Bench) -> None:
    dtype, scope = m.choice(("float16", "int16", "float32", "bfloat16", "int8")), m.choice(("l0a", "l0b", "l1"))
    dst = m.tensor("dst", scope, dtype, 2048)
    at = m.operand(dst, 512 // SIZE[dtype])
    m.b.instr("fill", {"dst": at}, repeat=m.integer(0, 4), pad_value=pad_value(m, dtype))
    m.out(dst)


def fill_blocks(m: Bench) -> None:
    dtype, scope = m.choice(("float16", "int16", "float32", "int8")), m.choice(("l0a", "l0b", "l1"))
    dst = m.tensor("dst", scope, dtype, 2048)
    numbers = {name: m.integer(0, 4) for name in ("repeat", "blocks", "gap")}
    m.b.instr("fill_blocks", {"dst": ref(dst)}, **numbers, pad_value=pad_value(m, dtype))
    m.out(dst)


def v4dtrans(m: Bench) -> None:
    dtype, a, c = m.choice(("int8", "float16", "float32", "int64")), m.integer(0, 40), m.integer(0, 12)
    dst = m.tensor("dst", "ub", dtype, max(a * c * SIZE[dtype], 32) + 32)
    src = dst if m.integer(0, 3) == 0 else m.tensor("src", "ub", dtype, max(a * c * SIZE[dtype], 32))
    operands = {"dst": m.operand(dst, 32 // SIZE[dtype]), "src": ref(src)}
    m.b.instr("v4dtrans", operands, {"to_hwc": m.integer(0, 1)}, m_len=a, channels=c)
    m.out(dst)


def load_image(m: Bench) -> None:
    kind, dtype = m.choice((0, 4, 9)), m.choice(("uint8", "float16"))
    width, height = m.integer(1, 9), m.integer(1, 9)
    planes = [m.b.gm(f"plane{i}", "uint8", 300, "input") for i in range(2)]
    m.feed += [m.rng.integers(0, 256, 300, np.uint8) for _ in planes]
    dst = m.tensor("dst", "l1", dtype, width * height * 32)
    x, y = m.choice(range(width)), m.choice(range(height))
    beyond = m.choice((0, 0, 0, 0, 0, 0, 0, 1))
    m.b.instr(
        "load_image",
        [ref(dst), ref(planes[0], m.integer(0, 3)), ref(planes[1])],
        src_w=width,
        src_h=height,
        first_w=x,
        first_h=y,
        width=width - x - m.integer(0, 1) + beyond,
        height=height - y,
        format=kind,
        functions=m.choice((0, 1, 5, 5, 5, 4, 512, 517)),
        **{"rb_swap" if kind == 4 else "uv_swap": m.choice((1, 0)) if kind != 9 else 0},
    )
    m.out(dst)


def mmad(m: Bench) -> None:
    """Products of 8-bit integers of either sign, and one row of A as a plain vector."""
    fm, weight, result = m.choice(
        (
            ("uint8", "int8", "int32"),
            ("uint8", "uint8", "int32"),
            ("uint8", "uint8", "uint32"),
            ("int8", "int8", "int32"),
            ("float16", "float16", "float16"),
        )
    )
    rows, k, columns = m.choice((1, 1, 15, 17)), m.integer(0, 63), m.integer(0, 33)
    a, b = m.tensor("a", "l0a", fm, 4096), m.tensor("b", "l0b", weight, 8192)
    dst = in_l0c(m, result, 8)
    operands = {"dst": ref(dst), "fm": ref(a), "filter": ref(b)}
    m.b.instr("mmad", operands, {"accumulate": m.integer(0, 1)}, m=rows, k=k, n=columns)
    out = m.b.local("out", "ub", result, 8 * 256)
    m.b.instr("data_move_l0c", {"dst": ref(out), "src": ref(dst)}, nburst=1, burst=8)
    m.out(out)


MAKERS: dict[str, Callable[[Bench], None]] = {
    f.__name__: f
    for f in (
        load3dv1,
        load3dv2,
        col2img,
        conv2d,
        l0c_out,
        l0c_matrix,
        load2d_square,
        broadcast_l0c,
        fill,
        fill_blocks,
        v4dtrans,
        load_image,
        mmad,
    )
}


def check(op: str, data: st.DataObject) -> None:
    m = Bench(data)
    MAKERS[op](m)
    m.check()


@pytest.mark.parametrize("op", MAKERS)
@settings(max_examples=60, **QUIET)
@given(st.data())
def test_instruction(op, data):
    check(op, data)


@pytest.mark.nightly
@pytest.mark.parametrize("op", MAKERS)
@settings(max_examples=2000, **QUIET)
@given(st.data())
def test_instruction_nightly(op, data):
    check(op, data)
