// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

#include <algorithm>

#include "handlers.h"
#include "prefetch.h"

namespace mco {

namespace {

constexpr int64_t kMostBytes = 4 << 10;  // of a row; the processor foresees the rest of longer ones

int64_t constant(const Program& p, const Instr& in, int arg) { return p.exprs.expr(in.args[size_t(arg)]).c.i; }

// Arguments that no handler refuses.
bool small_constants(const Program& p, const Instr& in) {
  constexpr int64_t kMost = int64_t(1) << 24;
  return std::all_of(in.args.begin(), in.args.end(), [&](uint32_t root) {
    return p.exprs.is_constant(root) && p.exprs.expr(root).c.i >= 0 && p.exprs.expr(root).c.i <= kMost;
  });
}

// A row into blocks: what both moves that can do so have in common.
bool gathers(const Program& p, const Operand& to, const Operand& from, int64_t blocks, int64_t step, Row& row) {
  const Scope target = p.buffers[to.buffer].scope;
  if (p.buffers[from.buffer].scope != GM || target == GM || target == UB) return false;
  if (blocks < 1 || blocks * kBlockBytes > kMostBytes) return false;
  if (blocks > 1 && step < 2 * kBlockBytes) return false;  // no two rows lie side by side
  const Buffer& b = p.buffers[to.buffer];
  row.scope = target;
  row.lo = b.address;
  row.hi = b.address + b.size_bytes;
  row.bytes = blocks * kBlockBytes;
  row.blocks = blocks;
  row.step = step;
  return true;
}

bool one_row(const Program& p, const Instr& in, Row& row) {
  using namespace isa::nd2nz;
  const mco::Operand &to = in.tensors[dst], &from = in.tensors[src];
  if (constant(p, in, nd_num) != 1 || constant(p, in, nd_n) != 1) return false;
  const int64_t bytes = constant(p, in, nd_d) * to.size;
  if (bytes % kBlockBytes) return false;
  return gathers(p, to, from, bytes / kBlockBytes, constant(p, in, dst_c0_stride) * kBlockBytes, row);
}

bool one_burst(const Program& p, const Instr& in, Row& row) {
  using namespace isa::data_move;
  const mco::Operand &to = in.tensors[dst], &from = in.tensors[src];
  const int64_t count = constant(p, in, nburst), length = constant(p, in, burst);
  if (p.buffers[to.buffer].scope == GM) {
    if (p.buffers[from.buffer].scope != UB || to.dtype != F32) return false;
    row.adds = true;
    row.bytes = length;
    return count == 1 && length >= kBlockBytes && length <= kMostBytes && length % kBlockBytes == 0;
  }
  if (length != kBlockBytes || (count > 1 && constant(p, in, src_gap) != 0)) return false;
  return gathers(p, to, from, count, length + constant(p, in, dst_gap), row);
}

bool row_of(const Program& p, const Instr& in, Row& row) {
  if (!small_constants(p, in)) return false;
  if (in.op->run == run_nd2nz) return one_row(p, in, row);
  return in.op->run == run_data_move && one_burst(p, in, row);
}

// Whether the steps of a loop are rows and scalars alone.
bool only_rows(const Program& p, size_t first, size_t end) {
  size_t found = 0;
  for (size_t i = first; i < end; ++i) {
    const Step& s = p.stream.steps[i];
    Row row;
    switch (s.what) {
      case What::Instr:
        if (!row_of(p, *s.instr, row)) return false;
        ++found;
        break;
      case What::Load:
      case What::Assign:
      case What::Test:
      case What::Goto:
      case What::Alloc:
      case What::Free:
      case What::NoSync:
      case What::Resync:
        break;
      default:
        return false;
    }
  }
  return found > 0;
}

}  // namespace

void make_rows(Program& p) {
  const std::vector<Step>& steps = p.stream.steps;
  size_t begin = steps.size();  // of the innermost loop so far
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].what == What::Begin || steps[i].what == What::Blocks) begin = i;
    if (steps[i].what != What::Next) continue;
    if (begin < i && only_rows(p, begin + 1, i)) {
      for (size_t k = begin + 1; k < i; ++k) {
        Row row;
        if (steps[k].what != What::Instr || !row_of(p, *steps[k].instr, row)) continue;
        const_cast<Instr*>(steps[k].instr)->row = &(*p.stream.memory.make<Row>(1) = row);
      }
    }
    begin = steps.size();  // what is around it has a loop inside
  }
}

void RowQueue::clear() {
  waits_ = false;
  groups_ = first_ = adds_ = 0;
}

// The group that a row continues, or one of its own; null where what waits must come first.
RowQueue::Group* RowQueue::group_for(const Row& row, uint8_t* dst) {
  for (int i = 0; i < groups_; ++i) {
    Group& g = group_[i];
    if (g.row == &row) return g.count < g.most && dst == g.dst + g.count * kBlockBytes ? &g : nullptr;
  }
  if (groups_ == kGroups) return nullptr;
  const int64_t most = row.blocks > 1 ? std::min<int64_t>(kMost, row.step / kBlockBytes) : kMost;
  for (int i = 0; i < groups_; ++i) {
    if (row.meets(*group_[i].row)) return nullptr;
  }
  Group& g = group_[groups_++];
  g.row = &row;
  g.dst = dst;
  g.count = 0;
  g.most = int(most);
  return &g;
}

// The first `rows` of a group.
void RowQueue::copy(const Kernels& k, Group& g, int rows) {
  k.lay_rows(g.dst, g.row->step, g.src, rows, g.row->blocks);
  std::copy(g.src + rows, g.src + g.count, g.src);
  g.dst += rows * kBlockBytes;
  g.count -= rows;
}

void RowQueue::gather(const Kernels& k, const Row& row, uint8_t* dst, const uint8_t* src) {
  prefetch(src, row.bytes);
  Group* g = group_for(row, dst);
  if (!g) {
    run(k);
    g = group_for(row, dst);
  }
  g->src[g->count++] = src;
  waits_ = true;
  if (g->count == kMost) copy(k, *g, kMost / 2);  // the rest is on its way yet
}

void RowQueue::add(const Kernels& k, uint8_t* dst, const uint8_t* src, int64_t bytes) {
  prefetch_to_write(dst, bytes);
  if (adds_ == kAdds) {
    const Add& a = add_[first_];
    k.add_floats(a.dst, a.src, a.bytes);
    first_ = (first_ + 1) % kAdds;
    --adds_;
  }
  add_[(first_ + adds_++) % kAdds] = {dst, src, bytes};
  waits_ = true;
}

void RowQueue::run(const Kernels& k) {
  for (int i = 0; i < groups_; ++i) {
    if (group_[i].count) copy(k, group_[i], group_[i].count);
  }
  for (; adds_; --adds_, first_ = (first_ + 1) % kAdds) {
    const Add& a = add_[first_];
    k.add_floats(a.dst, a.src, a.bytes);
  }
  clear();
}

}  // namespace mco
