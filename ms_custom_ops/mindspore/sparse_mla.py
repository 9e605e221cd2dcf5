# SPDX-License-Identifier: Apache-2.0
"""Multi-head latent attention over the tokens that a learned indexer selects."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.mindspore.precision import OwnPrecision
from ms_custom_ops.mindspore.sparse_attention import indexer_kl_loss, lightning_indexer, sparse_flash_attention
from ms_custom_ops.registry.bounds import upper_bound
from ms_custom_ops.soc.table import CUBE_BLOCK

__all__ = ["SparseMLA"]

_LAYER = "nn.SparseMLA"
_ATTENTION, _INDEXER = "sparse_flash_attention", "lightning_indexer"
_DTYPES = {"float16": mstype.float16, "bfloat16": mstype.bfloat16}


def _refuse(argument: str, given: object, accepted: object) -> None:
    raise OpArgumentError(describe(_LAYER, argument, given, accepted))


def _size(name: str, value: Any, most: int | None = None, unit: int = 1) -> int:
    wrong = isinstance(value, bool) or not isinstance(value, int) or value < unit or value % unit
    if wrong or (most is not None and value > most):
        kind = "an int" if unit == 1 else f"a multiple of {unit}"
        _refuse(name, repr(value), f"{kind} of at least {unit}" if most is None else f"{kind} from {unit} to {most}")
    return value


@ops.constexpr
def _check_call(shape, hidden_size, max_length, lengths):
    if len(shape) != 3 or shape[2] != hidden_size or not 1 <= shape[1] <= max_length or shape[0] < 1:
        _refuse(
            "x",
            f"of shape {tuple(shape)}",
            f"(B, S, {hidden_size}) with B of at least 1 and S from 1 to max_length = {max_length}",
        )
    if lengths is not None and tuple(lengths) != (shape[0],):
        _refuse("lengths", f"of shape {tuple(lengths)}", f"({shape[0]},), the tokens of each sequence")


def _kept_tokens(x: Any, lengths: Any) -> Any:
    """x (B, S, ...) with zeros, whatever it held, from the length of each sequence on: 0 times NaN would reach the
    gradient of every weight."""
    tokens = ops.expand_dims(ops.cast(ops.arange(x.shape[1]), mstype.int32), 0)
    inside = tokens < ops.expand_dims(ops.cast(ops.stop_gradient(lengths), mstype.int32), 1)
    return ops.where(ops.expand_dims(inside, 2), x, ops.zeros_like(x))


def _rms_norm(x: Any, weight: Any, epsilon: float) -> Any:
    return x * ops.rsqrt(ops.square(x).mean(-1, keep_dims=True) + epsilon) * weight


def _rotate(x: Any, cos: Any, sin: Any) -> Any:
    """Rotary embedding of (B, S, N, R); halves are the two coordinates. cos, sin: (S, 1, R / 2)."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return ops.concat((a * cos - b * sin, b * cos + a * sin), -1)


def _heads_matmul(x: Any, weight: Any) -> Any:
    """(B, S, N, I) by (N, I, O), a matrix for each head -> (B, S, N, O)."""
    batch, tokens, heads, _ = x.shape
    rows = ops.transpose(x, (2, 0, 1, 3)).reshape(heads, batch * tokens, -1)
    return ops.transpose(ops.bmm(rows, weight).reshape(heads, batch, tokens, -1), (1, 2, 0, 3))


class SparseMLA(OwnPrecision):
    """Causal multi-head latent attention with a lightning indexer, as in DeepSeek-V3.2 (names are those of its
    configuration). The weights W_UK and W_UV are absorbed into queries and output, so that attention runs on the
    latent: one key head of kv_lora_rank + qk_rope_head_dim.

    Training has two phases, chosen by the argument ``dense`` of the call. Dense warm-up: every visible token is
    selected, and the indexer learns the whole attention distribution. Sparse: the indexer selects index_topk tokens.
    The indexer gets its gradient from the KL loss alone, and the KL loss reaches nothing but the indexer.

    Args:
        hidden_size: width of input and output.
        num_heads: query heads, 1 to 128.
        q_lora_rank, kv_lora_rank: sizes of the query and the key-value latent; kv_lora_rank a multiple of 16, at most
            512.
        qk_nope_head_dim, qk_rope_head_dim: sizes of a query head without and with rotary embedding; qk_rope_head_dim a
            multiple of 16, at most 64.
        v_head_dim: size of an output head.
        index_n_heads, index_head_dim: heads of the indexer, 1 to 128, and their size, a multiple of 16, at most 256
            and at least qk_rope_head_dim, its rotary part.
        index_topk: tokens that a query attends to in the sparse phase, 1 to 8192.
        max_length: tokens of the longest sequence.
        rope_theta: base of the rotary frequencies.
        scale: factor on the scores; None: (qk_nope_head_dim + qk_rope_head_dim)^-0.5.
        epsilon: of the norms.
        operand_dtype: "float16", or "bfloat16" on split-core chips: dtype of the operands of the kernels. Everything
            else keeps the dtype of the weights, float32, under mixed precision too.
        deterministic: one core per sequence adds to the gradients of the latent.
        seed: of the initial weights; None draws new ones.

    Inputs:
        x (B, S, hidden_size); lengths int32 (B,), tokens of each sequence, or None for all; dense, a bool, the phase.

    Outputs:
        (B, S, hidden_size), rows beyond lengths 0; the KL loss of the indexer, a float32 scalar, the mean over queries.

    Raises:
        OpArgumentError: an argument of the constructor, or the shape of an input.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *,
        q_lora_rank: int,
        kv_lora_rank: int,
        qk_nope_head_dim: int,
        qk_rope_head_dim: int,
        v_head_dim: int,
        index_n_heads: int,
        index_head_dim: int,
        index_topk: int,
        max_length: int,
        rope_theta: float = 10000.0,
        scale: float | None = None,
        epsilon: float = 1e-6,
        operand_dtype: str = "float16",
        deterministic: bool = False,
        seed: int | None = None,
    ):
        super().__init__()
        self.hidden_size = _size("hidden_size", hidden_size)
        self.num_heads = _size("num_heads", num_heads, upper_bound(_ATTENTION, "N1 // N2"))
        self.q_rank = _size("q_lora_rank", q_lora_rank)
        self.kv_rank = _size("kv_lora_rank", kv_lora_rank, upper_bound(_ATTENTION, "D"), CUBE_BLOCK)
        self.nope_dim = _size("qk_nope_head_dim", qk_nope_head_dim)
        self.rope_dim = _size("qk_rope_head_dim", qk_rope_head_dim, upper_bound(_ATTENTION, "R"), CUBE_BLOCK)
        self.v_dim = _size("v_head_dim", v_head_dim)
        self.index_heads = _size("index_n_heads", index_n_heads, upper_bound(_INDEXER, "N1"))
        self.index_dim = _size("index_head_dim", index_head_dim, upper_bound(_INDEXER, "D"), CUBE_BLOCK)
        most = upper_bound(_INDEXER, "sparse_count")
        self.index_topk = _size("index_topk", index_topk, most)
        # The dense phase selects every token.
        self.max_length = _size("max_length", max_length, most)
        if self.index_dim < self.rope_dim:
            _refuse("index_head_dim", index_head_dim, f"at least qk_rope_head_dim = {qk_rope_head_dim}")
        if operand_dtype not in _DTYPES:
            _refuse("operand_dtype", repr(operand_dtype), " or ".join(map(repr, _DTYPES)))
        self.kind = _DTYPES[operand_dtype]
        self.scale = (self.nope_dim + self.rope_dim) ** -0.5 if scale is None else float(scale)
        self.index_scale = (self.index_heads * self.index_dim) ** -0.5
        self.epsilon = float(epsilon)
        self.deterministic = bool(deterministic)
        self._parameters_of(np.random.default_rng(seed))
        self._rotary_tables(rope_theta)

    def _parameters_of(self, rng: Any) -> None:
        """Weights normal with deviation 1 / sqrt(fan in), norms the identity."""

        def matrix(name: str, *shape: int) -> Parameter:
            value = rng.normal(0.0, shape[-2] ** -0.5, shape)
            return Parameter(Tensor(value.astype(np.float32)), name=name)

        def constant(name: str, size: int, value: float) -> Parameter:
            return Parameter(Tensor(np.full(size, value, np.float32)), name=name)

        heads, index = self.num_heads, self.index_heads * self.index_dim
        self.w_dq = matrix("w_dq", self.hidden_size, self.q_rank)
        self.q_norm = constant("q_norm", self.q_rank, 1.0)
        self.w_uq = matrix("w_uq", self.q_rank, heads * (self.nope_dim + self.rope_dim))
        self.w_dkv = matrix("w_dkv", self.hidden_size, self.kv_rank + self.rope_dim)
        self.kv_norm = constant("kv_norm", self.kv_rank, 1.0)
        # W_UK maps the latent to a key; the query goes through its transpose.
        uk = rng.normal(0.0, self.kv_rank**-0.5, (heads, self.nope_dim, self.kv_rank))
        self.w_uk = Parameter(Tensor(uk.astype(np.float32)), name="w_uk")
        self.w_uv = matrix("w_uv", heads, self.kv_rank, self.v_dim)
        self.w_o = matrix("w_o", heads * self.v_dim, self.hidden_size)
        self.index_wq = matrix("index_wq", self.q_rank, index)
        self.index_wk = matrix("index_wk", self.hidden_size, self.index_dim)
        self.index_norm = constant("index_norm", self.index_dim, 1.0)
        self.index_bias = constant("index_bias", self.index_dim, 0.0)
        self.index_ww = matrix("index_ww", self.hidden_size, self.index_heads)

    def _rotary_tables(self, theta: float) -> None:
        half = self.rope_dim // 2
        angles = np.arange(self.max_length)[:, None] * float(theta) ** (-np.arange(half) / half)
        self.cos = Tensor(np.cos(angles).astype(np.float32)[:, None])
        self.sin = Tensor(np.sin(angles).astype(np.float32)[:, None])

    def indexer_parameters(self) -> list[Parameter]:
        """The parameters that the KL loss trains."""
        return [self.index_wq, self.index_wk, self.index_norm, self.index_bias, self.index_ww]

    def latents(self, x: Any) -> Any:
        """Query latent (B, S, q_lora_rank), key-value latent (B, S, kv_lora_rank), key rotary part (B, S, 1, R)."""
        tokens = x.shape[1]
        down = ops.matmul(x, self.w_dkv)
        rope = ops.expand_dims(down[..., self.kv_rank :], 2)
        return (
            _rms_norm(ops.matmul(x, self.w_dq), self.q_norm, self.epsilon),
            _rms_norm(down[..., : self.kv_rank], self.kv_norm, self.epsilon),
            _rotate(rope, self.cos[:tokens], self.sin[:tokens]),
        )

    def queries(self, latent: Any) -> Any:
        """Of the query latent: queries before absorption (B, S, N, nope) and their rotary part (B, S, N, R)."""
        batch, tokens, _ = latent.shape
        heads = ops.matmul(latent, self.w_uq).reshape(batch, tokens, self.num_heads, self.nope_dim + self.rope_dim)
        rope = _rotate(heads[..., self.nope_dim :], self.cos[:tokens], self.sin[:tokens])
        return heads[..., : self.nope_dim], rope

    def index_operands(self, x: Any, latent: Any) -> Any:
        """Of the input and the query latent, as constants: index queries (B, S, Ni, Di), index keys (B, S, 1, Di) and
        weights (B, S, Ni) float32."""
        batch, tokens, _ = x.shape
        x, latent = ops.stop_gradient(x), ops.stop_gradient(latent)
        query = ops.matmul(latent, self.index_wq).reshape(batch, tokens, self.index_heads, self.index_dim)
        key = ops.matmul(x, self.index_wk)
        centred = key - key.mean(-1, keep_dims=True)
        key = ops.expand_dims(_rms_norm(centred, self.index_norm, self.epsilon) + self.index_bias, 2)
        return (
            ops.cast(self._index_rotate(query), self.kind),
            ops.cast(self._index_rotate(key), self.kind),
            ops.cast(ops.matmul(x, self.index_ww), mstype.float32) * self.index_scale,
        )

    def _index_rotate(self, x: Any) -> Any:
        """The rotary part of an index head comes first."""
        tokens = x.shape[1]
        rotated = _rotate(x[..., : self.rope_dim], self.cos[:tokens], self.sin[:tokens])
        if self.index_dim == self.rope_dim:
            return rotated
        return ops.concat((rotated, x[..., self.rope_dim :]), -1)

    def select(self, index_operands: Any, lengths: Any = None, dense: bool = False) -> Any:
        """int32 tokens (B, S, 1, K) that each query attends to, for the result of :meth:`index_operands`."""
        query, key, weights = index_operands
        if not dense:
            return lightning_indexer(
                query,
                key,
                weights,
                actual_seq_lengths_query=lengths,
                actual_seq_lengths_key=lengths,
                sparse_count=self.index_topk,
            )[0]
        batch, tokens = query.shape[0], query.shape[1]
        every = ops.arange(0, tokens, dtype=mstype.int32).reshape(1, 1, 1, tokens)
        return ops.broadcast_to(every, (batch, tokens, 1, tokens))

    def construct(self, x: Any, lengths: Any = None, dense: bool = False) -> Any:
        _check_call(x.shape, self.hidden_size, self.max_length, None if lengths is None else lengths.shape)
        batch, tokens, _ = x.shape
        given = x.dtype
        x = ops.cast(x, self.w_dq.dtype)
        if lengths is not None:
            x = _kept_tokens(x, lengths)
        q_latent, kv_latent, key_rope = self.latents(x)
        nope, query_rope = self.queries(q_latent)
        query = ops.cast(_heads_matmul(nope, self.w_uk), self.kind)
        key = ops.cast(ops.expand_dims(kv_latent, 2), self.kind)
        query_rope, key_rope = ops.cast(query_rope, self.kind), ops.cast(key_rope, self.kind)
        operands = self.index_operands(x, q_latent)
        indices = self.select(operands, lengths, dense)
        out, top, total = sparse_flash_attention(
            query,
            key,
            None,
            indices,
            self.scale,
            actual_seq_lengths_query=lengths,
            actual_seq_lengths_kv=lengths,
            query_rope=query_rope,
            key_rope=key_rope,
            return_softmax_lse=True,
            deterministic=self.deterministic,
        )
        loss = indexer_kl_loss(
            query,
            key,
            operands[0],
            operands[1],
            operands[2],
            indices,
            top,
            total,
            query_rope,
            key_rope,
            lengths,
            lengths,
            scale_value=self.scale,
            deterministic=self.deterministic,
        )
        rows = batch * tokens if lengths is None else ops.maximum(ops.cast(lengths.sum(), mstype.float32), 1.0)
        heads = _heads_matmul(ops.cast(out, self.w_uv.dtype), self.w_uv)
        result = ops.matmul(heads.reshape(batch, tokens, self.num_heads * self.v_dim), self.w_o)
        if lengths is not None:  # what an output gradient holds there reaches no weight either
            result = _kept_tokens(result, lengths)
        return ops.cast(result, given), loss / rows
