// SPDX-License-Identifier: Apache-2.0
// The cube: fractals of 16-bit, 8-bit or float32 elements unpacked to 32 bits, one product, one chain per element.
#include <algorithm>
#include <cstring>

#include "handlers.h"
#include "number.h"
#include "straight.h"

namespace mco {

namespace {

// A is unpacked in strips of rows that stay in a first-level cache beside a panel of B. Cutting k does not change a
// bit: partial sums are float32 in L0C as they are in registers.
constexpr int64_t kStripBytes = 8 << 10;
constexpr int64_t kMaxPass = 512;
constexpr uint32_t kBytes8 = bit(I8) | bit(U8);

// Where the fractals of A and B lie, and the sizes of one product.
struct Cube {
  int64_t m, k, n;           // rows of A computed, elements of k, columns rounded up to 16
  bool vector;               // A is one plain row
  int64_t a_outer, a_inner;  // bytes between fractal rows and between k blocks of A
  int64_t b_inner;           // bytes between k blocks of B
  int64_t c_panel;           // elements between columns of fractals of C
  uint8_t noted = 0;         // kLeft, kRight: the fractals of A, of B lie where load2d has noted
};

int64_t k0_of(const Instr& in) { return kBlockBytes / in.tensors[isa::mmad::fm].size; }

void check_cube(const Program& p, const Instr& in) {
  for (int i = 0; i < 3; ++i) need_scope(p, in, i, kOnChip);
  const DType a = in.tensors[isa::mmad::fm].dtype, b = in.tensors[isa::mmad::filter].dtype;
  need_dtype(p, in, isa::mmad::fm, kFloats | kBytes8);
  const bool mixed = a != b && (kBytes8 & bit(a)) && (kBytes8 & bit(b));
  if (!mixed) need_same_dtype(p, in, isa::mmad::fm, isa::mmad::filter);
  const uint32_t accepted = mixed || a == I8 ? bit(I32)
                            : a == U8        ? bit(I32) | bit(U32)
                            : a == F16       ? bit(F16) | bit(F32)
                                             : bit(F32);
  need_dtype(p, in, isa::mmad::dst, accepted);
}

// One pass over k: where it begins, its elements, and the same in whole k blocks.
struct Pass {
  int64_t first, k, k0;
  int64_t q() const { return first / k0; }
  int64_t whole() const { return round_up(k, k0); }
};

// Rows [row, row + rows) of A, [rows][whole]. Whole fractals are unpacked where only part of them counts: operands are
// on-chip and padded.
template <class T>
bool unpack_left(Machine& m, const Instr& in, const Cube& c, const uint8_t* a, const Pass& p, int64_t row, int64_t rows,
                 T* out) {
  const DType t = in.tensors[isa::mmad::fm].dtype;
  if (c.noted & kLeft) {
    const int64_t blocks = ceil_div(c.k, p.k0);
    const Fractal* first = &m.noted(L0A, a) + row / kFractalSide * blocks + p.q();
    return m.kernels.lay_a[t == BF16]({first, blocks, 1, rows / kFractalSide, p.whole() / p.k0, out, p.whole()});
  }
  if (c.vector) {
    const int64_t size = in.tensors[isa::mmad::fm].size;
    uint8_t* line = m.arena.scratch(3, p.whole() * size);
    std::memset(line, 0, size_t(p.whole() * size));
    std::memcpy(line, a + p.first * size, size_t(p.k * size));
    // One row: its k blocks follow each other.
    return m.kernels.pack_a[t]({line, 0, kBlockBytes, 1, p.k, out, p.whole()});
  }
  const uint8_t* at = a + row / kFractalSide * c.a_outer + p.q() * c.a_inner;
  return m.kernels.pack_a[t]({at, c.a_outer, c.a_inner, rows, p.k, out, p.whole()});
}

// The panels of B, [whole][16] each.
template <class T>
bool unpack_right(Machine& m, const Instr& in, const Cube& c, const uint8_t* b, const Pass& p, T* out) {
  const DType t = in.tensors[isa::mmad::filter].dtype;
  const int64_t panel = p.whole() * kFractalSide, n1 = c.n / kFractalSide;
  if (c.noted & kRight) {
    const Fractal* first = &m.noted(L0B, b) + p.q() * n1;
    return m.kernels.lay_b[t == BF16]({first, 1, n1, n1, p.whole() / p.k0, out, panel});
  }
  return m.kernels.pack_b[t]({b + p.q() * c.b_inner, kFractalBytes, c.b_inner, c.n, p.k, out, panel});
}

template <class T>
void multiply(Machine& m, const Instr& in, const Cube& c, const uint8_t* a, const uint8_t* b, T* out, bool accumulate,
              void (*gemm)(const GemmJob<T>&)) {
  const int64_t k0 = k0_of(in), chunk = std::min(round_up(c.k, k0), kMaxPass), width = chunk * int64_t(sizeof(T));
  const int64_t strip = std::min(c.m, std::max(kStripBytes / width / kFractalSide * kFractalSide, kFractalSide));
  T* packed_a = reinterpret_cast<T*>(m.arena.scratch(0, strip * width));
  T* packed_b = reinterpret_cast<T*>(m.arena.scratch(1, c.n * width));
  for (int64_t first = 0; first < c.k; first += chunk) {
    const Pass p{first, std::min(chunk, c.k - first), k0};
    const bool exact = unpack_right(m, in, c, b, p, packed_b);
    for (int64_t row = 0; row < c.m; row += strip) {
      const int64_t rows = std::min(strip, c.m - row);
      const bool short_products = unpack_left(m, in, c, a, p, row, rows, packed_a) && exact;
      gemm({packed_a, p.whole(), packed_b, p.whole() * kFractalSide, out + row * kFractalSide, c.c_panel, rows, p.k,
            c.n / kFractalSide, accumulate || first > 0, short_products});
    }
  }
}

// A float16 L0C is accumulated in float32 and rounded at the end.
void multiply_half(Machine& m, const Instr& in, const Cube& c, const uint8_t* a, const uint8_t* b, uint8_t* dst,
                   bool accumulate) {
  const int64_t panels = c.n / kFractalSide, width = c.m * kFractalSide;
  float* wide = reinterpret_cast<float*>(m.arena.scratch(2, panels * width * 4));
  Cube dense = c;
  dense.c_panel = width;
  for (int64_t p = 0; accumulate && p < panels; ++p) {
    m.kernels.half_to_float(wide + p * width, reinterpret_cast<uint16_t*>(dst) + p * c.c_panel, width);
  }
  multiply<float>(m, in, dense, a, b, wide, accumulate, m.kernels.gemm);
  for (int64_t p = 0; p < panels; ++p) {
    m.kernels.float_to_half(reinterpret_cast<uint16_t*>(dst) + p * c.c_panel, wide + p * width, width, m.saturate);
  }
}

void run_cube(Machine& m, const Instr& in, const Cube& c, const uint8_t* a, const uint8_t* b, uint8_t* dst,
              bool accumulate) {
  if (in.tensors[isa::mmad::dst].dtype == F16) {
    multiply_half(m, in, c, a, b, dst, accumulate);
  } else if (in.tensors[isa::mmad::dst].dtype == F32) {
    multiply<float>(m, in, c, a, b, reinterpret_cast<float*>(dst), accumulate, m.kernels.gemm);
  } else {
    multiply<int32_t>(m, in, c, a, b, reinterpret_cast<int32_t*>(dst), accumulate, m.kernels.gemm_int);
  }
}

// First and one past the last byte of [rows][k] in fractals: the last row ends with its k tail.
Wide fractal_end(int64_t outer_count, Wide outer, int64_t k, int64_t k0, Wide inner, int64_t size) {
  const int64_t blocks = ceil_div(k, k0), tail = k - (blocks - 1) * k0;
  const Wide last_full = blocks > 1 ? Wide(blocks - 2) * inner + kBlockBytes : Wide(0);
  const Wide last = Wide(blocks - 1) * inner + Wide(tail) * size;
  return Wide(outer_count - 1) * outer + (kFractalSide - 1) * kBlockBytes + std::max(last_full, last);
}

Wide c_end(const Cube& c, int64_t size) {
  return (Wide(c.n / kFractalSide - 1) * c.c_panel + Wide(c.m) * kFractalSide) * size;
}

// Where a fixpipe behind a product would copy its result, or null where it must go through L0C. The checks of the
// fixpipe are those of its own.
uint8_t* place_behind(Machine& m, const Instr& fixpipe, Cube& c) {
  using namespace isa::fixpipe;
  if (m.atomic != kDTypes) return nullptr;
  const int64_t count = m.arg(fixpipe, cburst_num), length = m.arg(fixpipe, burst_len);
  const int64_t step = length + m.arg(fixpipe, dst_gap);
  uint8_t* to = m.write(fixpipe, dst, 0, wide_product(count - 1, step) + length);
  if (reinterpret_cast<uintptr_t>(to) % sizeof(float)) return nullptr;
  c.c_panel = step / int64_t(sizeof(float));
  return to;
}

}  // namespace

void check_mmad(const Program& p, const Instr& in) { check_cube(p, in); }

void run_mmad(Machine& m, const Instr& in) {
  const int64_t rows = m.arg(in, isa::mmad::m), k = m.arg(in, isa::mmad::k), columns = m.arg(in, isa::mmad::n);
  ranged(m, in, isa::mmad::m, rows);
  ranged(m, in, isa::mmad::k, k);
  ranged(m, in, isa::mmad::n, columns);
  if (!rows || !k || !columns) return;
  const int64_t k0 = k0_of(in), k1 = ceil_div(k, k0), size = in.tensors[isa::mmad::fm].size;
  Cube c;
  c.vector = rows == 1;
  c.m = c.vector ? 1 : round_up(rows, kFractalSide);
  c.k = k;
  c.n = round_up(columns, kFractalSide);
  c.a_outer = k1 * kFractalBytes;
  c.a_inner = kFractalBytes;
  c.b_inner = c.n / kFractalSide * kFractalBytes;
  c.c_panel = round_up(rows, kFractalSide) * kFractalSide;
  const Wide a_end = c.vector ? Wide(k) * size : fractal_end(c.m / kFractalSide, c.a_outer, k, k0, c.a_inner, size);
  const uint8_t* a = m.read(in, isa::mmad::fm, 0, a_end);
  const uint8_t* b =
      m.read(in, isa::mmad::filter, 0, fractal_end(c.n / kFractalSide, kFractalBytes, k, k0, c.b_inner, size));
  uint8_t* result = m.write(in, isa::mmad::dst, 0, c_end(c, in.tensors[isa::mmad::dst].size));
  c.noted = m.straight(in) & (kLeft | kRight);
  m.came = false;
  if (m.straight(in) & kLeaves) {
    if (uint8_t* place = place_behind(m, *in.partner, c)) {
      result = place;
      m.came = true;
    }
  }
  run_cube(m, in, c, a, b, result, in.attrs[isa::mmad::accumulate] != 0);
}

void check_matmul(const Program& p, const Instr& in) { check_cube(p, in); }

void run_matmul(Machine& m, const Instr& in) {
  const int64_t rows = in.attrs[isa::matmul::m], k = in.attrs[isa::matmul::k], columns = in.attrs[isa::matmul::n];
  if (!rows || !k || !columns) return;
  const int64_t k0 = k0_of(in), size = in.tensors[isa::matmul::a].size;
  Cube c;
  c.vector = false;
  c.m = round_up(rows, kFractalSide);
  c.k = k;
  c.n = round_up(columns, kFractalSide);
  c.a_outer = kFractalBytes;
  c.a_inner = c.m * kBlockBytes;
  c.b_inner = c.n * kBlockBytes;
  c.c_panel = c.m * kFractalSide;
  const uint8_t* a =
      m.read(in, isa::matmul::a, 0, fractal_end(c.m / kFractalSide, kFractalBytes, k, k0, c.a_inner, size));
  const uint8_t* b =
      m.read(in, isa::matmul::b, 0, fractal_end(c.n / kFractalSide, kFractalBytes, k, k0, c.b_inner, size));
  run_cube(m, in, c, a, b, m.write(in, isa::matmul::dst, 0, c_end(c, in.tensors[isa::matmul::dst].size)),
           in.attrs[isa::matmul::init] == 0);
}

}  // namespace mco
