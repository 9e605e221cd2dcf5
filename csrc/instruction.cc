// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

#include <map>
#include <sstream>

#include "handlers.h"
#include "lanes.h"

namespace mco {

namespace {

struct Row {
  const char *name, *tensors, *args, *attrs;
  Check check;
  Handler run;
  int code;
};

#define MASK "mask0 mask1 repeat "
#define UNARY "dst* src", MASK "dst_blk dst_rep src_blk src_rep", "mask_kind", check_lanes, run_lanes
#define BINARY \
  "dst* src0 src1", MASK "dst_blk dst_rep src0_blk src0_rep src1_blk src1_rep", "mask_kind", check_lanes, run_lanes
#define SCALAR "dst* src", MASK "scalar dst_blk dst_rep src_blk src_rep", "mask_kind", check_lanes, run_lanes
#define REDUCE "dst* src", MASK "dst_rep src_blk src_rep", "mask_kind", check_reduce, run_reduce
#define NCHW_TENSORS                                                                                       \
  "dst0* dst1* dst2* dst3* dst4* dst5* dst6* dst7* dst8* dst9* dst10* dst11* dst12* dst13* dst14* dst15* " \
  "src0 src1 src2 src3 src4 src5 src6 src7 src8 src9 src10 src11 src12 src13 src14 src15"

#define WINDOW "pad_l pad_r pad_t pad_b l1_h l1_w stride_w stride_h filter_w filter_h dilation_w dilation_h "

const Row kRows[] = {
    {"vabs", UNARY, kAbs},
    {"vrelu", UNARY, kRelu},
    {"vexp", UNARY, kExp},
    {"vln", UNARY, kLn},
    {"vrec", UNARY, kRec},
    {"vsqrt", UNARY, kSqrt},
    {"vrsqrt", UNARY, kRsqrt},
    {"vnot", UNARY, kNot},
    {"vadd", BINARY, kAdd},
    {"vsub", BINARY, kSub},
    {"vmul", BINARY, kMul},
    {"vdiv", BINARY, kDiv},
    {"vmax", BINARY, kMax},
    {"vmin", BINARY, kMin},
    {"vand", BINARY, kAnd},
    {"vor", BINARY, kOr},
    {"vaddrelu", BINARY, kAddRelu},
    {"vsubrelu", BINARY, kSubRelu},
    {"vmla", BINARY, kMla},
    {"vmadd", BINARY, kMadd},
    {"vmaddrelu", BINARY, kMaddRelu},
    {"vadds", SCALAR, kAdds},
    {"vmuls", SCALAR, kMuls},
    {"vmaxs", SCALAR, kMaxs},
    {"vmins", SCALAR, kMins},
    {"vlrelu", SCALAR, kLrelu},
    {"vaxpy", SCALAR, kAxpy},
    {"vshl", "dst* src", MASK "scalar dst_blk dst_rep src_blk src_rep", "mask_kind", check_shift, run_lanes, kShl},
    {"vshr", "dst* src", MASK "scalar dst_blk dst_rep src_blk src_rep", "mask_kind round_en", check_shift, run_lanes,
     kShr},
    {"vector_dup", "dst*", MASK "scalar dst_blk dst_rep", "mask_kind", check_dup, run_lanes, kDup},
    {"vconv", "dst* src", MASK "deqscale dst_blk dst_rep src_blk src_rep", "mask_kind round_mode has_deq", check_vconv,
     run_vconv, 0},
    {"vcmpv", "dst* src0 src1", "repeat src0_blk src0_rep src1_blk src1_rep", "compare", check_compare, run_compare, 0},
    {"vcmpvs", "dst* src", "repeat scalar src_blk src_rep", "compare", check_compare, run_compare, 1},
    {"vcmp", "dst+ src0 src1", MASK "src0_blk src0_rep src1_blk src1_rep", "mask_kind compare", check_masked_compare,
     run_masked_compare, 0},
    {"vsel", "dst* sel src0 src1", MASK "dst_blk dst_rep src0_blk src0_rep src1_blk src1_rep", "mask_kind mode",
     check_select, run_select, 0},
    {"vsels", "dst* sel src0", MASK "scalar dst_blk dst_rep src0_blk src0_rep", "mask_kind mode", check_select,
     run_select, 1},
    {"vcadd", REDUCE, kReduceAdd},
    {"vcmax", "dst* src", MASK "dst_rep src_blk src_rep", "mask_kind index_low", check_reduce, run_reduce, kReduceMax},
    {"vcmin", "dst* src", MASK "dst_rep src_blk src_rep", "mask_kind index_low", check_reduce, run_reduce, kReduceMin},
    {"vcgadd", REDUCE, kGroupAdd},
    {"vcgmax", REDUCE, kGroupMax},
    {"vcgmin", REDUCE, kGroupMin},
    {"vcpadd", REDUCE, kPairAdd},
    {"vnchwconv", NCHW_TENSORS, "repeat dst_rep src_rep", "dst_high src_high", check_nchw, run_nchw, 0},
    {"vtranspose", "dst* src", "", "", check_vtranspose, run_vtranspose, 0},
    {"data_move", "dst* src", "nburst burst src_gap dst_gap", "", check_data_move, run_data_move, 0},
    {"data_move_l0c", "dst* src", "nburst burst src_gap dst_gap deqscale", "block_mode relu", check_move_l0c,
     run_move_l0c, 0},
    {"data_move_pad", "dst* src", "nburst burst src_gap dst_gap left_pad right_pad pad_value", "", check_move_pad,
     run_move_pad, 0},
    {"nd2nz", "dst* src", "nd_num nd_n nd_d src_nd_stride src_n_stride dst_c0_stride dst_n_stride dst_nd_stride", "",
     check_nd2nz, run_nd2nz, 0},
    {"load2d", "dst* src", "index repeat src_stride dst_gap", "transpose", check_load2d, run_load2d, 0},
    {"mmad", "dst+ fm filter", "m k n", "accumulate", check_mmad, run_mmad, 0},
    {"matmul", "dst+ a b", "", "m k n init", check_matmul, run_matmul, 0},
    {"fixpipe", "dst* src", "cburst_num burst_len src_gap dst_gap deqscale", "quantize relu", check_fixpipe,
     run_fixpipe, 0},
    {"load3dv1", "dst* src", "c1 fetch_w fetch_h first_w first_h " WINDOW "jump repeat pad_value", "repeat_mode",
     check_load3dv1, run_load3dv1, 0},
    {"load3dv2", "dst* src", "channels k_ext m_ext k_start m_start " WINDOW "pad_value", "layout", check_load3dv2,
     run_load3dv2, 0},
    {"col2img", "dst+ src", "fetch_w fetch_h first_w first_h " WINDOW "repeat", "", check_col2img, run_col2img, 0},
    {"conv2d", "dst+ fm weight", "pad_value", "c1 cout " WINDOW "init", check_conv2d, run_conv2d, 0},
    {"broadcast_l0c", "dst* src", "nburst burst copies src_gap dst_gap", "", check_broadcast_l0c, run_broadcast_l0c, 0},
    {"l0c_out", "dst* src scale bias add", "nburst burst src_gap dst_gap deqscale", "block_mode relu quant store flags",
     check_l0c_out, run_l0c_out, 0},
    {"fill", "dst*", "repeat pad_value", "", check_fill, run_fill, 0},
    {"v4dtrans", "dst* src", "m_len channels", "to_hwc", check_v4dtrans, run_v4dtrans, 0},
    {"load_image", "dst* src src1", "src_w src_h first_w first_h width height", "format swap", check_load_image,
     run_load_image, 0},
    {"vgather", "dst* src offset", MASK "base dst_blk dst_rep", "mask_kind", check_gather, run_vgather, 0},
    {"vscatter", "dst+ src offset", MASK "base src_blk src_rep", "mask_kind", check_gather, run_vscatter, 0},
    {"vgatherb", "dst* src offset", "repeat dst_blk dst_rep", "", check_gatherb, run_vgatherb, 0},
    {"vbcb", "dst* src", "repeat dst_blk dst_rep", "", check_bcb, run_vbcb, 0},
    {"vci", "dst*", MASK "scalar dst_blk dst_rep", "mask_kind", check_vci, run_vci, 0},
    {"vcopy", "dst* src", MASK "dst_blk dst_rep src_blk src_rep", "mask_kind", check_copy, run_vcopy, 0},
    {"vpadding", "dst* src", MASK "dst_blk dst_rep src_blk src_rep", "mask_kind pad_mode pad_side", check_padding,
     run_vpadding, 0},
    {"vbi", "dst* src0 src1 offset", MASK "h_repeat dst_blk dst_rep", "mask_kind repeat_mode", check_vbi, run_vbi, 0},
    {"vreduce", "dst* src0 src1 count*", "mask0 repeat src0_blk src0_rep src1_rep", "mask_kind pattern", check_vreduce,
     run_vreduce, 0},
    {"vmulconv", "dst* src0 src1", MASK "dst_blk dst_rep src0_blk src0_rep src1_blk src1_rep", "mask_kind",
     check_mulconv, run_two_sources, 0},
    {"vadddeqrelu", "dst* src0 src1", MASK "deqscale dst_blk dst_rep src0_blk src0_rep src1_blk src1_rep", "mask_kind",
     check_adddeq, run_two_sources, 1},
    {"vsels0", "dst* sel src1", MASK "scalar dst_blk dst_rep src1_blk src1_rep", "mask_kind mode", check_select_scalars,
     run_select_scalars, 0},
    {"vselss", "dst* sel", MASK "scalar scalar1 dst_blk dst_rep", "mask_kind mode", check_select_scalars,
     run_select_scalars, 1},
    {"vconv_deq", "dst* src scale", MASK "deqscale dst_blk dst_rep src_blk src_rep", "mask_kind high vector",
     check_conv_deq, run_conv_deq, 0},
    {"vconcat", "dst+ src", "repeat", "field", check_field, run_field, 0},
    {"vextract", "dst* src", "repeat", "field", check_field, run_field, 1},
    {"vrpsort16", "dst* src", "repeat", "", check_rpsort, run_rpsort, 0},
    {"vsort32", "dst* src0 src1", "repeat", "", check_sort32, run_sort32, 0},
    {"vmrgsort", "dst* src0 src1 src2 src3 sr*", "len0 len1 len2 len3 repeat", "lists suspend record", check_mrgsort,
     run_mrgsort, 0},
    {"vrpac", "dst* src", "repeat scalar", "", check_scores, run_rpac, 0},
    {"vaadd", "dst* src0 src1", "repeat", "", check_scores, run_vaadd, 0},
    {"viou", "dst* src0 src1", "repeat scalar", "", check_scores, run_viou, 0},
    {"vmrgch", "dst* src", "repeat", "", check_mrgch, run_mrgch, 0},
    {"rpn_cor", "ir+ src0 src1", "repeat src0_rep src1_rep", "", check_suppression, run_rpn_cor, 0},
    {"rpn_cor_diag", "dst* src ir", "", "", check_suppression, run_rpn_cor_diag, 0},
    {"set_mode", "", "", "which value", check_mode, run_mode, 0},
    {"set_atomic_add", "", "", "mode", check_atomic_mode, run_atomic_mode, 0},
    {"set_flag", "", "event", "pipe trigger", check_pipe, run_nothing, 0},
    {"wait_flag", "", "event", "pipe trigger", check_pipe, run_nothing, 0},
    {"pipe_barrier", "", "", "pipe", check_pipe, run_nothing, 0},
    {"block_barrier", "workspace+", "", "", check_barrier, run_barrier, 0},
};

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}

std::map<std::string, OpInfo> make_table() {
  std::map<std::string, OpInfo> table;
  for (const Row& row : kRows) {
    OpInfo op{row.name, words(row.tensors), words(row.args), words(row.attrs), {}, row.check, row.run, row.code, {}};
    for (std::string& t : op.tensors) {
      const bool written = t.back() == '*' || t.back() == '+';
      if (written) t.pop_back();
      op.written.push_back(written);
    }
    op.shape = lane_shape(op);
    table.emplace(op.name, std::move(op));
  }
  return table;
}

// Arguments that are values; every other one is a count, a distance or a mask.
bool is_value_arg(const std::string& name) {
  return name == "scalar" || name == "scalar1" || name == "deqscale" || name == "pad_value";
}

std::string dtype_list(uint32_t bits) {
  std::string text;
  for (int t = 0; t < kDTypes; ++t) {
    if (bits & bit(t)) text += (text.empty() ? "" : ", ") + std::string(kDTypeName[t]);
  }
  return text;
}

}  // namespace

const OpInfo* find_op(const std::string& name) {
  static const auto& table = *new std::map<std::string, OpInfo>(make_table());
  const auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

int arg_index(const OpInfo& op, const char* name) {
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (op.args[i] == name) return int(i);
  }
  return -1;
}

int attr_index(const OpInfo& op, const char* name) {
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    if (op.attrs[i] == name) return int(i);
  }
  return -1;
}

void refuse(const Program& p, const Instr& instr, const std::string& what, const std::string& given,
            const std::string& accepted) {
  fail("%s: %s is %s; accepted: %s [%s]", instr.op->name.c_str(), what.c_str(), given.c_str(), accepted.c_str(),
       p.location(instr.loc).c_str());
}

// What need not be computed at every execution; an operand that is out of bounds fails when it is executed.
static void settle(const Program& p, Operand& o) {
  const Buffer& b = p.buffers[o.buffer];
  if (b.scope == GM || !p.exprs.is_constant(o.offset)) return;
  const int64_t elements = p.exprs.expr(o.offset).c.i;
  if (elements < 0 || elements >= b.size_bytes / o.size || b.size_bytes > UINT32_MAX) return;
  o.start = uint32_t(elements * o.size);
  o.room = uint32_t(b.size_bytes) - o.start;
}

void check_instr(const Program& p, Instr& instr, Chunks* memory) {
  const OpInfo& op = *instr.op;
  for (size_t i = 0; i < instr.args.size(); ++i) {
    const DType t = p.exprs.dtype(instr.args[i]);
    if (is_float(t) && !is_value_arg(op.args[i])) {
      refuse(p, instr, "dtype of " + op.args[i], kDTypeName[t], "an integer");
    }
  }
  op.check(p, instr);
  for (Operand& o : instr.tensors) settle(p, o);
  if (memory) instr.plan = make_plan(p, instr, *memory);
}

void need_dtype(const Program& p, const Instr& instr, int tensor, uint32_t accepted) {
  const DType t = instr.tensors[size_t(tensor)].dtype;
  if (!(accepted & bit(t))) {
    refuse(p, instr, "dtype of " + instr.op->tensors[size_t(tensor)], kDTypeName[t], dtype_list(accepted));
  }
}

void need_same_dtype(const Program& p, const Instr& instr, int first, int other) {
  const DType a = instr.tensors[size_t(first)].dtype, b = instr.tensors[size_t(other)].dtype;
  if (a != b) {
    refuse(p, instr, "dtype of " + instr.op->tensors[size_t(other)], kDTypeName[b],
           std::string(kDTypeName[a]) + " as " + instr.op->tensors[size_t(first)]);
  }
}

void need_scope(const Program& p, const Instr& instr, int tensor, uint32_t scopes) {
  const Scope s = p.buffers[instr.tensors[size_t(tensor)].buffer].scope;
  if (scopes & bit(s)) return;
  std::string accepted;
  for (int i = 0; i < kScopes; ++i) {
    if (scopes & bit(i)) accepted += (accepted.empty() ? "" : ", ") + std::string(kScopeName[i]);
  }
  refuse(p, instr, "scope of " + instr.op->tensors[size_t(tensor)], kScopeName[s], accepted);
}

void need_attr(const Program& p, const Instr& instr, const char* name, int64_t low, int64_t high) {
  const int64_t v = instr.attrs[size_t(attr_index(*instr.op, name))];
  if (v < low || v > high)
    refuse(p, instr, name, std::to_string(v), format("%lld to %lld", (long long)low, (long long)high));
}

}  // namespace mco
