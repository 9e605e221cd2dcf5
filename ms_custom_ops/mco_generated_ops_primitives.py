# SPDX-License-Identifier: Apache-2.0
"""Primitives of the ops: generated from op_info/*.yaml by ms-custom-ops gen; do not edit.

``present`` has one flag per optional tensor, in order; an absent one is passed as ABSENT.
"""
from __future__ import annotations

from mindspore import ops

from ms_custom_ops.mindspore.custom import ABSENT, OpPrimitive, no_gradient


class BwdDadtCumsum(OpPrimitive):
    OP = "bwd_dadt_cumsum"

    def gradient(self, present, chunk_size):
        def bprop(ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, out, dout):
            return no_gradient("bwd_dadt_cumsum")

        return bprop


class BwdDadtFused(OpPrimitive):
    OP = "bwd_dadt_fused"

    def gradient(self, present, chunk_size):
        def bprop(dSSdA, SSdA, ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, lengths, out, dout):
            return no_gradient("bwd_dadt_fused")

        return bprop


class BwdDtrapDdt(OpPrimitive):
    OP = "bwd_dtrap_ddt"

    def gradient(self, present):
        def bprop(trap, dt, dfactor, dgamma_diag, cu_seqlens, out, dout):
            return no_gradient("bwd_dtrap_ddt")

        return bprop


class BwdSegsumDadt(OpPrimitive):
    OP = "bwd_segsum_dadt"

    def gradient(self, present, chunk_size, layout):
        def bprop(dSSdA, SSdA, ddt_out, lengths, out, dout):
            return no_gradient("bwd_segsum_dadt")

        return bprop


class DacsSegsum(OpPrimitive):
    OP = "dacs_segsum"

    def gradient(self, present, chunk_size):
        def bprop(da, out, dout):
            return no_gradient("dacs_segsum")

        return bprop


class FlashAttentionGrad(OpPrimitive):
    OP = "flash_attention_grad"

    def gradient(
        self, present, scale_value, keep_prob, seed, sparse_mode, pre_tokens, next_tokens, prev_block_num,
        next_block_num, tiling_stgy_name, high_precision):
        def bprop(
            query, key, value, attention_out, d_attention_out, softmax_max, softmax_sum, d_softmax_max,
            d_softmax_sum, attn_mask, real_shift, drop_mask, actual_seq_qlen, actual_seq_kvlen, seed_words,
            row_bounds, out, dout):
            return no_gradient("flash_attention_grad")

        return bprop


class LightningIndexer(OpPrimitive):
    OP = "lightning_indexer"

    def gradient(self, present, layout_query, layout_key, sparse_count, sparse_mode):
        def bprop(
            query, key, weights, actual_seq_lengths_query, actual_seq_lengths_key, block_table, out, dout):
            return (
                ops.zeros_like(query), ops.zeros_like(key), ops.zeros_like(weights),
                ops.zeros_like(actual_seq_lengths_query), ops.zeros_like(actual_seq_lengths_key),
                ops.zeros_like(block_table))

        return bprop


class Mamba3ChunkScanGrad(OpPrimitive):
    OP = "mamba3_chunk_scan_grad"

    def gradient(self, present, chunk_size, rank):
        def bprop(v, da, factor, gamma, k, q, initial_states, d_o, d_final_states, first_chunks, out, dout):
            return no_gradient("mamba3_chunk_scan_grad")

        return bprop


class SparseFlashAttentionGrad(OpPrimitive):
    OP = "sparse_flash_attention_grad"

    def gradient(
        self, present, scale_value, sparse_block_size, sparse_mode, rope_dim, pre_tokens, next_tokens,
        attention_mode, layout, deterministic, kv_merged):
        def bprop(
            query, key, value, sparse_indices, d_out, attention_out, softmax_max, softmax_sum, sinks,
            actual_seq_lengths_query, actual_seq_lengths_kv, query_rope, key_rope, d_softmax_max,
            d_softmax_sum, out, dout):
            return no_gradient("sparse_flash_attention_grad")

        return bprop


class SparseLightningIndexerGradKlLoss(OpPrimitive):
    OP = "sparse_lightning_indexer_grad_kl_loss"

    def gradient(self, present, scale_value, layout, sparse_mode, deterministic):
        def bprop(
            query, key, query_index, key_index, weights, sparse_indices, softmax_max, softmax_sum, query_rope,
            key_rope, actual_seq_lengths_query, actual_seq_lengths_kv, out, dout):
            return no_gradient("sparse_lightning_indexer_grad_kl_loss")

        return bprop


class SsdChunkScanGrad(OpPrimitive):
    OP = "ssd_chunk_scan_grad"

    def gradient(self, present, chunk_size):
        def bprop(x, da, b, c, initial_states, dy, d_final_states, first_chunks, out, dout):
            return no_gradient("ssd_chunk_scan_grad")

        return bprop


class FlashAttention(OpPrimitive):
    OP = "flash_attention"

    def gradient(
        self, present, scale_value, keep_prob, seed, sparse_mode, pre_tokens, next_tokens, prev_block_num,
        next_block_num, tiling_stgy_name, high_precision):
        flash_attention_grad = FlashAttentionGrad(
            present, scale_value, keep_prob, seed, sparse_mode, pre_tokens, next_tokens, prev_block_num,
            next_block_num, tiling_stgy_name, high_precision)

        def bprop(
            query, key, value, attn_mask, real_shift, drop_mask, actual_seq_qlen, actual_seq_kvlen,
            seed_words, row_bounds, out, dout):
            grad_query, grad_key, grad_value, grad_real_shift = flash_attention_grad(
                query, key, value, out[0], dout[0], out[1], out[2], dout[1], dout[2], attn_mask, real_shift,
                drop_mask, actual_seq_qlen, actual_seq_kvlen, seed_words, row_bounds)
            return (
                grad_query, grad_key, grad_value, ops.zeros_like(attn_mask),
                ops.cast(grad_real_shift, real_shift.dtype), ops.zeros_like(drop_mask),
                ops.zeros_like(actual_seq_qlen), ops.zeros_like(actual_seq_kvlen), ops.zeros_like(seed_words),
                ops.zeros_like(row_bounds))

        return bprop


class Mamba3ChunkScan(OpPrimitive):
    OP = "mamba3_chunk_scan"

    def gradient(self, present, chunk_size, rank):
        mamba3_chunk_scan_grad = Mamba3ChunkScanGrad(present, chunk_size, rank)

        def bprop(v, da, factor, gamma, k, q, initial_states, first_chunks, out, dout):
            grad_v, grad_da, grad_factor, grad_gamma, grad_k, grad_q, grad_initial_states = mamba3_chunk_scan_grad(
                v, da, factor, gamma, k, q, initial_states, dout[0], dout[1], first_chunks)
            return (
                grad_v, grad_da, grad_factor, grad_gamma, grad_k, grad_q, grad_initial_states,
                ops.zeros_like(first_chunks))

        return bprop


class SegsumDecay(OpPrimitive):
    OP = "segsum_decay"

    def gradient(self, present, chunk_size):
        bwd_segsum_dadt = BwdSegsumDadt((False,), chunk_size, "query_key")

        def bprop(da, out, dout):
            grad_da = bwd_segsum_dadt(dout[0], out[1], ops.zeros_like(da), ABSENT)
            return (ops.cast(grad_da, da.dtype),)

        return bprop


class SparseFlashAttention(OpPrimitive):
    OP = "sparse_flash_attention"

    def gradient(
        self, present, scale_value, sparse_block_size, layout_query, layout_kv, sparse_mode, rope_dim,
        pre_tokens, next_tokens, attention_mode, deterministic, kv_merged):
        sparse_flash_attention_grad = SparseFlashAttentionGrad(
            (present[5], present[1], present[2], present[3], present[4], True, True), scale_value,
            sparse_block_size, sparse_mode, rope_dim, pre_tokens, next_tokens, attention_mode, layout_query,
            deterministic, kv_merged)

        def bprop(
            query, key, value, sparse_indices, block_table, actual_seq_lengths_query, actual_seq_lengths_kv,
            query_rope, key_rope, sinks, out, dout):
            grad_query, grad_key, grad_value, grad_query_rope, grad_key_rope, grad_sinks = sparse_flash_attention_grad(
                query, key, value, sparse_indices, dout[0], out[0], out[1], out[2], sinks,
                actual_seq_lengths_query, actual_seq_lengths_kv, query_rope, key_rope, dout[1], dout[2])
            return (
                grad_query, ops.cast(grad_key, key.dtype), ops.cast(grad_value, value.dtype),
                ops.zeros_like(sparse_indices), ops.zeros_like(block_table),
                ops.zeros_like(actual_seq_lengths_query), ops.zeros_like(actual_seq_lengths_kv),
                grad_query_rope, ops.cast(grad_key_rope, key_rope.dtype), ops.cast(grad_sinks, sinks.dtype))

        return bprop


class SsdChunkScan(OpPrimitive):
    OP = "ssd_chunk_scan"

    def gradient(self, present, chunk_size):
        ssd_chunk_scan_grad = SsdChunkScanGrad(present, chunk_size)

        def bprop(x, da, b, c, initial_states, first_chunks, out, dout):
            grad_x, grad_da, grad_b, grad_c, grad_initial_states = ssd_chunk_scan_grad(
                x, da, b, c, initial_states, dout[0], dout[1], first_chunks)
            return (grad_x, grad_da, grad_b, grad_c, grad_initial_states, ops.zeros_like(first_chunks))

        return bprop
