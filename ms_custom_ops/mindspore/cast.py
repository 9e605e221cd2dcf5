# SPDX-License-Identifier: Apache-2.0
"""Casts around an op. MindSpore's own converts one value after another, which beside a short attention took as long as
a third of it; the engine's converts a register at a time. The values are the same."""

from __future__ import annotations

import math
from typing import Any

from mindspore import ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpDtypeError, describe
from ms_custom_ops.mindspore.custom import DTYPES, EngineCustom, dtype_name, prim_cache

__all__ = ["EngineCast", "cast"]

_FLOATS = ("float16", "bfloat16", "float32")
_LEAST = 2**14  # elements; fewer take no time either way


class EngineCast(EngineCustom):
    """To one float dtype from any: mixed precision casts the tensors of ops.Custom before they arrive."""

    def __init__(self, dtype: str):
        self._to = DTYPES[dtype]
        super().__init__("cast", _cast_back, "mco_cast")
        # By its attributes PYNATIVE mode tells the result types of one primitive from another's.
        self.add_prim_attr("mco_to", dtype)

    def __infer__(self, x: dict[str, Any]) -> dict[str, Any]:
        _, (given,) = self.tensor_types(("x",), (x,))
        if given not in _FLOATS:
            what = f"dtype of what becomes {dtype_name(self._to)}"
            raise OpDtypeError(describe("cast", what, given, ", ".join(_FLOATS)))
        return {"shape": x["shape"], "dtype": mstype.TensorType(self._to), "value": None}


def _cast_back(x, out, dout):
    """bprop of :class:`EngineCast`; the graph compiler reads it."""
    return (cast(dout, x.dtype),)


@ops.constexpr
def _in_engine(shape, given, wanted):
    """The dtype that the engine casts to; "" where MindSpore casts."""
    if not isinstance(shape, tuple) or any(n < 0 for n in shape) or math.prod(shape) < _LEAST:
        return ""
    pair = dtype_name(given), dtype_name(wanted)
    return pair[1] if pair[0] != pair[1] and pair[0] in _FLOATS and pair[1] in _FLOATS else ""


def cast(x, dtype):
    """``ops.cast``, in construct and in plain Python."""
    to = _in_engine(x.shape, x.dtype, dtype)
    if to:
        return prim_cache(EngineCast)(to)(x)
    return ops.cast(x, dtype)
