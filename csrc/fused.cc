// SPDX-License-Identifier: Apache-2.0
// Instructions that convert what they computed, selections between scalars, conversion by a scale word, modes.
#include <cmath>

#include "convert_scalar.h"
#include "handlers.h"
#include "picks.h"

namespace mco {

namespace {

constexpr int kScales = 16, kHalf = int(kBlockBytes / 2);
constexpr uint32_t kBytes = bit(I8) | bit(U8);

static_assert(int(isa::binary::src0) == int(isa::vadddeqrelu::src0) &&
                  int(isa::binary::src1) == int(isa::vadddeqrelu::src1) &&
                  int(isa::vsels0::sel) == int(isa::vselss::sel) && int(isa::vsels0::mode) == int(isa::vselss::mode),
              "one handler reads both");

// The low bits of an integral value; NaN and infinities give 0.
void store_low_bits(uint8_t* to, DType dst, double whole) {
  uint64_t bits = 0;
  if (std::isfinite(whole)) {
    const double part = std::fmod(whole, 0x1p64);
    bits = part < 0 ? ~uint64_t(0) - uint64_t(-part) + 1 : uint64_t(part);
  }
  std::memcpy(to, &bits, kSize[dst]);
}

float dequantized(int32_t x, float scale, bool saturate) {
  float y = float(x);
  for (float factor : {0x1p-17f, scale, 0x1p17f}) y = rounded(y * factor, F16, saturate);
  return y;
}

void put_product(const Machine& m, uint8_t* to, DType dst, float product) {
  if (m.wrap_int) {
    store_low_bits(to, dst, std::nearbyint(double(product)));
  } else {
    convert_elements(to, dst, reinterpret_cast<const uint8_t*>(&product), F32, 1, 0, m.saturate);
  }
}

}  // namespace

void check_mulconv(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::binary::dst, kBytes);
  need_dtype(p, in, isa::binary::src0, bit(F16));
  need_same_dtype(p, in, isa::binary::src0, isa::binary::src1);
}

void check_adddeq(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vadddeqrelu::dst, bit(F16));
  need_dtype(p, in, isa::vadddeqrelu::src0, bit(I32));
  need_same_dtype(p, in, isa::vadddeqrelu::src0, isa::vadddeqrelu::src1);
}

void run_two_sources(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const bool product = in.op->code == 0;
  const float scale = product ? 0 : float(m.value_arg(in, isa::vadddeqrelu::deqscale, F16).f);
  if (p.empty()) return;
  const Lanes &d = p.operand[0], &a = p.operand[1], &b = p.operand[2];
  const uint8_t* s0 = m.read(in, isa::binary::src0, a.lo, a.hi);
  const uint8_t* s1 = m.read(in, isa::binary::src1, b.lo, b.hi);
  uint8_t* dst = m.write(in, isa::binary::dst, d.lo, d.hi);
  alignas(64) uint8_t x[kVectorBytes + 64] = {}, y[kVectorBytes + 64] = {}, out[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    gather_lanes(x, s0 + r * a.rep, a, p, p.on(r));
    gather_lanes(y, s1 + r * b.rep, b, p, p.on(r));
    each_lane(p, r, [&](int lane) {
      uint8_t* to = out + lane * d.size;
      if (product) {
        const float z = load_float(x + lane * 2, F16) * load_float(y + lane * 2, F16);
        put_product(m, to, in.tensors[isa::binary::dst].dtype, rounded(z, F16, m.saturate));
      } else {
        const int32_t sum = int32_t(uint32_t(load_int(x + lane * 4, I32)) + uint32_t(load_int(y + lane * 4, I32)));
        const float z = dequantized(sum, scale, m.saturate);
        store_float(to, z > 0 ? z : 0.0f, F16, m.saturate);
      }
    });
    scatter_lanes(dst + r * d.rep, out, d, p, p.on(r));
  }
}

void check_select_scalars(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  if (in.tensors.size() > 2) need_same_dtype(p, in, isa::vsels0::dst, isa::vsels0::src1);
}

void run_select_scalars(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const bool both = in.op->code == 1;
  const DType t = in.tensors[isa::vsels0::dst].dtype;
  const int size = kSize[t];
  uint8_t first[8] = {}, second[8] = {};
  value_to_bits(m.value_arg(in, both ? int(isa::vselss::scalar) : int(isa::vsels0::scalar), t), t, first);
  if (both) value_to_bits(m.value_arg(in, isa::vselss::scalar1, t), t, second);
  if (p.repeats == 0) return;
  const int64_t bytes = p.lanes / 8, step = in.attrs[isa::vsels0::mode] ? bytes : 0;
  const uint8_t* sel = m.read(in, isa::vsels0::sel, 0, Wide(p.repeats - 1) * step + bytes);
  if (p.empty()) return;
  const Lanes& d = p.operand[0];
  const uint8_t* src = both ? nullptr : m.read(in, isa::vsels0::src1, p.operand[1].lo, p.operand[1].hi);
  uint8_t* dst = m.write(in, isa::vsels0::dst, d.lo, d.hi);
  alignas(64) uint8_t x[kVectorBytes + 64] = {}, bits[kMaxLanes / 8];
  for (int64_t r = 0; r < p.repeats; ++r) {
    if (!both) gather_lanes(x, src + r * p.operand[1].rep, p.operand[1], p, p.on(r));
    std::memcpy(bits, sel + r * step, size_t(bytes));
    for (int lane = 0; lane < p.lanes; ++lane) {
      if (bits[lane / 8] >> (lane % 8) & 1) {
        std::memcpy(x + lane * size, first, size_t(size));
      } else if (both) {
        std::memcpy(x + lane * size, second, size_t(size));
      }
    }
    scatter_lanes(dst + r * d.rep, x, d, p, p.on(r));
  }
}

void check_conv_deq(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vconv_deq::dst, kBytes);
  need_dtype(p, in, isa::vconv_deq::src, bit(I16));
  if (in.attrs[isa::vconv_deq::vector]) need_dtype(p, in, isa::vconv_deq::scale, bit(U64));
}

// int16 to 8 bits by a scale word: multiplier in bits 31..0, offset in bits 45..37.
static void put_by_word(uint8_t* to, DType dst, int16_t x, uint64_t word) {
  const float product = float(x) * bits_as<float>(uint32_t(word));
  const double offset = double(int64_t(word << 18) >> 55);
  Value v;
  v.f = (product != product ? 0.0 : std::nearbyint(double(product))) + offset;
  v = convert_value(v, F32, dst);
  std::memcpy(to, &v.i, 1);
}

void run_conv_deq(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const uint64_t word = uint64_t(m.raw_arg(in, isa::vconv_deq::deqscale));
  if (p.empty()) return;
  const bool vector = in.attrs[isa::vconv_deq::vector] != 0;
  const int64_t high = in.attrs[isa::vconv_deq::high] ? kHalf : 0;
  const DType t = in.tensors[isa::vconv_deq::dst].dtype;
  const Lanes &d = p.operand[0], &s = p.operand[1];
  uint64_t words[kScales];
  std::fill(words, words + kScales, word);
  if (vector) std::memcpy(words, m.read(in, isa::vconv_deq::scale, 0, sizeof words), sizeof words);
  const uint8_t* src = m.read(in, isa::vconv_deq::src, s.lo, s.hi);
  auto place = [&](int lane) { return lane / kHalf * d.blk + lane % kHalf + high; };
  Span span;
  for (int64_t r : {int64_t(0), std::max<int64_t>(p.repeats - 2, 0), p.repeats - 1}) {
    each_lane(p, r, [&](int lane) { span.add(Wide(r) * d.rep + place(lane), Wide(r) * d.rep + place(lane) + 1); });
  }
  uint8_t* dst = m.write(in, isa::vconv_deq::dst, span.lo, span.hi);
  alignas(64) uint8_t x[kVectorBytes + 64] = {};
  for (int64_t r = 0; r < p.repeats; ++r) {
    gather_lanes(x, src + r * s.rep, s, p, p.on(r));
    each_lane(p, r, [&](int lane) {
      put_by_word(dst + r * d.rep + place(lane), t, int16_t(load_int(x + lane * 2, I16)), words[lane % kScales]);
    });
  }
}

void run_mode(Machine& m, const Instr& in) {
  if (in.attrs[isa::set_mode::which] == 0) {
    m.saturate = in.attrs[isa::set_mode::value] == 0;
  } else {
    m.wrap_int = in.attrs[isa::set_mode::value] != 0;
  }
}

void convert_wrapping(uint8_t* to, DType dst, const uint8_t* from, DType src, int64_t n, int mode) {
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* at = from + i * kSize[src];
    if (is_float(src)) {
      store_low_bits(to + i * kSize[dst], dst, round_to_integral(double(load_float(at, src)), mode));
    } else {
      const int64_t v = load_int(at, src);
      std::memcpy(to + i * kSize[dst], &v, kSize[dst]);
    }
  }
}

}  // namespace mco
