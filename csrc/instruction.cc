// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

#include <algorithm>
#include <map>

#include "access.h"
#include "handlers.h"
#include "lanes.h"

namespace mco {

namespace {

// What the table cannot say: how an instruction is checked and run.
struct Body {
  const char* name;
  Check check;
  Handler run;
  int code;
};

struct InstrRow {
  const char* name;
  size_t operands, args, attrs;
  int pipe;
  AccessOf access;
};

#include "isa_rows.inc"

const Body kBodies[] = {
    {"vabs", check_lanes, run_lanes, kAbs},
    {"vrelu", check_lanes, run_lanes, kRelu},
    {"vexp", check_lanes, run_lanes, kExp},
    {"vln", check_lanes, run_lanes, kLn},
    {"vrec", check_lanes, run_lanes, kRec},
    {"vsqrt", check_lanes, run_lanes, kSqrt},
    {"vrsqrt", check_lanes, run_lanes, kRsqrt},
    {"vnot", check_lanes, run_lanes, kNot},
    {"vadd", check_lanes, run_lanes, kAdd},
    {"vsub", check_lanes, run_lanes, kSub},
    {"vmul", check_lanes, run_lanes, kMul},
    {"vdiv", check_lanes, run_lanes, kDiv},
    {"vmax", check_lanes, run_lanes, kMax},
    {"vmin", check_lanes, run_lanes, kMin},
    {"vand", check_lanes, run_lanes, kAnd},
    {"vor", check_lanes, run_lanes, kOr},
    {"vaddrelu", check_lanes, run_lanes, kAddRelu},
    {"vsubrelu", check_lanes, run_lanes, kSubRelu},
    {"vmla", check_lanes, run_lanes, kMla},
    {"vmadd", check_lanes, run_lanes, kMadd},
    {"vmaddrelu", check_lanes, run_lanes, kMaddRelu},
    {"vadds", check_lanes, run_lanes, kAdds},
    {"vmuls", check_lanes, run_lanes, kMuls},
    {"vmaxs", check_lanes, run_lanes, kMaxs},
    {"vmins", check_lanes, run_lanes, kMins},
    {"vlrelu", check_lanes, run_lanes, kLrelu},
    {"vaxpy", check_lanes, run_lanes, kAxpy},
    {"vshl", check_lanes, run_lanes, kShl},
    {"vshr", check_lanes, run_lanes, kShr},
    {"vector_dup", check_dup, run_lanes, kDup},
    {"vconv", check_vconv, run_vconv, 0},
    {"vcmpv", check_compare, run_compare, 0},
    {"vcmpvs", check_compare, run_compare, 1},
    {"vcmp", check_compare, run_masked_compare, 0},
    {"vsel", check_select, run_select, 0},
    {"vsels", check_select, run_select, 1},
    {"vcadd", check_reduce, run_reduce, kReduceAdd},
    {"vcmax", check_reduce, run_reduce, kReduceMax},
    {"vcmin", check_reduce, run_reduce, kReduceMin},
    {"vcgadd", check_reduce, run_reduce, kGroupAdd},
    {"vcgmax", check_reduce, run_reduce, kGroupMax},
    {"vcgmin", check_reduce, run_reduce, kGroupMin},
    {"vcpadd", check_reduce, run_reduce, kPairAdd},
    {"vnchwconv", check_nchw, run_nchw, 0},
    {"vtranspose", check_vtranspose, run_vtranspose, 0},
    {"data_move", check_data_move, run_data_move, 0},
    {"data_move_l0c", check_move_l0c, run_move_l0c, 0},
    {"data_move_pad", check_move_pad, run_move_pad, 0},
    {"nd2nz", check_nd2nz, run_nd2nz, 0},
    {"load2d", check_load2d, run_load2d, 0},
    {"load2d_square", check_load2d_square, run_load2d_square, 0},
    {"mmad", check_mmad, run_mmad, 0},
    {"matmul", check_matmul, run_matmul, 0},
    {"fixpipe", check_fixpipe, run_fixpipe, 0},
    {"load3dv1", check_load3dv1, run_load3dv1, 0},
    {"load3dv2", check_load3dv2, run_load3dv2, 0},
    {"col2img", check_col2img, run_col2img, 0},
    {"conv2d", check_conv2d, run_conv2d, 0},
    {"broadcast_l0c", check_broadcast_l0c, run_broadcast_l0c, 0},
    {"l0c_out", check_l0c_out, run_l0c_out, 0},
    {"l0c_matrix", check_l0c_matrix, run_l0c_matrix, 0},
    {"fill", check_fill, run_fill, 0},
    {"fill_blocks", check_fill, run_fill_blocks, 0},
    {"v4dtrans", check_v4dtrans, run_v4dtrans, 0},
    {"load_image", check_load_image, run_load_image, 0},
    {"vgather", check_gather, run_vgather, 0},
    {"vscatter", check_gather, run_vscatter, 0},
    {"vgatherb", check_gatherb, run_vgatherb, 0},
    {"vbcb", check_bcb, run_vbcb, 0},
    {"vci", check_vci, run_vci, 0},
    {"vcopy", check_copy, run_vcopy, 0},
    {"vpadding", check_padding, run_vpadding, 0},
    {"vbi", check_vbi, run_vbi, 0},
    {"vreduce", check_vreduce, run_vreduce, 0},
    {"vmulconv", check_mulconv, run_two_sources, 0},
    {"vadddeqrelu", check_adddeq, run_two_sources, 1},
    {"vsels0", check_select_scalars, run_select_scalars, 0},
    {"vselss", check_select_scalars, run_select_scalars, 1},
    {"vconv_deq", check_conv_deq, run_conv_deq, 0},
    {"vconcat", check_field, run_field, 0},
    {"vextract", check_field, run_field, 1},
    {"vrpsort16", check_rpsort, run_rpsort, 0},
    {"vsort32", check_sort32, run_sort32, 0},
    {"vmrgsort", check_mrgsort, run_mrgsort, 0},
    {"vrpac", check_scores, run_rpac, 0},
    {"vaadd", check_scores, run_vaadd, 0},
    {"viou", check_scores, run_viou, 0},
    {"vmrgch", check_mrgch, run_mrgch, 0},
    {"rpn_cor", check_suppression, run_rpn_cor, 0},
    {"rpn_cor_diag", check_suppression, run_rpn_cor_diag, 0},
    {"set_mode", check_nothing, run_mode, 0},
    {"set_atomic_add", check_nothing, run_atomic_mode, 0},
    {"set_flag", check_nothing, run_nothing, 0},
    {"wait_flag", check_nothing, run_nothing, 0},
    {"pipe_barrier", check_nothing, run_nothing, 0},
    {"block_barrier", check_barrier, run_barrier, 0},
};

static_assert(sizeof kBodies / sizeof kBodies[0] == sizeof kInstrRows / sizeof kInstrRows[0], "a body for every row");

template <class T>
int index_of(const Rows<T>& rows, const std::string& name) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == name) return int(i);
  }
  return -1;
}

LaneShape lane_shape(const OpInfo& op) {
  LaneShape s;
  for (size_t i = 0; i < op.tensors.size() && s.operands < 4; ++i) {
    const std::string name = op.tensors[i].name;
    const int blk = index_of(op.args, name + "_blk");
    if (blk < 0) continue;
    s.tensor[s.operands] = int(i);
    s.blk[s.operands] = blk;
    s.rep[s.operands] = index_of(op.args, name + "_rep");
    ++s.operands;
  }
  s.repeat = index_of(op.args, "repeat");
  s.mask0 = index_of(op.args, "mask0");
  s.mask1 = index_of(op.args, "mask1");
  s.mask_kind = index_of(op.attrs, "mask_kind");
  return s;
}

const Body& body_of(const std::string& name) {
  for (const Body& body : kBodies) {
    if (body.name == name) return body;
  }
  fail("%s: a row of the table has no handler", name.c_str());
}

std::map<std::string, OpInfo> make_table() {
  std::map<std::string, OpInfo> table;
  size_t operand = 0, arg = 0, attr = 0;
  for (const InstrRow& row : kInstrRows) {
    const Body& body = body_of(row.name);
    OpInfo op{row.name,
              {kOperandRows + operand, row.operands},
              {kArgRows + arg, row.args},
              {kAttrRows + attr, row.attrs},
              body.check,
              body.run,
              body.code,
              row.pipe,
              row.access,
              {}};
    operand += row.operands;
    arg += row.args;
    attr += row.attrs;
    op.shape = lane_shape(op);
    table.emplace(op.name, std::move(op));
  }
  return table;
}

template <class T>
std::string dtype_of(const T& row) {
  return std::string("dtype of ") + row.name;
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

const OpInfo* op_at(size_t number) {
  static const auto& ops = *[] {
    auto* rows = new std::vector<const OpInfo*>;
    for (const InstrRow& row : kInstrRows) rows->push_back(find_op(row.name));
    return rows;
  }();
  return number < ops.size() ? ops[number] : nullptr;
}

static bool moves_mask(const Program& p, const Instr& instr) {
  if (instr.op->pipe != kByRoute) return false;
  return std::any_of(instr.tensors.begin(), instr.tensors.end(),
                     [&](const Operand& o) { return p.buffers[o.buffer].scope == SMASK; });
}

int64_t start_align(const Program& p, const Instr& instr, size_t tensor) {
  const OperandRow& row = instr.op->tensors[tensor];
  const int64_t size = instr.tensors[tensor].size;
  const Scope scope = p.buffers[instr.tensors[tensor].buffer].scope;
  if (scope == UB && row.start_elements) return row.start_elements * size;
  if (scope == UB && moves_mask(p, instr)) return kCmpMaskBytes;
  switch (scope) {
    case UB:
    case L1:
    case SMASK:
      return kBlockBytes;
    case L0A:
    case L0B:
      return kFractalBytes;
    case L0C:
      return size == 4 ? 2 * kFractalBytes : kFractalBytes;
    case BT:
      return 64;
    default:
      return 1;
  }
}

int pipe_of(const Program& p, const Instr& instr) {
  if (instr.op->pipe != kByRoute) return instr.op->pipe;
  const Scope dst = p.buffers[instr.tensors[0].buffer].scope, src = p.buffers[instr.tensors[1].buffer].scope;
  return kRoutes[p.split_cores][dst][src];
}

const char* pipe_name(int pipe) {
  static const char* const kNames[] = {"PIPE_S",    "PIPE_V",    "PIPE_M",   "PIPE_MTE1",
                                       "PIPE_MTE2", "PIPE_MTE3", "PIPE_FIX", "PIPE_ALL"};
  return pipe >= 0 && pipe <= kAllPipes ? kNames[pipe] : "no pipe";
}

int64_t ranged(const Machine& m, const Instr& instr, int index, int64_t value) {
  const ArgRow& row = instr.op->args[size_t(index)];
  if (value < row.low || value > row.high) {
    m.refuse(instr, row.name, std::to_string(value), format("%lld to %lld", (long long)row.low, (long long)row.high));
  }
  return value;
}

int64_t ranged_arg(const Machine& m, const Instr& instr, int index) {
  return ranged(m, instr, index, m.arg(instr, index));
}

void refuse(const Program& p, const Instr& instr, const std::string& what, const std::string& given,
            const std::string& accepted) {
  fail("%s: %s is %s; accepted: %s [%s]", instr.op->name.c_str(), what.c_str(), given.c_str(), accepted.c_str(),
       p.location(instr.loc).c_str());
}

void check_counts(const Program& p, const std::string& name, const OpInfo* op, size_t tensors, size_t args,
                  size_t attrs, uint32_t loc) {
  if (!op) fail("unknown instruction %s [%s]", name.c_str(), p.location(loc).c_str());
  if (tensors == op->tensors.size() && args == op->args.size() && attrs == op->attrs.size()) return;
  fail("%s: tensors, args and attrs are %zu, %zu, %zu; accepted: %zu, %zu, %zu [%s]", name.c_str(), tensors, args,
       attrs, op->tensors.size(), op->args.size(), op->attrs.size(), p.location(loc).c_str());
}

What kind_of(const std::string& name) {
  if (name == "block_barrier") return What::Barrier;
  return name == "set_flag" || name == "wait_flag" || name == "pipe_barrier" ? What::Sync : What::Instr;
}

// What need not be computed at every execution; an operand that is out of bounds fails when it is executed.
static void settle(const Program& p, Instr& instr, size_t tensor) {
  Operand& o = instr.tensors[tensor];
  const Buffer& b = p.buffers[o.buffer];
  if (b.scope == GM) return;
  if (!p.exprs.is_constant(o.offset)) {
    if (p.exprs.dtype(o.offset) != U64) o.off_grid = uint16_t(start_align(p, instr, tensor) - 1);
    return;
  }
  const int64_t elements = p.exprs.expr(o.offset).c.i;
  if (elements < 0 || elements >= b.size_bytes / o.size || b.size_bytes > UINT32_MAX) return;
  o.start = uint32_t(elements * o.size);
  o.room = uint32_t(b.size_bytes) - o.start;
}

void check_instr(const Program& p, Instr& instr, Chunks* memory) {
  const OpInfo& op = *instr.op;
  for (size_t i = 0; i < instr.attrs.size(); ++i) {
    const AttrRow& row = op.attrs[i];
    if (!row.allows(instr.attrs[i])) refuse(p, instr, row.name, std::to_string(instr.attrs[i]), row.accepted);
  }
  for (size_t i = 0; i < instr.args.size(); ++i) {
    const DType t = p.exprs.dtype(instr.args[i]);
    if (is_float(t) && op.args[i].kind != ArgKind::Value) {
      refuse(p, instr, dtype_of(op.args[i]), kDTypeName[t], "an integer");
    }
  }
  op.check(p, instr);
  for (size_t i = 0; i < instr.tensors.size(); ++i) settle(p, instr, i);
  if (memory) instr.plan = make_plan(p, instr, *memory);
}

void need_dtype(const Program& p, const Instr& instr, int tensor, uint32_t accepted) {
  const DType t = instr.tensors[size_t(tensor)].dtype;
  if (!(accepted & bit(t))) {
    refuse(p, instr, dtype_of(instr.op->tensors[size_t(tensor)]), kDTypeName[t], dtype_list(accepted));
  }
}

void need_same_dtype(const Program& p, const Instr& instr, int first, int other) {
  const DType a = instr.tensors[size_t(first)].dtype, b = instr.tensors[size_t(other)].dtype;
  if (a != b) {
    refuse(p, instr, dtype_of(instr.op->tensors[size_t(other)]), kDTypeName[b],
           std::string(kDTypeName[a]) + " as " + instr.op->tensors[size_t(first)].name);
  }
}

void need_scope(const Program& p, const Instr& instr, int tensor, uint32_t scopes) {
  const Scope s = p.buffers[instr.tensors[size_t(tensor)].buffer].scope;
  if (scopes & bit(s)) return;
  std::string accepted;
  for (int i = 0; i < kScopes; ++i) {
    if (scopes & bit(i)) accepted += (accepted.empty() ? "" : ", ") + std::string(kScopeName[i]);
  }
  refuse(p, instr, std::string("scope of ") + instr.op->tensors[size_t(tensor)].name, kScopeName[s], accepted);
}

}  // namespace mco
