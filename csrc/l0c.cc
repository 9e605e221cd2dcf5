// SPDX-License-Identifier: Apache-2.0
// What leaves L0C with quantization, and what is broadcast into it.
#include "handlers.h"
#include "quantize.h"

namespace mco {

namespace {

enum Flag : int64_t { kVectorScale = 1, kBias = 2, kAddRow = 4, kShortScale = 8 };
constexpr int64_t kUnit[] = {256, 16, 64, 128, 8};
static_assert(sizeof kUnit / sizeof kUnit[0] == isa::l0c_out::block_mode_high + 1, "one for each block mode");
constexpr uint32_t kBytes8 = bit(I8) | bit(U8);

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

void add_in_place(uint8_t* at, const uint8_t* other, DType t, bool saturate) {
  if (is_float(t)) return store_float(at, load_float(at, t) + load_float(other, t), t, saturate);
  const int64_t sum = load_int(at, t) + load_int(other, t);
  std::memcpy(at, &sum, size_t(kSize[t]));
}

}  // namespace

void check_l0c_out(const Program& p, const Instr& in) {
  need_scope(p, in, isa::l0c_out::src, kOnChip);
  const DType dst = in.tensors[isa::l0c_out::dst].dtype, src = in.tensors[isa::l0c_out::src].dtype;
  const int64_t quant = in.attrs[isa::l0c_out::quant], store = in.attrs[isa::l0c_out::store],
                flags = in.attrs[isa::l0c_out::flags];
  const bool good = quant == 0   ? casts(src, dst)
                    : quant == 1 ? (src == I32 || src == F16) && dst == F16
                                 : quantizes(src, dst);
  const char* const accepted[] = {"equal dtypes or a cast", "int32 or float16 to float16",
                                  "int32 or float32 to a quantized dtype"};
  static_assert(sizeof accepted / sizeof accepted[0] == isa::l0c_out::quant_high + 1, "one for each quant");
  if (!good) {
    refuse(p, in, format("conversion with quant %d", int(quant)), format("%s to %s", kDTypeName[src], kDTypeName[dst]),
           accepted[quant]);
  }
  need_dtype(p, in, isa::l0c_out::src, bit(F16) | bit(F32) | bit(I32) | bit(U32));
  const bool halves = (kBytes8 & bit(dst)) && p.buffers[in.tensors[isa::l0c_out::dst].buffer].scope != GM &&
                      in.attrs[isa::l0c_out::block_mode] < 4;
  if (store && !halves) {
    refuse(p, in, "store", std::to_string(store), "0");
  }
  if (flags & kVectorScale) {
    if (!quant) refuse(p, in, "quant with a vector scale", "0", "1 or 2");
    need_dtype(p, in, isa::l0c_out::scale, quant == 1 ? bit(F16) : bit(U64));
  }
  if (flags & kBias) need_same_dtype(p, in, isa::l0c_out::src, isa::l0c_out::bias);
  if (flags & kAddRow) {
    need_dtype(p, in, isa::l0c_out::dst, bit(F16) | bit(F32) | bit(I32));
    need_same_dtype(p, in, isa::l0c_out::dst, isa::l0c_out::add);
  }
  const int scale = isa::l0c_out::deqscale;
  if (quant == 2 && !(flags & kVectorScale) && is_float(p.exprs.dtype(in.args[size_t(scale)]))) {
    refuse(p, in, "dtype of deqscale", "a float", "an integer");
  }
}

void run_l0c_out(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, isa::l0c_out::nburst), burst = m.arg(in, isa::l0c_out::burst),
                src_gap = m.arg(in, isa::l0c_out::src_gap), dst_gap = m.arg(in, isa::l0c_out::dst_gap);
  const int64_t mode = in.attrs[isa::l0c_out::block_mode], quant = in.attrs[isa::l0c_out::quant],
                store = in.attrs[isa::l0c_out::store], flags = in.attrs[isa::l0c_out::flags];
  const DType dst_type = in.tensors[isa::l0c_out::dst].dtype, src_type = in.tensors[isa::l0c_out::src].dtype;
  const int64_t dst_size = kSize[dst_type], src_size = kSize[src_type];
  const int scale_arg = isa::l0c_out::deqscale;
  float factor = 0;
  uint64_t word = 0;
  bool relu = in.attrs[isa::l0c_out::relu] != 0;
  if (quant == 1) factor = float(m.value_arg(in, scale_arg, F16).f);
  if (quant == 2 && !(flags & kVectorScale)) {
    word = uint64_t(m.raw_arg(in, scale_arg));
    relu = relu || (word >> kReluBit & 1);
  }
  if (!count || !burst) return;
  ranged(m, in, isa::l0c_out::nburst, count);
  ranged(m, in, isa::l0c_out::burst, burst);
  const int64_t elements = burst * kUnit[mode], written = elements * dst_size * (store ? 2 : 1);
  const Wide src_step = Wide(burst_elements(mode, burst)) * src_size + src_gap, dst_step = Wide(written) + dst_gap;
  const uint8_t* src = m.read(in, isa::l0c_out::src, 0, (count - 1) * src_step + reach(mode, burst) * src_size);
  uint8_t* dst = m.write(in, isa::l0c_out::dst, 0, (count - 1) * dst_step + written);
  const uint8_t* extra[5] = {};
  const Wide row = Wide(count) * kFractalSide;
  if (flags & kVectorScale)
    extra[isa::l0c_out::scale] = m.read(in, isa::l0c_out::scale, 0, row * in.tensors[isa::l0c_out::scale].size);
  if (flags & kBias) extra[isa::l0c_out::bias] = m.read(in, isa::l0c_out::bias, 0, row * src_size);
  if (flags & kAddRow) extra[isa::l0c_out::add] = m.read(in, isa::l0c_out::add, 0, Wide(count) * elements * dst_size);
  const Convert convert{src_type, dst_type, quant, relu, (flags & kShortScale) != 0, m.saturate};
  for (int64_t n = 0; n < count; ++n) {
    uint8_t* out = m.arena.scratch(0, elements * dst_size);
    const uint8_t* from = src + n * int64_t(src_step);
    for (int64_t e = 0; e < elements; ++e) {
      const int64_t at = element_of(mode, e), column = n * kFractalSide + at % kFractalSide;
      uint8_t x[4];
      std::memcpy(x, from + at * src_size, size_t(src_size));
      if (flags & kBias) add_in_place(x, extra[isa::l0c_out::bias] + column * src_size, src_type, m.saturate);
      if (flags & kVectorScale && quant == 1) factor = load_float(extra[isa::l0c_out::scale] + column * 2, F16);
      if (flags & kVectorScale && quant == 2) std::memcpy(&word, extra[isa::l0c_out::scale] + column * 8, 8);
      convert(out + e * dst_size, x, factor, word);
      if (flags & kAddRow) {
        add_in_place(out + e * dst_size, extra[isa::l0c_out::add] + (n * elements + e) * dst_size, dst_type,
                     m.saturate);
      }
    }
    uint8_t* to = dst + n * int64_t(dst_step);
    if (m.scope(in, isa::l0c_out::dst) == GM) {
      m.to_gm(in, isa::l0c_out::dst, to, out, written);
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
  need_dtype(p, in, isa::broadcast_l0c::src, kFloats | bit(I32) | bit(U32));
  const DType dst = in.tensors[isa::broadcast_l0c::dst].dtype, src = in.tensors[isa::broadcast_l0c::src].dtype;
  if (dst != src && !(src == F16 && dst == F32)) {
    refuse(p, in, "dtype of dst", kDTypeName[dst], std::string(kDTypeName[src]) + " as src, or float32");
  }
}

void run_broadcast_l0c(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, isa::broadcast_l0c::nburst), burst = m.arg(in, isa::broadcast_l0c::burst),
                copies = m.arg(in, isa::broadcast_l0c::copies);
  const int64_t src_gap = m.arg(in, isa::broadcast_l0c::src_gap), dst_gap = m.arg(in, isa::broadcast_l0c::dst_gap);
  if (!count || !burst || !copies) return;
  ranged(m, in, isa::broadcast_l0c::nburst, count);
  ranged(m, in, isa::broadcast_l0c::burst, burst);
  ranged(m, in, isa::broadcast_l0c::copies, copies);
  const DType from_type = in.tensors[isa::broadcast_l0c::src].dtype,
              to_type = in.tensors[isa::broadcast_l0c::dst].dtype;
  const int64_t src_size = kSize[from_type], size = kSize[to_type], row = kFractalSide * size;
  const int64_t read = burst * kFractalSide * src_size, written = burst * copies * kFractalElements * size;
  const Wide src_step = Wide(read) + src_gap, dst_step = Wide(written) + dst_gap;
  const uint8_t* src = m.read(in, isa::broadcast_l0c::src, 0, (count - 1) * src_step + read);
  uint8_t* dst = m.write(in, isa::broadcast_l0c::dst, 0, (count - 1) * dst_step + written);
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
