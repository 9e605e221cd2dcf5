// SPDX-License-Identifier: Apache-2.0
// One base block of a product on the cube: tiles into L1, L0A and L0B, the sum in L0C.
#pragma once

#include "mco/matmul_types.h"

namespace mco_asc {

constexpr int64_t round_to(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// All of the cube's memories, as the product takes them.
template <class T>
struct CubeMemory {
  static constexpr uint32_t size = sizeof(T);
  AscendC::LocalTensor<T> a1{AscendC::TPosition::A1, 0, TOTAL_HALF_L1 / size};
  AscendC::LocalTensor<T> b1{AscendC::TPosition::B1, TOTAL_HALF_L1, TOTAL_HALF_L1 / size};
  AscendC::LocalTensor<T> a2{AscendC::TPosition::A2, 0, uint32_t(AscendC::TOTAL_L0A_SIZE) / size};
  AscendC::LocalTensor<T> b2{AscendC::TPosition::B2, 0, uint32_t(AscendC::TOTAL_L0B_SIZE) / size};
  static constexpr uint32_t TOTAL_HALF_L1 = AscendC::TOTAL_L1_SIZE / 2;
};

// A tile of rows x columns elements at (r, c) of a matrix as it is stored, into blocks of 32 bytes in L1: columns of
// `pitch` rows, or (halves) runs of 16 rows of all columns. Returns nothing: rows and columns up to whole fractals hold
// what was there before.
template <class T>
inline void tile_in(const mco_asc_where& where, const AscendC::LocalTensor<T>& to, const Source& s, int64_t r,
                    int64_t c, int64_t rows, int64_t columns, int64_t pitch, bool halves) {
  constexpr int64_t size = sizeof(T), c0 = 32 / size;
  const int32_t type = dtype_of<T>::value;
  if (s.nz) {
    if (halves) mco_asc_fault(&where, "a transposed NZ matrix of %d bytes an element; accepted: ND", int(size));
    const int64_t height = round_to(s.rows, 16), blocks = (columns + c0 - 1) / c0;
    if (c % c0)
      mco_asc_fault(&where, "a tile of an NZ matrix begins at column %lld; accepted: whole blocks", (long long)c);
    issue(Op::data_move, where, {operand(to), s.from(((c / c0) * height + r) * 32, type, 32)},
          {integer(blocks), integer(rows * 32), integer((height - rows) * 32), integer((pitch - rows) * 32)});
    return;
  }
  const mco_asc_operand from = s.from((r * s.columns + c) * size, type, int32_t(size));
  const auto go = [&](const mco_asc_operand& dst, const mco_asc_operand& src, int64_t count, int64_t height,
                      int64_t c0_stride, int64_t next) {
    issue(Op::nd2nz, where, {dst, src},
          {integer(count), integer(height), integer(columns), integer(16 * s.columns), integer(s.columns),
           integer(c0_stride), integer(1), integer(next)});
  };
  if (!halves) return go(operand(to), from, 1, rows, pitch, 0);
  const int64_t next = 16 * round_to(columns, 16), whole = rows / 16;
  go(operand(to), from, whole, 16, 16, next);
  if (rows % 16) {
    go(operand(to[uint32_t(whole * next)]), s.from(((r + whole * 16) * s.columns + c) * size, type, int32_t(size)), 1,
       rows % 16, 16, next);
  }
}

template <class T>
constexpr int64_t square_side = sizeof(T) == 1 ? 32 : 16;

// L1 to L0 as it lies: fractal row i of L0 takes every pitch/16-th fractal.
template <class T>
inline void straight(const mco_asc_where& where, const AscendC::LocalTensor<T>& to, const AscendC::LocalTensor<T>& from,
                     int64_t outer, int64_t inner, int64_t pitch, bool along) {
  constexpr int64_t fractal = 512 / sizeof(T);
  const auto go = [&](int64_t dst, int64_t src, int64_t count, int64_t stride) {
    issue(Op::load2d, where, {operand(to[uint32_t(dst * fractal)], 512), operand(from)},
          {integer(src), integer(count), integer(stride), integer(0)}, {0});
  };
  if (along && pitch / 16 == inner) return go(0, 0, outer * inner, 1);  // L0 has the order of L1
  for (int64_t i = 0; i < outer; ++i) go(i * inner, along ? i * (pitch / 16) : i, inner, along ? 1 : pitch / 16);
}

// L1 holds [columns of blocks][pitch rows]; L0 takes its transpose, fractals of row i of blocks from `down` blocks.
// `a`: L0A, whose fractal rows are the columns of L1; else L0B, whose fractal rows are the rows of L1.
template <class T>
inline void turned(const mco_asc_where& where, const AscendC::LocalTensor<T>& to, const AscendC::LocalTensor<T>& from,
                   int64_t k, int64_t columns, bool a) {
  constexpr int64_t size = sizeof(T), side = square_side<T>, c0 = 32 / size, fractal = 512 / size;
  const int64_t down = round_to(k, side) / side, across = columns / side;
  // Fractals of L0: rows of L1 are k. L0A [columns/16][k1], L0B [k1][columns/16]. Where half a square is beyond k, what
  // it writes to L0A is overwritten by the next row of fractals.
  const int64_t k1 = (k + c0 - 1) / c0, n1 = columns / 16;
  for (int64_t i = 0; i < across; ++i) {
    const int64_t first = i * (side / 16), start = size == 4 ? i : i * down, stride = size == 4 ? across : 1;
    const int64_t step = a ? side / c0 : side / c0 * n1;           // fractals of L0 from one square to the next
    const int64_t half = size == 1 ? (a ? k1 : 1) : (a ? 1 : n1);  // and to its second half
    issue(Op::load2d_square, where, {operand(to[uint32_t((a ? first * k1 : first) * fractal)], 512), operand(from)},
          {integer(start), integer(down), integer(stride), integer(step - 1), integer(half - 1)});
  }
}

}  // namespace mco_asc
