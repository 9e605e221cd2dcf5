// SPDX-License-Identifier: Apache-2.0
// Rules of one instruction: where its operands may lie, and what its results may be.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "checker.h"
#include "handlers.h"
#include "lanes.h"
#include "number.h"

namespace mco {

bool constant_arguments(const Program& p, const Instr& in) {
  return std::all_of(in.args.begin(), in.args.end(), [&](uint32_t root) { return p.exprs.is_constant(root); });
}

// What the engine itself refused.
void Checker::lost(const std::string& text, uint32_t loc) {
  const bool unset = text.find("is read before it was set") != std::string::npos;
  const bool bounds = text.find(" needs bytes [") != std::string::npos;
  const bool start = text.find(": the start of ") != std::string::npos;
  const Fault kind = unset    ? Fault::UninitializedScalar
                     : bounds ? Fault::OutOfBounds
                     : start  ? Fault::Misaligned
                              : Fault::ParamRange;
  add(kind, loc, kNoLocation, kNoBuffer, 0, 0, [&] {
    const std::string said = text.substr(0, text.rfind(" ["));
    return call_ ? call_ + said.substr(std::min(said.find(": "), said.size())) : said;  // it begins with its row
  });
}

bool Checker::check_start(const Instr& in, int i, const OperandUse& o) {
  const Buffer& b = program_.buffers[o.buffer];
  const Operand& operand = in.tensors[size_t(i)];
  if (call_) return true;  // of Ascend C: looked at before, by the grid that the call asks for
  const int64_t align = start_align(program_, in, size_t(i));
  if (align <= 1 || o.touched->boxes.empty()) return true;
  // A start outside of its tensor may be any number: the sum of the two need not be one.
  if ((b.address % align + o.start % align) % align == 0) return true;
  const bool traced = program_.exprs.is_constant(operand.offset) || program_.exprs.dtype(operand.offset) == U64;
  if (traced && !run_.options.manual_sync) return true;  // tracing has looked at it, or made it
  add(Fault::Misaligned, in.loc, b.loc, o.buffer, o.start, std::min(o.start, INT64_MAX - 1) + 1, [&] {
    return format("%s: the start of %s is byte %lld of %s (%s); accepted: multiples of %lld bytes", name_of(in),
                  in.op->tensors[size_t(i)].name, (long long)o.start, name(o.buffer), kScopeName[b.scope],
                  (long long)align);
  });
  return false;
}

// Whether an operand lies in its tensor; `tail`: but for what a move of whole blocks touches behind one in GM.
bool Checker::bound(Machine& m, const Instr& in, int i, OperandUse& o, bool& tail) {
  const Operand& operand = in.tensors[size_t(i)];
  const View view = m.view(o.buffer);
  const Buffer& b = program_.buffers[o.buffer];
  const int64_t elements = m.elements(operand, in.loc);
  Wide start = elements, lo, hi;
  if (elements < 0 && program_.exprs.dtype(operand.offset) == U64) start = uint64_t(elements);
  start *= operand.size;
  o.touched->hull(lo, hi);
  if (lo >= hi) return true;
  o.start = int64_t(std::min<Wide>(std::max<Wide>(start, INT64_MIN), INT64_MAX));
  if (start + lo >= 0 && start + hi <= view.size) return true;
  if (b.scope == GM && in.op->run == run_data_move && start >= 0 &&
      start + hi <= round_up(view.size, kBlockBytes) + kBlockBytes) {
    tail = true;
    return true;
  }
  const auto number = [](Wide w) { return (long long)std::min<Wide>(std::max<Wide>(w, INT64_MIN), INT64_MAX); };
  add(Fault::OutOfBounds, in.loc, b.loc, o.buffer, number(start + lo), number(start + hi), [&] {
    return format("%s: %s %s bytes [%lld, %lld) of %s (%s), which has %lld", name_of(in),
                  in.op->tensors[size_t(i)].name, o.writes ? "writes" : "reads", number(start + lo), number(start + hi),
                  name(o.buffer), kScopeName[b.scope], (long long)view.size);
  });
  return false;
}

// A mask that is known only while running must have a lane, as one that tracing sees.
void Checker::check_mask(const Machine& m, const Instr& in) {
  const LaneShape& shape = in.op->shape;
  const bool bits = in.attrs[size_t(shape.mask_kind)] == kMaskBits;
  const auto constant = [&](int arg) { return arg < 0 || program_.exprs.is_constant(in.args[size_t(arg)]); };
  if (constant(shape.mask0) && (!bits || constant(shape.mask1))) return;  // tracing has looked at it
  if (m.raw_arg(in, shape.mask0) != 0 || (bits && m.raw_arg(in, shape.mask1) != 0)) return;
  add(Fault::ParamRange, in.loc, kNoLocation, kNoBuffer, 0, 0,
      [&] { return format("%s: mask is 0; accepted: a mask with a lane that is on", in.op->name.c_str()); });
}

// Rules of operands in one tensor, where they are known only while running.
void Checker::check_overlap(const Instr& in, const Use& use) {
  const LaneShape& shape = in.op->shape;
  if (shape.operands < 2 || shape.tensor[0] != 0) return;
  const OperandUse& d = operands_[0];
  for (int k = 1; k < shape.operands; ++k) {
    const OperandUse& s = operands_[size_t(shape.tensor[k])];
    const Operand &to = in.tensors[0], &from = in.tensors[size_t(shape.tensor[k])];
    if (s.buffer != d.buffer || s.touched->boxes.empty()) continue;
    if (!run_.options.order && program_.exprs.is_constant(to.offset) && program_.exprs.is_constant(from.offset) &&
        constant_arguments(program_, in)) {
      continue;  // tracing has looked at it
    }
    const Plan& p = use.plan();
    const Lanes &a = p.operand[0], &b = p.operand[k];
    const bool same = d.start == s.start && a.blk == b.blk && a.size == b.size;
    if (same && (a.rep == b.rep || p.repeats == 1)) continue;
    if (d.start + a.hi <= s.start + b.lo || s.start + b.hi <= d.start + a.lo) continue;
    const int64_t blocks_a = ceil_div(p.count * a.size, kBlockBytes),
                  blocks_b = ceil_div(p.count * b.size, kBlockBytes);
    if (p.by_bits) continue;
    bool clash = false;
    const int64_t last = p.repeats == 1 || a.rep == b.rep ? 1 : p.repeats - 1;  // equal strides: always the same
    for (int64_t r = 0; r < last && !clash; ++r) {
      const int64_t next = p.repeats == 1 ? r : r + 1;
      for (int64_t i = 0; i < blocks_a && !clash; ++i) {
        for (int64_t j = 0; j < blocks_b && !clash; ++j) {
          const int64_t x = d.start + r * a.rep + i * a.blk, y = s.start + next * b.rep + j * b.blk;
          clash = std::abs(x - y) < kBlockBytes;
        }
      }
    }
    if (!clash) continue;
    add(Fault::Overlap, in.loc, program_.buffers[d.buffer].loc, d.buffer, d.start + a.lo, d.start + a.hi, [&] {
      return format("%s: dst, bytes [%lld, %lld), and %s, bytes [%lld, %lld), overlap in %s; accepted: %s", name_of(in),
                    (long long)(d.start + a.lo), (long long)(d.start + a.hi),
                    in.op->tensors[size_t(shape.tensor[k])].name, (long long)(s.start + b.lo),
                    (long long)(s.start + b.hi), name(d.buffer),
                    p.repeats == 1 ? "identical or apart" : "dst of a repeat identical with src of the next or apart");
    });
  }
}

constexpr float kMostHalf = 65504.0f;

void Checker::count(const Machine& m, const OperandUse& o, DType t, Values& found) {
  if (!is_float(t) || o.touched->boxes.empty()) return;
  const uint8_t* at = m.view(o.buffer).base + o.start;
  each_run(*o.touched, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i + kSize[t] <= hi; i += kSize[t]) {
      const float x = load_float(at + i, t);
      found.not_numbers += x != x;
      found.ends += t == F16 && std::abs(x) == kMostHalf;
    }
  });
}

// Only vector and cube compute; what a move brings was there before.
static bool computes(const Instr& in) {
  return (in.op->pipe == 1 || in.op->pipe == 2) && in.tensors.size() && is_float(in.tensors[0].dtype);
}

// What the operands hold, before the instruction: it may write over them, its destination may be a sum, and a scalar
// is an operand too.
void Checker::weigh(const Machine& m, const Instr& in) {
  given_ = {};
  if (!computes(in)) return;
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    if (operands_[i].reads) count(m, operands_[i], in.tensors[i].dtype, given_);
  }
  for (size_t i = 0; i < in.op->args.size(); ++i) {
    if (in.op->args[i].kind != ArgKind::Value) continue;
    const double x = m.value_arg(in, int(i), in.tensors[0].dtype).f;
    given_.not_numbers += x != x;
    given_.ends += std::abs(x) >= kMostHalf;
  }
}

// Results that are no number, or at the end of their range, though no operand was.
void Checker::after(const Machine& m, const Instr& in) {
  if (!computes(in) || !operands_[0].writes) return;
  const OperandUse& o = operands_[0];
  Values found;
  count(m, o, in.tensors[0].dtype, found);
  if (found.not_numbers > 0 && given_.not_numbers == 0) {
    add(Fault::NanProduced, in.loc, kNoLocation, o.buffer, 0, 0, [&] {
      return format("%s: %lld elements of %s are NaN, though no operand holds one", name_of(in),
                    (long long)found.not_numbers, name(o.buffer));
    });
  }
  if (found.ends > 0 && given_.ends == 0 && m.saturate) {
    add(Fault::Saturated, in.loc, kNoLocation, o.buffer, 0, 0, [&] {
      return format("%s: %lld elements of %s are saturated (+-65504)", name_of(in), (long long)found.ends,
                    name(o.buffer));
    });
  }
}

}  // namespace mco
