// SPDX-License-Identifier: Apache-2.0
// Moves out of and into L0C, with the conversions on the way.
#include <cstring>
#include <vector>

#include "handlers.h"
#include "number.h"
#include "straight.h"

namespace mco {

namespace {

enum class Way { Copy, FloatToHalf, HalfToFloat, IntToHalf };

struct Converter {
  const Kernels& kernels;
  Way way;
  DType dst, src;
  bool relu, saturate;
  float scale;

  // n elements; both sides dense. `dst` may be `src` only when their sizes agree.
  void operator()(uint8_t* to, const uint8_t* from, int64_t n) const {
    switch (way) {
      case Way::Copy:
        std::memmove(to, from, size_t(n * kSize[src]));
        break;
      case Way::FloatToHalf:
        kernels.float_to_half(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), n, saturate);
        break;
      case Way::HalfToFloat:
        kernels.half_to_float(reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(from), n);
        break;
      case Way::IntToHalf:
        for (int64_t i = 0; i < n; ++i)
          store_float(to + 2 * i, float(load_int(from + 4 * i, I32)) * scale, F16, saturate);
    }
    if (relu) clamp(to, n);
  }

  void clamp(uint8_t* at, int64_t n) const {
    const int size = kSize[dst];
    for (int64_t i = 0; i < n; ++i, at += size) {
      const bool positive = is_float(dst) ? load_float(at, dst) > 0 : load_int(at, dst) > 0;
      if (!positive && !(dst == U64 && load_int(at, dst) != 0)) std::memset(at, 0, size_t(size));
    }
  }
};

Way way_of(DType src, DType dst) {
  if (src == F32 && dst == F16) return Way::FloatToHalf;
  if (src == F16 && dst == F32) return Way::HalfToFloat;
  if (src == I32 && dst == F16) return Way::IntToHalf;
  return Way::Copy;
}

Converter converter(const Machine& m, const Instr& in, int deqscale, bool relu) {
  const DType dst = in.tensors[isa::data_move_l0c::dst].dtype, src = in.tensors[isa::data_move_l0c::src].dtype;
  const Value scale = m.value_arg(in, deqscale, F16);
  return Converter{m.kernels, way_of(src, dst), dst, src, relu, m.saturate, float(scale.f)};
}

// One side of data_move_l0c: `burst` units at `spread` elements, the first `unit` of each are accessed.
struct Side {
  int64_t unit, spread, size;
  Wide burst_end, step;
};

Side side_of(const Machine& m, const Instr& in, int tensor, int64_t burst, int64_t gap) {
  const bool row = in.attrs[isa::data_move_l0c::block_mode] == 1;
  Side s;
  s.size = in.tensors[size_t(tensor)].size;
  s.unit = row ? kFractalSide : kFractalElements;
  s.spread = row && m.scope(in, tensor) != L0C ? kFractalSide : kFractalElements;
  s.burst_end = (Wide(burst - 1) * s.spread + s.unit) * s.size;
  s.step = Wide(burst) * s.spread * s.size + gap;
  return s;
}

}  // namespace

void check_move_l0c(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  const DType dst = in.tensors[isa::data_move_l0c::dst].dtype, src = in.tensors[isa::data_move_l0c::src].dtype;
  if (src != dst && way_of(src, dst) == Way::Copy) {
    refuse(p, in, "conversion", format("%s to %s", kDTypeName[src], kDTypeName[dst]),
           "equal dtypes, float32 to float16, float16 to float32, int32 to float16");
  }
}

void run_move_l0c(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, isa::data_move_l0c::nburst), burst = m.arg(in, isa::data_move_l0c::burst),
                src_gap = m.arg(in, isa::data_move_l0c::src_gap), dst_gap = m.arg(in, isa::data_move_l0c::dst_gap);
  const Converter convert = converter(m, in, isa::data_move_l0c::deqscale, in.attrs[isa::data_move_l0c::relu] != 0);
  if (!count || !burst) return;
  const Side from = side_of(m, in, 1, burst, src_gap), to = side_of(m, in, 0, burst, dst_gap);
  const uint8_t* src = m.read(in, isa::data_move_l0c::src, 0, wide_product(count - 1, from.step) + from.burst_end);
  uint8_t* dst = m.write(in, isa::data_move_l0c::dst, 0, wide_product(count - 1, to.step) + to.burst_end);
  const bool dense = from.spread == from.unit && to.spread == to.unit;
  const int64_t units = dense ? 1 : burst, elements = dense ? burst * from.unit : from.unit;
  const bool apart = dst + int64_t(wide_product(count - 1, to.step) + to.burst_end) <= src ||
                     src + int64_t(wide_product(count - 1, from.step) + from.burst_end) <= dst;
  std::vector<uint8_t> staged(apart ? 0 : size_t(burst * to.unit * to.size) + 64);
  for (int64_t n = 0; n < count; ++n) {
    const uint8_t* s = src + n * int64_t(from.step);
    uint8_t* d = dst + n * int64_t(to.step);
    for (int64_t u = 0; u < units; ++u) {
      uint8_t* out = apart ? d + u * to.spread * to.size : staged.data() + u * to.unit * to.size;
      convert(out, s + u * from.spread * from.size, elements);
    }
    if (apart) continue;
    for (int64_t u = 0; u < units; ++u) {  // the whole burst was read first
      std::memcpy(d + u * to.spread * to.size, staged.data() + u * to.unit * to.size, size_t(elements * to.size));
    }
  }
}

void check_fixpipe(const Program& p, const Instr& in) {
  need_scope(p, in, isa::fixpipe::dst, bit(GM) | kOnChip);
  need_scope(p, in, isa::fixpipe::src, kOnChip);
  const DType dst = in.tensors[isa::fixpipe::dst].dtype, src = in.tensors[isa::fixpipe::src].dtype;
  const int64_t quantize = in.attrs[isa::fixpipe::quantize];
  const DType from = quantize == 0 ? src : quantize == 1 ? F32 : I32, into = quantize == 0 ? src : F16;
  if (src != from || dst != into) {
    refuse(p, in, format("conversion with quantize %d", int(quantize)),
           format("%s to %s", kDTypeName[src], kDTypeName[dst]),
           format("%s to %s", kDTypeName[from], kDTypeName[into]));
  }
}

void run_fixpipe(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, isa::fixpipe::cburst_num), length = m.arg(in, isa::fixpipe::burst_len),
                src_gap = m.arg(in, isa::fixpipe::src_gap), dst_gap = m.arg(in, isa::fixpipe::dst_gap);
  const int64_t src_size = in.tensors[isa::fixpipe::src].size, dst_size = in.tensors[isa::fixpipe::dst].size;
  if (length % src_size) {
    m.refuse(in, "burst_len", format("%lld bytes", (long long)length),
             format("a multiple of %lld", (long long)src_size));
  }
  const Converter convert = converter(m, in, isa::fixpipe::deqscale, in.attrs[isa::fixpipe::relu] != 0);
  const int64_t elements = length / src_size, written = elements * dst_size;
  const Wide src_step = Wide(length) + src_gap, dst_step = Wide(written) + dst_gap;
  const bool nothing = !count || !length;
  const uint8_t* src = m.read(in, isa::fixpipe::src, 0, nothing ? Wide(0) : wide_product(count - 1, src_step) + length);
  uint8_t* dst = m.write(in, isa::fixpipe::dst, 0, nothing ? Wide(0) : wide_product(count - 1, dst_step) + written);
  if (nothing) return;
  if (m.straight(in) & kCame && m.came) {
    m.came = false;
    return;
  }
  const bool direct = m.scope(in, isa::fixpipe::dst) == GM && m.atomic == kDTypes;
  for (int64_t n = 0; n < count; ++n) {
    const uint8_t* s = src + n * int64_t(src_step);
    uint8_t* d = dst + n * int64_t(dst_step);
    if (direct) {
      convert(d, s, elements);
      continue;
    }
    uint8_t* staged = m.arena.scratch(0, written);
    convert(staged, s, elements);
    if (m.scope(in, isa::fixpipe::dst) == GM) {
      m.to_gm(in, isa::fixpipe::dst, d, staged, written);
    } else {
      std::memcpy(d, staged, size_t(written));
    }
  }
}

}  // namespace mco
