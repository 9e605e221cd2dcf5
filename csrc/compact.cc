// SPDX-License-Identifier: Apache-2.0
// vreduce: the elements that a pattern keeps, densely.
#include <vector>

#include "handlers.h"
#include "picks.h"

namespace mco {

namespace {

constexpr int64_t kMaskPerRepeat = 3;
constexpr int64_t kAllPattern = 7, kFirstOfFour = 3;

// Repeats, elements of every repeat but the last, elements of the last.
struct Shape {
  int64_t repeats, count, last;
  int64_t elements(int64_t r) const { return r + 1 == repeats ? last : count; }
};

Shape shape_of(const Machine& m, const Instr& in, int lanes) {
  const int64_t kind = in.attrs[isa::vreduce::mask_kind], mask0 = m.raw_arg(in, isa::vreduce::mask0),
                repeat = m.arg(in, isa::vreduce::repeat);
  if (kind == kMaskCount) return {repeat, lanes, lanes};
  if (mask0 < 0) m.refuse(in, "mask0", std::to_string(mask0), "0 or more");
  if (kind == kMaskPerRepeat) return {mask0 ? repeat : 0, mask0, mask0};
  const int64_t repeats = mask0 / lanes + (mask0 % lanes != 0);
  return {repeats, lanes, mask0 - (repeats - 1) * lanes};
}

Wide reach(int64_t n, int64_t blk, int size) {
  const int64_t per_block = kBlockBytes / size, full = n / per_block, tail = n % per_block;
  Wide hi = full ? Wide(full - 1) * blk + kBlockBytes : 0;
  if (tail) hi = std::max(hi, Wide(full) * blk + Wide(tail) * size);
  return hi;
}

bool keeps(int64_t pattern, int64_t e) {
  if (pattern == kAllPattern) return true;
  return pattern < kFirstOfFour ? e % 2 == pattern - 1 : e % 4 == pattern - kFirstOfFour;
}

}  // namespace

void check_vreduce(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vreduce::dst, kMoved);
  need_same_dtype(p, in, isa::vreduce::dst, isa::vreduce::src0);
  need_dtype(p, in, isa::vreduce::count, bit(U32));
}

void run_vreduce(Machine& m, const Instr& in) {
  const int size = in.tensors[isa::vreduce::src0].size;
  const Shape s = shape_of(m, in, int(kVectorBytes / size));
  const int64_t blk = m.arg(in, isa::vreduce::src0_blk), rep = m.arg(in, isa::vreduce::src0_rep),
                bits_rep = m.arg(in, isa::vreduce::src1_rep), pattern = in.attrs[isa::vreduce::pattern];
  const int64_t per_block = kBlockBytes / size;
  Span need, bits_need;
  for (int64_t r : {std::max<int64_t>(s.repeats - 2, 0), s.repeats - 1}) {
    if (s.repeats == 0) break;
    need.add(0, Wide(r) * rep + reach(s.elements(r), blk, size));
    if (pattern == 0) bits_need.add(0, Wide(r) * bits_rep + ceil_div(s.elements(r), 8));
  }
  const uint8_t* raw_bits = m.read(in, isa::vreduce::src1, bits_need.lo, bits_need.hi);
  const uint8_t* src = m.read(in, isa::vreduce::src0, need.lo, need.hi);
  const std::vector<uint8_t> bits(raw_bits, raw_bits + (pattern == 0 ? int64_t(bits_need.hi) : 0));
  auto kept = [&](int64_t r, int64_t e) {
    return pattern == 0 ? (bits[size_t(r * bits_rep + e / 8)] >> (e % 8) & 1) != 0 : keeps(pattern, e);
  };
  int64_t total = 0;
  for (int64_t r = 0; r < s.repeats; ++r) {
    for (int64_t e = 0; e < s.elements(r); ++e) total += kept(r, e);
  }
  uint8_t* dst = m.write(in, isa::vreduce::dst, 0, Wide(total) * size);
  uint8_t* count = m.write(in, isa::vreduce::count, 0, 4);
  std::vector<uint8_t> row;
  for (int64_t r = 0; r < s.repeats; ++r) {
    row.clear();
    for (int64_t e = 0; e < s.elements(r); ++e) {
      const uint8_t* at = src + r * rep + e / per_block * blk + e % per_block * size;
      if (kept(r, e)) row.insert(row.end(), at, at + size);
    }
    if (row.empty()) continue;
    std::memcpy(dst, row.data(), row.size());
    dst += row.size();
  }
  const uint32_t kept_count = uint32_t(total);
  std::memcpy(count, &kept_count, sizeof kept_count);
}

}  // namespace mco
