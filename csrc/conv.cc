// SPDX-License-Identifier: Apache-2.0
// conv2d: the image-to-column matrix in scratch memory, then one product as in cube.cc.
#include <algorithm>
#include <cstring>

#include "window.h"

namespace mco {

namespace {

constexpr int64_t kChunk = 512;  // k of one pass: its operands stay in cache. Cutting k does not change a bit.

struct Conv {
  int64_t rows, depth, cout, k0;
  const uint8_t *a, *b;  // [depth / k0][rows][k0] and [depth / k0][cout][k0]
};

template <class T>
void multiply(Machine& m, const Instr& in, const Conv& c, T* out, bool accumulate, void (*gemm)(const GemmJob<T>&)) {
  const DType t = in.tensors[isa::conv2d::fm].dtype;
  const int64_t chunk = std::min(c.depth, kChunk), whole = round_up(chunk, c.k0);
  T* a = reinterpret_cast<T*>(m.arena.scratch(0, c.rows * whole * int64_t(sizeof(T))));
  T* b = reinterpret_cast<T*>(m.arena.scratch(1, c.cout * whole * int64_t(sizeof(T))));
  for (int64_t first = 0; first < c.depth; first += chunk) {
    const int64_t k = std::min(chunk, c.depth - first), q = first / c.k0;
    const int64_t a_inner = c.rows * kBlockBytes, b_inner = c.cout * kBlockBytes;
    FractalJob ja{c.a + q * a_inner, kFractalBytes, a_inner, c.rows, k, a, k};
    FractalJob jb{c.b + q * b_inner, kFractalBytes, b_inner, c.cout, k, b, k * kFractalSide};
    const bool exact_a = m.kernels.pack_a[t](ja), exact_b = m.kernels.pack_b[t](jb);
    gemm({a, k, b, k * kFractalSide, out, c.rows * kFractalSide, c.rows, k, c.cout / kFractalSide,
          accumulate || first > 0, exact_a && exact_b});
  }
}

// The image-to-column matrix [C1 filter_h filter_w][rows][32 bytes] of the feature map.
const uint8_t* unfold(Machine& m, const Instr& in, const Window& w, int64_t columns, int64_t rows) {
  int64_t low = INT64_MAX, high = INT64_MIN;
  const int64_t taps = w.filter_w() * w.filter_h();
  auto each = [&](auto use) {
    for (int64_t b = 0; b < columns; ++b) {
      for (int64_t i = 0; i < rows; ++i) {
        const Tap t = w.tap(w.place(i, 0, 0), b % w.filter_w(), b / w.filter_w() % w.filter_h());
        use(b * rows + i, t.inside ? w.block(t, b / taps) : -1);
      }
    }
  };
  each([&](int64_t, int64_t block) {
    if (block < 0) return;
    low = std::min(low, block);
    high = std::max(high, block);
  });
  const uint8_t* fm =
      low > high ? nullptr : m.read(in, isa::conv2d::fm, Wide(low) * kBlockBytes, Wide(high + 1) * kBlockBytes);
  const PadBlock pad = pad_block(m, in, isa::conv2d::fm, isa::conv2d::pad_value);
  uint8_t* out = m.arena.scratch(3, columns * rows * kBlockBytes);
  each([&](int64_t at, int64_t block) {
    std::memcpy(out + at * kBlockBytes, block < 0 ? pad.bytes : fm + block * kBlockBytes, size_t(kBlockBytes));
  });
  return out;
}

}  // namespace

void check_conv2d(const Program& p, const Instr& in) {
  need_other_scope(p, in, isa::conv2d::fm, isa::conv2d::weight);
  const DType a = in.tensors[isa::conv2d::fm].dtype;
  need_dtype(p, in, isa::conv2d::fm, kFloats | bit(I8) | bit(U8));
  need_same_dtype(p, in, isa::conv2d::fm, isa::conv2d::weight);
  need_dtype(p, in, isa::conv2d::dst,
             a == I8    ? bit(I32)
             : a == U8  ? bit(I32) | bit(U32)
             : a == F16 ? bit(F16) | bit(F32)
                        : bit(F32));
}

void run_conv2d(Machine& m, const Instr& in) {
  const Window w = Window::of_attributes(m, in, isa::conv2d::pad_l);
  const int64_t c1 = in.attrs[isa::conv2d::c1], cout = in.attrs[isa::conv2d::cout];
  if (cout % kFractalSide) {
    m.refuse(in, "cout", std::to_string(cout), format("a multiple of %lld", (long long)kFractalSide));
  }
  if (!c1 || !cout) return;
  const int64_t size = in.tensors[isa::conv2d::fm].size, out_size = in.tensors[isa::conv2d::dst].size;
  Conv c;
  c.k0 = kBlockBytes / size;
  c.rows = round_up(w.out_w * w.out_h, kFractalSide);
  const int64_t columns = c1 * w.filter_w() * w.filter_h();
  c.depth = columns * c.k0;
  c.cout = cout;
  uint8_t* dst = m.write(in, isa::conv2d::dst, 0, Wide(c.rows) * cout * out_size);
  c.b = m.read(in, isa::conv2d::weight, 0, Wide(c.depth) * cout * size);
  c.a = unfold(m, in, w, columns, c.rows);
  const bool accumulate = in.attrs[isa::conv2d::init] == 0;
  if (in.tensors[isa::conv2d::dst].dtype == F32) {
    multiply<float>(m, in, c, reinterpret_cast<float*>(dst), accumulate, m.kernels.gemm);
  } else if (in.tensors[isa::conv2d::dst].dtype != F16) {
    multiply<int32_t>(m, in, c, reinterpret_cast<int32_t*>(dst), accumulate, m.kernels.gemm_int);
  } else {  // accumulated in float32, rounded at the end
    const int64_t count = c.rows * cout;
    float* wide = reinterpret_cast<float*>(m.arena.scratch(2, count * 4));
    if (accumulate) m.kernels.half_to_float(wide, reinterpret_cast<uint16_t*>(dst), count);
    multiply<float>(m, in, c, wide, accumulate, m.kernels.gemm);
    m.kernels.float_to_half(reinterpret_cast<uint16_t*>(dst), wide, count, m.saturate);
  }
}

}  // namespace mco
