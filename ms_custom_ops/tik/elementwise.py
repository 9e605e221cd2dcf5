# SPDX-License-Identifier: Apache-2.0
"""Element-wise methods of ``Tik``: one table row per method, one function per signature.

Signatures: BIN (two sources), UN (one source), SC (a source and a scalar), each in the ``vec_`` form (block
stride 1, head-to-head repeat strides) and in the ``v`` form (block strides and ``stride_unit``).
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.vector import Row, emit_vector


# ---- templates ----
def _bin_new(row: Row) -> Any:
    def method(self, mask, dst, src0, src1, repeat_times, dst_rep_stride, src0_rep_stride, src1_rep_stride):
        emit_vector(
            self._b,
            row,
            mask,
            (dst, src0, src1),
            repeat_times,
            (1, 1, 1),
            (dst_rep_stride, src0_rep_stride, src1_rep_stride),
        )

    return method


def _bin_old(row: Row) -> Any:
    def method(
        self,
        mask,
        dst,
        src0,
        src1,
        repeat_times,
        dst_blk_stride,
        src0_blk_stride,
        src1_blk_stride,
        dst_rep_stride,
        src0_rep_stride,
        src1_rep_stride,
        stride_unit=0,
    ):
        emit_vector(
            self._b,
            row,
            mask,
            (dst, src0, src1),
            repeat_times,
            (dst_blk_stride, src0_blk_stride, src1_blk_stride),
            (dst_rep_stride, src0_rep_stride, src1_rep_stride),
            stride_unit,
        )

    return method


def _un_new(row: Row) -> Any:
    def method(self, mask, dst, src, repeat_times, dst_rep_stride, src_rep_stride):
        emit_vector(self._b, row, mask, (dst, src), repeat_times, (1, 1), (dst_rep_stride, src_rep_stride))

    return method


def _un_old(row: Row) -> Any:
    def method(
        self,
        mask,
        dst,
        src,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        stride_unit=0,
    ):
        emit_vector(
            self._b,
            row,
            mask,
            (dst, src),
            repeat_times,
            (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride),
            stride_unit,
        )

    return method


def _sc_new(row: Row) -> Any:
    def method(self, mask, dst, src, scalar, repeat_times, dst_rep_stride, src_rep_stride, mask_mode="normal"):
        emit_vector(
            self._b, row, mask, (dst, src), repeat_times, (1, 1), (dst_rep_stride, src_rep_stride), 0, scalar, mask_mode
        )

    return method


def _sc_old(row: Row) -> Any:
    def method(
        self,
        mask,
        dst,
        src,
        scalar,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        stride_unit=0,
        mask_mode="normal",
    ):
        emit_vector(
            self._b,
            row,
            mask,
            (dst, src),
            repeat_times,
            (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride),
            stride_unit,
            scalar,
            mask_mode,
        )

    return method


_BYTE, _HALF = 255, 65535
_UN_NAMES = ("dst", "src")
_BIN_OPS = {"add": "vadd", "sub": "vsub", "mul": "vmul", "max": "vmax", "min": "vmin", "and": "vand", "or": "vor"}
_BIN_OLD_ONLY = ("vdiv", "vaddrelu", "vsubrelu", "vmadd", "vmaddrelu")
_UN_OPS = ("abs", "relu", "not", "exp", "ln", "rec", "rsqrt")
_SC_OPS = ("adds", "muls")

TEMPLATES: dict[str, tuple[Any, Row]] = {}
for _name, _op in _BIN_OPS.items():
    TEMPLATES[f"vec_{_name}"] = (_bin_new, Row(f"vec_{_name}", _op, _op, _BYTE, _BYTE))
    TEMPLATES[_op] = (_bin_old, Row(_op, _op, _op, _BYTE, _BYTE))
for _op in _BIN_OLD_ONLY:
    TEMPLATES[_op] = (_bin_old, Row(_op, _op, _op, _BYTE, _BYTE))
TEMPLATES["vmla"] = (_bin_old, Row("vmla", "vmla", "vmla", _BYTE, _BYTE, mixed=True))
for _name in _UN_OPS:
    TEMPLATES[f"vec_{_name}"] = (_un_new, Row(f"vec_{_name}", f"v{_name}", f"v{_name}", _HALF, _BYTE, False, _UN_NAMES))
    TEMPLATES[f"v{_name}"] = (_un_old, Row(f"v{_name}", f"v{_name}", f"v{_name}", _HALF, _BYTE, False, _UN_NAMES))
TEMPLATES["vsqrt"] = (_un_old, Row("vsqrt", "vsqrt", "vsqrt", _HALF, _BYTE, False, _UN_NAMES))
for _name in _SC_OPS:
    TEMPLATES[f"vec_{_name}"] = (_sc_new, Row(f"vec_{_name}", f"v{_name}", f"v{_name}", _HALF, _BYTE, False, _UN_NAMES))
for _op in ("vadds", "vmuls", "vmaxs", "vmins", "vlrelu", "vshl"):
    TEMPLATES[_op] = (_sc_old, Row(_op, _op, _op, _HALF, _BYTE, False, _UN_NAMES))
_AXPY = Row("vaxpy", "vaxpy", "vaxpy", _HALF, _BYTE, True, _UN_NAMES)
_SHR = Row("vshr", "vshr", "vshr", _HALF, _BYTE, False, _UN_NAMES)


class VectorMixin:
    """Element-wise methods of ``Tik``; those of TEMPLATES are added below."""

    _b: Builder

    def vec_axpy(self, mask, dst, src, scalar, repeat_times, dst_rep_stride, src_rep_stride):
        """dst = src * scalar + dst; float16, float32, or float32 dst from float16 src and scalar."""
        emit_vector(
            self._b,
            _AXPY._replace(api="vec_axpy"),
            mask,
            (dst, src),
            repeat_times,
            (1, 1),
            (dst_rep_stride, src_rep_stride),
            0,
            scalar,
        )

    def vaxpy(
        self,
        mask,
        dst,
        src,
        scalar,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        stride_unit=0,
    ):
        """dst = src * scalar + dst with block strides."""
        emit_vector(
            self._b,
            _AXPY,
            mask,
            (dst, src),
            repeat_times,
            (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride),
            stride_unit,
            scalar,
        )

    def vshr(
        self,
        mask,
        dst,
        src,
        scalar,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        stride_unit=0,
        round_en=False,
        mask_mode="normal",
    ):
        """src >> scalar, arithmetic for signed dtypes; ``round_en`` rounds half up."""
        emit_vector(
            self._b,
            _SHR,
            mask,
            (dst, src),
            repeat_times,
            (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride),
            stride_unit,
            scalar,
            mask_mode,
            (int(bool(round_en)),),
        )

    def vec_dup(self, mask, dst, scalar, repeat_times, dst_rep_stride):
        """Every selected lane = scalar (an immediate, or a Scalar of dst's dtype)."""
        self._dup("vec_dup", mask, dst, scalar, repeat_times, 1, dst_rep_stride, 0)

    def vector_dup(self, mask, dst, scalar, repeat_times, dst_blk_stride, dst_rep_stride, stride_unit=0):
        """vec_dup with a block stride."""
        self._dup("vector_dup", mask, dst, scalar, repeat_times, dst_blk_stride, dst_rep_stride, stride_unit)

    def _dup(
        self, api: str, mask: Any, dst: Any, scalar: Any, repeat: Any, blk: Any, rep: Any, stride_unit: Any
    ) -> None:
        emit_vector(self._b, _DUP[api], mask, (dst,), repeat, (blk,), (rep,), stride_unit, scalar)


_DUP = {api: Row(api, "vector_dup", "vector_dup", _HALF, _BYTE, False, ("dst",)) for api in ("vec_dup", "vector_dup")}

for _name, (_template, _row) in TEMPLATES.items():
    _method = _template(_row)
    _method.__name__ = _name
    _method.__qualname__ = f"Tik.{_name}"
    _method.__module__ = __name__
    _method.__doc__ = f"Instruction ``{_row.op}`` of the isa module: see there for the lane formula."
    setattr(VectorMixin, _name, _method)
