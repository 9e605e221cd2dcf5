// SPDX-License-Identifier: Apache-2.0
// Bytes that only the data say: offsets of a gather, bits of a pattern.
#include <cstring>

#include "access.h"
#include "handlers.h"
#include "picks.h"

namespace mco {

namespace {

constexpr int64_t kOffsetBytes = 4;

// Memory of an operand that lies in its tensor, else null.
const uint8_t* data_of(const Use& use, int operand) {
  Touched touched;
  touched_bytes(use, operand, touched);
  Wide lo, hi;
  touched.hull(lo, hi);
  if (lo >= hi || hi > use.room(operand)) return nullptr;
  const Operand& o = use.in.tensors[size_t(operand)];
  return use.machine.view(o.buffer).base + use.machine.elements(o, use.in.loc) * o.size;
}

int64_t offset_at(const Use& use, int operand, const uint8_t* data, int64_t number) {
  uint32_t v;
  std::memcpy(&v, data + number * kOffsetBytes, sizeof v);
  return use.in.tensors[size_t(operand)].dtype == I32 ? int64_t(int32_t(v)) : int64_t(v);
}

}  // namespace

bool touched_by_data(const Use& use, int operand, Touched& out) {
  const Handler run = use.in.op->run;
  if (run == run_vreduce) {
    const int bits = use.operand("src1");
    const uint8_t* data = data_of(use, bits);
    if (!data) return false;
    Touched pattern;
    touched_bytes(use, bits, pattern);
    const int64_t rep = use.arg("src1_rep"), size = use.size(use.operand("src0")), mask0 = use.arg("mask0");
    const int64_t lanes = kVectorBytes / size, kind = use.attr("mask_kind");
    const int64_t repeats = kind == kMaskCounter ? ceil_div(mask0, lanes) : use.arg("repeat");
    int64_t kept = 0;
    for (int64_t r = 0; r < repeats; ++r) {
      const int64_t on = kind == kMaskCounter ? std::min(lanes, mask0 - r * lanes) : kind == kMaskCount ? lanes : mask0;
      for (int64_t e = 0; e < on; ++e) kept += data[r * rep + e / 8] >> (e % 8) & 1;
    }
    out.clear();
    out.add(0, kept * use.size(operand));
    return true;
  }
  if (run != run_vgather && run != run_vscatter && run != run_vgatherb) return false;
  const int offset = use.operand("offset");
  const uint8_t* data = data_of(use, offset);
  if (!data) return false;
  std::vector<int64_t> starts;
  int64_t bytes = kBlockBytes;
  if (run == run_vgatherb) {
    for (int64_t i = 0; i < use.arg("repeat") * kBlocks; ++i) starts.push_back(offset_at(use, offset, data, i));
  } else {
    const Plan& p = use.plan();
    const int64_t base = use.arg("base");
    bytes = p.operand[0].size;
    for (int64_t r = 0; r < p.repeats; ++r) {
      each_lane(p, r, [&](int lane) { starts.push_back(base + offset_at(use, offset, data, r * p.lanes + lane)); });
    }
  }
  out.clear();
  out.scatter(starts, bytes);
  return true;
}

}  // namespace mco
