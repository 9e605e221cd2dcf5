// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
// clang-format off
#include "ops.h"

#include "aclnnop/aclnn_bwd_dadt_cumsum.h"
#include "aclnnop/aclnn_bwd_dadt_fused.h"
#include "aclnnop/aclnn_bwd_dtrap_ddt.h"
#include "aclnnop/aclnn_bwd_segsum_dadt.h"
#include "aclnnop/aclnn_dacs_segsum.h"
#include "aclnnop/aclnn_flash_attention.h"
#include "aclnnop/aclnn_flash_attention_grad.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_lightning_indexer.h"
#include "aclnnop/aclnn_mamba3_chunk_scan.h"
#include "aclnnop/aclnn_mamba3_chunk_scan_grad.h"
#include "aclnnop/aclnn_segsum_decay.h"
#include "aclnnop/aclnn_sparse_flash_attention.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad_v2.h"
#include "aclnnop/aclnn_sparse_lightning_indexer_grad_kl_loss.h"
#include "aclnnop/aclnn_ssd_chunk_scan.h"
#include "aclnnop/aclnn_ssd_chunk_scan_grad.h"

namespace mco_acl {
namespace {

constexpr Param kBwdDadtCumsumParams[] = {
    {"ddA_cs", Type::kInput, false},
    {"ddA_cs_rev", Type::kInput, false},
    {"dA_cs", Type::kInput, false},
    {"dA_cs_rev", Type::kInput, false},
    {"cu_seqlens", Type::kInts, true},
    {"chunk_size", Type::kInt, false},
    {"dadt", Type::kOutput, false},
};
constexpr Op kBwdDadtCumsum = {"BwdDadtCumsum", "bwd_dadt_cumsum", kBwdDadtCumsumParams, 7};

constexpr Param kBwdDadtFusedParams[] = {
    {"dSSdA", Type::kInput, false},
    {"SSdA", Type::kInput, false},
    {"ddA_cs", Type::kInput, false},
    {"ddA_cs_rev", Type::kInput, false},
    {"dA_cs", Type::kInput, false},
    {"dA_cs_rev", Type::kInput, false},
    {"cu_seqlens", Type::kInts, true},
    {"chunk_size", Type::kInt, false},
    {"dadt", Type::kOutput, false},
};
constexpr Op kBwdDadtFused = {"BwdDadtFused", "bwd_dadt_fused", kBwdDadtFusedParams, 9};

constexpr Param kBwdDtrapDdtParams[] = {
    {"trap", Type::kInput, false},
    {"dt", Type::kInput, false},
    {"dfactor", Type::kInput, false},
    {"dgamma_diag", Type::kInput, false},
    {"cu_seqlens", Type::kInts, true},
    {"ddt", Type::kOutput, false},
    {"dtrap", Type::kOutput, false},
};
constexpr Op kBwdDtrapDdt = {"BwdDtrapDdt", "bwd_dtrap_ddt", kBwdDtrapDdtParams, 7};

constexpr Param kBwdSegsumDadtParams[] = {
    {"dSSdA", Type::kInput, false},
    {"SSdA", Type::kInput, false},
    {"ddt_out", Type::kInput, false},
    {"cu_seqlens", Type::kInts, true},
    {"chunk_size", Type::kInt, false},
    {"ddt", Type::kOutput, false},
};
constexpr Op kBwdSegsumDadt = {"BwdSegsumDadt", "bwd_segsum_dadt", kBwdSegsumDadtParams, 6};

constexpr Param kDacsSegsumParams[] = {
    {"da", Type::kInput, false},
    {"cu_seqlens", Type::kInts, true},
    {"chunk_size", Type::kInt, false},
    {"da_cs", Type::kOutput, false},
    {"da_cs_rev", Type::kOutput, false},
    {"segsum", Type::kOutput, false},
};
constexpr Op kDacsSegsum = {"DacsSegsum", "dacs_segsum", kDacsSegsumParams, 6};

constexpr Param kFlashAttentionParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"value", Type::kInput, false},
    {"attn_mask", Type::kInput, true},
    {"real_shift", Type::kInput, true},
    {"drop_mask", Type::kInput, true},
    {"actual_seq_qlen", Type::kInts, true},
    {"actual_seq_kvlen", Type::kInts, true},
    {"seed_words", Type::kInput, true},
    {"scale_value", Type::kFloat, true},
    {"keep_prob", Type::kFloat, true},
    {"seed", Type::kInt, true},
    {"sparse_mode", Type::kInt, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"prev_block_num", Type::kInt, true},
    {"next_block_num", Type::kInt, true},
    {"tiling_stgy_name", Type::kText, true},
    {"high_precision", Type::kBool, true},
    {"layout", Type::kText, true},
    {"attention_out", Type::kOutput, false},
    {"softmax_max", Type::kOutput, false},
    {"softmax_sum", Type::kOutput, false},
};
constexpr Op kFlashAttention = {"FlashAttention", "flash_attention", kFlashAttentionParams, 23};

constexpr Param kFlashAttentionGradParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"value", Type::kInput, false},
    {"attention_out", Type::kInput, false},
    {"d_attention_out", Type::kInput, false},
    {"softmax_max", Type::kInput, false},
    {"softmax_sum", Type::kInput, false},
    {"d_softmax_max", Type::kInput, false},
    {"d_softmax_sum", Type::kInput, false},
    {"attn_mask", Type::kInput, true},
    {"real_shift", Type::kInput, true},
    {"drop_mask", Type::kInput, true},
    {"actual_seq_qlen", Type::kInput, true},
    {"actual_seq_kvlen", Type::kInput, true},
    {"seed_words", Type::kInput, true},
    {"row_bounds", Type::kInput, true},
    {"scale_value", Type::kFloat, true},
    {"keep_prob", Type::kFloat, true},
    {"seed", Type::kInt, true},
    {"sparse_mode", Type::kInt, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"prev_block_num", Type::kInt, true},
    {"next_block_num", Type::kInt, true},
    {"tiling_stgy_name", Type::kText, true},
    {"high_precision", Type::kBool, true},
    {"d_query", Type::kOutput, false},
    {"d_key", Type::kOutput, false},
    {"d_value", Type::kOutput, false},
    {"d_real_shift", Type::kOutput, true},
};
constexpr Op kFlashAttentionGrad = {"FlashAttentionGrad", "flash_attention_grad", kFlashAttentionGradParams, 30};

constexpr Param kFlashAttentionScoreParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"value", Type::kInput, false},
    {"real_shift", Type::kInput, true},
    {"drop_mask", Type::kInput, true},
    {"padding_mask", Type::kInput, true},
    {"atten_mask", Type::kInput, true},
    {"prefix", Type::kInts, true},
    {"scale_value", Type::kFloat, true},
    {"keep_prob", Type::kFloat, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"head_num", Type::kInt, false},
    {"input_layout", Type::kText, false},
    {"inner_precise", Type::kInt, true},
    {"sparse_mode", Type::kInt, true},
    {"softmax_max_out", Type::kOutput, false},
    {"softmax_sum_out", Type::kOutput, false},
    {"softmax_out_out", Type::kOutput, true},
    {"attention_out_out", Type::kOutput, false},
};
constexpr Op kFlashAttentionScore = {"FlashAttentionScore", "flash_attention_score", kFlashAttentionScoreParams, 20};

constexpr Param kFlashAttentionScoreGradParams[] = {
    {"query", Type::kInput, false},
    {"key_in", Type::kInput, false},
    {"value", Type::kInput, false},
    {"dy", Type::kInput, false},
    {"pse_shift", Type::kInput, true},
    {"drop_mask", Type::kInput, true},
    {"padding_mask", Type::kInput, true},
    {"atten_mask", Type::kInput, true},
    {"softmax_max", Type::kInput, false},
    {"softmax_sum", Type::kInput, false},
    {"softmax_in", Type::kInput, true},
    {"attention_in", Type::kInput, false},
    {"prefix", Type::kInts, true},
    {"scale_value", Type::kFloat, true},
    {"keep_prob", Type::kFloat, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"head_num", Type::kInt, false},
    {"input_layout", Type::kText, false},
    {"inner_precise", Type::kInt, true},
    {"sparse_mode", Type::kInt, true},
    {"dq_out", Type::kOutput, false},
    {"dk_out", Type::kOutput, false},
    {"dv_out", Type::kOutput, false},
    {"dpse_out", Type::kOutput, true},
};
constexpr Op kFlashAttentionScoreGrad = {"FlashAttentionScoreGrad", "flash_attention_score_grad", kFlashAttentionScoreGradParams, 25};

constexpr Param kFlashAttentionUnpaddingScoreGradParams[] = {
    {"query", Type::kInput, false},
    {"key_in", Type::kInput, false},
    {"value", Type::kInput, false},
    {"dy", Type::kInput, false},
    {"pse_shift", Type::kInput, true},
    {"drop_mask", Type::kInput, true},
    {"padding_mask", Type::kInput, true},
    {"atten_mask", Type::kInput, true},
    {"softmax_max", Type::kInput, false},
    {"softmax_sum", Type::kInput, false},
    {"softmax_in", Type::kInput, true},
    {"attention_in", Type::kInput, false},
    {"prefix", Type::kInts, true},
    {"actual_seq_q_len", Type::kInts, true},
    {"actual_seq_kv_len", Type::kInts, true},
    {"scale_value", Type::kFloat, true},
    {"keep_prob", Type::kFloat, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"head_num", Type::kInt, false},
    {"input_layout", Type::kText, false},
    {"inner_precise", Type::kInt, true},
    {"sparse_mode", Type::kInt, true},
    {"dq_out", Type::kOutput, false},
    {"dk_out", Type::kOutput, false},
    {"dv_out", Type::kOutput, false},
    {"dpse_out", Type::kOutput, true},
};
constexpr Op kFlashAttentionUnpaddingScoreGrad = {"FlashAttentionUnpaddingScoreGrad", "flash_attention_unpadding_score_grad", kFlashAttentionUnpaddingScoreGradParams, 27};

constexpr Param kFlashAttentionVarLenScoreParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"value", Type::kInput, false},
    {"real_shift", Type::kInput, true},
    {"drop_mask", Type::kInput, true},
    {"padding_mask", Type::kInput, true},
    {"atten_mask", Type::kInput, true},
    {"prefix", Type::kInts, true},
    {"actual_seq_q_len", Type::kInts, true},
    {"actual_seq_kv_len", Type::kInts, true},
    {"scale_value", Type::kFloat, true},
    {"keep_prob", Type::kFloat, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"head_num", Type::kInt, false},
    {"input_layout", Type::kText, false},
    {"inner_precise", Type::kInt, true},
    {"sparse_mode", Type::kInt, true},
    {"softmax_max_out", Type::kOutput, false},
    {"softmax_sum_out", Type::kOutput, false},
    {"softmax_out_out", Type::kOutput, true},
    {"attention_out_out", Type::kOutput, false},
};
constexpr Op kFlashAttentionVarLenScore = {"FlashAttentionVarLenScore", "flash_attention_var_len_score", kFlashAttentionVarLenScoreParams, 22};

constexpr Param kLightningIndexerParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"weights", Type::kInput, false},
    {"actual_seq_lengths_query", Type::kInts, true},
    {"actual_seq_lengths_key", Type::kInts, true},
    {"block_table", Type::kInput, true},
    {"layout_query", Type::kText, true},
    {"layout_key", Type::kText, true},
    {"sparse_count", Type::kInt, true},
    {"sparse_mode", Type::kInt, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"return_value", Type::kBool, true},
    {"sparse_indices", Type::kOutput, false},
    {"sparse_values", Type::kOutput, true},
};
constexpr Op kLightningIndexer = {"LightningIndexer", "lightning_indexer", kLightningIndexerParams, 15};

constexpr Param kMamba3ChunkScanParams[] = {
    {"q", Type::kInput, false},
    {"k", Type::kInput, false},
    {"v", Type::kInput, false},
    {"da", Type::kInput, false},
    {"dt", Type::kInput, false},
    {"trap", Type::kInput, false},
    {"initial_states", Type::kInput, true},
    {"cu_seqlens", Type::kInts, true},
    {"chunk_size", Type::kInt, true},
    {"o", Type::kOutput, false},
    {"final_states", Type::kOutput, false},
};
constexpr Op kMamba3ChunkScan = {"Mamba3ChunkScan", "mamba3_chunk_scan", kMamba3ChunkScanParams, 11};

constexpr Param kMamba3ChunkScanGradParams[] = {
    {"v", Type::kInput, false},
    {"da", Type::kInput, false},
    {"factor", Type::kInput, false},
    {"gamma", Type::kInput, false},
    {"k", Type::kInput, false},
    {"q", Type::kInput, false},
    {"initial_states", Type::kInput, false},
    {"d_o", Type::kInput, false},
    {"d_final_states", Type::kInput, false},
    {"first_chunks", Type::kInput, true},
    {"chunk_size", Type::kInt, true},
    {"rank", Type::kInt, true},
    {"d_v", Type::kOutput, false},
    {"d_da", Type::kOutput, false},
    {"d_factor", Type::kOutput, false},
    {"d_gamma", Type::kOutput, false},
    {"d_k", Type::kOutput, false},
    {"d_q", Type::kOutput, false},
    {"d_initial_states", Type::kOutput, false},
};
constexpr Op kMamba3ChunkScanGrad = {"Mamba3ChunkScanGrad", "mamba3_chunk_scan_grad", kMamba3ChunkScanGradParams, 19};

constexpr Param kSegsumDecayParams[] = {
    {"da", Type::kInput, false},
    {"cu_seqlens", Type::kInts, true},
    {"chunk_size", Type::kInt, false},
    {"decay", Type::kOutput, false},
};
constexpr Op kSegsumDecay = {"SegsumDecay", "segsum_decay", kSegsumDecayParams, 4};

constexpr Param kSparseFlashAttentionParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"value", Type::kInput, true},
    {"sparse_indices", Type::kInput, false},
    {"block_table", Type::kInput, true},
    {"actual_seq_lengths_query", Type::kInts, true},
    {"actual_seq_lengths_kv", Type::kInts, true},
    {"query_rope", Type::kInput, true},
    {"key_rope", Type::kInput, true},
    {"sinks", Type::kInput, true},
    {"scale_value", Type::kFloat, false},
    {"sparse_block_size", Type::kInt, true},
    {"layout_query", Type::kText, true},
    {"layout_kv", Type::kText, true},
    {"sparse_mode", Type::kInt, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"attention_mode", Type::kInt, true},
    {"deterministic", Type::kBool, true},
    {"return_softmax_lse", Type::kBool, true},
    {"attention_out", Type::kOutput, false},
    {"softmax_max", Type::kOutput, true},
    {"softmax_sum", Type::kOutput, true},
};
constexpr Op kSparseFlashAttention = {"SparseFlashAttention", "sparse_flash_attention", kSparseFlashAttentionParams, 23};

constexpr Param kSparseFlashAttentionGradParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"value", Type::kInput, false},
    {"sparse_indices", Type::kInput, false},
    {"d_out", Type::kInput, false},
    {"out", Type::kInput, false},
    {"softmax_max", Type::kInput, false},
    {"softmax_sum", Type::kInput, false},
    {"actual_seq_q", Type::kInput, true},
    {"actual_seq_kv", Type::kInput, true},
    {"query_rope", Type::kInput, true},
    {"key_rope", Type::kInput, true},
    {"scale_value", Type::kFloat, true},
    {"sparse_block_size", Type::kInt, true},
    {"layout", Type::kText, true},
    {"sparse_mode", Type::kInt, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"deterministic", Type::kBool, true},
    {"d_query", Type::kOutput, false},
    {"d_key", Type::kOutput, false},
    {"d_value", Type::kOutput, false},
    {"d_query_rope", Type::kOutput, true},
    {"d_key_rope", Type::kOutput, true},
};
constexpr Op kSparseFlashAttentionGrad = {"SparseFlashAttentionGrad", "sparse_flash_attention_grad", kSparseFlashAttentionGradParams, 24};

constexpr Param kSparseFlashAttentionGradV2Params[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"value", Type::kInput, true},
    {"sparse_indices", Type::kInput, false},
    {"d_out", Type::kInput, false},
    {"out", Type::kInput, false},
    {"softmax_max", Type::kInput, false},
    {"softmax_sum", Type::kInput, false},
    {"sinks", Type::kInput, true},
    {"actual_seq_q", Type::kInput, true},
    {"actual_seq_kv", Type::kInput, true},
    {"query_rope", Type::kInput, true},
    {"key_rope", Type::kInput, true},
    {"scale_value", Type::kFloat, true},
    {"sparse_block_size", Type::kInt, true},
    {"layout", Type::kText, true},
    {"sparse_mode", Type::kInt, true},
    {"pre_tokens", Type::kInt, true},
    {"next_tokens", Type::kInt, true},
    {"deterministic", Type::kBool, true},
    {"d_query", Type::kOutput, false},
    {"d_key", Type::kOutput, false},
    {"d_value", Type::kOutput, true},
    {"d_query_rope", Type::kOutput, true},
    {"d_key_rope", Type::kOutput, true},
    {"d_sinks", Type::kOutput, true},
};
constexpr Op kSparseFlashAttentionGradV2 = {"SparseFlashAttentionGradV2", "sparse_flash_attention_grad_v2", kSparseFlashAttentionGradV2Params, 26};

constexpr Param kSparseLightningIndexerGradKlLossParams[] = {
    {"query", Type::kInput, false},
    {"key", Type::kInput, false},
    {"query_index", Type::kInput, false},
    {"key_index", Type::kInput, false},
    {"weights", Type::kInput, false},
    {"sparse_indices", Type::kInput, false},
    {"softmax_max", Type::kInput, false},
    {"softmax_sum", Type::kInput, false},
    {"query_rope", Type::kInput, true},
    {"key_rope", Type::kInput, true},
    {"actual_seq_qlen", Type::kInts, true},
    {"actual_seq_klen", Type::kInts, true},
    {"scale_value", Type::kFloat, false},
    {"layout", Type::kText, true},
    {"sparse_mode", Type::kInt, true},
    {"deterministic", Type::kBool, true},
    {"d_query_index", Type::kOutput, false},
    {"d_key_index", Type::kOutput, false},
    {"d_weights", Type::kOutput, false},
    {"loss", Type::kOutput, false},
};
constexpr Op kSparseLightningIndexerGradKlLoss = {"SparseLightningIndexerGradKlLoss", "sparse_lightning_indexer_grad_kl_loss", kSparseLightningIndexerGradKlLossParams, 20};

constexpr Param kSsdChunkScanParams[] = {
    {"x", Type::kInput, false},
    {"da", Type::kInput, false},
    {"B", Type::kInput, false},
    {"C", Type::kInput, false},
    {"initial_states", Type::kInput, true},
    {"cu_seqlens", Type::kInts, true},
    {"chunk_size", Type::kInt, true},
    {"y", Type::kOutput, false},
    {"final_states", Type::kOutput, false},
};
constexpr Op kSsdChunkScan = {"SsdChunkScan", "ssd_chunk_scan", kSsdChunkScanParams, 9};

constexpr Param kSsdChunkScanGradParams[] = {
    {"x", Type::kInput, false},
    {"da", Type::kInput, false},
    {"b", Type::kInput, false},
    {"c", Type::kInput, false},
    {"initial_states", Type::kInput, false},
    {"dy", Type::kInput, false},
    {"d_final_states", Type::kInput, false},
    {"first_chunks", Type::kInput, true},
    {"chunk_size", Type::kInt, true},
    {"d_x", Type::kOutput, false},
    {"d_da", Type::kOutput, false},
    {"d_b", Type::kOutput, false},
    {"d_c", Type::kOutput, false},
    {"d_initial_states", Type::kOutput, false},
};
constexpr Op kSsdChunkScanGrad = {"SsdChunkScanGrad", "ssd_chunk_scan_grad", kSsdChunkScanGradParams, 14};

}  // namespace
}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclnnStatus aclnnBwdDadtCumsumGetWorkspaceSize(const aclTensor* ddACs, const aclTensor* ddACsRev, const aclTensor* dACs,
    const aclTensor* dACsRev, const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* dadt,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(ddACs), of(ddACsRev), of(dACs), of(dACsRev), of(cuSeqlensOptional), of(chunkSize),
      of(dadt)};
  return first_phase(kBwdDadtCumsum, arguments, workspaceSize, executor);
}
aclnnStatus aclnnBwdDadtCumsum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kBwdDadtCumsum, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnBwdDadtFusedGetWorkspaceSize(const aclTensor* dSSdA, const aclTensor* SSdA, const aclTensor* ddACs,
    const aclTensor* ddACsRev, const aclTensor* dACs, const aclTensor* dACsRev, const aclIntArray* cuSeqlensOptional,
    int64_t chunkSize, const aclTensor* dadt, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(dSSdA), of(SSdA), of(ddACs), of(ddACsRev), of(dACs), of(dACsRev),
      of(cuSeqlensOptional), of(chunkSize), of(dadt)};
  return first_phase(kBwdDadtFused, arguments, workspaceSize, executor);
}
aclnnStatus aclnnBwdDadtFused(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kBwdDadtFused, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnBwdDtrapDdtGetWorkspaceSize(const aclTensor* trap, const aclTensor* dt, const aclTensor* dfactor,
    const aclTensor* dgammaDiag, const aclIntArray* cuSeqlensOptional, const aclTensor* ddt, const aclTensor* dtrap,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(trap), of(dt), of(dfactor), of(dgammaDiag), of(cuSeqlensOptional), of(ddt),
      of(dtrap)};
  return first_phase(kBwdDtrapDdt, arguments, workspaceSize, executor);
}
aclnnStatus aclnnBwdDtrapDdt(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kBwdDtrapDdt, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnBwdSegsumDadtGetWorkspaceSize(const aclTensor* dSSdA, const aclTensor* SSdA, const aclTensor* ddtOut,
    const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* ddt, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Argument arguments[] = {of(dSSdA), of(SSdA), of(ddtOut), of(cuSeqlensOptional), of(chunkSize), of(ddt)};
  return first_phase(kBwdSegsumDadt, arguments, workspaceSize, executor);
}
aclnnStatus aclnnBwdSegsumDadt(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kBwdSegsumDadt, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnDacsSegsumGetWorkspaceSize(const aclTensor* da, const aclIntArray* cuSeqlensOptional,
    int64_t chunkSize, const aclTensor* daCs, const aclTensor* daCsRev, const aclTensor* segsum,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(da), of(cuSeqlensOptional), of(chunkSize), of(daCs), of(daCsRev), of(segsum)};
  return first_phase(kDacsSegsum, arguments, workspaceSize, executor);
}
aclnnStatus aclnnDacsSegsum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kDacsSegsum, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionGetWorkspaceSize(const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* attnMaskOptional, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclIntArray* actualSeqQlenOptional, const aclIntArray* actualSeqKvlenOptional,
    const aclTensor* seedWordsOptional, double scaleValue, double keepProb, int64_t seed, int64_t sparseMode,
    int64_t preTokens, int64_t nextTokens, int64_t prevBlockNum, int64_t nextBlockNum, char* tilingStgyNameOptional,
    bool highPrecision, char* layoutOptional, const aclTensor* attentionOut, const aclTensor* softmaxMax,
    const aclTensor* softmaxSum, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(value), of(attnMaskOptional), of(realShiftOptional),
      of(dropMaskOptional), of(actualSeqQlenOptional), of(actualSeqKvlenOptional), of(seedWordsOptional),
      of(scaleValue), of(keepProb), of(seed), of(sparseMode), of(preTokens), of(nextTokens), of(prevBlockNum),
      of(nextBlockNum), of(tilingStgyNameOptional), of(highPrecision), of(layoutOptional), of(attentionOut),
      of(softmaxMax), of(softmaxSum)};
  return first_phase(kFlashAttention, arguments, workspaceSize, executor);
}
aclnnStatus aclnnFlashAttention(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kFlashAttention, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionGradGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* value, const aclTensor* attentionOut, const aclTensor* dAttentionOut, const aclTensor* softmaxMax,
    const aclTensor* softmaxSum, const aclTensor* dSoftmaxMax, const aclTensor* dSoftmaxSum,
    const aclTensor* attnMaskOptional, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* actualSeqQlenOptional, const aclTensor* actualSeqKvlenOptional, const aclTensor* seedWordsOptional,
    const aclTensor* rowBoundsOptional, double scaleValue, double keepProb, int64_t seed, int64_t sparseMode,
    int64_t preTokens, int64_t nextTokens, int64_t prevBlockNum, int64_t nextBlockNum, char* tilingStgyNameOptional,
    bool highPrecision, const aclTensor* dQuery, const aclTensor* dKey, const aclTensor* dValue,
    const aclTensor* dRealShift, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(value), of(attentionOut), of(dAttentionOut), of(softmaxMax),
      of(softmaxSum), of(dSoftmaxMax), of(dSoftmaxSum), of(attnMaskOptional), of(realShiftOptional),
      of(dropMaskOptional), of(actualSeqQlenOptional), of(actualSeqKvlenOptional), of(seedWordsOptional),
      of(rowBoundsOptional), of(scaleValue), of(keepProb), of(seed), of(sparseMode), of(preTokens), of(nextTokens),
      of(prevBlockNum), of(nextBlockNum), of(tilingStgyNameOptional), of(highPrecision), of(dQuery), of(dKey),
      of(dValue), of(dRealShift)};
  return first_phase(kFlashAttentionGrad, arguments, workspaceSize, executor);
}
aclnnStatus aclnnFlashAttentionGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kFlashAttentionGrad, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(value), of(realShiftOptional), of(dropMaskOptional),
      of(paddingMaskOptional), of(attenMaskOptional), of(prefixOptional), of(scaleValue), of(keepProb), of(preTokens),
      of(nextTokens), of(headNum), of(inputLayout), of(innerPrecise), of(sparseMode), of(softmaxMaxOut),
      of(softmaxSumOut), of(softmaxOutOut), of(attentionOutOut)};
  return first_phase(kFlashAttentionScore, arguments, workspaceSize, executor);
}
aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kFlashAttentionScore, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(const aclTensor* query, const aclTensor* keyIn,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMax,
    const aclTensor* softmaxSum, const aclTensor* softmaxInOptional, const aclTensor* attentionIn,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* dqOut,
    const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(keyIn), of(value), of(dy), of(pseShiftOptional), of(dropMaskOptional),
      of(paddingMaskOptional), of(attenMaskOptional), of(softmaxMax), of(softmaxSum), of(softmaxInOptional),
      of(attentionIn), of(prefixOptional), of(scaleValue), of(keepProb), of(preTokens), of(nextTokens), of(headNum),
      of(inputLayout), of(innerPrecise), of(sparseMode), of(dqOut), of(dkOut), of(dvOut), of(dpseOut)};
  return first_phase(kFlashAttentionScoreGrad, arguments, workspaceSize, executor);
}
aclnnStatus aclnnFlashAttentionScoreGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kFlashAttentionScoreGrad, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(const aclTensor* query, const aclTensor* keyIn,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMax,
    const aclTensor* softmaxSum, const aclTensor* softmaxInOptional, const aclTensor* attentionIn,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(keyIn), of(value), of(dy), of(pseShiftOptional), of(dropMaskOptional),
      of(paddingMaskOptional), of(attenMaskOptional), of(softmaxMax), of(softmaxSum), of(softmaxInOptional),
      of(attentionIn), of(prefixOptional), of(actualSeqQLenOptional), of(actualSeqKvLenOptional), of(scaleValue),
      of(keepProb), of(preTokens), of(nextTokens), of(headNum), of(inputLayout), of(innerPrecise), of(sparseMode),
      of(dqOut), of(dkOut), of(dvOut), of(dpseOut)};
  return first_phase(kFlashAttentionUnpaddingScoreGrad, arguments, workspaceSize, executor);
}
aclnnStatus aclnnFlashAttentionUnpaddingScoreGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kFlashAttentionUnpaddingScoreGrad, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(value), of(realShiftOptional), of(dropMaskOptional),
      of(paddingMaskOptional), of(attenMaskOptional), of(prefixOptional), of(actualSeqQLenOptional),
      of(actualSeqKvLenOptional), of(scaleValue), of(keepProb), of(preTokens), of(nextTokens), of(headNum),
      of(inputLayout), of(innerPrecise), of(sparseMode), of(softmaxMaxOut), of(softmaxSumOut), of(softmaxOutOut),
      of(attentionOutOut)};
  return first_phase(kFlashAttentionVarLenScore, arguments, workspaceSize, executor);
}
aclnnStatus aclnnFlashAttentionVarLenScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kFlashAttentionVarLenScore, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnLightningIndexerGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* weights, const aclIntArray* actualSeqLengthsQueryOptional,
    const aclIntArray* actualSeqLengthsKeyOptional, const aclTensor* blockTableOptional, char* layoutQueryOptional,
    char* layoutKeyOptional, int64_t sparseCount, int64_t sparseMode, int64_t preTokens, int64_t nextTokens,
    bool returnValue, const aclTensor* sparseIndices, const aclTensor* sparseValues, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(weights), of(actualSeqLengthsQueryOptional),
      of(actualSeqLengthsKeyOptional), of(blockTableOptional), of(layoutQueryOptional), of(layoutKeyOptional),
      of(sparseCount), of(sparseMode), of(preTokens), of(nextTokens), of(returnValue), of(sparseIndices),
      of(sparseValues)};
  return first_phase(kLightningIndexer, arguments, workspaceSize, executor);
}
aclnnStatus aclnnLightningIndexer(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kLightningIndexer, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMamba3ChunkScanGetWorkspaceSize(const aclTensor* q, const aclTensor* k, const aclTensor* v,
    const aclTensor* da, const aclTensor* dt, const aclTensor* trap, const aclTensor* initialStatesOptional,
    const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* o, const aclTensor* finalStates,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(q), of(k), of(v), of(da), of(dt), of(trap), of(initialStatesOptional),
      of(cuSeqlensOptional), of(chunkSize), of(o), of(finalStates)};
  return first_phase(kMamba3ChunkScan, arguments, workspaceSize, executor);
}
aclnnStatus aclnnMamba3ChunkScan(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kMamba3ChunkScan, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMamba3ChunkScanGradGetWorkspaceSize(const aclTensor* v, const aclTensor* da, const aclTensor* factor,
    const aclTensor* gamma, const aclTensor* k, const aclTensor* q, const aclTensor* initialStates, const aclTensor* dO,
    const aclTensor* dFinalStates, const aclTensor* firstChunksOptional, int64_t chunkSize, int64_t rank,
    const aclTensor* dV, const aclTensor* dDa, const aclTensor* dFactor, const aclTensor* dGamma, const aclTensor* dK,
    const aclTensor* dQ, const aclTensor* dInitialStates, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(v), of(da), of(factor), of(gamma), of(k), of(q), of(initialStates), of(dO),
      of(dFinalStates), of(firstChunksOptional), of(chunkSize), of(rank), of(dV), of(dDa), of(dFactor), of(dGamma),
      of(dK), of(dQ), of(dInitialStates)};
  return first_phase(kMamba3ChunkScanGrad, arguments, workspaceSize, executor);
}
aclnnStatus aclnnMamba3ChunkScanGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kMamba3ChunkScanGrad, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSegsumDecayGetWorkspaceSize(const aclTensor* da, const aclIntArray* cuSeqlensOptional,
    int64_t chunkSize, const aclTensor* decay, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(da), of(cuSeqlensOptional), of(chunkSize), of(decay)};
  return first_phase(kSegsumDecay, arguments, workspaceSize, executor);
}
aclnnStatus aclnnSegsumDecay(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kSegsumDecay, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSparseFlashAttentionGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* valueOptional, const aclTensor* sparseIndices, const aclTensor* blockTableOptional,
    const aclIntArray* actualSeqLengthsQueryOptional, const aclIntArray* actualSeqLengthsKvOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, const aclTensor* sinksOptional,
    double scaleValue, int64_t sparseBlockSize, char* layoutQueryOptional, char* layoutKvOptional, int64_t sparseMode,
    int64_t preTokens, int64_t nextTokens, int64_t attentionMode, bool deterministic, bool returnSoftmaxLse,
    const aclTensor* attentionOut, const aclTensor* softmaxMax, const aclTensor* softmaxSum, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(valueOptional), of(sparseIndices), of(blockTableOptional),
      of(actualSeqLengthsQueryOptional), of(actualSeqLengthsKvOptional), of(queryRopeOptional), of(keyRopeOptional),
      of(sinksOptional), of(scaleValue), of(sparseBlockSize), of(layoutQueryOptional), of(layoutKvOptional),
      of(sparseMode), of(preTokens), of(nextTokens), of(attentionMode), of(deterministic), of(returnSoftmaxLse),
      of(attentionOut), of(softmaxMax), of(softmaxSum)};
  return first_phase(kSparseFlashAttention, arguments, workspaceSize, executor);
}
aclnnStatus aclnnSparseFlashAttention(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kSparseFlashAttention, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSparseFlashAttentionGradGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* value, const aclTensor* sparseIndices, const aclTensor* dOut, const aclTensor* out,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum, const aclTensor* actualSeqQOptional,
    const aclTensor* actualSeqKvOptional, const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
    double scaleValue, int64_t sparseBlockSize, char* layoutOptional, int64_t sparseMode, int64_t preTokens,
    int64_t nextTokens, bool deterministic, const aclTensor* dQuery, const aclTensor* dKey, const aclTensor* dValue,
    const aclTensor* dQueryRope, const aclTensor* dKeyRope, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(value), of(sparseIndices), of(dOut), of(out), of(softmaxMax),
      of(softmaxSum), of(actualSeqQOptional), of(actualSeqKvOptional), of(queryRopeOptional), of(keyRopeOptional),
      of(scaleValue), of(sparseBlockSize), of(layoutOptional), of(sparseMode), of(preTokens), of(nextTokens),
      of(deterministic), of(dQuery), of(dKey), of(dValue), of(dQueryRope), of(dKeyRope)};
  return first_phase(kSparseFlashAttentionGrad, arguments, workspaceSize, executor);
}
aclnnStatus aclnnSparseFlashAttentionGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kSparseFlashAttentionGrad, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSparseFlashAttentionGradV2GetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* valueOptional, const aclTensor* sparseIndices, const aclTensor* dOut, const aclTensor* out,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum, const aclTensor* sinksOptional,
    const aclTensor* actualSeqQOptional, const aclTensor* actualSeqKvOptional, const aclTensor* queryRopeOptional,
    const aclTensor* keyRopeOptional, double scaleValue, int64_t sparseBlockSize, char* layoutOptional,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens, bool deterministic, const aclTensor* dQuery,
    const aclTensor* dKey, const aclTensor* dValue, const aclTensor* dQueryRope, const aclTensor* dKeyRope,
    const aclTensor* dSinks, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(valueOptional), of(sparseIndices), of(dOut), of(out),
      of(softmaxMax), of(softmaxSum), of(sinksOptional), of(actualSeqQOptional), of(actualSeqKvOptional),
      of(queryRopeOptional), of(keyRopeOptional), of(scaleValue), of(sparseBlockSize), of(layoutOptional),
      of(sparseMode), of(preTokens), of(nextTokens), of(deterministic), of(dQuery), of(dKey), of(dValue),
      of(dQueryRope), of(dKeyRope), of(dSinks)};
  return first_phase(kSparseFlashAttentionGradV2, arguments, workspaceSize, executor);
}
aclnnStatus aclnnSparseFlashAttentionGradV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kSparseFlashAttentionGradV2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSparseLightningIndexerGradKlLossGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* queryIndex, const aclTensor* keyIndex, const aclTensor* weights, const aclTensor* sparseIndices,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum, const aclTensor* queryRopeOptional,
    const aclTensor* keyRopeOptional, const aclIntArray* actualSeqQlenOptional,
    const aclIntArray* actualSeqKlenOptional, double scaleValue, char* layoutOptional, int64_t sparseMode,
    bool deterministic, const aclTensor* dQueryIndex, const aclTensor* dKeyIndex, const aclTensor* dWeights,
    const aclTensor* loss, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(query), of(key), of(queryIndex), of(keyIndex), of(weights), of(sparseIndices),
      of(softmaxMax), of(softmaxSum), of(queryRopeOptional), of(keyRopeOptional), of(actualSeqQlenOptional),
      of(actualSeqKlenOptional), of(scaleValue), of(layoutOptional), of(sparseMode), of(deterministic), of(dQueryIndex),
      of(dKeyIndex), of(dWeights), of(loss)};
  return first_phase(kSparseLightningIndexerGradKlLoss, arguments, workspaceSize, executor);
}
aclnnStatus aclnnSparseLightningIndexerGradKlLoss(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kSparseLightningIndexerGradKlLoss, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSsdChunkScanGetWorkspaceSize(const aclTensor* x, const aclTensor* da, const aclTensor* B,
    const aclTensor* C, const aclTensor* initialStatesOptional, const aclIntArray* cuSeqlensOptional, int64_t chunkSize,
    const aclTensor* y, const aclTensor* finalStates, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Argument arguments[] = {of(x), of(da), of(B), of(C), of(initialStatesOptional), of(cuSeqlensOptional),
      of(chunkSize), of(y), of(finalStates)};
  return first_phase(kSsdChunkScan, arguments, workspaceSize, executor);
}
aclnnStatus aclnnSsdChunkScan(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return second_phase(kSsdChunkScan, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSsdChunkScanGradGetWorkspaceSize(const aclTensor* x, const aclTensor* da, const aclTensor* b,
    const aclTensor* c, const aclTensor* initialStates, const aclTensor* dy, const aclTensor* dFinalStates,
    const aclTensor* firstChunksOptional, int64_t chunkSize, const aclTensor* dX, const aclTensor* dDa,
    const aclTensor* dB, const aclTensor* dC, const aclTensor* dInitialStates, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Argument arguments[] = {of(x), of(da), of(b), of(c), of(initialStates), of(dy), of(dFinalStates),
      of(firstChunksOptional), of(chunkSize), of(dX), of(dDa), of(dB), of(dC), of(dInitialStates)};
  return first_phase(kSsdChunkScanGrad, arguments, workspaceSize, executor);
}
aclnnStatus aclnnSsdChunkScanGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream) {
  return second_phase(kSsdChunkScanGrad, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
