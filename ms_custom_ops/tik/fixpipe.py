# SPDX-License-Identifier: Apache-2.0
"""fixpipe: L0C to GM with bias, quantization, addition and relu on the way."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_ELEMENTS
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_extent, check_scope, check_start, flag, ranged, scalar_operand
from ms_custom_ops.tik.l0c import ADD, BIAS, L0C_ROW, SHORT_SCALE, VECTOR_SCALE, l0c_out
from ms_custom_ops.tik.tensor import Tensor

QUANTIZE_MODES = {
    "fp322fp16": ("float32", "float16"),
    "int322fp16": ("int32", "float16"),
    "fp322bf16": ("float32", "bfloat16"),
}
_PLAIN = {("float32", "float32"): 0, ("int32", "int32"): 0, ("float32", "float16"): 1, ("int32", "float16"): 2}
_UNIT_MODE = 4  # of l0c_out: eight successive elements, 32 bytes of a 32-bit src
_TENSOR_SCOPES = (ir.UB, ir.L1)


class FixpipeMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def fixpipe(self, dst, src, cburst_num, burst_len, dst_stride, src_stride, extend_params=None):
        """L0C to GM: ``cburst_num`` bursts of ``burst_len`` 32-byte units of the source dtype; gaps: dst_stride
        in 32 bytes, src_stride in 256 elements. A burst of src starts at a fractal: src of a matmul is [N1, M, 16]
        with M = m rounded up to 16, dst [N1, m, 16].

        ``extend_params``: ``quantize_params`` {"mode": "fp322fp16", "int322fp16" or (910B) "fp322bf16",
        "mode_param": number, float16 Scalar, or a tensor of 16 float16 or uint64 scales per burst}; ``relu``; not
        on 910B: ``bias`` (16 values of src dtype per burst, added first) and ``element-wise-add`` (dense, dst dtype,
        added last).
        """
        b, api = self._b, "fixpipe"
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_scope(b, dst, api, "dst", (ir.GM,))
        check_scope(b, src, api, "src", (ir.L0C,))
        params = self._fixpipe_keys(api, extend_params)
        pair, scale = self._fixpipe_scale(api, src, dst, params.get("quantize_params"))
        relu = flag(params.get("relu") or False, api, "relu")
        tensors = self._fixpipe_tensors(api, src, dst, params, scale)
        self._fixpipe_conflicts(api, pair, relu, tensors)
        bursts = ranged(cburst_num, api, "cburst_num", 1, 4095)
        length = ranged(burst_len, api, "burst_len", 1, 65535)
        dst_gap = ranged(dst_stride, api, "dst_stride", 0, 65535) * BLOCK_BYTES
        fractal = FRACTAL_ELEMENTS * SIZE[src.dtype]
        # src is [N1, M, N0] with M a multiple of 16, so that a burst of m rows is followed by the rest of its fractal.
        rest = (fractal - length * BLOCK_BYTES % fractal) % fractal
        src_gap = ranged(src_stride, api, "src_stride", 0, 65535) * fractal + rest
        check_start(src, api, "src")
        if all(v.__class__ is int for v in (bursts, length, dst_gap, src_gap)):
            burst = length * BLOCK_BYTES
            written = burst // SIZE[src.dtype] * SIZE[dst.dtype]
            check_extent(src, (bursts - 1) * (burst + src_gap) + burst, api, "src")
            check_extent(dst, (bursts - 1) * (written + dst_gap) + written, api, "dst")
            for name, t in tensors.items():
                need = bursts * written if name == "add" else bursts * L0C_ROW * SIZE[t.dtype]
                check_extent(t, need, api, name)
        if not tensors and pair in _PLAIN:
            args = (bursts, length * BLOCK_BYTES, src_gap, dst_gap, scale)
            b.body.append(ir.Instr(api, (dst.ref(), src.ref()), args, (_PLAIN[pair], int(relu)), b.loc()))
            return
        quant = 0 if pair != ("int32", "float16") else 2 if "scale" in tensors and scale.dtype == "uint64" else 1
        flags = sum(f for n, f in (("scale", VECTOR_SCALE), ("bias", BIAS), ("add", ADD)) if n in tensors)
        flags |= SHORT_SCALE if quant == 2 else 0
        attrs = (_UNIT_MODE, int(relu), quant, 0, flags)
        counts = (bursts, length, src_gap, dst_gap)
        b.body.append(l0c_out(b, {"dst": dst, "src": src, **tensors}, counts, scale, attrs))

    def _fixpipe_keys(self, api: str, params: Any) -> dict[str, Any]:
        b = self._b
        params = {} if params is None else params
        if not isinstance(params, dict):
            raise b.fail(TikError, api, "extend_params", type(params).__name__, "a dict")
        keys = ["quantize_params", "relu"] + ([] if b.family == "910B" else ["bias", "element-wise-add"])
        unknown = {k for k, v in params.items() if v is not None} - set(keys)
        if unknown:
            raise b.fail(TikSupportError, api, "extend_params", ", ".join(sorted(unknown)), ", ".join(keys))
        return params

    def _fixpipe_scale(self, api: str, src: Tensor, dst: Tensor, quantize: Any) -> tuple[tuple[str, str], Any]:
        """dtype pair, and its scale (1 where there is none; a Tensor for one per column)."""
        b = self._b
        pair = (src.dtype, dst.dtype)
        require(b, api, api, SHORT[src.dtype] + SHORT[dst.dtype], f"{src.dtype} to {dst.dtype}")
        scale: Any = None
        if quantize is not None:
            mode = quantize.get("mode")
            if QUANTIZE_MODES.get(mode) != pair:
                raise b.fail(
                    TikError, api, f"quantize_params mode for {pair[0]} to {pair[1]}", mode, ", ".join(QUANTIZE_MODES)
                )
            scale = quantize.get("mode_param")
        elif pair[0] != pair[1]:
            accepted = " or ".join(f'{{"mode": "{m}"}}' for m, p in QUANTIZE_MODES.items() if p == pair)
            raise b.fail(TikError, api, f"quantize_params for {pair[0]} to {pair[1]}", None, accepted)
        if isinstance(scale, Tensor):
            if pair != ("int32", "float16") or scale.dtype not in ("float16", "uint64"):
                raise b.fail(
                    TikError,
                    api,
                    f"mode_param for {pair[0]} to {pair[1]}",
                    f"a {scale.dtype} tensor",
                    "a float16 or uint64 tensor for int32 to float16",
                )
            return pair, scale
        if pair == ("int32", "float16") and scale is None:
            raise b.fail(TikError, api, "mode_param", None, "a number, float16 Scalar or tensor")
        value = const(1.0, "float16") if scale is None else scalar_operand(b, scale, "float16", api, "mode_param")
        return pair, value

    def _fixpipe_tensors(self, api: str, src: Tensor, dst: Tensor, params: dict, scale: Any) -> dict[str, Tensor]:
        b = self._b
        found = {"scale": scale} if isinstance(scale, Tensor) else {}
        for key, name, dtype in (("bias", "bias", src.dtype), ("element-wise-add", "add", dst.dtype)):
            if params.get(key) is None:
                continue
            t = as_tensor(params[key], api, key)
            if t.dtype != dtype:
                raise b.fail(TikError, api, f"dtype of {key}", t.dtype, dtype)
            found[name] = t
        for name, t in found.items():
            check_scope(b, t, api, name, _TENSOR_SCOPES)
            check_start(t, api, name)
        return found

    def _fixpipe_conflicts(self, api: str, pair: tuple[str, str], relu: bool, tensors: dict[str, Tensor]) -> None:
        """relu goes neither with bias and element-wise-add nor, but on 910B, with a scalar dequantization."""
        b = self._b
        others: list[str] = [n for n in ("bias", "add") if n in tensors]
        if pair == ("int32", "float16") and "scale" not in tensors and b.family != "910B":
            others.append("int322fp16 with one mode_param")
        if relu and others:
            raise b.fail(TikError, api, "relu", f"True with {', '.join(others)}", "relu without them")
