// SPDX-License-Identifier: Apache-2.0
// The bytes of instructions that a timed run need not execute, as far as their arguments tell them.
#include <algorithm>

#include "handlers.h"
#include "lanes.h"
#include "timer.h"

namespace mco {

namespace {

using Touches = std::vector<std::pair<uint32_t, Touch>>;

class Finder {
 public:
  Finder(const Machine& m, const Instr& in, Touches& out) : m_(m), in_(in), out_(out) {}
  void touch(int tensor, int64_t lo, int64_t hi, bool write) {
    if (lo < hi) out_.push_back({in_.tensors[size_t(tensor)].buffer, touch_of(m_, in_, tensor, lo, hi, write)});
  }
  int64_t arg(int index) const { return m_.arg(in_, index); }
  void runs(int tensor, int64_t count, int64_t length, int64_t step, bool write) {
    if (count > 0 && length > 0) touch(tensor, 0, (count - 1) * step + length, write);
  }
  bool lanes();
  void moves();
  void matrices();
  void fractals();
  void product();
  void from_l0c();
  void fixpipe();
  void window();
  void nchw();

 private:
  const Machine& m_;
  const Instr& in_;
  Touches& out_;
};

bool Finder::lanes() {
  const LaneShape& shape = in_.op->shape;
  if (shape.operands == 0 || size_t(shape.operands) != in_.tensors.size()) return false;
  PlanRoom room;
  const Plan& plan = plan_of(m_, in_, room);
  if (plan.empty()) return true;
  for (int i = 0; i < plan.operands; ++i) {
    const OperandRow& row = in_.op->tensors[size_t(shape.tensor[i])];
    const Lanes& l = plan.operand[i];
    if (row.read) touch(shape.tensor[i], l.lo, l.hi, false);
    if (row.written) touch(shape.tensor[i], l.lo, l.hi, true);
  }
  return true;
}

void Finder::moves() {
  using namespace isa::data_move;
  const int64_t count = arg(nburst), length = arg(burst);
  runs(src, count, length, length + arg(src_gap), false);
  runs(dst, count, length, length + arg(dst_gap), true);
}

void Finder::matrices() {
  using namespace isa::nd2nz;
  const int64_t size = in_.tensors[dst].size, count = arg(nd_num), rows = arg(nd_n), columns = arg(nd_d);
  if (!count || !rows || !columns) return;
  const int64_t blocks = ceil_div(columns * size, kBlockBytes);
  touch(src, 0, ((count - 1) * arg(src_nd_stride) + (rows - 1) * arg(src_n_stride) + columns) * size, false);
  touch(dst, 0,
        (count - 1) * arg(dst_nd_stride) * size +
            ((blocks - 1) * arg(dst_c0_stride) + (rows - 1) * arg(dst_n_stride) + 1) * kBlockBytes,
        true);
}

void Finder::fractals() {
  using namespace isa::load2d;
  const int64_t count = arg(repeat), first = arg(index) * kFractalBytes;
  if (!count) return;
  touch(src, first, first + (count - 1) * arg(src_stride) * kFractalBytes + kFractalBytes, false);
  runs(dst, count, kFractalBytes, (1 + arg(dst_gap)) * kFractalBytes, true);
}

void Finder::product() {
  using namespace isa::mmad;
  const int64_t rows = arg(m) == 1 ? 1 : round_up(arg(m), kFractalSide), columns = round_up(arg(n), kFractalSide);
  const int64_t depth = round_up(arg(k) * in_.tensors[fm].size, kBlockBytes);
  touch(fm, 0, rows * depth, false);
  touch(filter, 0, columns * depth, false);
  const int64_t bytes = round_up(rows, kFractalSide) * columns * in_.tensors[dst].size;
  if (in_.attrs[accumulate]) touch(dst, 0, bytes, false);
  touch(dst, 0, bytes, true);
}

void Finder::from_l0c() {
  using namespace isa::data_move_l0c;
  const int64_t count = arg(nburst), units = arg(burst) * kFractalElements;
  const int64_t from = units * in_.tensors[src].size, to = units * in_.tensors[dst].size;
  runs(src, count, from, from + arg(src_gap), false);
  runs(dst, count, to, to + arg(dst_gap), true);
}

void Finder::fixpipe() {
  using namespace isa::fixpipe;
  const int64_t count = arg(cburst_num), length = arg(burst_len);
  const int64_t to = length / in_.tensors[src].size * in_.tensors[dst].size;
  runs(src, count, length, length + arg(src_gap), false);
  runs(dst, count, to, to + arg(dst_gap), true);
}

// The whole feature map may be read.
void Finder::window() {
  using namespace isa::load3dv2;
  const int64_t k0 = kBlockBytes / in_.tensors[dst].size;
  touch(src, 0, ceil_div(arg(channels), k0) * arg(l1_h) * arg(l1_w) * kBlockBytes, false);
  touch(dst, 0, ceil_div(arg(m_ext), kFractalSide) * ceil_div(arg(k_ext), k0) * kFractalBytes, true);
}

void Finder::nchw() {
  using namespace isa::vnchwconv;
  const int64_t count = arg(repeat);
  for (int i = 0; i < 16; ++i) {
    runs(src0 + i, count, kBlockBytes, arg(src_rep), false);
    runs(dst0 + i, count, kBlockBytes, arg(dst_rep), true);
  }
}

}  // namespace

Touch touch_of(const Machine& m, const Instr& in, int tensor, int64_t lo, int64_t hi, bool write) {
  const Scope scope = m.scope(in, tensor);
  const int64_t base = int64_t(reinterpret_cast<uintptr_t>(m.view(in.tensors[size_t(tensor)].buffer).base));
  const int64_t from = scope == GM ? 0 : int64_t(reinterpret_cast<uintptr_t>(m.arena.base(scope)));
  const int64_t at = base - from + m.place(in, tensor);
  return {scope, write, at + lo, at + hi};
}

bool touches_of(const Machine& m, const Instr& in, Touches& out) {
  Finder find(m, in, out);
  const Handler run = in.op->run;
  if (run == run_data_move) return find.moves(), true;
  if (run == run_nd2nz) return find.matrices(), true;
  if (run == run_load2d) return find.fractals(), true;
  if (run == run_mmad) return find.product(), true;
  if (run == run_move_l0c && in.attrs[isa::data_move_l0c::block_mode] == 0) return find.from_l0c(), true;
  if (run == run_fixpipe) return find.fixpipe(), true;
  if (run == run_load3dv2) return find.window(), true;
  if (run == run_nchw) return find.nchw(), true;
  return find.lanes();
}

}  // namespace mco
