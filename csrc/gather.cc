// SPDX-License-Identifier: Apache-2.0
// Gather and scatter by byte offsets, broadcasts of elements to blocks, index ramps, copies, border blocks.
#include <string>
#include <vector>

#include "handlers.h"
#include "picks.h"

namespace mco {

namespace {

void need_multiple(Machine& m, const Instr& in, int64_t offset, int64_t bytes) {
  if (offset % bytes)
    m.refuse(in, "byte offset", std::to_string(offset), format("multiples of %lld", (long long)bytes));
}

// base + the byte offset of every lane, one per lane and repeat; what lanes that are off hold is not read.
std::vector<int64_t> lane_offsets(Machine& m, const Instr& in, const Plan& p, int64_t base) {
  const DType t = in.tensors[isa::vgather::offset].dtype;
  const Wide last = Wide(p.repeats - 1) * p.lanes;
  const Wide lo = p.by_bits ? p.first * 4 : 0, hi = (last + (p.by_bits ? p.end : p.last)) * 4;
  const uint8_t* at = m.read(in, isa::vgather::offset, lo, hi);
  std::vector<int64_t> offsets(size_t(p.repeats) * size_t(p.lanes));
  const int size = p.operand[0].size;
  bool uneven = false;
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      const int64_t n = r * p.lanes + lane;
      offsets[size_t(n)] = base + load_int(at + n * 4, t);
      uneven |= offsets[size_t(n)] % size != 0;
    });
  }
  if (uneven) {
    for (int64_t r = 0; r < p.repeats; ++r)
      each_lane(p, r, [&](int lane) { need_multiple(m, in, offsets[size_t(r * p.lanes + lane)], size); });
  }
  return offsets;
}

Span span_of(const Plan& p, const std::vector<int64_t>& offsets, int size) {
  Span s;
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      const int64_t at = offsets[size_t(r * p.lanes + lane)];
      s.add(at, Wide(at) + size);
    });
  }
  return s;
}

}  // namespace

void check_gather(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vgather::dst, kMoved);
  need_same_dtype(p, in, isa::vgather::dst, isa::vgather::src);
  need_dtype(p, in, isa::vgather::offset, bit(U32) | bit(I32));
}

void run_vgather(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const int64_t base = m.arg(in, isa::vgather::base);
  if (p.empty()) return;
  const std::vector<int64_t> offsets = lane_offsets(m, in, p, base);
  const int size = in.tensors[isa::vgather::dst].size;
  const Span s = span_of(p, offsets, size);
  const uint8_t* src = m.read(in, isa::vgather::src, s.lo, s.hi);
  const Lanes& d = p.operand[0];
  uint8_t* dst = m.write(in, isa::vgather::dst, d.lo, d.hi);
  alignas(64) uint8_t dense[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      std::memcpy(dense + lane * size, src + offsets[size_t(r * p.lanes + lane)], size_t(size));
    });
    scatter_lanes(dst + r * d.rep, dense, d, p, p.on(r));
  }
}

void run_vscatter(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const int64_t base = m.arg(in, isa::vscatter::base);
  if (p.empty()) return;
  const std::vector<int64_t> offsets = lane_offsets(m, in, p, base);
  const int size = in.tensors[isa::vscatter::dst].size;
  const Lanes& l = p.operand[0];
  const uint8_t* src = m.read(in, isa::vscatter::src, l.lo, l.hi);
  const Span s = span_of(p, offsets, size);
  uint8_t* dst = m.write(in, isa::vscatter::dst, s.lo, s.hi);
  alignas(64) uint8_t dense[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    gather_lanes(dense, src + r * l.rep, l, p, p.on(r));
    each_lane(p, r, [&](int lane) {
      std::memcpy(dst + offsets[size_t(r * p.lanes + lane)], dense + lane * size, size_t(size));
    });
  }
}

void check_gatherb(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_same_dtype(p, in, isa::vgatherb::dst, isa::vgatherb::src);
  need_dtype(p, in, isa::vgatherb::offset, bit(U32));
}

void run_vgatherb(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vgatherb::repeat), blk = m.arg(in, isa::vgatherb::dst_blk),
                rep = m.arg(in, isa::vgatherb::dst_rep);
  if (repeat == 0) return;
  const uint8_t* at = m.read(in, isa::vgatherb::offset, 0, Wide(repeat) * kBlocks * 4);
  std::vector<uint32_t> heads(size_t(repeat) * kBlocks);
  std::memcpy(heads.data(), at, heads.size() * 4);
  Span s;
  for (uint32_t head : heads) {
    need_multiple(m, in, head, kBlockBytes);
    s.add(head, Wide(head) + kBlockBytes);
  }
  const uint8_t* src = m.read(in, isa::vgatherb::src, s.lo, s.hi);
  uint8_t* dst = m.write(in, isa::vgatherb::dst, 0, Wide(repeat - 1) * rep + Wide(kBlocks - 1) * blk + kBlockBytes);
  uint8_t dense[kVectorBytes];
  for (int64_t r = 0; r < repeat; ++r) {
    for (int b = 0; b < kBlocks; ++b)
      std::memcpy(dense + b * kBlockBytes, src + heads[size_t(r * kBlocks + b)], kBlockBytes);
    for (int b = 0; b < kBlocks; ++b) std::memcpy(dst + r * rep + b * blk, dense + b * kBlockBytes, kBlockBytes);
  }
}

void check_bcb(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vbcb::dst, kMoved);
  need_same_dtype(p, in, isa::vbcb::dst, isa::vbcb::src);
}

// Blocks, each filled with one of the elements at `from`, to places `step` bytes apart.
template <typename T>
void spread_blocks(uint8_t* to, int64_t step, const uint8_t* from) {
  T row[kBlocks];
  std::memcpy(row, from, sizeof row);
  for (int b = 0; b < kBlocks; ++b) {
    T block[size_t(kBlockBytes) / sizeof(T)];
    std::fill(std::begin(block), std::end(block), row[b]);
    std::memcpy(to + b * step, block, sizeof block);
  }
}

void run_vbcb(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vbcb::repeat), blk = m.arg(in, isa::vbcb::dst_blk),
                rep = m.arg(in, isa::vbcb::dst_rep);
  if (repeat == 0) return;
  const int size = in.tensors[isa::vbcb::dst].size;
  const uint8_t* src = m.read(in, isa::vbcb::src, 0, Wide(repeat) * kBlocks * size);
  uint8_t* dst = m.write(in, isa::vbcb::dst, 0, Wide(repeat - 1) * rep + Wide(kBlocks - 1) * blk + kBlockBytes);
  const auto spread = size == 4   ? spread_blocks<uint32_t>
                      : size == 2 ? spread_blocks<uint16_t>
                                  : spread_blocks<uint8_t>;
  for (int64_t r = 0; r < repeat; ++r) spread(dst + r * rep, blk, src + r * kBlocks * size);
}

void check_vci(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::constant::dst, kNumeric);
}

void run_vci(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const DType t = in.tensors[isa::constant::dst].dtype;
  const Value start = m.value_arg(in, isa::constant::scalar, t);
  if (p.empty()) return;
  const Lanes& d = p.operand[0];
  uint8_t* dst = m.write(in, isa::constant::dst, d.lo, d.hi);
  alignas(64) uint8_t dense[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      const int64_t n = r * p.lanes + lane;
      if (is_float(t)) {
        store_float(dense + lane * d.size, float(start.f) + float(n), t, m.saturate);
      } else {
        const int64_t v = start.i + n;
        std::memcpy(dense + lane * d.size, &v, size_t(d.size));
      }
    });
    scatter_lanes(dst + r * d.rep, dense, d, p, p.on(r));
  }
}

void check_copy(const Program& p, const Instr& in) { check_bcb(p, in); }

void run_vcopy(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  if (p.empty()) return;
  const Lanes &d = p.operand[0], &s = p.operand[1];
  const uint8_t* src = m.read(in, isa::unary::src, s.lo, s.hi);
  uint8_t* dst = m.write(in, isa::unary::dst, d.lo, d.hi);
  alignas(64) uint8_t dense[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    gather_lanes(dense, src + r * s.rep, s, p, p.on(r));
    scatter_lanes(dst + r * d.rep, dense, d, p, p.on(r));
  }
}

void check_padding(const Program& p, const Instr& in) { check_copy(p, in); }

// The block beside block x of n elements: nearest, mirrored with or without the edge.
static void border(uint8_t* to, const uint8_t* x, int size, int64_t mode, bool right) {
  const int n = int(kBlockBytes / size);
  for (int i = 0; i < n; ++i) {
    const int from = mode == 0 ? (right ? n - 1 : 0) : mode == 1 ? n - 1 - i : right ? n - 2 - i : n - i;
    if (from < 0 || from >= n) {
      std::memset(to + i * size, 0, size_t(size));
    } else {
      std::memcpy(to + i * size, x + from * size, size_t(size));
    }
  }
}

void run_vpadding(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  if (p.empty()) return;
  const Lanes &d = p.operand[0], &s = p.operand[1];
  Span span;
  for (int64_t r : {int64_t(0), std::max<int64_t>(p.repeats - 2, 0), p.repeats - 1}) {
    for (int b = 0; b < kBlocks; ++b) {
      if (block_on(p, b, r))
        span.add(Wide(r) * s.rep + Wide(b) * s.blk, Wide(r) * s.rep + Wide(b) * s.blk + kBlockBytes);
    }
  }
  const uint8_t* src = m.read(in, isa::vpadding::src, span.lo, span.hi);
  uint8_t* dst = m.write(in, isa::vpadding::dst, d.lo, d.hi);
  alignas(64) uint8_t dense[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    for (int b = 0; b < kBlocks; ++b) {
      if (block_on(p, b, r))
        border(dense + b * kBlockBytes, src + r * s.rep + b * s.blk, s.size, in.attrs[isa::vpadding::pad_mode],
               in.attrs[isa::vpadding::pad_side] != 0);
    }
    scatter_lanes(dst + r * d.rep, dense, d, p, p.on(r));
  }
}

void check_vbi(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vbi::dst, kScores);
  need_same_dtype(p, in, isa::vbi::dst, isa::vbi::src0);
  need_same_dtype(p, in, isa::vbi::dst, isa::vbi::src1);
  need_dtype(p, in, isa::vbi::offset, bit(U32));
}

void run_vbi(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const int64_t steps = m.arg(in, isa::vbi::h_repeat);
  if (p.empty() || steps == 0) return;
  const bool per_block = in.attrs[isa::vbi::repeat_mode] != 0;
  const DType t = in.tensors[isa::vbi::dst].dtype;
  const int size = kSize[t], width = p.lanes / kBlocks;
  Span heads_span, weight_span, src_span;
  for (int64_t r = 0; r < p.repeats; ++r) {
    for (int b = 0; b < kBlocks; ++b) {
      if (!block_on(p, b, r)) continue;
      const Wide first = Wide(r) * steps, last = first + steps - 1;
      heads_span.add((first * kBlocks + b) * 4, (last * kBlocks + b + 1) * 4);
      if (per_block) {
        weight_span.add((first * kBlocks + b) * size, (last * kBlocks + b + 1) * size);
      } else {
        weight_span.add(first * size, (last + 1) * size);
      }
    }
  }
  const uint8_t* at = m.read(in, isa::vbi::offset, heads_span.lo, heads_span.hi);
  const uint8_t* w = m.read(in, isa::vbi::src1, weight_span.lo, weight_span.hi);
  const std::vector<uint8_t> head_bytes(at + int64_t(heads_span.lo), at + int64_t(heads_span.hi));
  const std::vector<uint8_t> weights(w + int64_t(weight_span.lo), w + int64_t(weight_span.hi));
  auto head = [&](int64_t r, int64_t h, int b) {
    return load_int(head_bytes.data() + ((r * steps + h) * kBlocks + b) * 4 - int64_t(heads_span.lo), U32);
  };
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      for (int64_t h = 0; h < steps; ++h) {
        const int64_t from = head(r, h, lane / width) + lane % width * size;
        src_span.add(from, Wide(from) + size);
      }
    });
  }
  const uint8_t* src = m.read(in, isa::vbi::src0, src_span.lo, src_span.hi);
  const Lanes& d = p.operand[0];
  uint8_t* dst = m.write(in, isa::vbi::dst, d.lo, d.hi);
  alignas(64) uint8_t dense[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      const int b = lane / width;
      float total = 0;
      for (int64_t h = 0; h < steps; ++h) {
        const int64_t n = per_block ? (r * steps + h) * kBlocks + b : r * steps + h;
        const float weight = load_float(weights.data() + n * size - int64_t(weight_span.lo), t);
        const float x = load_float(src + head(r, h, b) + lane % width * size, t);
        const float product = rounded(x * weight, t, m.saturate);
        total = h == 0 ? product : rounded(total + product, t, m.saturate);
      }
      store_float(dense + lane * size, total, t, m.saturate);
    });
    scatter_lanes(dst + r * d.rep, dense, d, p, p.on(r));
  }
}

}  // namespace mco
