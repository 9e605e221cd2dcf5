// SPDX-License-Identifier: Apache-2.0
// What a Matmul computes on the cube: base blocks of a product, into GM or UB.
#pragma once

#include <algorithm>

#include "mco/matmul_sum.h"

namespace mco_asc {

using AscendC::CubeFormat;
using AscendC::TOTAL_L0C_SIZE;
using AscendC::TOTAL_L1_SIZE;
using AscendC::TPosition;

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE>
class Product {
 public:
  using AType = A_TYPE;
  using BType = B_TYPE;
  using CType = C_TYPE;
  using BiasType = BIAS_TYPE;
  using A = typename A_TYPE::T;
  using B = typename B_TYPE::T;
  using C = typename C_TYPE::T;
  using V = typename BIAS_TYPE::T;
  using L0cT = std::conditional_t<sizeof(A) == 1, int32_t, float>;

 protected:
  struct Target {
    Source place;
    uint8_t atomic;
    bool sequential;
    bool whole = false;  // all of this core's part, in UB
  };
  enum class What { all, block, sum, more, kept };  // sum, more: into L0C alone; kept: out of it
  struct Tile {
    int64_t number, r, c, m, n, mm, nn;  // mm, nn: up to whole fractals
  };

  int64_t BlocksM() const { return (single_m_ + tiling_.baseM - 1) / tiling_.baseM; }
  int64_t BlocksN() const { return (single_n_ + tiling_.baseN - 1) / tiling_.baseN; }

  // On the cube core.
  void Run(const mco_asc_where& where, const Target& out, What what) {
    const LocalTensor<L0cT> sum(TPosition::CO1, 0, TOTAL_L0C_SIZE / 4);
    const bool keep = what == What::sum || what == What::more || what == What::kept;
    if (keep && !kept_) {  // 32: the larger side of a square, of 8-bit elements
      kept_ = new_sum(round_to(tiling_.baseM, 32) * round_to(tiling_.baseN, 32) * 4);
    }
    take_l0c(sum.mco_at(), keep ? kept_ : nullptr, what != What::sum);
    // As they are stored: the whole matrix in GM, in UB this core's part.
    Stored(a_, A_TYPE::format, m_, ka_, single_m_, single_k_);
    Stored(b_, B_TYPE::format, kb_, n_, single_k_, single_n_);
    if (what == What::sum) sum_ = Place(0);
    if (what == What::sum || what == What::more) return Sum(where, sum, sum_, what == What::more);
    if (out.atomic) mco_asc_atomic(&where, out.atomic, dtype_of<C>::value);
    if (what == What::kept) {
      BlockOut(where, sum, out, sum_);
    } else {
      const int64_t first = what == What::all ? 0 : block_,
                    last = what == What::all ? BlocksM() * BlocksN() : block_ + 1;
      for (int64_t i = first; i < last; ++i) {
        const Tile tile = Place(i);
        Sum(where, sum, tile, false);
        BlockOut(where, sum, out, tile);
      }
    }
    if (out.atomic) mco_asc_atomic(&where, 0, 0);
  }
  static void Stored(Source& s, CubeFormat format, int64_t rows, int64_t columns, int64_t part_rows,
                     int64_t part_columns) {
    s.nz = format == CubeFormat::NZ;
    s.rows = s.gm ? rows : part_rows, s.columns = s.gm ? columns : part_columns;
    if (s.transposed) std::swap(s.rows, s.columns);
    if (format == CubeFormat::ND_ALIGN || (!s.gm && !s.nz)) {
      s.columns = round_to(s.columns, format == CubeFormat::ND_ALIGN ? 32 / int64_t(sizeof(A)) : 1);
    }
  }

  // A tile of an operand in TSCM lies in L1 already, as load2d takes it, where whole fractals of it are there.
  static int64_t Height(const Source& s) { return round_to(s.rows, 16); }
  static bool InPlace(TPosition position, const Source& s, int64_t r, int64_t k, int64_t rows) {
    return position == TPosition::TSCM && r + rows <= Height(s) && r % 16 == 0 && k % (32 / int64_t(sizeof(A))) == 0;
  }
  template <class T>
  static LocalTensor<T> Within(const Source& s, int64_t r, int64_t k) {
    const int64_t from = (k / (32 / int64_t(sizeof(T))) * Height(s) + r) * 32;
    void* at = moved(s.at, from);
    return LocalTensor<T>(at, s.home, uint32_t(s.home ? s.home->bytes / sizeof(T) : 0));
  }

  Tile Place(int64_t number) const {
    const bool first_n = tiling_.iterateOrder == 1;
    const int64_t bm = first_n ? number / BlocksN() : number % BlocksM(),
                  bn = first_n ? number % BlocksN() : number / BlocksM();
    constexpr int64_t side = square_side<A>;
    Tile t{number, bm * tiling_.baseM, bn * tiling_.baseN, 0, 0, 0, 0};
    t.m = std::min<int64_t>(tiling_.baseM, single_m_ - t.r), t.n = std::min<int64_t>(tiling_.baseN, single_n_ - t.c);
    t.mm = round_to(t.m, a_.transposed ? side : 16), t.nn = round_to(t.n, b_.transposed ? 16 : side);
    return t;
  }
  // Of one block into L0C, with `more` onto what is there.
  [[gnu::noinline]] void Sum(const mco_asc_where& where, const LocalTensor<L0cT>& sum, const Tile& tile, bool more) {
    constexpr int64_t side = square_side<A>, c0 = 32 / int64_t(sizeof(A));
    const auto [number, r, c, m, n, mm, nn] = tile;
    CubeMemory<A> memory;
    for (int64_t k = 0; k < single_k_; k += tiling_.baseK) {
      const int64_t kk = std::min<int64_t>(tiling_.baseK, single_k_ - k), pitch = round_to(kk, side);
      if (a_.transposed) {
        tile_in(where, memory.a1, a_, k, r, kk, m, pitch, sizeof(A) == 4);
        turned(where, memory.a2, memory.a1, kk, mm, true);
      } else if (InPlace(A_TYPE::pos, a_, r, k, mm)) {
        straight(where, memory.a2, Within<A>(a_, r, k), mm / 16, (kk + c0 - 1) / c0, Height(a_), false);
      } else {
        tile_in(where, memory.a1, a_, r, k, m, kk, mm, false);
        straight(where, memory.a2, memory.a1, mm / 16, (kk + c0 - 1) / c0, mm, false);
      }
      if (b_.transposed && InPlace(B_TYPE::pos, b_, c, k, nn)) {
        straight(where, memory.b2, Within<B>(b_, c, k), (kk + c0 - 1) / c0, nn / 16, Height(b_), true);
      } else if (b_.transposed) {
        tile_in(where, memory.b1, b_, c, k, n, kk, nn, false);
        straight(where, memory.b2, memory.b1, (kk + c0 - 1) / c0, nn / 16, nn, true);
      } else {
        tile_in(where, memory.b1, b_, k, c, kk, n, pitch, sizeof(A) == 4);
        turned(where, memory.b2, memory.b1, kk, nn, false);
      }
      if (!k && has_bias_) BiasIn(where, sum, c, n, mm, nn);
      issue(Op::mmad, where, {operand(sum, 64), operand(memory.a2, 512), operand(memory.b2, 512)},
            {integer(mm), integer(kk), integer(nn)}, {k || has_bias_ || more});
    }
  }

  void BiasIn(const mco_asc_where& where, const LocalTensor<L0cT>& sum, int64_t c, int64_t n, int64_t mm, int64_t nn) {
    if constexpr (std::is_same<V, L0cT>::value || (std::is_same<V, half>::value && std::is_same<L0cT, float>::value)) {
      const int64_t bytes = n * int64_t(sizeof(V));
      const LocalTensor<V> l1(TPosition::C1, TOTAL_L1_SIZE - 2048, 2048 / sizeof(V)),
          table(TPosition::C2, 0, 1024 / sizeof(V));
      issue(Op::data_move, where,
            {operand(l1), bias_.from(c * int64_t(sizeof(V)), dtype_of<V>::value, int32_t(sizeof(V)))},
            {integer(1), integer(bytes), integer(0), integer(0)});
      issue(Op::data_move, where, {operand(table), operand(l1)},
            {integer(1), integer(round_to(bytes, 64)), integer(0), integer(0)});
      issue(Op::broadcast_l0c, where, {operand(sum, 64), operand(table)},
            {integer(1), integer(nn / 16), integer(mm / 16), integer(0), integer(0)});
    } else {
      mco_asc_fault(&where, "the type of the bias; accepted: that of the sum (float, int32_t), or half");
    }
  }

  static constexpr bool kWord = !std::is_same<C, L0cT>::value && (std::is_same<L0cT, int32_t>::value || sizeof(C) == 1);

  [[gnu::noinline]] void BlockOut(const mco_asc_where& where, const LocalTensor<L0cT>& sum, const Target& out,
                                  const Tile& tile) {
    constexpr int64_t size = sizeof(C), block = 32 / size, width = size == 1 ? 32 : 16;
    const auto [number, r, c, m, n, mm, nn] = tile;
    const bool nz = C_TYPE::format == CubeFormat::NZ;
    int64_t at, stride, across = n;
    if (nz) {
      const bool part = !out.place.gm && !out.whole;
      const int64_t height = out.sequential || part ? round_to(m, 16) : round_to(out.whole ? single_m_ : m_, 16);
      stride = height * width * size;
      at = out.sequential ? Before(number) : part ? 0 : c / width * height * width + r * width;
      across = round_to(n, 16);
    } else {
      const int64_t pitch = out.sequential ? tiling_.baseN : out.whole ? single_n_ : out.place.gm ? nc_ : n;
      stride = (C_TYPE::format == CubeFormat::ND_ALIGN || !out.place.gm ? round_to(pitch, block) : pitch) * size;
      at = out.sequential ? Packed(number) : out.place.gm || out.whole ? r * stride / size + c : 0;
      if (!out.place.gm && out.sequential) at = 0;
    }
    if (kWord && !has_scale_ && !has_scales_) {
      mco_asc_fault(&where, "C needs a scale; accepted: SetQuantScalar or SetQuantVector before");
    }
    LocalTensor<uint64_t> words;
    if (kWord && has_scales_) {
      words = LocalTensor<uint64_t>(TPosition::A1, TOTAL_L1_SIZE - 8192, 512);
      issue(Op::data_move, where, {operand(words), operand(scales_[uint64_t(c)])},
            {integer(1), integer(n * 8), integer(0), integer(0)});
    }
    const bool vector = kWord && has_scales_;
    issue(Op::l0c_matrix, where,
          {out.place.from(at * size, dtype_of<C>::value, out.place.gm ? int32_t(size) : 32), operand(sum, 64),
           vector ? operand(words) : operand(sum, 64)},
          {integer(1), integer(m), integer(across), integer(mm * 16 * 4), integer(0), integer(stride), integer(0),
           integer(int64_t(scale_))},
          {nz ? width : 0, kWord, 0, vector});
  }
  // Elements of the blocks before one, written one behind the other.
  int64_t Packed(int64_t number) const { return number * tiling_.baseM * tiling_.baseN; }
  int64_t Before(int64_t number) const { return number * round_to(tiling_.baseM, 16) * round_to(tiling_.baseN, 16); }

  TCubeTiling tiling_{};
  Source a_, b_, bias_;
  GlobalTensor<uint64_t> scales_;
  KeptSum* kept_ = nullptr;
  Tile sum_{};  // the block of which kept_ is the sum
  uint64_t scale_ = 0;
  bool has_bias_ = false, has_scale_ = false, has_scales_ = false;
  int32_t m_ = 0, n_ = 0, ka_ = 0, kb_ = 0, nc_ = 0, single_m_ = 0, single_n_ = 0, single_k_ = 0;
  int64_t block_ = -1;
};

}  // namespace mco_asc
