// SPDX-License-Identifier: Apache-2.0
// The statuses of the contract of aclnnSparseFlashAttentionGrad, from C.
#include "harness.h"

namespace {

CASE(success) {
  Call c;
  const auto out = c.run();
  for (const auto& entry : out) {
    expect_true(entry.second != std::vector<unsigned char>(entry.second.size(), 0x11), "an output was not written");
  }
}

CASE(null_inputs) {
  for (const char* name : kInputs) {
    Call c;
    c.t[name].there = false;
    c.refused(161001, "is null; accepted: a tensor");
  }
}

CASE(null_outputs) {
  for (const char* name : {"dQuery", "dKey", "dValue"}) {
    Call c;
    c.t[name].there = false;
    c.refused(161001, "is null; accepted: a tensor");
  }
}

CASE(null_rope_output) {
  Call c;
  c.t["dQueryRope"].there = false;
  c.refused(161001, "since query_rope is given");
}

CASE(null_places) {
  Call c;
  c.make();
  expect(aclnnSparseFlashAttentionGradGetWorkspaceSize(c.t["query"].handle, nullptr, nullptr, nullptr, nullptr, nullptr,
                                                       nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 1, 1,
                                                       nullptr, 3, 0, 0, false, nullptr, nullptr, nullptr, nullptr,
                                                       nullptr, nullptr, nullptr),
         161001, "workspaceSize or executor is null");
}

CASE(dtype_of_query) {
  Call c;
  c.t["query"].dtype = ACL_FLOAT;
  c.refused(161002, "dtype of query is float32; accepted: float16 or bfloat16");
}

CASE(dtype_that_no_op_has) {
  Call c;
  c.t["key"].dtype = ACL_DOUBLE;
  c.refused(161002, "dtype of key is float64");
}

CASE(dtype_of_indices) {
  Call c;
  c.t["sparseIndices"].dtype = ACL_INT64;
  c.refused(161002, "dtype of sparse_indices is int64; accepted: int32");
}

CASE(format) {
  Call c;
  c.t["value"].format = ACL_FORMAT_FRACTAL_NZ;
  c.refused(161002, "format of value is FRACTAL_NZ; accepted: ND");
}

CASE(strided_input_of_v1) {
  Call c;
  c.t["key"].strides = {32, 16, 1};
  c.refused(161002, "key is not contiguous");
}

CASE(overlapping_output) {
  Call c;
  c.t["dKey"].strides = {0, 16, 1};
  c.refused(161002, "d_key is a view whose elements overlap");
}

CASE(destroyed_tensor) {
  Call c;
  c.make();
  good(aclDestroyTensor(c.t["out"].handle));
  expect(c.first(), 161002, "out is destroyed, or no tensor");
}

CASE(half_of_the_rope) {
  Call c;
  c.t["keyRope"].there = c.t["dKeyRope"].there = false;
  c.refused(161002, "only query_rope; accepted: both or neither");
}

CASE(sinks_without_their_gradient) {
  Call c;
  c.v2 = c.t["sinks"].there = true;
  c.refused(161002, "only sinks; accepted: both or neither");
}

CASE(sinks_on_a2) {
  Call c;
  c.v2 = c.t["sinks"].there = c.t["dSinks"].there = true;
  c.refused(361001, "sinks are given on A2; accepted: on 950 only");
}

CASE(sparse_mode) {
  Call c;
  c.mode = 1;
  c.refused(561002, "only support sparse_mode=0 or 3, now sparse_mode=1");
}

CASE(head_size_of_key) {
  Call c;
  c.t["key"].shape = {20, 1, 32};
  c.refused(561002, "head_dim of Query[16] should be equal to head_dim of Key[32]");
}

CASE(head_size_of_value) {
  Call c;
  c.t["value"].shape = {20, 1, 32};
  c.refused(561002, "head_dim of Query[16] can not less than head_dim of Value[32]");
}

CASE(layout) {
  Call c;
  c.layout = "BNSD";
  c.refused(561002, "only support TND or BSND layout, now layout is BNSD");
}

CASE(layout_that_is_null) {  // BSND, for which the rank is wrong
  Call c;
  c.layout = "";
  c.refused(561002, "layout dims is not equal to the input's dim: rank of query is 3, layout is BSND");
}

CASE(long_layout) {
  Call c;
  c.layout = std::string(5000, 'T');
  c.refused(161002, "layout is longer than 256 bytes");
}

CASE(rank) {
  Call c;
  c.t["query"].shape = {1, 3, 8, 16};
  c.refused(561002, "layout dims is not equal to the input's dim");
}

CASE(rope_sizes) {
  Call c;
  c.t["keyRope"].shape = c.t["dKeyRope"].shape = {20, 1, 32};
  c.refused(561002, "headDim of qRope and kRope should be equal, got 16 and 32");
}

CASE(key_heads) {
  Call c;
  c.t["key"].shape = {20, 2, 16};
  c.refused(561002, "only support n2=1");
}

CASE(query_heads) {
  Call c;
  c.t["query"].shape = {3, 12, 16};
  c.refused(561002, "but got n2=1 n1=12");
}

CASE(more_query_heads_than_there_are) {
  Call c;
  c.t["query"].shape = {3, 256, 16};
  c.refused(561002, "but got n2=1 n1=256");
}

CASE(no_query_heads_in_tnd) {
  Call c;
  for (const char* name : {"query", "dOut", "out", "dQuery", "queryRope", "dQueryRope"}) c.t[name].shape = {3, 0, 16};
  c.t["softmaxMax"].shape = c.t["softmaxSum"].shape = {1, 3, 0};
  for (auto& entry : c.t) entry.second.bytes.clear();
  c.refused(561002, "but got n2=1 n1=0");
}

CASE(no_head_size_in_tnd) {
  Call c;
  for (const char* name : {"query", "dOut", "out", "dQuery"}) c.t[name].shape = {3, 8, 0};
  for (const char* name : {"key", "value", "dKey", "dValue"}) c.t[name].shape = {20, 1, 0};
  for (auto& entry : c.t) entry.second.bytes.clear();
  c.refused(561002, "TND with a size of 0");
}

CASE(shape_of_sums) {
  Call c;
  c.t["softmaxSum"].shape = {1, 4, 8};
  c.refused(561002, "The shape of softmaxSum is invalid, got (1, 4, 8), should be (1, 3, 8)");
}

CASE(rank_of_statistics) {
  Call c;
  c.t["softmaxMax"].shape = {3, 8};
  c.refused(561002, "The shape of softmaxMax is invalid, got (3, 8), should be (1, 3, 8)");
}

CASE(dtype_of_maxima) {
  Call c;
  c.t["softmaxMax"].dtype = ACL_FLOAT16;
  c.refused(561002, "dtype of softmax_max is float16; accepted: float32");
}

CASE(shape_of_statistics) {
  Call c;
  c.t["softmaxMax"].shape = {1, 3, 7};
  c.refused(561002, "The shape of softmaxMax is invalid, got (1, 3, 7), should be (1, 3, 8)");
}

CASE(dtype_of_statistics) {
  Call c;
  c.t["softmaxSum"].dtype = ACL_FLOAT16;
  c.refused(561002, "dtype of softmax_sum is float16; accepted: float32");
}

CASE(dtype_of_out) {
  Call c;
  c.t["out"].dtype = ACL_BF16;
  c.refused(561002, "dtype of out is bfloat16; accepted: float16");
}

CASE(shape_of_an_output) {
  Call c;
  c.t["dKey"].shape = {19, 1, 16};
  c.refused(561002, "The shape of dKey is invalid");
}

CASE(packed_without_lengths) {
  Call c;
  c.t["actualSeqKv"].there = false;
  c.refused(561002, "TND needs the lengths of both sides");
}

CASE(dtype_of_lengths) {
  Call c;
  c.t["actualSeqKv"].dtype = ACL_FLOAT;
  c.refused(161002, "actual_seq_kv is float32");
}

CASE(lengths_that_are_none) {
  Call c;
  c.t["actualSeqKv"].bytes = bytes_of(std::vector<int32_t>{19});
  c.refused(561002,
            "actual_seq_kv is [19] (sum 19, last 19); accepted: tokens of each batch, whose sum is T2 = 20, or "
            "inclusive prefix sums, whose last is T2 = 20");
}

CASE(negative_lengths) {
  Call c;
  c.t["actualSeqQ"].shape = {2};
  c.t["actualSeqQ"].bytes = bytes_of(std::vector<int32_t>{-1, 4});
  c.t["actualSeqKv"].shape = {2};
  c.t["actualSeqKv"].bytes = bytes_of(std::vector<int32_t>{5, 20});
  c.refused(561002, "actual_seq_q is [-1, 4]");
}

CASE(as_many_lengths) {
  Call c;
  c.t["actualSeqQ"].shape = {2};
  c.t["actualSeqQ"].bytes = bytes_of(std::vector<int32_t>{1, 2});
  c.refused(561002, "2 lengths and 1 lengths");
}

CASE(both_readings_of_lengths) {
  std::vector<std::map<std::string, std::vector<unsigned char>>> outs;
  for (const std::vector<std::vector<int32_t>>& pair :
       {std::vector<std::vector<int32_t>>{{1, 2}, {12, 8}}, {{1, 3}, {12, 20}}}) {
    Call c;
    c.t["actualSeqQ"].shape = c.t["actualSeqKv"].shape = {2};
    c.t["actualSeqQ"].bytes = bytes_of(pair[0]);
    c.t["actualSeqKv"].bytes = bytes_of(pair[1]);
    c.mode = 0;
    outs.push_back(c.run());
  }
  expect_true(outs[0] == outs[1], "tokens and prefix sums differ");
}

CASE(size_of_zero_in_tnd) {
  Call c;
  c.t["query"].shape = c.t["dOut"].shape = c.t["out"].shape = c.t["dQuery"].shape = {0, 8, 16};
  c.t["queryRope"].shape = c.t["dQueryRope"].shape = {0, 8, 16};
  c.t["sparseIndices"].shape = {0, 1, 8};
  c.t["softmaxMax"].shape = c.t["softmaxSum"].shape = {1, 0, 8};
  for (auto& entry : c.t) entry.second.bytes.clear();
  c.refused(561002, "TND with a size of 0");
}

CASE(no_query_in_bsnd_gives_zeros) {
  Call c;
  c.layout = "BSND";
  for (const char* name : {"query", "dOut", "out", "dQuery", "queryRope", "dQueryRope"})
    c.t[name].shape = {1, 0, 8, 16};
  for (const char* name : {"key", "value", "dKey", "dValue", "keyRope", "dKeyRope"}) c.t[name].shape = {1, 20, 1, 16};
  c.t["sparseIndices"].shape = {1, 0, 1, 8};
  c.t["softmaxMax"].shape = c.t["softmaxSum"].shape = {1, 1, 0, 8};
  c.t["actualSeqQ"].there = c.t["actualSeqKv"].there = false;
  for (auto& entry : c.t) entry.second.bytes.clear();
  const auto out = c.run();
  expect_true(out.at("dKey") == std::vector<unsigned char>(out.at("dKey").size(), 0), "dKey of no query is not 0");
}

CASE(deterministic_by_attribute_and_context) {
  Call plain, asked, switched;
  asked.deterministic = true;
  const auto first = asked.run();
  good(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  int64_t value = 0;
  good(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  expect_true(value == 1, "the option of the context");
  const auto second = switched.run();
  good(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
  expect_true(first == second, "deterministic by attribute and by context differ");
  expect(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 2), 100000, "value of the option is 2");
}

}  // namespace
