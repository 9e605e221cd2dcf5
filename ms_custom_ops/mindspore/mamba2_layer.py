# SPDX-License-Identifier: Apache-2.0
"""The Mamba-2 layer: projections, causal convolution, state-space scan, gated norm; by chunks or step by
step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.mindspore.lowered import eager
from ms_custom_ops.mindspore.mamba2_packed import kept_steps, packed_taps
from ms_custom_ops.mindspore.precision import OwnPrecision
from ms_custom_ops.mindspore.ssd import ssd_chunk_scan
from ms_custom_ops.registry.bounds import upper_bound

__all__ = ["GatedRMSNorm", "Mamba2"]

_LAYER = "nn.Mamba2"
_DTYPES = {"float16": mstype.float16, "bfloat16": mstype.bfloat16}


def _refuse(argument: str, given: object, accepted: object) -> None:
    raise OpArgumentError(describe(_LAYER, argument, given, accepted))


def _checked_int(name: str, value: Any, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
        _refuse(name, repr(value), "an int of at least 1" if most is None else f"an int from 1 to {most}")
    return value


def _multiple(name: str, value: int, of: str, unit: int) -> int:
    """value / unit."""
    if value % unit:
        _refuse(name, value, f"a multiple of {of} = {unit}")
    return value // unit


def _sequences(cu_seqlens: Any) -> int:
    """Number of packed sequences."""
    if isinstance(cu_seqlens, (list, tuple)):
        return len(cu_seqlens) - 1
    return cu_seqlens.shape[0] - 1


class GatedRMSNorm(OwnPrecision):
    """``u / sqrt(mean(u^2) + epsilon) * weight`` with ``u = x * silu(z)``, the mean over each of ``groups``
    parts.

    Inputs x and z (..., width); output in their dtype, computed in float32.
    """

    def __init__(self, width: int, groups: int = 1, epsilon: float = 1e-5):
        super().__init__()
        self.groups = groups
        self.epsilon = epsilon
        self.weight = Parameter(Tensor(np.ones(width, np.float32)), name="weight")

    def construct(self, x: Any, z: Any) -> Any:
        z = ops.cast(z, mstype.float32)
        u = ops.cast(x, mstype.float32) * z * ops.sigmoid(z)
        parts = u.reshape(u.shape[:-1] + (self.groups, u.shape[-1] // self.groups))
        parts = parts * ops.rsqrt(ops.square(parts).mean(-1, keep_dims=True) + self.epsilon)
        return ops.cast(parts.reshape(u.shape) * self.weight, x.dtype)


class Mamba2(OwnPrecision):
    """Mamba-2 block (Dao and Gu, 2024): in_proj, causal depthwise convolution with SiLU, SSD scan, gated
    RMSNorm, out_proj. Names and defaults follow the paper's published implementation.

    The whole sequence goes through :meth:`construct` (chunked scan, for training) or :meth:`prefill`, which
    returns the state too; :meth:`step` takes one token and the state, for decoding. Both forms compute the
    same function.

    Args:
        d_model: width of input and output.
        d_state: size N of the state, 1 to 256.
        d_conv: taps of the convolution.
        expand: inner width over d_model.
        headdim: size P of a head, 1 to 128; divides expand * d_model.
        ngroups: groups of B and C; divides the number of heads.
        chunk_size: steps per chunk of the scan, 1 to 256.
        dt_min, dt_max: range of the initial step sizes, log-uniform; dt_init_floor: their least value.
        dt_limit: least and greatest step size, to which softplus(dt + dt_bias) is clamped in every call.
        A_init_range: range of the initial decay rates -A, uniform.
        bias, conv_bias: biases of the projections and of the convolution.
        operand_dtype: "float16", or "bfloat16" on split-core chips: dtype of dt * x, B and C in the chunked scan.
            The step form has no such operands and computes in float32. Everything else keeps the dtype of its
            weights.
        seed: of the initial step sizes and decay rates; None draws new ones.

    Inputs:
        u (B, S, d_model); conv_state (B, d_conv - 1, channels) and ssm_state (B, H, P, N) float32 of what
        came before, or None; cu_seqlens of a packed batch (B = 1), as in ssd_chunk_scan: nothing passes from one
        sequence to the next, and the states have one row per sequence.

    Outputs:
        (B, S, d_model); 0 behind the last packed sequence, whatever u holds there.

    Mixed precision (to_float, the levels of auto_mixed_precision) reaches the two projections; the rest computes in
    float32 and the scan's operands in ``operand_dtype``, the same in both modes.

    Raises:
        OpArgumentError: an argument of the constructor.
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 128,
        d_conv: int = 4,
        expand: int = 2,
        headdim: int = 64,
        ngroups: int = 1,
        chunk_size: int = 64,
        *,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_init_floor: float = 1e-4,
        dt_limit: tuple[float, float] = (0.0, math.inf),
        A_init_range: tuple[float, float] = (1.0, 16.0),
        bias: bool = False,
        conv_bias: bool = True,
        operand_dtype: str = "float16",
        seed: int | None = None,
    ):
        super().__init__()
        self.d_model = _checked_int("d_model", d_model)
        self.d_state = _checked_int("d_state", d_state, upper_bound("ssd_chunk_scan", "N"))
        self.d_conv = _checked_int("d_conv", d_conv)
        self.headdim = _checked_int("headdim", headdim, upper_bound("ssd_chunk_scan", "P"))
        self.ngroups = _checked_int("ngroups", ngroups)
        self.chunk_size = _checked_int("chunk_size", chunk_size, upper_bound("ssd_chunk_scan", "chunk_size"))
        self.d_inner = _checked_int("expand", expand) * d_model
        self.heads = _multiple("expand * d_model", self.d_inner, "headdim", headdim)
        _multiple("number of heads expand * d_model / headdim", self.heads, "ngroups", ngroups)
        if operand_dtype not in _DTYPES:
            _refuse("operand_dtype", repr(operand_dtype), " or ".join(map(repr, _DTYPES)))
        if not 0 < dt_min <= dt_max or not 0 < A_init_range[0] <= A_init_range[1]:
            _refuse("dt_min, dt_max, A_init_range", f"{dt_min}, {dt_max}, {A_init_range}", "positive, in rising order")
        if len(dt_limit) != 2 or not 0 <= dt_limit[0] < dt_limit[1]:
            _refuse("dt_limit", dt_limit, "(least, greatest), from 0 on, in rising order")
        self.dt_limit = (float(dt_limit[0]), float(dt_limit[1]))
        self.operand_dtype = _DTYPES[operand_dtype]
        self.conv_channels = self.d_inner + 2 * ngroups * d_state
        self.in_proj = nn.Dense(d_model, self.d_inner + self.conv_channels + self.heads, has_bias=bias)
        self.norm = GatedRMSNorm(self.d_inner, ngroups)
        self.out_proj = nn.Dense(self.d_inner, d_model, has_bias=bias)
        self._scan_parameters(np.random.default_rng(seed), (dt_min, dt_max, dt_init_floor), A_init_range, conv_bias)

    def _scan_parameters(self, rng: Any, steps: tuple[float, float, float], rates: Any, conv_bias: bool) -> None:
        def parameter(value: Any, name: str) -> Parameter:
            return Parameter(Tensor(np.asarray(value, np.float32)), name=name)

        bound = self.d_conv**-0.5
        dt = np.exp(rng.uniform(math.log(steps[0]), math.log(steps[1]), self.heads)).clip(min=steps[2])
        self.conv_weight = parameter(rng.uniform(-bound, bound, (self.d_conv, self.conv_channels)), "conv_weight")
        self.conv_bias = parameter(np.zeros(self.conv_channels), "conv_bias") if conv_bias else None
        self.dt_bias = parameter(dt + np.log(-np.expm1(-dt)), "dt_bias")  # softplus(dt_bias) = dt
        self.A_log = parameter(np.log(rng.uniform(*rates, self.heads)), "A_log")
        self.D = parameter(np.ones(self.heads), "D")

    def empty_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """(conv_state, ssm_state) before the first token."""
        return (
            ops.zeros((batch, self.d_conv - 1, self.conv_channels), mstype.float32),
            ops.zeros((batch, self.heads, self.headdim, self.d_state), mstype.float32),
        )

    def _project(self, u: Any) -> Any:
        """z, input of the convolution, dt; along the last axis."""
        return ops.split(self.in_proj(u), [self.d_inner, self.conv_channels, self.heads], -1)

    def _taps(self, history: Any, count: int) -> Any:
        """The last ``count`` steps of (B, count + d_conv - 1, channels), and those 1, 2, ... before, oldest first."""
        taps: Any = ()
        for tap in range(self.d_conv):
            taps = taps + (history[:, tap : tap + count],)
        return taps

    def _convolve(self, taps: Any) -> Any:
        """SiLU of the causal convolution."""
        out = taps[0] * self.conv_weight[0]
        for tap in range(1, self.d_conv):
            out = out + taps[tap] * self.conv_weight[tap]
        if self.conv_bias is not None:
            out = out + self.conv_bias
        return out * ops.sigmoid(out)

    def _split_heads(self, mixed: Any) -> Any:
        """x (..., H, P), B and C (..., G, N)."""
        group = self.ngroups * self.d_state
        x, b, c = ops.split(mixed, [self.d_inner, group, group], -1)
        lead = mixed.shape[:-1]
        shape = lead + (self.ngroups, self.d_state)
        return x.reshape(lead + (self.heads, self.headdim)), b.reshape(shape), c.reshape(shape)

    def _step_sizes(self, dt: Any) -> Any:
        """softplus(dt + dt_bias) and dt * A, float32, head on the last axis."""
        dt = ops.softplus(ops.cast(dt, mstype.float32) + self.dt_bias)
        if self.dt_limit != (0.0, math.inf):
            dt = ops.clamp(dt, self.dt_limit[0], self.dt_limit[1])
        return dt, -dt * ops.exp(self.A_log)

    def prefill(self, u: Any, conv_state: Any = None, ssm_state: Any = None, cu_seqlens: Any = None) -> Any:
        """:meth:`construct` that also returns the conv_state and ssm_state after the last step."""
        if eager():
            return self(u, conv_state, ssm_state, cu_seqlens, "states")
        return self._whole(u, conv_state, ssm_state, cu_seqlens)

    def step(self, u: Any, conv_state: Any, ssm_state: Any) -> Any:
        """One token: u (B, d_model) and the states -> (B, d_model) and the states after it. Scan in
        float32."""
        if eager():
            return self(u, conv_state, ssm_state, None, "step")
        return self._step(u, conv_state, ssm_state)

    def construct(
        self, u: Any, conv_state: Any = None, ssm_state: Any = None, cu_seqlens: Any = None, form: str = "output"
    ) -> Any:
        # In PYNATIVE_MODE the other forms come here too: a call of the cell is where the caller's precision ends.
        if form == "step":
            return self._step(u, conv_state, ssm_state)
        out, conv_state, ssm_state = self._whole(u, conv_state, ssm_state, cu_seqlens)
        if form == "states":
            return out, conv_state, ssm_state
        return out

    def _no_steps_before(self, mixed: Any, rows: Any) -> Any:
        """conv_state of ``rows`` sequences that begin here."""
        return ops.zeros((rows, self.d_conv - 1, self.conv_channels), mixed.dtype)

    def _scan(self, x: Any, da: Any, b: Any, c: Any, ssm_state: Any, cu_seqlens: Any) -> Any:
        return ssd_chunk_scan(x, da, b, c, self.chunk_size, ssm_state, cu_seqlens)

    def _whole(self, u: Any, conv_state: Any, ssm_state: Any, cu_seqlens: Any) -> Any:
        """All steps, by chunks."""
        batch, steps, _ = u.shape
        if cu_seqlens is not None:
            u = kept_steps(u, cu_seqlens)
        z, mixed, dt = self._project(u)
        if conv_state is None:
            rows = batch
            if cu_seqlens is not None:  # an expression would hide the function from source rewriting
                rows = _sequences(cu_seqlens)
            conv_state = self._no_steps_before(mixed, rows)
        conv_state = ops.cast(conv_state, mixed.dtype)
        if cu_seqlens is None:
            history = ops.concat((conv_state, mixed), 1)
            taps, conv_state = self._taps(history, steps), history[:, steps:]
        else:
            taps, conv_state = packed_taps(mixed, conv_state, cu_seqlens)
        x, b, c = self._split_heads(self._convolve(taps))
        dt, da = self._step_sizes(dt)
        kind = self.operand_dtype
        y, ssm_state = self._scan(
            ops.cast(x * ops.expand_dims(dt, -1), kind),
            ops.transpose(da, (0, 2, 1)),
            ops.cast(b, kind),
            ops.cast(c, kind),
            ssm_state,
            cu_seqlens,
        )
        y = ops.cast(y, mstype.float32) + x * ops.expand_dims(self.D, -1)
        out = self.out_proj(ops.cast(self.norm(y.reshape(batch, steps, self.d_inner), z), u.dtype))
        if cu_seqlens is not None:
            out = kept_steps(out, cu_seqlens)
        return out, ops.cast(conv_state, mstype.float32), ssm_state

    def _step(self, u: Any, conv_state: Any, ssm_state: Any) -> Any:
        z, mixed, dt = self._project(u)
        history = ops.concat((ops.cast(conv_state, mixed.dtype), ops.expand_dims(mixed, 1)), 1)
        x, b, c = self._split_heads(ops.cast(self._convolve(self._taps(history, 1))[:, 0], mstype.float32))
        repeat = self.heads // self.ngroups
        b, c = ops.repeat_interleave(b, repeat, 1), ops.repeat_interleave(c, repeat, 1)
        dt, da = self._step_sizes(dt)
        scaled = ops.expand_dims(x * ops.expand_dims(dt, -1), -1)
        decay = ops.expand_dims(ops.expand_dims(ops.exp(da), -1), -1)
        ssm_state = decay * ssm_state + scaled * ops.expand_dims(b, 2)
        y = (ssm_state * ops.expand_dims(c, 2)).sum(-1) + x * ops.expand_dims(self.D, -1)
        out = self.out_proj(ops.cast(self.norm(y.reshape(-1, self.d_inner), z), u.dtype))
        return out, ops.cast(history[:, 1:], mstype.float32), ssm_state
