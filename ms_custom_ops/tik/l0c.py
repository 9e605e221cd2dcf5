# SPDX-License-Identifier: Apache-2.0
"""Moves between L0C and UB with their conversions (ConvRelu modes), and broadcasts into L0C."""

from __future__ import annotations

from typing import Any, NamedTuple

from ms_custom_ops.engine.reference.l0c import UNIT, burst_elements, reach
from ms_custom_ops.errors import TikError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import FLOATS, SIZE
from ms_custom_ops.program.expr import Expr, const
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_ELEMENTS
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    as_tensor,
    check_extent,
    check_same_dtype,
    check_scope,
    check_start,
    flag,
    ranged,
    scalar_operand,
)
from ms_custom_ops.tik.tensor import Tensor

L0C_ROW = 16
FLOAT16_MAX = 65504
VECTOR_SCALE, BIAS, ADD, SHORT_SCALE = 1, 2, 4, 8
# Numbers of the unit of a burst in the isa module.
BLOCK_MODES = {"m": 0, "v": 1, "sc": 2, "dp": 3}
_SAME = ("float16", "float32", "int32", "uint32")
# Highest ConvRelu mode of a chip family.
_LAST_MODE = {"310": 7, "910A": 7, "310P": 13}
_QUANTIZED = {"int8": (8, 9), "uint8": (8, 9), "int16": (12, 13)}


class Conversion(NamedTuple):
    """How elements change on the way: ``mode`` is the ConvRelu number of the public interface."""

    mode: int
    quant: int  # 0 cast, 1 float16 scale, 2 word of scale, shift and offset
    scale: Any  # expression, or the Tensor of 16 scales per burst


def _pair_text(pair: tuple[str, str]) -> str:
    return " to ".join(pair)


def _cast_mode(b: Builder, api: str, pair: tuple[str, str], relu: bool) -> int | None:
    """ConvRelu mode of a conversion without scale, None for another pair."""
    if pair == ("float32", "float16"):
        return 2 if relu else 1
    if pair == ("float16", "float32"):
        if relu:
            raise b.fail(TikError, api, f"relu for {_pair_text(pair)}", True, "False (no ConvReluMode has it)")
        return 4
    if pair[0] == pair[1] and pair[0] in _SAME:
        return 5 if relu else 0
    return None


def _word(b: Builder, api: str, value: Any) -> Expr:
    """A 64-bit scale word: Python int or uint64 Scalar."""
    return scalar_operand(b, value, "uint64", api, "deqscale")


def _is_word(value: Any) -> bool:
    """Whether a scale of int32 to float16 is a 64-bit word rather than a float16 number."""
    if isinstance(value, Expr):
        e = value.get()
        return e.dtype == "uint64" or e.op == "const" and e.dtype not in FLOATS and abs(int(e.value)) > FLOAT16_MAX
    return isinstance(value, int) and abs(value) > FLOAT16_MAX


def conversion(b: Builder, api: str, pair: tuple[str, str], deqscale: Any, relu: bool) -> Conversion:
    """The conversion of a dtype pair with a scale, checked."""
    one = const(1.0, "float16")
    vector = isinstance(deqscale, Tensor)
    mode = _cast_mode(b, api, pair, relu)
    if mode is not None and pair != ("float16", "float16") and deqscale is not None:
        raise b.fail(TikError, api, f"deqscale for {_pair_text(pair)}", deqscale, "None")
    if mode is not None and deqscale is None:
        return Conversion(mode, 0, one)
    if pair == ("float16", "float16"):
        if vector:
            raise b.fail(TikError, api, f"deqscale for {_pair_text(pair)}", "a tensor", "a number or float16 Scalar")
        return Conversion(6, 1, scalar_operand(b, deqscale, "float16", api, "deqscale"))
    if pair == ("int32", "float16"):
        return _dequantize(b, api, deqscale)
    if pair[0] == "int32" and pair[1] in _QUANTIZED:
        by_vector, by_scalar = _QUANTIZED[pair[1]]
        if vector:
            return Conversion(by_vector, 2, _scales(b, api, deqscale, ("uint64",)))
        if deqscale is None:
            raise b.fail(
                TikError, api, f"deqscale for {_pair_text(pair)}", None, "a 64-bit word or 16 of them per burst"
            )
        return Conversion(by_scalar, 2, _word(b, api, deqscale))
    accepted = [f"{t} to {t}" for t in _SAME]
    accepted += ["float32 to float16", "float16 to float32", "int32 to float16", "int32 to int8, uint8, int16"]
    raise b.fail(TikSupportError, api, "dtypes between L0C and UB", _pair_text(pair), ", ".join(accepted))


def _dequantize(b: Builder, api: str, deqscale: Any) -> Conversion:
    """int32 to float16 by a float16 number, a word, or 16 of either per burst."""
    if isinstance(deqscale, Tensor):
        scale = _scales(b, api, deqscale, ("float16", "uint64"))
        return Conversion(7, 1, scale) if scale.dtype == "float16" else Conversion(10, 2, scale)
    if deqscale is None:
        raise b.fail(
            TikError,
            api,
            "deqscale for int32 to float16",
            type(deqscale).__name__,
            "a number or float16 Scalar, a uint64 word, or a tensor of 16 of them per burst",
        )
    if _is_word(deqscale):
        return Conversion(11, 2, _word(b, api, deqscale))
    return Conversion(3, 1, scalar_operand(b, deqscale, "float16", api, "deqscale"))


def _scales(b: Builder, api: str, scale: Tensor, dtypes: tuple[str, ...]) -> Tensor:
    check_scope(b, scale, api, "deqscale", (ir.UB,))
    check_start(scale, api, "deqscale")
    if scale.dtype not in dtypes:
        raise b.fail(TikError, api, "dtype of tensor deqscale", scale.dtype, ", ".join(dtypes))
    return scale


def l0c_out(
    b: Builder,
    operands: dict[str, Tensor],
    counts: tuple[Any, Any, Any, Any],
    scale: Any,
    attrs: tuple[int, int, int, int, int],
) -> ir.Instr:
    """The ``l0c_out`` instruction; operands that are not given repeat src. ``scale`` may be a Tensor."""
    src = operands["src"]
    refs = [operands.get(name, src).ref() for name in ("dst", "src", "scale", "bias", "add")]
    value = const(0, "int32") if isinstance(scale, Tensor) else scale
    return ir.Instr("l0c_out", tuple(refs), (*counts, value), attrs, b.loc())


class L0cMixin:
    """``Tik`` methods of this module, and the L0C part of data_move and tensor_mov."""

    _b: Builder

    def _move_l0c(
        self,
        api: str,
        dst: Tensor,
        src: Tensor,
        nburst: Any,
        burst: Any,
        src_gap: Any,
        dst_gap: Any,
        deqscale: Any,
        relu: Any,
        block_mode: int,
        extra: tuple,
        store: int = 0,
    ) -> None:
        b = self._b
        pair = (src.dtype, dst.dtype)
        relu = self._mode_relu(api, extra, flag(relu, api, "relu"))
        found = conversion(b, api, pair, deqscale, relu)
        self._check_mode(api, pair, found.mode, extra)
        out_of_l0c = src.storage.buffer.scope == ir.L0C
        plain = block_mode < 2 and SIZE[dst.dtype] > 1 and pair != ("int32", "int16")
        plain = plain and (found.quant == 0 or pair == ("int32", "float16") and found.mode == 3)
        if not out_of_l0c and not plain:
            raise b.fail(
                TikSupportError,
                api,
                "move from UB to L0C",
                f"{_pair_text(pair)} with ConvReluMode {found.mode}, unit {UNIT[block_mode]} elements",
                "casts by whole fractals ('m') or first rows ('v')",
            )
        gaps = [
            gap * (FRACTAL_ELEMENTS * SIZE[t.dtype] if t.storage.buffer.scope == ir.L0C else BLOCK_BYTES)
            for t, gap in ((src, src_gap), (dst, dst_gap))
        ]
        halves = store in (0, 1) and SIZE[dst.dtype] == 1
        for t, name, gap in ((src, "src", gaps[0]), (dst, "dst", gaps[1])):
            check_start(t, api, name)
            if nburst.__class__ is int and burst.__class__ is int and gap.__class__ is int:
                check_extent(t, _side_bytes(t, block_mode, nburst, burst, gap, halves), api, name)
        if isinstance(found.scale, Tensor) and nburst.__class__ is int:
            check_extent(found.scale, nburst * L0C_ROW * SIZE[found.scale.dtype], api, "deqscale")
        if plain:
            refs, args = (dst.ref(), src.ref()), (nburst, burst, *gaps, found.scale)
            b.body.append(ir.Instr("data_move_l0c", refs, args, (block_mode, int(relu)), b.loc()))
            return
        operands = {"dst": dst, "src": src}
        if isinstance(found.scale, Tensor):
            operands["scale"] = found.scale
        attrs = (block_mode, int(relu), found.quant, (store + 1) if halves else 0, int("scale" in operands))
        b.body.append(l0c_out(b, operands, (nburst, burst, *gaps), found.scale, attrs))

    def _mode_relu(self, api: str, extra: tuple, relu: bool) -> bool:
        """relu as an explicit ConvReluMode says."""
        b = self._b
        last = _LAST_MODE.get(b.family, 0)
        if extra and (len(extra) > 1 or extra[0].__class__ is not int or not 0 <= extra[0] <= last):
            raise b.fail(
                TikSupportError,
                api,
                "ConvReluMode",
                ", ".join(map(str, extra)),
                f"{', '.join(map(str, range(last + 1)))} on {b.soc.name}",
            )
        return relu or bool(extra) and extra[0] in (2, 5)

    def _check_mode(self, api: str, pair: tuple[str, str], mode: int, extra: tuple) -> None:
        b = self._b
        last = _LAST_MODE.get(b.family, 0)
        if mode > last:
            raise b.fail(
                TikSupportError, api, f"ConvReluMode for {_pair_text(pair)} on {b.soc.name}", mode, f"0 to {last}"
            )
        if extra and extra[0] != mode:
            raise b.fail(TikError, api, "ConvReluMode", extra[0], f"{mode} for {_pair_text(pair)} with this deqscale")

    # ---- broadcast ----
    def broadcast_ub_to_l0c(self, dst, src, nburst, burst_len, *strides):
        """Rows of 16 elements of UB, each over the 16 rows of a fractal of L0C: ``nburst`` bursts of
        ``burst_len`` rows. ``strides``: gaps of src in 32 bytes, then of dst in fractals (0, 0 if left out)."""
        api = "broadcast_ub_to_l0c"
        if self._b.dead:
            return
        if len(strides) not in (0, 2):
            raise self._b.fail(TikError, api, "strides", strides, "src_stride, dst_stride, or none")
        dst, src = self._broadcast_operands(api, dst, src)
        require(self._b, api, "broadcast_ub_to_cc", SHORT[dst.dtype], dst.dtype)
        check_same_dtype(self._b, api, dst, src)
        gaps = strides[::-1] or (0, 0)
        rows = ranged(burst_len, api, "burst_len", 1, 255)
        self._broadcast(api, dst, src, nburst, (rows, 1), gaps, 255)

    def mmad_broadcast(self, dst, src, repeat_mode, nburst, burst_repeat, dst_gap, src_gap):
        """As broadcast_ub_to_l0c, also float16 to float32. repeat_mode 0: a burst is ``burst_repeat`` rows; 1: one
        row, over ``burst_repeat`` fractals."""
        api = "mmad_broadcast"
        if self._b.dead:
            return
        if repeat_mode not in (0, 1):
            raise self._b.fail(TikError, api, "repeat_mode", repeat_mode, "0, 1")
        dst, src = self._broadcast_operands(api, dst, src)
        require(self._b, api, api, SHORT[dst.dtype] + SHORT[src.dtype], f"{src.dtype} to {dst.dtype}")
        times = ranged(burst_repeat, api, "burst_repeat", 1, 255)
        self._broadcast(api, dst, src, nburst, (1, times) if repeat_mode else (times, 1), (dst_gap, src_gap), 255)

    def _broadcast_operands(self, api: str, dst: Any, src: Any) -> tuple[Tensor, Tensor]:
        b = self._b
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_scope(b, dst, api, "dst", (ir.L0C,))
        check_scope(b, src, api, "src", (ir.UB,) if b.family != "910B" else (ir.L1, ir.BT))
        check_start(dst, api, "dst")
        check_start(src, api, "src")
        return dst, src

    def _broadcast(
        self, api: str, dst: Tensor, src: Tensor, nburst: Any, unit: tuple[Any, Any], gaps: tuple, top: int
    ) -> None:
        """``unit``: rows of a burst, fractals of a row; ``gaps``: of dst in fractals, of src in 32 bytes."""
        b = self._b
        count = ranged(nburst, api, "nburst", 1, top)
        dst_gap, src_gap = (ranged(g, api, n, 0, 255) for g, n in zip(gaps, ("dst_gap", "src_gap"), strict=True))
        dst_gap, src_gap = dst_gap * (FRACTAL_ELEMENTS * SIZE[dst.dtype]), src_gap * BLOCK_BYTES
        if all(v.__class__ is int for v in (count, *unit, dst_gap, src_gap)):
            read, written = unit[0] * L0C_ROW * SIZE[src.dtype], unit[0] * unit[1] * FRACTAL_ELEMENTS * SIZE[dst.dtype]
            check_extent(src, (count - 1) * (read + src_gap) + read, api, "src")
            check_extent(dst, (count - 1) * (written + dst_gap) + written, api, "dst")
        b.body.append(ir.Instr("broadcast_l0c", (dst.ref(), src.ref()), (count, *unit, src_gap, dst_gap), (), b.loc()))

    def _bias(self, api: str, dst: Tensor, bias: Any, rows: Any, columns: Any, scopes: tuple[str, ...]) -> None:
        """Fill a product's dst with a row of ``columns`` values, before it is accumulated."""
        b = self._b
        bias = as_tensor(bias, api, "bias")
        check_scope(b, bias, api, "bias", scopes)
        check_start(bias, api, "bias")
        accepted = (dst.dtype, "float16") if dst.dtype == "float32" else (dst.dtype,)
        if bias.dtype not in accepted:
            raise b.fail(TikError, api, "dtype of bias", bias.dtype, ", ".join(accepted))
        if columns.__class__ is int:
            check_extent(bias, columns * SIZE[bias.dtype], api, "bias")
        args = (1, columns // L0C_ROW, rows // L0C_ROW, 0, 0)
        b.body.append(ir.Instr("broadcast_l0c", (dst.ref(), bias.ref()), args, (), b.loc()))


def _side_bytes(tensor: Tensor, mode: int, nburst: int, burst: int, gap: int, halves: bool) -> int:
    """Bytes one side of a move between L0C and UB reaches."""
    size = SIZE[tensor.dtype]
    if tensor.storage.buffer.scope == ir.L0C:
        step = burst_elements(mode, burst) * size + gap
        return (nburst - 1) * step + reach(mode, burst) * size
    length = burst * UNIT[mode] * size * (2 if halves else 1)
    return (nburst - 1) * (length + gap) + length
