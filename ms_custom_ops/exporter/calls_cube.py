# SPDX-License-Identifier: Apache-2.0
"""Calls of the cube: loads of L0A and L0B, products, what leaves L0C."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ms_custom_ops.exporter.context import MOST_REPEATS, Call, Use
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.names import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ELEMENTS, FRACTAL_SIDE

_WORD = 65535
_MOST_SIDE = 4095  # of a product


def fractals(u: Use) -> list[str]:
    repeat = u.known("repeat")
    if repeat is not None and repeat > MOST_REPEATS:
        raise u.refuse("repeat", repeat, f"at most {MOST_REPEATS}")
    index, n, stride, gap = (u.number(name) for name in ("index", "repeat", "src_stride", "dst_gap"))
    turned = "true" if u.attrs["transpose"] else "false"
    return [
        f"LoadData({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, "
        f"LoadData2DParams({index}, {n}, {stride}, 0, {gap}, {turned}, 0));"
    ]


def image_to_column(u: Use) -> list[str]:
    """load3dv1, whose first pixel counts from the map without its border here."""
    kind = u.kind("dst")
    pads = u.fresh("pads")
    u.before.append(f"const uint8_t {pads}[4] = {{{', '.join(map(u.number, ('pad_l', 'pad_r', 'pad_t', 'pad_b')))}}};")
    first = [f"{u.writer.operand(u.args[a])} - {u.number(b)}" for a, b in (("first_w", "pad_l"), ("first_h", "pad_t"))]
    names = ("stride_w", "stride_h", "filter_w", "filter_h", "dilation_w", "dilation_h", "jump")
    head = ", ".join(map(u.number, ("l1_h", "l1_w", "c1", "fetch_w", "fetch_h")))
    tail = f"{u.attrs['repeat_mode']}, {u.number('repeat')}, 0, {u.value('pad_value', u.dtype('dst'))}"
    params = (
        f"LoadData3DParamsV1<{kind}>({pads}, {head}, {first[0]}, {first[1]}, {', '.join(map(u.number, names))}, {tail})"
    )
    return [f"LoadData({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, {params});"]


def window_of_columns(u: Use) -> list[str]:
    """load3dv2: a window of the image-to-column matrix."""
    pads = _pads(u, u.number)
    layout = u.attrs["layout"]
    if layout == 2 and SIZE[u.dtype("dst")] != 2:
        raise u.refuse("enable_transpose", f"with {u.dtype('dst')}", "elements of 2 bytes")
    if (layout == 1) != (u.scope("dst") == ir.L0B):
        raise u.refuse("dst", f"in {u.scope('dst')}", "L0A, or L0B without a transpose")
    turned = "true" if layout == 2 else "false"
    return [_columns(u, "dst", u.ref("dst"), u.ref("src", u.dtype("dst")), pads, u.number,
                     (*map(u.number, ("channels", "k_ext", "m_ext", "k_start", "m_start")), turned))]  # fmt: skip


_WINDOW = ("stride_w", "stride_h", "filter_w", "filter_h", "dilation_w", "dilation_h")


def _pads(u: Use, number: Callable[[str], str]) -> str:
    name = u.fresh("pads")
    u.before.append(f"const uint8_t {name}[4] = {{{', '.join(map(number, ('pad_l', 'pad_r', 'pad_t', 'pad_b')))}}};")
    return name


def _columns(u: Use, operand: str, dst: str, src: str, pads: str, number: Callable[[str], str],
             window: Sequence[str]) -> str:  # fmt: skip
    """A load of the image-to-column matrix; ``window``: channels, extents and starts, whether it is transposed."""
    *sizes, turned = window
    kind = u.kind(operand)
    known = [int(number(n)) if number(n).isdigit() else None for n in ("filter_w", "filter_h")]
    if any(n is None or n > MOST_REPEATS for n in known):
        raise u.refuse("filter", " x ".join(map(number, ("filter_h", "filter_w"))), f"at most {MOST_REPEATS}")
    steps = ", ".join(map(number, _WINDOW))
    return (f"LoadData({dst}, {src}, LoadData3DParamsV2<{kind}>({pads}, {number('l1_h')}, {number('l1_w')}, "
            f"{', '.join(sizes)}, {steps}, {turned}, false, {u.value('pad_value', u.dtype(operand))}));")  # fmt: skip


def _rooms(u: Use, a: str, b: str, rows: int, columns: int, k: int) -> tuple[str, int]:
    """L0A and L0B for tiles of both operands, and how many fractals of k are there at a time."""
    room = {scope: u.places.free_room(scope) // FRACTAL_BYTES for scope in (ir.L0A, ir.L0B)}
    deep = -(-k * SIZE[u.dtype(a)] // BLOCK_BYTES)
    most = min(room[ir.L0A] // rows, room[ir.L0B] // columns, MOST_REPEATS // columns)
    if not most:
        raise u.refuse("m, n", f"{rows * FRACTAL_SIDE}, {columns * FRACTAL_SIDE}",
                       f"at most {room[ir.L0A] * FRACTAL_SIDE}, {room[ir.L0B] * FRACTAL_SIDE}: a column of fractals "
                       "has to fit into L0A and L0B")  # fmt: skip
    if deep > most and u.dtype("dst") == "float16":
        raise u.refuse("k", k, f"at most {most * BLOCK_BYTES // SIZE[u.dtype(a)]} into float16: a sum of more tiles is "
                       "rounded for each")  # fmt: skip
    depth = min(deep, most)
    texts = [u.places.room(scope, u.dtype(name), depth * count * FRACTAL_BYTES)
             for scope, name, count in ((ir.L0A, a, rows), (ir.L0B, b, columns))]  # fmt: skip
    return ", ".join(texts), depth


def product_of_tiles(u: Use) -> list[str]:
    """matmul: L1 to L0C, through as much of L0A and L0B as the kernel leaves."""
    m, k, n = (u.attrs[x] for x in "mkn")
    rows, columns = (-(-x // FRACTAL_SIDE) for x in (m, n))
    rooms, depth = _rooms(u, "a", "b", rows, columns, k)
    u.writer.helpers.add("ProductOfTiles")
    fresh = "true" if u.attrs["init"] else "false"
    return [f"ProductOfTiles({u.ref('dst')}, {u.ref('a')}, {u.ref('b')}, {rooms}, {rows * FRACTAL_SIDE}, {k}, "
            f"{columns * FRACTAL_SIDE}, {depth}, {fresh});"]  # fmt: skip


def convolution(u: Use) -> list[str]:
    """conv2d: the same, with the image-to-column matrix of the feature map in L0A."""
    number = lambda name: str(u.attrs[name])  # noqa: E731
    c0 = BLOCK_BYTES // SIZE[u.dtype("fm")]
    sides = [(u.attrs[f"l1_{x}"] + u.attrs[before] + u.attrs[behind]
              - (u.attrs[f"filter_{x}"] - 1) * u.attrs[f"dilation_{x}"] - 1) // u.attrs[f"stride_{x}"] + 1
             for x, before, behind in (("h", "pad_t", "pad_b"), ("w", "pad_l", "pad_r"))]  # fmt: skip
    k = u.attrs["c1"] * u.attrs["filter_h"] * u.attrs["filter_w"] * c0
    rows, columns = -(-sides[0] * sides[1] // FRACTAL_SIDE), u.attrs["cout"] // FRACTAL_SIDE
    for name, given, most in (("pixels", rows * FRACTAL_SIDE, _MOST_SIDE), ("C1 * filter * C0", k, _WORD)):
        if given > most:
            raise u.refuse(name, given, f"at most {most}")
    rooms, depth = _rooms(u, "fm", "weight", rows, columns, k)
    u.writer.helpers.add("ProductOfImage")
    fresh, pads, image = "true" if u.attrs["init"] else "false", _pads(u, number), u.fresh("image")
    kind = u.kind("fm")
    known = ", ".join(map(number, _WINDOW))
    u.before.append(f"LoadData3DParamsV2<{kind}> {image}({pads}, {number('l1_h')}, {number('l1_w')}, "
                    f"{u.attrs['c1'] * c0}, 0, {rows * FRACTAL_SIDE}, 0, 0, {known}, false, false, "
                    f"{u.value('pad_value', u.dtype('fm'))});")  # fmt: skip
    return [f"ProductOfImage({u.ref('dst')}, {u.ref('fm')}, {u.ref('weight')}, {rooms}, {image}, {k}, "
            f"{columns * FRACTAL_SIDE}, {depth}, {fresh});"]  # fmt: skip


def product(u: Use) -> list[str]:
    m, n, k = u.number("m"), u.number("n"), u.number("k")
    fresh = "false" if u.attrs["accumulate"] else "true"
    return [f"Mmad({u.ref('dst')}, {u.ref('fm')}, {u.ref('filter')}, MmadParams({m}, {n}, {k}, 0, false, {fresh}));"]


def out_of_l0c(u: Use) -> list[str]:
    """L0C to GM in columns of fractals."""
    if u.scope("dst") != ir.GM:
        raise u.refuse("route", f"L0C to {u.scope('dst')}", "L0C to GM on this chip")
    if u.attrs["quantize"] > 1:
        raise u.refuse("quantize", "int32 to float16", "none, or float32 to float16")
    size, out = SIZE[u.dtype("src")], SIZE[u.dtype("dst")]
    length, gap, dst_gap = u.known("burst_len"), u.known("src_gap"), u.known("dst_gap")
    if length is None or gap is None or dst_gap is None:
        raise u.refuse("burst_len, src_gap, dst_gap", "known only while running", "sizes that are known while tracing")
    row = FRACTAL_SIDE * size
    rows = length // row
    if length % row or gap % row:
        raise u.refuse("burst_len, src_gap", f"{length}, {gap} bytes", f"whole rows of {FRACTAL_SIDE} elements")
    pitch = rows * FRACTAL_SIDE * out + dst_gap
    if pitch % BLOCK_BYTES:
        raise u.refuse("dst_gap", f"{dst_gap} bytes", f"a multiple of {BLOCK_BYTES} bytes")
    columns = u.known("cburst_num")
    count = (
        str(columns * FRACTAL_SIDE)
        if columns is not None
        else f"{u.writer.operand(u.args['cburst_num'])} * {FRACTAL_SIDE}"
    )
    relu = "true" if u.attrs["relu"] else "false"
    quant = ", F322F16, 0, 1, 0, 0" if u.attrs["quantize"] else ""
    params = f"FixpipeParamsV220({count}, {rows}, {rows + gap // row}, {pitch // BLOCK_BYTES}, {relu}{quant})"
    return [f"Fixpipe<{u.kind('dst')}, {u.kind('src')}, CFG_NZ>({u.ref('dst')}, {u.ref('src')}, {params});"]


def through_l0c(u: Use) -> list[str]:
    """L0C to UB and back, on cores that have both."""
    if u.program.split_cores:
        raise u.refuse("route", "L0C and UB", "L0C to GM by fixpipe, and GM to UB: the chip has no other way")
    pair, gaps = (u.dtype("src"), u.dtype("dst")), (u.known("src_gap"), u.known("dst_gap"))
    if pair[0] != pair[1] and not (pair == ("float32", "float16") and gaps == (0, 0)):
        instead = "; here data_move of int32, and vec_conv with deqscale in UB" if pair[0] == "int32" else ""
        raise u.refuse("dtypes", f"{pair[0]} to {pair[1]}", f"one dtype, or float32 to float16 without gaps{instead}")
    unit = (FRACTAL_ELEMENTS if not u.attrs["block_mode"] else FRACTAL_SIDE) * SIZE[u.dtype("dst")]
    src_unit, dst_unit = (unit, BLOCK_BYTES) if u.scope("src") == ir.L0C else (BLOCK_BYTES, unit)
    params = (f"DataCopyParams({u.number('nburst')}, {u.number('burst')}, "
              f"{u.units('src_gap', src_unit, 'the call counts them', _WORD)}, "
              f"{u.units('dst_gap', dst_unit, 'the call counts them', _WORD)})")  # fmt: skip
    how = u.fresh("enhanced")
    u.before.append(f"DataCopyEnhancedParams {how};")
    u.before.append(f"{how}.blockMode = BlockMode::BLOCK_MODE_{'VECTOR' if u.attrs['block_mode'] else 'MATRIX'};")
    if u.attrs["relu"]:
        u.before.append(f"{how}.isRelu = true;")
    return [f"DataCopy({u.ref('dst')}, {u.ref('src')}, {params}, {how});"]


CALLS: dict[str, Call] = {
    "load2d": fractals, "load3dv1": image_to_column, "load3dv2": window_of_columns, "mmad": product,
    "matmul": product_of_tiles, "conv2d": convolution, "fixpipe": out_of_l0c, "data_move_l0c": through_l0c,
}  # fmt: skip
"""Rows that a call of the cube says."""
