# SPDX-License-Identifier: Apache-2.0
"""Functions of the ops: generated from op_info/*.yaml by ms-custom-ops gen; do not edit.

They call the primitives with names and defaults, in construct as in plain Python. Padding, mask
forms and empty batches are the business of ms_custom_ops.ops, which calls these.
"""
from __future__ import annotations

from mindspore import Tensor

from ms_custom_ops.mindspore.custom import ABSENT, prim_cache
from ms_custom_ops.mco_generated_ops_primitives import (
    BwdDadtCumsum, BwdDadtFused, BwdDtrapDdt, BwdSegsumDadt, DacsSegsum, FlashAttention, FlashAttentionGrad,
    LightningIndexer, Mamba3ChunkScan, Mamba3ChunkScanGrad, SegsumDecay, SparseFlashAttention,
    SparseFlashAttentionGrad, SparseLightningIndexerGradKlLoss, SsdChunkScan, SsdChunkScanGrad)


def bwd_dadt_cumsum(
    ddA_cs: Tensor, ddA_cs_rev: Tensor, dA_cs: Tensor, dA_cs_rev: Tensor, *, chunk_size: int) -> Tensor:
    """Gradient of da through exp(dA_cs) and exp(dA_cs_rev): dadt[k] = sum over i >= k of exp(dA_cs[i]) *
    ddA_cs[i] + sum over i < k of exp(dA_cs_rev[i]) * ddA_cs_rev[i], inside each chunk.

    This is the primitive: the public function fills the last chunk and chunks below 16 steps up, and brings
    packed sequences into chunk slots, before it comes here.

    Args:
        ddA_cs: (B, H, S) F32. gradient of exp(dA_cs); S a multiple of chunk_size
        ddA_cs_rev: (B, H, S) F32. gradient of exp(dA_cs_rev)
        dA_cs: (B, H, S) F32. sums of da up to and with each step (dacs_segsum)
        dA_cs_rev: (B, H, S) F32. sums of da after each step (dacs_segsum)
        chunk_size: int. steps per chunk, C

    Returns:
        dadt: (B, H, S) F32. gradient of da

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and S >= 1: empty batches are answered by the public function
            * 16 <= chunk_size <= 256: smaller chunks are filled up by the public function
            * S % chunk_size == 0: the public function fills the last chunk up
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = ()
    primitive = prim_cache(BwdDadtCumsum)(present, chunk_size)
    return primitive(ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev)


def bwd_dadt_fused(
    dSSdA: Tensor, SSdA: Tensor, ddA_cs: Tensor, ddA_cs_rev: Tensor, dA_cs: Tensor, dA_cs_rev: Tensor,
    lengths: Tensor | None = None, *, chunk_size: int) -> Tensor:
    """Whole gradient of da in a chunk: bwd_dadt_cumsum of the running sums plus bwd_segsum_dadt of the segment
    sums.

    This is the primitive: the public function fills chunks below 16 steps up, and brings ragged and packed
    sequences into chunk slots, before it comes here.

    Args:
        dSSdA: (B, H, N, C, C) F32 | F16 | BF16. gradient of exp(SSdA), indexed (key, query)
        SSdA: (B, H, N, C, C) F32 | F16 | BF16. segment sums, indexed (query, key)
        ddA_cs: (B, H, S) F32. gradient of exp(dA_cs)
        ddA_cs_rev: (B, H, S) F32. gradient of exp(dA_cs_rev)
        dA_cs: (B, H, S) F32. sums of da up to and with each step
        dA_cs_rev: (B, H, S) F32. sums of da after each step
        lengths: (NP) I32, optional. steps that count in each of the N chunks, padded to NP with anything
        chunk_size: int. steps per chunk, C

    Returns:
        dadt: (B, H, S) F32. gradient of da

    Where:
        S = N * C
        NP = (N + 7) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and N >= 1: empty batches are answered by the public function
            * chunk_size == C: the matrices are one chunk wide
            * 16 <= C <= 256: smaller chunks are filled up by the public function
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (lengths is not None,)
    lengths = ABSENT if lengths is None else lengths
    primitive = prim_cache(BwdDadtFused)(present, chunk_size)
    return primitive(dSSdA, SSdA, ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, lengths)


def bwd_dtrap_ddt(
    trap: Tensor, dt: Tensor, dfactor: Tensor, dgamma_diag: Tensor,
    cu_seqlens: Tensor | None = None) -> tuple[Tensor, ...]:
    """Gradients of dt and trap from those of the trapezoid's factors. With s = sigmoid(trap) and f = dfactor of
    the step before, 0 at the first step of a sequence: ddt = f*(1-s) + (dfactor+dgamma_diag)*s and dtrap =
    (dfactor+dgamma_diag-f)*dt*s*(1-s).

    Args:
        trap: (B, H, S) F32. trapezoid weight before the sigmoid
        dt: (B, H, S) F32. step sizes
        dfactor: (B, H, S) F32. gradient of gamma[t] + (1-s[t+1])*dt[t+1], gamma = s*dt
        dgamma_diag: (B, H, S) F32. gradient of gamma on the diagonal
        cu_seqlens: (Q) I32, optional. first steps of packed sequences and S at the end, padded with 0

    Returns:
        ddt: (B, H, S) F32. gradient of dt
        dtrap: (B, H, S) F32. gradient of trap

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B * H * S >= 8: smaller inputs are filled up by the public function
            * Q % 8 == 0: data_move moves whole 32-byte blocks
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (cu_seqlens is not None,)
    cu_seqlens = ABSENT if cu_seqlens is None else cu_seqlens
    primitive = prim_cache(BwdDtrapDdt)(present)
    return primitive(trap, dt, dfactor, dgamma_diag, cu_seqlens)


def bwd_segsum_dadt(
    dSSdA: Tensor, SSdA: Tensor, ddt_out: Tensor, lengths: Tensor | None = None, *, chunk_size: int,
    layout: str = "key_query") -> Tensor:
    """Gradient of da through exp(segment sums), added to ddt_out: ddt[c*C+k] = ddt_out[c*C+k] + sum over j < k
    <= i of dSSdA[c,j,i] * exp(SSdA[c,i,j]).

    This is the primitive: the public function fills chunks below 16 steps up, and brings ragged and packed
    sequences into chunk slots, before it comes here. Only entries with query > key are read; anything may be
    in the others.

    Args:
        dSSdA: (B, H, N, C, C) F32 | F16 | BF16. gradient of exp(SSdA), indexed (key, query), or as layout
            says
        SSdA: (B, H, N, C, C) F32 | F16 | BF16. segment sums (logarithm of the decay), indexed (query, key)
        ddt_out: (B, H, S) F32 | F16 | BF16. what the gradient is added to
        lengths: (NP) I32, optional. steps that count in each of the N chunks, padded to NP with anything
        chunk_size: int. steps per chunk, C
        layout: str, default "key_query". index order of dSSdA: key_query or query_key

    Returns:
        ddt: (B, H, S) F32 | F16 | BF16. ddt_out plus the gradient

    Where:
        S = N * C
        NP = (N + 7) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and N >= 1: empty batches are answered by the public function
            * chunk_size == C: the matrices are one chunk wide
            * 16 <= C <= 256: smaller chunks are filled up by the public function
            * layout in ('key_query', 'query_key'): the known index orders
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (lengths is not None,)
    lengths = ABSENT if lengths is None else lengths
    primitive = prim_cache(BwdSegsumDadt)(present, chunk_size, layout)
    return primitive(dSSdA, SSdA, ddt_out, lengths)


def dacs_segsum(da: Tensor, *, chunk_size: int) -> tuple[Tensor, ...]:
    """Sums of da inside chunks: da_cs[i] = sum over k <= i, da_cs_rev[i] = sum over k > i, segsum[i,j] = sum
    over j < k <= i for i > j and 0 elsewhere; each clamped at 0 from above.

    This is the primitive: the public function fills the last chunk and chunks below 16 steps up, and brings
    packed sequences into chunk slots, before it comes here.

    Args:
        da: (B, H, S) F32. log-decay of each step, S a multiple of chunk_size
        chunk_size: int. steps per chunk, C

    Returns:
        da_cs: (B, H, S) F32. sums up to and with each step
        da_cs_rev: (B, H, S) F32. sums after each step
        segsum: (B, H, N, chunk_size, chunk_size) F32. sums between steps, indexed (query, key)

    Where:
        N = S // chunk_size

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and S >= 1: empty batches are answered by the public function
            * 16 <= chunk_size <= 256: smaller chunks are filled up by the public function
            * S % chunk_size == 0: the public function fills the last chunk up
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = ()
    primitive = prim_cache(DacsSegsum)(present, chunk_size)
    return primitive(da)


def flash_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, attention_out: Tensor, d_attention_out: Tensor,
    softmax_max: Tensor, softmax_sum: Tensor, d_softmax_max: Tensor, d_softmax_sum: Tensor,
    attn_mask: Tensor | None = None, real_shift: Tensor | None = None, drop_mask: Tensor | None = None,
    actual_seq_qlen: Tensor | None = None, actual_seq_kvlen: Tensor | None = None,
    seed_words: Tensor | None = None, row_bounds: Tensor | None = None, *, scale_value: float = 1.0,
    keep_prob: float = 1.0, seed: int = 0, sparse_mode: int = 0, pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647, prev_block_num: int = 65536, next_block_num: int = 65536,
    tiling_stgy_name: str = "auto", high_precision: bool = True) -> tuple[Tensor, ...]:
    """Gradient of flash_attention for query, key, value and real_shift, from those of its three results.

    The weights are recomputed from softmax_max and softmax_sum, block by block; masks, dropout and bias must
    be those of the forward call.

    Args:
        query: (B, N1, S1, D) F16 | BF16. queries
        key: (B, N2, S2, D) F16 | BF16. keys; N1 is a multiple of N2 (grouped heads)
        value: (B, N2, S2, D) F16 | BF16. values
        attention_out: (B, N1, S1, D) F16 | BF16. attention_out of the forward call
        d_attention_out: (B, N1, S1, D) F16 | BF16. gradient of attention_out
        softmax_max: (B, N1, S1P) F32. softmax_max of the forward call
        softmax_sum: (B, N1, S1P) F32. softmax_sum of the forward call
        d_softmax_max: (B, N1, S1P) F32. gradient of softmax_max
        d_softmax_sum: (B, N1, S1P) F32. gradient of softmax_sum
        attn_mask: (1|B, 1|N1, S1, S2P) F16, optional. 1 = masked, 0 = kept
        real_shift: (B, N1, SR, S2P) F16 | BF16, optional. added to the scaled scores (ALiBi, relative
            positions)
        drop_mask: (B, N1, S1, S2P) F16, optional. 1 = kept, 0 = dropped; takes the place of seed
        actual_seq_qlen: (BP) I32, optional. query length of each batch, padded to BP with anything
        actual_seq_kvlen: (BP) I32, optional. key length of each batch, padded to BP with anything
        seed_words: (8) I32, optional. low and high word of a 64-bit seed, row and column of the first query
            and key among those of a longer sequence, then padding; takes the place of seed
        row_bounds: (2, S1P) I32, optional. first and one past the last key that each row sees, both non-
            decreasing along the rows; of all batches
        scale_value: float, default 1.0. factor on the scores, applied inside
        keep_prob: float, default 1.0. probability to keep a weight; kept ones are divided by it
        seed: int, default 0. seed of the counter-based dropout
        sparse_mode: int, default 0. 0 none, 3 causal aligned to the lower right, 4 band of pre_tokens and
            next_tokens
        pre_tokens: int, default 2147483647. mode 4: keys kept to the left of the diagonal
        next_tokens: int, default 2147483647. mode 4: keys kept to the right of the diagonal
        prev_block_num: int, default 65536. blocks of 128 keys kept before the query's block
        next_block_num: int, default 65536. blocks of 128 keys kept after the query's block
        tiling_stgy_name: str, default "auto". block sizes: auto, sparse, wukong or xunfei
        high_precision: bool, default True. exponent, sum and output accumulate in float32

    Returns:
        d_query: (B, N1, S1, D) F16 | BF16. gradient of query
        d_key: (B, N2, S2, D) F16 | BF16. gradient of key
        d_value: (B, N2, S2, D) F16 | BF16. gradient of value
        d_real_shift: (B, N1, SR, S2P) F32. gradient of real_shift

    Where:
        S1P = (S1 + 15) // 16 * 16
        S2P = (S2 + 15) // 16 * 16
        BP = (B + 7) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and N1 >= 1 and N2 >= 1: empty batches are answered by the public function
            * S1 >= 1 and S2 >= 1: sequences have at least one token
            * N1 % N2 == 0: query heads must be a multiple of key heads
            * not present(real_shift) or SR == 1 or SR == S1: real_shift has one row for all queries, or one
                for each
            * D % 16 == 0 and 16 <= D <= 256: the head size is padded to a multiple of 16 and at most 256
            * 0 < keep_prob <= 1: a probability, not 0
            * 0 <= seed < 9223372036854775808: a non-negative 64-bit seed
            * sparse_mode in (0, 3, 4): 0 none, 3 causal, 4 band
            * pre_tokens + next_tokens >= 0 or sparse_mode != 4: the band must not be empty
            * prev_block_num >= 0 and next_block_num >= 0: counts of blocks
            * tiling_stgy_name in ('auto', 'sparse', 'wukong', 'xunfei'): the known tiling strategies
            * not present(row_bounds) or (S1 < 16777216 and S2 < 16777216): float32 tells positions apart up
                to 2^24
            * high_precision or dtype(query) != 'BF16': bfloat16 always accumulates in float32
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        attn_mask is not None, real_shift is not None, drop_mask is not None, actual_seq_qlen is not None,
        actual_seq_kvlen is not None, seed_words is not None, row_bounds is not None)
    attn_mask = ABSENT if attn_mask is None else attn_mask
    real_shift = ABSENT if real_shift is None else real_shift
    drop_mask = ABSENT if drop_mask is None else drop_mask
    actual_seq_qlen = ABSENT if actual_seq_qlen is None else actual_seq_qlen
    actual_seq_kvlen = ABSENT if actual_seq_kvlen is None else actual_seq_kvlen
    seed_words = ABSENT if seed_words is None else seed_words
    row_bounds = ABSENT if row_bounds is None else row_bounds
    primitive = prim_cache(FlashAttentionGrad)(
        present, scale_value, keep_prob, seed, sparse_mode, pre_tokens, next_tokens, prev_block_num,
        next_block_num, tiling_stgy_name, high_precision)
    return primitive(
        query, key, value, attention_out, d_attention_out, softmax_max, softmax_sum, d_softmax_max,
        d_softmax_sum, attn_mask, real_shift, drop_mask, actual_seq_qlen, actual_seq_kvlen, seed_words,
        row_bounds)


def lightning_indexer(
    query: Tensor, key: Tensor, weights: Tensor, actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_key: Tensor | None = None, block_table: Tensor | None = None, *,
    layout_query: str = "BSND", layout_key: str = "BSND", sparse_count: int = 2048,
    sparse_mode: int = 3) -> tuple[Tensor, ...]:
    """The sparse_count best keys of every query row by sum over heads of weight * relu(query . key).

    This is the primitive: the public function gives TND tensors a batch axis of 1, pads weights, lengths and
    page tables and cuts the index rows.

    Args:
        query: (B, S1, N1, D) F16 | BF16. index queries; TND: one batch entry of T1 rows
        key: (BK, S2, 1, D) F16 | BF16. index keys, likewise; paged: (blocks, block_size, 1, D)
        weights: (B, S1, NP) F32. weight of each head, padded to NP with anything
        actual_seq_lengths_query: (BP) I32, optional. BSND: tokens of each sequence; TND: inclusive prefix
            sums, padded by repeating the last
        actual_seq_lengths_key: (BP) I32, optional. likewise; always tokens of each sequence for paged keys
        block_table: (BT, MP) I32, optional. pages of each sequence; rows padded to a multiple of 8 with
            anything
        layout_query: str, default "BSND". BSND or TND
        layout_key: str, default "BSND". layout_query, or PA_BSND
        sparse_count: int, default 2048. keys to select
        sparse_mode: int, default 3. 0 none, 3 causal aligned to the lower right

    Returns:
        sparse_indices: (B, S1, 1, KP) I32. tokens, best first, equal scores by ascending token; then -1
        sparse_values: (B, S1, 1, KP) F32. their scores; then 0

    Where:
        NP = (N1 + 15) // 16 * 16
        KP = (sparse_count + 7) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * S1 >= 1 and S2 >= 1 and B >= 1 and BK >= 1: empty tensors are answered by the public function
            * 1 <= N1 <= 128: 1 to 128 index heads
            * D % 16 == 0 and 16 <= D <= 256: the head size is a multiple of 16 and at most 256
            * 1 <= sparse_count <= 8192: 1 to 8192 keys
            * layout_query in ('BSND', 'TND'): the known layouts
            * layout_key == layout_query or layout_key == 'PA_BSND': keys have the layout of query, or are
                paged
            * layout_query != 'TND' or (B == 1 and present(actual_seq_lengths_query) and
                present(actual_seq_lengths_key)): TND needs both prefix sums
            * layout_key == 'PA_BSND' or BK == B: as many key sequences as query sequences
            * layout_key != 'PA_BSND' or (present(block_table) and present(actual_seq_lengths_key)): paged
                keys need block_table and actual_seq_lengths_key
            * layout_key == 'PA_BSND' or not present(block_table): block_table is for paged keys
            * not present(block_table) or (MP % 8 == 0 and S2 % 16 == 0): pages of a multiple of 16 tokens,
                page rows padded to 8
            * sparse_mode in (0, 3): 0 none, 3 causal aligned to the lower right
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        actual_seq_lengths_query is not None, actual_seq_lengths_key is not None, block_table is not None)
    actual_seq_lengths_query = ABSENT if actual_seq_lengths_query is None else actual_seq_lengths_query
    actual_seq_lengths_key = ABSENT if actual_seq_lengths_key is None else actual_seq_lengths_key
    block_table = ABSENT if block_table is None else block_table
    primitive = prim_cache(LightningIndexer)(present, layout_query, layout_key, sparse_count, sparse_mode)
    return primitive(query, key, weights, actual_seq_lengths_query, actual_seq_lengths_key, block_table)


def mamba3_chunk_scan_grad(
    v: Tensor, da: Tensor, factor: Tensor, gamma: Tensor, k: Tensor, q: Tensor, initial_states: Tensor,
    d_o: Tensor, d_final_states: Tensor, first_chunks: Tensor | None = None, *, chunk_size: int = 64,
    rank: int = 1) -> tuple[Tensor, ...]:
    """Gradient of mamba3_chunk_scan for all its inputs.

    The states between chunks are recomputed. Sums over the heads that share k and q have one fixed order.

    Args:
        v: (B, S, H, P) F16 | BF16. values; S counts (step, rank) pairs, rank fastest
        da: (B, H, S) F32. log of the decay of each step, 0 for all ranks but the first
        factor: (B, H, S) F32. weight with which a row reaches later steps
        gamma: (B, H, S) F32. weight with which a row reaches its own step
        k: (B, S, G, N) F16 | BF16. keys; head i uses group i // (H / G)
        q: (B, S, G, N) F16 | BF16. queries
        initial_states: (NS, H, P, N) F32. state before the first step
        d_o: (B, S, H, P) F16 | BF16. gradient of o
        d_final_states: (NS, H, P, N) F32. gradient of final_states
        first_chunks: (FP) I32, optional. packed batch: first chunk of each of the NS sequences and the number
            of chunks; padded with anything
        chunk_size: int, default 64. rows per chunk; the result does not depend on it beyond rounding
        rank: int, default 1. rows per step

    Returns:
        d_v: (B, S, H, P) F16 | BF16. gradient of v
        d_da: (B, H, S) F32. gradient of da
        d_factor: (B, H, S) F32. gradient of factor
        d_gamma: (B, H, S) F32. gradient of gamma
        d_k: (B, S, G, N) F16 | BF16. gradient of k
        d_q: (B, S, G, N) F16 | BF16. gradient of q
        d_initial_states: (NS, H, P, N) F32. gradient of initial_states

    Where:
        FP = (NS + 8) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and G >= 1 and NS >= 1: empty batches are answered by the public function
            * H % G == 0: heads must be a multiple of the groups of b and c
            * chunk_size >= 16 and chunk_size <= 256 and chunk_size % 16 == 0: 16 to 256, a multiple of 16
            * S >= 1 and S % chunk_size == 0: whole chunks; the public function pads
            * P % 16 == 0 and 16 <= P <= 128: the head size is padded to a multiple of 16 and at most 128
            * N % 16 == 0 and 16 <= N <= 256: the state size is padded to a multiple of 16 and at most 256
            * H * P <= 65520 and G * N <= 65520: elements of one step
            * NS == B or present(first_chunks): one state per batch entry, or a packed batch
            * B == 1 or not present(first_chunks): a packed batch has one row
            * rank in (1, 2, 4, 8, 16): a divisor of 16; the public function pads
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (first_chunks is not None,)
    first_chunks = ABSENT if first_chunks is None else first_chunks
    primitive = prim_cache(Mamba3ChunkScanGrad)(present, chunk_size, rank)
    return primitive(v, da, factor, gamma, k, q, initial_states, d_o, d_final_states, first_chunks)


def sparse_flash_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, sparse_indices: Tensor, d_out: Tensor, attention_out: Tensor,
    softmax_max: Tensor, softmax_sum: Tensor, sinks: Tensor | None = None,
    actual_seq_lengths_query: Tensor | None = None, actual_seq_lengths_kv: Tensor | None = None,
    query_rope: Tensor | None = None, key_rope: Tensor | None = None, d_softmax_max: Tensor | None = None,
    d_softmax_sum: Tensor | None = None, *, scale_value: float = 1.0, sparse_block_size: int = 1,
    sparse_mode: int = 3, rope_dim: int = 0, pre_tokens: int = 9223372036854775807,
    next_tokens: int = 9223372036854775807, attention_mode: int = 0, layout: str = "BSND",
    deterministic: bool = False, kv_merged: bool = False) -> tuple[Tensor, ...]:
    """Gradient of sparse_flash_attention.

    The weights are recomputed from softmax_max and softmax_sum, tile by tile. The gradients of the keys are
    sums over query rows and come in float32; rows never selected are exactly 0.

    Args:
        query: (B, S1, N1, D) F16 | BF16. queries; TND: one batch entry of T1 rows
        key: (BK, S2, N2, D) F16 | BF16. keys, likewise; paged: (blocks, block_size, N2, D)
        value: (BK, S2, N2, DV) F16 | BF16. values
        sparse_indices: (B, S1, N2, K) I32. ids of key blocks within the sequence; the first negative one ends
            the row
        d_out: (B, S1, N1, DV) F16 | BF16. gradient of attention_out
        attention_out: (B, S1, N1, DV) F16 | BF16. attention_out of the forward call
        softmax_max: (B, N2, S1, GP) F32. softmax_max of the forward call
        softmax_sum: (B, N2, S1, GP) F32. softmax_sum of the forward call
        sinks: (B, N2, S1, GP) F32, optional. a score per head without a value, as in the statistics
        actual_seq_lengths_query: (BP) I32, optional. BSND: tokens of each sequence; TND: inclusive prefix
            sums, padded by repeating the last
        actual_seq_lengths_kv: (BP) I32, optional. likewise; always tokens of each sequence for paged keys
        query_rope: (B, S1, N1, rope_dim) F16 | BF16, optional. rotary part of the queries
        key_rope: (BK, S2, N2, rope_dim) F16 | BF16, optional. rotary part of the keys
        d_softmax_max: (B, N2, S1, GP) F32, optional. gradient of softmax_max
        d_softmax_sum: (B, N2, S1, GP) F32, optional. gradient of softmax_sum
        scale_value: float, default 1.0. factor on the scores
        sparse_block_size: int, default 1. tokens that an index names
        sparse_mode: int, default 3. 0 none, 3 causal aligned to the lower right
        rope_dim: int, default 0. size of the rotary part, 0 without
        pre_tokens: int, default 9223372036854775807. only this value, no window (2147483647 is taken for it)
        next_tokens: int, default 9223372036854775807. only this value, no window (2147483647 is taken for it)
        attention_mode: int, default 0. 0 and 2 are the same: absorbed multi-head latent attention
        layout: str, default "BSND". BSND or TND, of queries and keys
        deterministic: bool, default False. one core per sequence: the additions to a key have one order
        kv_merged: bool, default False. d_key is the gradient of key as key and as value; d_value is 0

    Returns:
        d_query: (B, S1, N1, D) F16 | BF16. gradient of query
        d_key: (BK, S2, N2, D) F32. gradient of key
        d_value: (BK, S2, N2, DV) F32. gradient of value
        d_query_rope: (B, S1, N1, rope_dim) F16 | BF16. gradient of query_rope
        d_key_rope: (BK, S2, N2, rope_dim) F32. gradient of key_rope
        d_sinks: (B, N2, S1, GP) F32. gradient of sinks, row by row

    Where:
        GP = (N1 // N2 + 15) // 16 * 16

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * present(d_softmax_max) == present(d_softmax_sum): gradients of both statistics or of neither
            * layout in ('BSND', 'TND'): the known layouts; paged keys have no gradient
            * layout != 'TND' or (B == 1 and present(actual_seq_lengths_query) and
                present(actual_seq_lengths_kv)): TND needs both prefix sums
            * BK == B: as many key sequences as query sequences
            * S1 >= 1 and S2 >= 1 and B >= 1 and BK >= 1: empty tensors are answered by the public function
            * N2 >= 1 and N1 % N2 == 0 and 1 <= N1 // N2 <= 128: a group of 1 to 128 query heads per key head
            * D % 16 == 0 and 16 <= D <= 512: the head size is a multiple of 16 and at most 512
            * DV % 16 == 0 and 16 <= DV <= 512: the head size of value is a multiple of 16 and at most 512
            * not kv_merged or DV == D: kv_merged uses key as value
            * present(query_rope) == present(key_rope): query_rope and key_rope come together
            * rope_dim % 16 == 0 and 0 <= rope_dim <= 64: the rope size is a multiple of 16 and at most 64
            * present(query_rope) == (rope_dim > 0): rope_dim is the last axis of the rope tensors, 0 without
                them
            * K % 8 == 0 and K >= 8: index rows are padded to whole blocks of 8 with -1
            * 1 <= sparse_block_size <= 128: a key block has 1 to 128 tokens
            * sparse_mode in (0, 3): 0 none, 3 causal aligned to the lower right
            * pre_tokens in (2147483647, 9223372036854775807) and next_tokens in (2147483647,
                9223372036854775807): no window: 9223372036854775807
            * attention_mode in (0, 2): 0 and 2 are the same
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        sinks is not None, actual_seq_lengths_query is not None, actual_seq_lengths_kv is not None,
        query_rope is not None, key_rope is not None, d_softmax_max is not None, d_softmax_sum is not None)
    sinks = ABSENT if sinks is None else sinks
    actual_seq_lengths_query = ABSENT if actual_seq_lengths_query is None else actual_seq_lengths_query
    actual_seq_lengths_kv = ABSENT if actual_seq_lengths_kv is None else actual_seq_lengths_kv
    query_rope = ABSENT if query_rope is None else query_rope
    key_rope = ABSENT if key_rope is None else key_rope
    d_softmax_max = ABSENT if d_softmax_max is None else d_softmax_max
    d_softmax_sum = ABSENT if d_softmax_sum is None else d_softmax_sum
    primitive = prim_cache(SparseFlashAttentionGrad)(
        present, scale_value, sparse_block_size, sparse_mode, rope_dim, pre_tokens, next_tokens,
        attention_mode, layout, deterministic, kv_merged)
    return primitive(
        query, key, value, sparse_indices, d_out, attention_out, softmax_max, softmax_sum, sinks,
        actual_seq_lengths_query, actual_seq_lengths_kv, query_rope, key_rope, d_softmax_max, d_softmax_sum)


def sparse_lightning_indexer_grad_kl_loss(
    query: Tensor, key: Tensor, query_index: Tensor, key_index: Tensor, weights: Tensor,
    sparse_indices: Tensor, softmax_max: Tensor, softmax_sum: Tensor, query_rope: Tensor | None = None,
    key_rope: Tensor | None = None, actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_kv: Tensor | None = None, *, scale_value: float = 1.0, layout: str = "BSND",
    sparse_mode: int = 3, deterministic: bool = False) -> tuple[Tensor, ...]:
    """KL divergence of the indexer's softmax from the main attention over the selected tokens, and its gradient.

    The main attention is recomputed from softmax_max and softmax_sum, summed over heads and normalised; it is
    a constant. This is the primitive: the public function pads, sums row_loss and casts.

    Args:
        query: (B, S1, N1, D) F16 | BF16. queries of the main attention; TND: one batch entry of T1 rows
        key: (BK, S2, N2, D) F16 | BF16. keys of the main attention, one head
        query_index: (B, S1, NI, DI) F16 | BF16. queries of the indexer
        key_index: (BK, S2, 1, DI) F16 | BF16. keys of the indexer
        weights: (B, S1, NP) F32. weight of each index head, padded to NP with anything
        sparse_indices: (B, S1, 1, K) I32. tokens selected; the first negative one ends the row
        softmax_max: (B, 1, S1, GP) F32. output of sparse_flash_attention
        softmax_sum: (B, 1, S1, GP) F32. output of sparse_flash_attention
        query_rope: (B, S1, N1, R) F16 | BF16, optional. rotary part of query
        key_rope: (BK, S2, N2, R) F16 | BF16, optional. rotary part of key
        actual_seq_lengths_query: (BP) I32, optional. BSND: tokens of each sequence; TND: inclusive prefix
            sums, padded by repeating the last
        actual_seq_lengths_kv: (BP) I32, optional. likewise
        scale_value: float, default 1.0. factor on the scores of the main attention
        layout: str, default "BSND". BSND or TND, of queries and keys
        sparse_mode: int, default 3. 0 none, 3 causal aligned to the lower right
        deterministic: bool, default False. one core per sequence: the additions to a key have one order

    Returns:
        d_query_index: (B, S1, NI, DI) F16 | BF16. gradient of query_index
        d_key_index: (BK, S2, 1, DI) F32. gradient of key_index
        d_weights: (B, S1, NP) F32. gradient of weights
        row_loss: (B, S1, 8) F32. loss of each row, 8 times

    Where:
        GP = (N1 + 15) // 16 * 16
        NP = (NI + 15) // 16 * 16

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * S1 >= 1 and S2 >= 1 and B >= 1 and BK >= 1: empty tensors are answered by the public function
            * N2 >= 1 and N1 % N2 == 0 and 1 <= N1 // N2 <= 128: a group of 1 to 128 query heads per key head
            * D % 16 == 0 and 16 <= D <= 512: the head size is a multiple of 16 and at most 512
            * N2 == 1: the main attention has one key head
            * 1 <= NI <= 128: 1 to 128 index heads
            * DI % 16 == 0 and 16 <= DI <= 256: the head size of the indexer is a multiple of 16 and at most
                256
            * present(query_rope) == present(key_rope): query_rope and key_rope come together
            * not present(query_rope) or (R % 16 == 0 and 16 <= R <= 64): the rope size is a multiple of 16
                and at most 64
            * K % 8 == 0 and K >= 8: index rows are padded to whole blocks of 8 with -1
            * layout in ('BSND', 'TND'): the known layouts
            * layout != 'TND' or (B == 1 and present(actual_seq_lengths_query) and
                present(actual_seq_lengths_kv)): TND needs both prefix sums
            * BK == B: as many key sequences as query sequences
            * sparse_mode in (0, 3): 0 none, 3 causal aligned to the lower right
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        query_rope is not None, key_rope is not None, actual_seq_lengths_query is not None,
        actual_seq_lengths_kv is not None)
    query_rope = ABSENT if query_rope is None else query_rope
    key_rope = ABSENT if key_rope is None else key_rope
    actual_seq_lengths_query = ABSENT if actual_seq_lengths_query is None else actual_seq_lengths_query
    actual_seq_lengths_kv = ABSENT if actual_seq_lengths_kv is None else actual_seq_lengths_kv
    primitive = prim_cache(SparseLightningIndexerGradKlLoss)(
        present, scale_value, layout, sparse_mode, deterministic)
    return primitive(
        query, key, query_index, key_index, weights, sparse_indices, softmax_max, softmax_sum, query_rope,
        key_rope, actual_seq_lengths_query, actual_seq_lengths_kv)


def ssd_chunk_scan_grad(
    x: Tensor, da: Tensor, b: Tensor, c: Tensor, initial_states: Tensor, dy: Tensor, d_final_states: Tensor,
    first_chunks: Tensor | None = None, *, chunk_size: int = 64) -> tuple[Tensor, ...]:
    """Gradient of ssd_chunk_scan for all its inputs.

    The states between chunks are recomputed. Sums over the heads that share b and c have one fixed order.

    Args:
        x: (B, S, H, P) F16 | BF16. inputs (dt * x of the model)
        da: (B, H, S) F32. log of the decay of each step
        b: (B, S, G, N) F16 | BF16. input projections; head i uses group i // (H / G)
        c: (B, S, G, N) F16 | BF16. output projections
        initial_states: (NS, H, P, N) F32. state before the first step
        dy: (B, S, H, P) F16 | BF16. gradient of y
        d_final_states: (NS, H, P, N) F32. gradient of final_states
        first_chunks: (FP) I32, optional. packed batch: first chunk of each of the NS sequences and the number
            of chunks; padded with anything
        chunk_size: int, default 64. steps per chunk; the result does not depend on it beyond rounding

    Returns:
        d_x: (B, S, H, P) F16 | BF16. gradient of x
        d_da: (B, H, S) F32. gradient of da
        d_b: (B, S, G, N) F16 | BF16. gradient of b
        d_c: (B, S, G, N) F16 | BF16. gradient of c
        d_initial_states: (NS, H, P, N) F32. gradient of initial_states

    Where:
        FP = (NS + 8) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and G >= 1 and NS >= 1: empty batches are answered by the public function
            * H % G == 0: heads must be a multiple of the groups of b and c
            * chunk_size >= 16 and chunk_size <= 256 and chunk_size % 16 == 0: 16 to 256, a multiple of 16
            * S >= 1 and S % chunk_size == 0: whole chunks; the public function pads
            * P % 16 == 0 and 16 <= P <= 128: the head size is padded to a multiple of 16 and at most 128
            * N % 16 == 0 and 16 <= N <= 256: the state size is padded to a multiple of 16 and at most 256
            * H * P <= 65520 and G * N <= 65520: elements of one step
            * NS == B or present(first_chunks): one state per batch entry, or a packed batch
            * B == 1 or not present(first_chunks): a packed batch has one row
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (first_chunks is not None,)
    first_chunks = ABSENT if first_chunks is None else first_chunks
    primitive = prim_cache(SsdChunkScanGrad)(present, chunk_size)
    return primitive(x, da, b, c, initial_states, dy, d_final_states, first_chunks)


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    real_shift: Tensor | None = None, drop_mask: Tensor | None = None, actual_seq_qlen: Tensor | None = None,
    actual_seq_kvlen: Tensor | None = None, seed_words: Tensor | None = None,
    row_bounds: Tensor | None = None, *, scale_value: float = 1.0, keep_prob: float = 1.0, seed: int = 0,
    sparse_mode: int = 0, pre_tokens: int = 2147483647, next_tokens: int = 2147483647,
    prev_block_num: int = 65536, next_block_num: int = 65536, tiling_stgy_name: str = "auto",
    high_precision: bool = True) -> tuple[Tensor, ...]:
    """Fused attention: softmax(scale_value * query @ key^T + real_shift, masked) @ value, without the S1 x S2
    matrix in memory.

    This is the primitive: the public function pads rows to whole 32-byte blocks, broadcasts masks and handles
    empty batches before it comes here. Statistics are of the scaled scores, with the natural exponent. A
    fully masked row has output 0 and sum 0, and gets gradient 0.

    Args:
        query: (B, N1, S1, D) F16 | BF16. queries
        key: (B, N2, S2, D) F16 | BF16. keys; N1 is a multiple of N2 (grouped heads)
        value: (B, N2, S2, D) F16 | BF16. values
        attn_mask: (1|B, 1|N1, S1, S2P) F16, optional. 1 = masked, 0 = kept
        real_shift: (B, N1, SR, S2P) F16 | BF16, optional. added to the scaled scores (ALiBi, relative
            positions)
        drop_mask: (B, N1, S1, S2P) F16, optional. 1 = kept, 0 = dropped; takes the place of seed
        actual_seq_qlen: (BP) I32, optional. query length of each batch, padded to BP with anything
        actual_seq_kvlen: (BP) I32, optional. key length of each batch, padded to BP with anything
        seed_words: (8) I32, optional. low and high word of a 64-bit seed, row and column of the first query
            and key among those of a longer sequence, then padding; takes the place of seed
        row_bounds: (2, S1P) I32, optional. first and one past the last key that each row sees, both non-
            decreasing along the rows; of all batches
        scale_value: float, default 1.0. factor on the scores, applied inside
        keep_prob: float, default 1.0. probability to keep a weight; kept ones are divided by it
        seed: int, default 0. seed of the counter-based dropout
        sparse_mode: int, default 0. 0 none, 3 causal aligned to the lower right, 4 band of pre_tokens and
            next_tokens
        pre_tokens: int, default 2147483647. mode 4: keys kept to the left of the diagonal
        next_tokens: int, default 2147483647. mode 4: keys kept to the right of the diagonal
        prev_block_num: int, default 65536. blocks of 128 keys kept before the query's block
        next_block_num: int, default 65536. blocks of 128 keys kept after the query's block
        tiling_stgy_name: str, default "auto". block sizes: auto, sparse, wukong or xunfei
        high_precision: bool, default True. exponent, sum and output accumulate in float32

    Returns:
        attention_out: (B, N1, S1, D) F16 | BF16. the attention output
        softmax_max: (B, N1, S1P) F32. row maximum of the scaled scores
        softmax_sum: (B, N1, S1P) F32. row sum of exp(score - maximum)

    Where:
        S1P = (S1 + 15) // 16 * 16
        S2P = (S2 + 15) // 16 * 16
        BP = (B + 7) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and N1 >= 1 and N2 >= 1: empty batches are answered by the public function
            * S1 >= 1 and S2 >= 1: sequences have at least one token
            * N1 % N2 == 0: query heads must be a multiple of key heads
            * not present(real_shift) or SR == 1 or SR == S1: real_shift has one row for all queries, or one
                for each
            * D % 16 == 0 and 16 <= D <= 256: the head size is padded to a multiple of 16 and at most 256
            * 0 < keep_prob <= 1: a probability, not 0
            * 0 <= seed < 9223372036854775808: a non-negative 64-bit seed
            * sparse_mode in (0, 3, 4): 0 none, 3 causal, 4 band
            * pre_tokens + next_tokens >= 0 or sparse_mode != 4: the band must not be empty
            * prev_block_num >= 0 and next_block_num >= 0: counts of blocks
            * tiling_stgy_name in ('auto', 'sparse', 'wukong', 'xunfei'): the known tiling strategies
            * not present(row_bounds) or (S1 < 16777216 and S2 < 16777216): float32 tells positions apart up
                to 2^24
            * high_precision or dtype(query) != 'BF16': bfloat16 always accumulates in float32
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        attn_mask is not None, real_shift is not None, drop_mask is not None, actual_seq_qlen is not None,
        actual_seq_kvlen is not None, seed_words is not None, row_bounds is not None)
    attn_mask = ABSENT if attn_mask is None else attn_mask
    real_shift = ABSENT if real_shift is None else real_shift
    drop_mask = ABSENT if drop_mask is None else drop_mask
    actual_seq_qlen = ABSENT if actual_seq_qlen is None else actual_seq_qlen
    actual_seq_kvlen = ABSENT if actual_seq_kvlen is None else actual_seq_kvlen
    seed_words = ABSENT if seed_words is None else seed_words
    row_bounds = ABSENT if row_bounds is None else row_bounds
    primitive = prim_cache(FlashAttention)(
        present, scale_value, keep_prob, seed, sparse_mode, pre_tokens, next_tokens, prev_block_num,
        next_block_num, tiling_stgy_name, high_precision)
    return primitive(
        query, key, value, attn_mask, real_shift, drop_mask, actual_seq_qlen, actual_seq_kvlen, seed_words,
        row_bounds)


def mamba3_chunk_scan(
    v: Tensor, da: Tensor, factor: Tensor, gamma: Tensor, k: Tensor, q: Tensor, initial_states: Tensor,
    first_chunks: Tensor | None = None, *, chunk_size: int = 64, rank: int = 1) -> tuple[Tensor, ...]:
    """Mamba-3 scan of rank R by chunks: rows of a step see each other with gamma and earlier ones with factor
    and decay.

    o[i] = sum over rows j of earlier steps of exp(cs[i] - cs[j]) * factor[j] * (q[i] . k[j]) v[j], plus the
    sum over the rows j of its own step of gamma[j] * (q[i] . k[j]) v[j], plus exp(cs[i]) * initial_states
    q[i]; cs is the running sum of da. This is the primitive: the public function makes factor and gamma from
    dt and the trapezoid weights, turns ranks into rows, pads, and spreads packed sequences over chunks.
    Products take operands in the dtype of v and accumulate in float32.

    Args:
        v: (B, S, H, P) F16 | BF16. values; S counts (step, rank) pairs, rank fastest
        da: (B, H, S) F32. log of the decay of each step, 0 for all ranks but the first
        factor: (B, H, S) F32. weight with which a row reaches later steps
        gamma: (B, H, S) F32. weight with which a row reaches its own step
        k: (B, S, G, N) F16 | BF16. keys; head i uses group i // (H / G)
        q: (B, S, G, N) F16 | BF16. queries
        initial_states: (NS, H, P, N) F32. state before the first step
        first_chunks: (FP) I32, optional. packed batch: first chunk of each of the NS sequences and the number
            of chunks; padded with anything
        chunk_size: int, default 64. rows per chunk; the result does not depend on it beyond rounding
        rank: int, default 1. rows per step

    Returns:
        o: (B, S, H, P) F16 | BF16. outputs
        final_states: (NS, H, P, N) F32. state after the last step

    Where:
        FP = (NS + 8) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and G >= 1 and NS >= 1: empty batches are answered by the public function
            * H % G == 0: heads must be a multiple of the groups of b and c
            * chunk_size >= 16 and chunk_size <= 256 and chunk_size % 16 == 0: 16 to 256, a multiple of 16
            * S >= 1 and S % chunk_size == 0: whole chunks; the public function pads
            * P % 16 == 0 and 16 <= P <= 128: the head size is padded to a multiple of 16 and at most 128
            * N % 16 == 0 and 16 <= N <= 256: the state size is padded to a multiple of 16 and at most 256
            * H * P <= 65520 and G * N <= 65520: elements of one step
            * NS == B or present(first_chunks): one state per batch entry, or a packed batch
            * B == 1 or not present(first_chunks): a packed batch has one row
            * rank in (1, 2, 4, 8, 16): a divisor of 16; the public function pads
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (first_chunks is not None,)
    first_chunks = ABSENT if first_chunks is None else first_chunks
    primitive = prim_cache(Mamba3ChunkScan)(present, chunk_size, rank)
    return primitive(v, da, factor, gamma, k, q, initial_states, first_chunks)


def segsum_decay(da: Tensor, *, chunk_size: int) -> tuple[Tensor, ...]:
    """Decay between the steps of a chunk: decay[i,j] = exp(sum of da[k] over j < k <= i) for query i > key j, 0
    elsewhere; the sum is clamped at 0 from above.

    Its gradient is bwd_segsum_dadt, which reads segsum.

    Args:
        da: (B, H, S) F32. log-decay of each step, S a multiple of chunk_size
        chunk_size: int. steps per chunk, C

    Returns:
        decay: (B, H, N, chunk_size, chunk_size) F32. decay from key to query, strictly lower
        segsum: (B, H, N, chunk_size, chunk_size) F32. its logarithm, 0 on and above the diagonal

    Where:
        N = S // chunk_size

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and S >= 1: empty batches are answered by the public function
            * 16 <= chunk_size <= 256: smaller chunks are filled up by the public function
            * S % chunk_size == 0: the public function fills the last chunk up
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = ()
    primitive = prim_cache(SegsumDecay)(present, chunk_size)
    return primitive(da)


def sparse_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, sparse_indices: Tensor, block_table: Tensor | None = None,
    actual_seq_lengths_query: Tensor | None = None, actual_seq_lengths_kv: Tensor | None = None,
    query_rope: Tensor | None = None, key_rope: Tensor | None = None, sinks: Tensor | None = None, *,
    scale_value: float = 1.0, sparse_block_size: int = 1, layout_query: str = "BSND", layout_kv: str = "BSND",
    sparse_mode: int = 3, rope_dim: int = 0, pre_tokens: int = 9223372036854775807,
    next_tokens: int = 9223372036854775807, attention_mode: int = 0, deterministic: bool = False,
    kv_merged: bool = False) -> tuple[Tensor, ...]:
    """Attention of every query row over the key blocks that its index row names.

    This is the primitive: the public function gives TND tensors a batch axis of 1, pads index rows, lengths
    and page tables to whole blocks and answers empty tensors. Statistics are of the scaled scores, with the
    natural exponent. A row that selects nothing has output 0 and sum 0.

    Args:
        query: (B, S1, N1, D) F16 | BF16. queries; TND: one batch entry of T1 rows
        key: (BK, S2, N2, D) F16 | BF16. keys, likewise; paged: (blocks, block_size, N2, D)
        value: (BK, S2, N2, DV) F16 | BF16. values
        sparse_indices: (B, S1, N2, K) I32. ids of key blocks within the sequence; the first negative one ends
            the row
        block_table: (BT, MP) I32, optional. pages of each sequence; rows padded to a multiple of 8 with
            anything
        actual_seq_lengths_query: (BP) I32, optional. BSND: tokens of each sequence; TND: inclusive prefix
            sums, padded by repeating the last
        actual_seq_lengths_kv: (BP) I32, optional. likewise; always tokens of each sequence for paged keys
        query_rope: (B, S1, N1, rope_dim) F16 | BF16, optional. rotary part of the queries
        key_rope: (BK, S2, N2, rope_dim) F16 | BF16, optional. rotary part of the keys
        sinks: (B, N2, S1, GP) F32, optional. a score per head without a value, as in the statistics
        scale_value: float, default 1.0. factor on the scores
        sparse_block_size: int, default 1. tokens that an index names
        layout_query: str, default "BSND". BSND or TND
        layout_kv: str, default "BSND". layout_query, or PA_BSND
        sparse_mode: int, default 3. 0 none, 3 causal aligned to the lower right
        rope_dim: int, default 0. size of the rotary part, 0 without
        pre_tokens: int, default 9223372036854775807. only this value, no window (2147483647 is taken for it)
        next_tokens: int, default 9223372036854775807. only this value, no window (2147483647 is taken for it)
        attention_mode: int, default 0. 0 and 2 are the same: absorbed multi-head latent attention
        deterministic: bool, default False. of the gradient: one core per sequence, the additions to a key
            have one order
        kv_merged: bool, default False. key is the value too; value is not read and its gradient is in that of
            key

    Returns:
        attention_out: (B, S1, N1, DV) F16 | BF16. the attention output
        softmax_max: (B, N2, S1, GP) F32. row maximum of the scaled scores
        softmax_sum: (B, N2, S1, GP) F32. row sum of exp(score - maximum)

    Where:
        GP = (N1 // N2 + 15) // 16 * 16

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * S1 >= 1 and S2 >= 1 and B >= 1 and BK >= 1: empty tensors are answered by the public function
            * N2 >= 1 and N1 % N2 == 0 and 1 <= N1 // N2 <= 128: a group of 1 to 128 query heads per key head
            * D % 16 == 0 and 16 <= D <= 512: the head size is a multiple of 16 and at most 512
            * DV % 16 == 0 and 16 <= DV <= 512: the head size of value is a multiple of 16 and at most 512
            * not kv_merged or DV == D: kv_merged uses key as value
            * present(query_rope) == present(key_rope): query_rope and key_rope come together
            * rope_dim % 16 == 0 and 0 <= rope_dim <= 64: the rope size is a multiple of 16 and at most 64
            * present(query_rope) == (rope_dim > 0): rope_dim is the last axis of the rope tensors, 0 without
                them
            * K % 8 == 0 and K >= 8: index rows are padded to whole blocks of 8 with -1
            * 1 <= sparse_block_size <= 128: a key block has 1 to 128 tokens
            * layout_query in ('BSND', 'TND'): the known layouts
            * layout_kv == layout_query or layout_kv == 'PA_BSND': keys have the layout of query, or are paged
            * layout_query != 'TND' or (B == 1 and present(actual_seq_lengths_query) and
                present(actual_seq_lengths_kv)): TND needs both prefix sums
            * layout_kv == 'PA_BSND' or BK == B: as many key sequences as query sequences
            * layout_kv != 'PA_BSND' or (present(block_table) and present(actual_seq_lengths_kv)): paged keys
                need block_table and actual_seq_lengths_kv
            * layout_kv == 'PA_BSND' or not present(block_table): block_table is for paged keys
            * not present(block_table) or (MP % 8 == 0 and S2 % 16 == 0 and S2 % sparse_block_size == 0):
                pages of a multiple of 16 tokens that key blocks divide, page rows padded to 8
            * sparse_mode in (0, 3): 0 none, 3 causal aligned to the lower right
            * pre_tokens in (2147483647, 9223372036854775807) and next_tokens in (2147483647,
                9223372036854775807): no window: 9223372036854775807
            * attention_mode in (0, 2): 0 and 2 are the same
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        block_table is not None, actual_seq_lengths_query is not None, actual_seq_lengths_kv is not None,
        query_rope is not None, key_rope is not None, sinks is not None)
    block_table = ABSENT if block_table is None else block_table
    actual_seq_lengths_query = ABSENT if actual_seq_lengths_query is None else actual_seq_lengths_query
    actual_seq_lengths_kv = ABSENT if actual_seq_lengths_kv is None else actual_seq_lengths_kv
    query_rope = ABSENT if query_rope is None else query_rope
    key_rope = ABSENT if key_rope is None else key_rope
    sinks = ABSENT if sinks is None else sinks
    primitive = prim_cache(SparseFlashAttention)(
        present, scale_value, sparse_block_size, layout_query, layout_kv, sparse_mode, rope_dim, pre_tokens,
        next_tokens, attention_mode, deterministic, kv_merged)
    return primitive(
        query, key, value, sparse_indices, block_table, actual_seq_lengths_query, actual_seq_lengths_kv,
        query_rope, key_rope, sinks)


def ssd_chunk_scan(
    x: Tensor, da: Tensor, b: Tensor, c: Tensor, initial_states: Tensor, first_chunks: Tensor | None = None,
    *, chunk_size: int = 64) -> tuple[Tensor, ...]:
    """Mamba-2 state-space scan by chunks: h[t] = exp(da[t]) * h[t-1] + x[t] b[t]^T, y[t] = h[t] c[t].

    This is the primitive: the public function pads steps to whole chunks and P and N to multiples of 16, and
    spreads packed sequences over chunks. Products take operands in the dtype of x and accumulate in float32;
    running sums of da and the state between chunks are float32.

    Args:
        x: (B, S, H, P) F16 | BF16. inputs (dt * x of the model)
        da: (B, H, S) F32. log of the decay of each step
        b: (B, S, G, N) F16 | BF16. input projections; head i uses group i // (H / G)
        c: (B, S, G, N) F16 | BF16. output projections
        initial_states: (NS, H, P, N) F32. state before the first step
        first_chunks: (FP) I32, optional. packed batch: first chunk of each of the NS sequences and the number
            of chunks; padded with anything
        chunk_size: int, default 64. steps per chunk; the result does not depend on it beyond rounding

    Returns:
        y: (B, S, H, P) F16 | BF16. outputs
        final_states: (NS, H, P, N) F32. state after the last step

    Where:
        FP = (NS + 8) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and H >= 1 and G >= 1 and NS >= 1: empty batches are answered by the public function
            * H % G == 0: heads must be a multiple of the groups of b and c
            * chunk_size >= 16 and chunk_size <= 256 and chunk_size % 16 == 0: 16 to 256, a multiple of 16
            * S >= 1 and S % chunk_size == 0: whole chunks; the public function pads
            * P % 16 == 0 and 16 <= P <= 128: the head size is padded to a multiple of 16 and at most 128
            * N % 16 == 0 and 16 <= N <= 256: the state size is padded to a multiple of 16 and at most 256
            * H * P <= 65520 and G * N <= 65520: elements of one step
            * NS == B or present(first_chunks): one state per batch entry, or a packed batch
            * B == 1 or not present(first_chunks): a packed batch has one row
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (first_chunks is not None,)
    first_chunks = ABSENT if first_chunks is None else first_chunks
    primitive = prim_cache(SsdChunkScan)(present, chunk_size)
    return primitive(x, da, b, c, initial_states, first_chunks)
