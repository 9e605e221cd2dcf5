// SPDX-License-Identifier: Apache-2.0
// 16x16 transposes and the fractal loads that may turn them.
#include <cstring>

#include "handlers.h"
#include "straight.h"

namespace mco {

namespace {

constexpr int kSide = int(kFractalSide);

void transpose_fractal(const Kernels& k, uint8_t* dst, const uint8_t* src) {
  uint8_t* to[kSide];
  const uint8_t* from[kSide];
  for (int i = 0; i < kSide; ++i) {
    to[i] = dst + i * kBlockBytes;
    from[i] = src + i * kBlockBytes;
  }
  k.transpose16(to, from);
}

// An end of accesses as Machine::settled takes it; one that no settled place has where nothing is accessed.
int64_t near_end(Wide end, bool none) { return none || end > UINT32_MAX ? INT64_MAX : int64_t(end); }

}  // namespace

void check_nchw(const Program& p, const Instr& in) {
  for (int i = 0; i < 2 * kSide; ++i) {
    need_scope(p, in, i, kOnChip);
    need_same_dtype(p, in, isa::vnchwconv::dst0, i);
  }
  const int size = in.tensors[isa::vnchwconv::dst0].size;
  if (size > 4) refuse(p, in, "element size", std::to_string(size), "1, 2 or 4 bytes");
}

void run_nchw(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vnchwconv::repeat), dst_rep = m.arg(in, isa::vnchwconv::dst_rep),
                src_rep = m.arg(in, isa::vnchwconv::src_rep);
  const int size = in.tensors[isa::vnchwconv::dst0].size;
  constexpr int kHalf = int(kBlockBytes / 2);
  const int length = size == 1 ? kHalf : int(kBlockBytes);
  const int dst_half = size == 1 && in.attrs[isa::vnchwconv::dst_high] ? kHalf : 0,
            src_half = size == 1 && in.attrs[isa::vnchwconv::src_high] ? kHalf : 0;
  const Wide last = Wide(repeat - 1), none = repeat == 0;
  const Wide dst_end = none ? Wide(dst_half) : dst_half + last * dst_rep + length;
  const Wide src_end = none ? Wide(src_half) : src_half + last * src_rep + length;
  uint8_t* dst[kSide];
  const uint8_t* src[kSide];
  const int64_t dst_bytes = near_end(dst_end, none), src_bytes = near_end(src_end, none);
  for (int i = 0; i < kSide; ++i) {
    const int n = isa::vnchwconv::dst0 + i;
    uint8_t* const at = m.settled(in.tensors[size_t(n)], dst_bytes);
    dst[i] = (at ? at : m.write(in, n, dst_half, dst_end)) + dst_half;
  }
  for (int i = 0; i < kSide; ++i) {
    const int n = isa::vnchwconv::src0 + i;
    const uint8_t* const at = m.settled(in.tensors[size_t(n)], src_bytes);
    src[i] = (at ? at : m.read(in, n, src_half, src_end)) + src_half;
  }
  m.kernels.nchw[size >> 1](dst, src, repeat, dst_rep, src_rep);
}

void check_vtranspose(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  need_same_dtype(p, in, isa::vtranspose::dst, isa::vtranspose::src);
  if (in.tensors[isa::vtranspose::dst].size != 2)
    refuse(p, in, "element size", std::to_string(in.tensors[isa::vtranspose::dst].size), "2 bytes");
}

void run_vtranspose(Machine& m, const Instr& in) {
  const uint8_t* src = m.read(in, isa::vtranspose::src, 0, kFractalBytes);
  transpose_fractal(m.kernels, m.write(in, isa::vtranspose::dst, 0, kFractalBytes), src);
}

void check_load2d(const Program& p, const Instr& in) {
  need_scope(p, in, isa::load2d::dst, kOnChip);
  const int dst = in.tensors[isa::load2d::dst].size, src = in.tensors[isa::load2d::src].size;
  if (in.attrs[isa::load2d::transpose] && (dst != 2 || src != 2)) {
    refuse(p, in, "element size with transpose", format("%d to %d", src, dst), "2 bytes");
  }
}

void run_load2d(Machine& m, const Instr& in) {
  const int64_t index = m.arg(in, isa::load2d::index), repeat = m.arg(in, isa::load2d::repeat),
                src_stride = m.arg(in, isa::load2d::src_stride), dst_gap = m.arg(in, isa::load2d::dst_gap);
  if (repeat == 0) return;
  const Wide last = repeat - 1, dst_step = 1 + Wide(dst_gap);
  const Wide first = Wide(index) * kFractalBytes;
  const uint8_t* src = m.read(in, isa::load2d::src, first, first + wide_product(last * src_stride + 1, kFractalBytes));
  uint8_t* dst = m.write(in, isa::load2d::dst, 0, wide_product(last * dst_step + 1, kFractalBytes));
  if (m.straight(in) & kNoted) {
    Fractal* const first = &m.noted(m.scope(in, isa::load2d::dst), dst);
    const bool turned = in.attrs[isa::load2d::transpose] != 0;
    for (int64_t r = 0; r < repeat; ++r) {
      first[r * int64_t(dst_step)] = {src + (index + r * src_stride) * kFractalBytes, turned};
    }
    return;
  }
  const bool apart = m.scope(in, isa::load2d::src) != m.scope(in, isa::load2d::dst);
  if (apart && !in.attrs[isa::load2d::transpose] && src_stride == 1 && dst_gap == 0) {
    std::memcpy(dst, src + index * kFractalBytes, size_t(repeat * kFractalBytes));
    return;
  }
  for (int64_t r = 0; r < repeat; ++r) {
    const uint8_t* from = src + (index + r * src_stride) * kFractalBytes;
    uint8_t* to = dst + r * int64_t(dst_step) * kFractalBytes;
    if (in.attrs[isa::load2d::transpose]) {
      transpose_fractal(m.kernels, to, from);
    } else {
      std::memmove(to, from, size_t(kFractalBytes));
    }
  }
}

void check_load2d_square(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  need_same_dtype(p, in, isa::load2d_square::dst, isa::load2d_square::src);
  const int size = in.tensors[isa::load2d_square::dst].size;
  if (size > 4) refuse(p, in, "element size", std::to_string(size), "1, 2 or 4 bytes");
}

void run_load2d_square(Machine& m, const Instr& in) {
  using namespace isa::load2d_square;
  const int64_t first = ranged_arg(m, in, index), count = ranged_arg(m, in, repeat),
                stride = ranged_arg(m, in, src_stride), gap = m.arg(in, dst_gap), between = m.arg(in, fractal_gap);
  if (!count) return;
  const int64_t size = in.tensors[dst].size, side = size == 1 ? 32 : 16, parts = size == 2 ? 1 : 2,
                block = parts * kFractalBytes, row = kBlockBytes / size;  // elements of a row of a fractal
  const Wide step = 1 + Wide(gap), apart = 1 + Wide(between);
  const Wide begin = Wide(first) * block;
  const uint8_t* from =
      m.read(in, src, begin, begin + wide_product(Wide(count - 1) * stride + 1, block)) + int64_t(begin);
  uint8_t* to = m.write(in, dst, 0, wide_product(Wide(count - 1) * step + (parts - 1) * apart + 1, kFractalBytes));
  for (int64_t n = 0; n < count; ++n) {
    const uint8_t* s = from + n * stride * block;
    uint8_t* d = to + n * int64_t(step) * kFractalBytes;
    if (size == 2) {
      transpose_fractal(m.kernels, d, s);
      continue;
    }
    for (int64_t r = 0; r < side; ++r) {
      for (int64_t c = 0; c < side; ++c) {
        const int64_t fs = size == 1 ? r / 16 : c / row, fd = size == 1 ? c / 16 : r / row;
        const int64_t at_s = fs * kFractalBytes + (r % 16) * kBlockBytes + c % row * size,
                      at_d = fd * int64_t(apart) * kFractalBytes + (c % 16) * kBlockBytes + r % row * size;
        std::memcpy(d + at_d, s + at_s, size_t(size));
      }
    }
  }
}

}  // namespace mco
