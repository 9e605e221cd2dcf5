// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_SPARSE_LIGHTNING_INDEXER_GRAD_KL_LOSS_H_
#define MCO_ACLNNOP_ACLNN_SPARSE_LIGHTNING_INDEXER_GRAD_KL_LOSS_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of SparseLightningIndexerGradKlLoss, gives the bytes of its workspace and its executor.
//   query: queries of the main attention; TND: one batch entry of T1 rows
//   key: keys of the main attention, one head
//   queryIndex: queries of the indexer
//   keyIndex: keys of the indexer
//   weights: weight of each index head, padded to NP with anything
//   sparseIndices: tokens selected; the first negative one ends the row
//   softmaxMax: output of sparse_flash_attention
//   softmaxSum: output of sparse_flash_attention
//   queryRopeOptional (or null): rotary part of query
//   keyRopeOptional (or null): rotary part of key
//   actualSeqQlenOptional (or null): see docs/aclnn.md
//   actualSeqKlenOptional (or null): see docs/aclnn.md
//   scaleValue: factor on the scores of the main attention
//   layoutOptional (or null): BSND or TND, of queries and keys
//   sparseMode: 0 none, 3 causal aligned to the lower right
//   deterministic: one core per sequence: the additions to a key have one order
//   dQueryIndex, written: gradient of query_index
//   dKeyIndex, written: gradient of key_index
//   dWeights, written: gradient of weights
//   loss, written: see docs/aclnn.md
ACL_FUNC_VISIBILITY aclnnStatus aclnnSparseLightningIndexerGradKlLossGetWorkspaceSize(const aclTensor* query,
    const aclTensor* key, const aclTensor* queryIndex, const aclTensor* keyIndex, const aclTensor* weights,
    const aclTensor* sparseIndices, const aclTensor* softmaxMax, const aclTensor* softmaxSum,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, const aclIntArray* actualSeqQlenOptional,
    const aclIntArray* actualSeqKlenOptional, double scaleValue, char* layoutOptional, int64_t sparseMode,
    bool deterministic, const aclTensor* dQueryIndex, const aclTensor* dKeyIndex, const aclTensor* dWeights,
    const aclTensor* loss, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnSparseLightningIndexerGradKlLoss(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_SPARSE_LIGHTNING_INDEXER_GRAD_KL_LOSS_H_
