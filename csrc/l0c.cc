// SPDX-License-Identifier: Apache-2.0
// What leaves L0C with quantization, and what is broadcast into it.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "handlers.h"
#include "number.h"

namespace mco {

namespace {

enum Flag : int64_t { kVectorScale = 1, kBias = 2, kAddRow = 4, kShortScale = 8 };
enum Tensor { kDst, kSrc, kScale, kBiasRow, kAddend };
constexpr int64_t kMaxCount = 65535;
constexpr int kReluBit = 47;
constexpr int64_t kUnit[] = {256, 16, 64, 128, 8};
constexpr uint32_t kBytes8 = bit(I8) | bit(U8);

void limit(const Machine& m, const Instr& in, const char* name, int64_t value) {
  if (value > kMaxCount) m.refuse(in, name, std::to_string(value), format("0 to %lld", (long long)kMaxCount));
}

// Element of L0C, from the head of the burst, that is written as number `e`.
int64_t element_of(int64_t mode, int64_t e) {
  switch (mode) {
    case 1:
      return e / 16 * kFractalElements + e % 16;
    case 2:
      return e / 64 * kFractalElements + e % 64 / 4 * kFractalSide + e % 4;
    case 3:
      return e / 256 * kFractalElements + e % 128 / 8 * kFractalSide + e / 128 % 2 * 8 + e % 8;
    default:
      return e;
  }
}

int64_t burst_elements(int64_t mode, int64_t burst) {
  return mode == 4 ? burst * 8 : (mode == 3 ? ceil_div(burst, 2) : burst) * kFractalElements;
}

int64_t reach(int64_t mode, int64_t burst) {
  switch (mode) {
    case 1:
      return (burst - 1) * kFractalElements + kFractalSide;
    case 2:
      return burst * kFractalElements - 12;
    case 3:
      return burst / 2 * kFractalElements + burst % 2 * (kFractalElements - 8);
    default:
      return burst * kUnit[mode];
  }
}

int64_t clamp_to(double value, DType t) {
  const double low = t == I8 ? -128 : t == I16 ? -32768 : 0, high = t == I8 ? 127 : t == I16 ? 32767 : 255;
  return int64_t(std::min(std::max(value, low), high));
}

// One element of an l0c_out on its way.
struct Convert {
  DType src, dst;
  int64_t quant;
  bool relu, short_scale, saturate;

  void rounded(uint8_t* to, float value) const {
    uint8_t raw[4];
    store_float(raw, value, dst, saturate);
    if (relu && !(load_float(raw, dst) > 0)) std::memset(raw, 0, sizeof raw);
    std::memcpy(to, raw, size_t(kSize[dst]));
  }

  void integer(uint8_t* to, int64_t value) const {
    if (relu && value <= 0) value = 0;
    std::memcpy(to, &value, size_t(kSize[dst]));
  }

  void quantize(uint8_t* to, const uint8_t* from, uint64_t scale) const {
    const int64_t shift = int64_t(scale >> 32 & 15) + 1;
    if (dst == I16) return integer(to, clamp_to(double(load_int(from, src) >> shift), I16));
    const float factor = bits_as<float>(uint32_t(scale) & (short_scale ? 0xffffe000u : 0xffffffffu));
    float value = src == F32        ? load_float(from, F32)
                  : scale >> 36 & 1 ? float(clamp_to(double(load_int(from, src) >> shift), I16))
                                    : float(load_int(from, src));
    if (dst == F16) return rounded(to, value * factor);
    if (relu && !(value > 0)) value = 0;
    float product = value * factor;
    if (product != product) product = 0;
    const int64_t offset = int64_t((scale >> 37 & 511) ^ 256) - 256;
    const int64_t result = clamp_to(std::nearbyint(double(product)) + double(offset), dst);
    std::memcpy(to, &result, 1);
  }

  void operator()(uint8_t* to, const uint8_t* from, float factor, uint64_t scale) const {
    if (quant == 2) return quantize(to, from, scale);
    if (quant == 1) return rounded(to, (src == I32 ? float(load_int(from, I32)) : load_float(from, src)) * factor);
    if (src != dst) return rounded(to, load_float(from, src));
    if (relu && is_float(dst) && !(load_float(from, dst) > 0)) {
      std::memset(to, 0, size_t(kSize[dst]));
    } else if (relu && !is_float(dst)) {
      integer(to, load_int(from, dst));
    } else {
      std::memcpy(to, from, size_t(kSize[dst]));
    }
  }
};

void add_in_place(uint8_t* at, const uint8_t* other, DType t, bool saturate) {
  if (is_float(t)) return store_float(at, load_float(at, t) + load_float(other, t), t, saturate);
  const int64_t sum = load_int(at, t) + load_int(other, t);
  std::memcpy(at, &sum, size_t(kSize[t]));
}

bool casts(DType src, DType dst) {
  return src == dst || (src == F32 && (dst == F16 || dst == BF16)) || (src == F16 && dst == F32);
}

bool quantizes(DType src, DType dst) {
  return (src == I32 && (kBytes8 | bit(I16) | bit(F16)) & bit(dst)) || (src == F32 && kBytes8 & bit(dst));
}

}  // namespace

void check_l0c_out(const Program& p, const Instr& in) {
  need_attr(p, in, "block_mode", 0, 4);
  need_attr(p, in, "quant", 0, 2);
  need_attr(p, in, "store", 0, 2);
  need_attr(p, in, "flags", 0, 15);
  need_scope(p, in, kSrc, kOnChip);
  const DType dst = in.tensors[kDst].dtype, src = in.tensors[kSrc].dtype;
  const int64_t quant = in.attrs[2], store = in.attrs[3], flags = in.attrs[4];
  const bool good = quant == 0   ? casts(src, dst)
                    : quant == 1 ? (src == I32 || src == F16) && dst == F16
                                 : quantizes(src, dst);
  const char* const accepted[] = {"equal dtypes or a cast", "int32 or float16 to float16",
                                  "int32 or float32 to a quantized dtype"};
  if (!good) {
    refuse(p, in, format("conversion with quant %d", int(quant)), format("%s to %s", kDTypeName[src], kDTypeName[dst]),
           accepted[quant]);
  }
  need_dtype(p, in, kSrc, bit(F16) | bit(F32) | bit(I32) | bit(U32));
  const bool halves = (kBytes8 & bit(dst)) && p.buffers[in.tensors[kDst].buffer].scope != GM && in.attrs[0] < 4;
  if (store && !halves) {
    refuse(p, in, "store", std::to_string(store), "0");
  }
  if (flags & kVectorScale) {
    if (!quant) refuse(p, in, "quant with a vector scale", "0", "1 or 2");
    need_dtype(p, in, kScale, quant == 1 ? bit(F16) : bit(U64));
  }
  if (flags & kBias) need_same_dtype(p, in, kSrc, kBiasRow);
  if (flags & kAddRow) {
    need_dtype(p, in, kDst, bit(F16) | bit(F32) | bit(I32));
    need_same_dtype(p, in, kDst, kAddend);
  }
  const int scale = arg_index(*in.op, "deqscale");
  if (quant == 2 && !(flags & kVectorScale) && is_float(p.exprs.dtype(in.args[size_t(scale)]))) {
    refuse(p, in, "dtype of deqscale", "a float", "an integer");
  }
}

void run_l0c_out(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, 0), burst = m.arg(in, 1), src_gap = m.arg(in, 2), dst_gap = m.arg(in, 3);
  const int64_t mode = in.attrs[0], quant = in.attrs[2], store = in.attrs[3], flags = in.attrs[4];
  const DType dst_type = in.tensors[kDst].dtype, src_type = in.tensors[kSrc].dtype;
  const int64_t dst_size = kSize[dst_type], src_size = kSize[src_type];
  const int scale_arg = arg_index(*in.op, "deqscale");
  float factor = 0;
  uint64_t word = 0;
  bool relu = in.attrs[1] != 0;
  if (quant == 1) factor = float(m.value_arg(in, scale_arg, F16).f);
  if (quant == 2 && !(flags & kVectorScale)) {
    word = uint64_t(m.raw_arg(in, scale_arg));
    relu = relu || (word >> kReluBit & 1);
  }
  if (!count || !burst) return;
  limit(m, in, "nburst", count);
  limit(m, in, "burst", burst);
  const int64_t elements = burst * kUnit[mode], written = elements * dst_size * (store ? 2 : 1);
  const Wide src_step = Wide(burst_elements(mode, burst)) * src_size + src_gap, dst_step = Wide(written) + dst_gap;
  const uint8_t* src = m.read(in, kSrc, 0, (count - 1) * src_step + reach(mode, burst) * src_size);
  uint8_t* dst = m.write(in, kDst, 0, (count - 1) * dst_step + written);
  const uint8_t* extra[5] = {};
  const Wide row = Wide(count) * kFractalSide;
  if (flags & kVectorScale) extra[kScale] = m.read(in, kScale, 0, row * in.tensors[kScale].size);
  if (flags & kBias) extra[kBiasRow] = m.read(in, kBiasRow, 0, row * src_size);
  if (flags & kAddRow) extra[kAddend] = m.read(in, kAddend, 0, Wide(count) * elements * dst_size);
  const Convert convert{src_type, dst_type, quant, relu, (flags & kShortScale) != 0, m.saturate};
  for (int64_t n = 0; n < count; ++n) {
    uint8_t* out = m.arena.scratch(0, elements * dst_size);
    const uint8_t* from = src + n * int64_t(src_step);
    for (int64_t e = 0; e < elements; ++e) {
      const int64_t at = element_of(mode, e), column = n * kFractalSide + at % kFractalSide;
      uint8_t x[4];
      std::memcpy(x, from + at * src_size, size_t(src_size));
      if (flags & kBias) add_in_place(x, extra[kBiasRow] + column * src_size, src_type, m.saturate);
      if (flags & kVectorScale && quant == 1) factor = load_float(extra[kScale] + column * 2, F16);
      if (flags & kVectorScale && quant == 2) std::memcpy(&word, extra[kScale] + column * 8, 8);
      convert(out + e * dst_size, x, factor, word);
      if (flags & kAddRow) {
        add_in_place(out + e * dst_size, extra[kAddend] + (n * elements + e) * dst_size, dst_type, m.saturate);
      }
    }
    uint8_t* to = dst + n * int64_t(dst_step);
    if (m.scope(in, kDst) == GM) {
      m.to_gm(in, kDst, to, out, written);
    } else if (!store) {
      std::memcpy(to, out, size_t(written));
    } else {
      for (int64_t e = 0; e < elements; e += kFractalSide) {
        std::memcpy(to + 2 * e + (store == 2 ? kFractalSide : 0), out + e, size_t(kFractalSide));
      }
    }
  }
}

void check_broadcast_l0c(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  need_dtype(p, in, 1, kFloats | bit(I32) | bit(U32));
  const DType dst = in.tensors[0].dtype, src = in.tensors[1].dtype;
  if (dst != src && !(src == F16 && dst == F32)) {
    refuse(p, in, "dtype of dst", kDTypeName[dst], std::string(kDTypeName[src]) + " as src, or float32");
  }
}

void run_broadcast_l0c(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, 0), burst = m.arg(in, 1), copies = m.arg(in, 2);
  const int64_t src_gap = m.arg(in, 3), dst_gap = m.arg(in, 4);
  if (!count || !burst || !copies) return;
  limit(m, in, "nburst", count);
  limit(m, in, "burst", burst);
  limit(m, in, "copies", copies);
  const DType from_type = in.tensors[1].dtype, to_type = in.tensors[0].dtype;
  const int64_t src_size = kSize[from_type], size = kSize[to_type], row = kFractalSide * size;
  const int64_t read = burst * kFractalSide * src_size, written = burst * copies * kFractalElements * size;
  const Wide src_step = Wide(read) + src_gap, dst_step = Wide(written) + dst_gap;
  const uint8_t* src = m.read(in, 1, 0, (count - 1) * src_step + read);
  uint8_t* dst = m.write(in, 0, 0, (count - 1) * dst_step + written);
  for (int64_t n = 0; n < count; ++n) {
    uint8_t* rows = m.arena.scratch(0, burst * row);
    const uint8_t* from = src + n * int64_t(src_step);
    if (from_type == to_type) {
      std::memcpy(rows, from, size_t(read));
    } else {
      m.kernels.half_to_float(reinterpret_cast<float*>(rows), reinterpret_cast<const uint16_t*>(from),
                              burst * kFractalSide);
    }
    uint8_t* to = dst + n * int64_t(dst_step);
    for (int64_t b = 0; b < burst; ++b) {
      for (int64_t c = 0; c < copies * kFractalSide; ++c, to += row) std::memcpy(to, rows + b * row, size_t(row));
    }
  }
}

}  // namespace mco
