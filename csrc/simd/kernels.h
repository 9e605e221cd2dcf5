// SPDX-License-Identifier: Apache-2.0
// Interface of the inner loops. They are compiled once per SIMD level (generic, avx2, avx512); every level gives the
// same bits.
#pragma once

#include "../base.h"

namespace mco {

enum LaneOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kAnd,
  kOr,
  kAddRelu,
  kSubRelu,  // two sources
  kMla,
  kMadd,
  kMaddRelu,  // two sources and the old dst
  kAbs,
  kRelu,
  kExp,
  kLn,
  kRec,
  kSqrt,
  kRsqrt,
  kNot,  // one source
  kAdds,
  kMuls,
  kMaxs,
  kMins,
  kLrelu,
  kShl,
  kShr,
  kShrRound,  // one source and a scalar
  kAxpy,      // one source, a scalar and the old dst
  kDup,       // a scalar
  kLaneOps
};

// Element-wise work on one dtype. `flat` > 0: that many contiguous elements. Else `repeats` repeats of `blocks` whole
// 32-byte blocks and `tail` elements, at block and repeat strides in bytes. Up to 31 bytes behind a source are read,
// so sources must lie in padded memory; nothing outside dst is written.
struct LaneJob {
  uint8_t* dst;
  const uint8_t *s0, *s1;
  int64_t dst_blk, s0_blk, s1_blk, dst_rep, s0_rep, s1_rep;
  int64_t flat, repeats;
  int32_t blocks, tail;
  float scalar;     // of float dtypes, exact in the dtype
  int64_t iscalar;  // of integer dtypes, and shift counts
  bool saturate;
};

using LaneFn = void (*)(const LaneJob&);

// dst = bit of `bits` ? s0 : s1. A lane of a repeat has a bit; `step` bytes lie between the bits of two repeats.
using SelectFn = void (*)(const LaneJob&, const uint8_t* bits, int64_t step);

// C (+)= A B. A is row-major [m, k] at stride lda; B holds panels of 16 columns, [k][16] each, at distance
// b_panel; C holds panels of 16 columns, [m][16] each, at distance c_panel. One chain per element, k ascending.
template <class T>
struct GemmJob {
  const T* a;
  int64_t lda;
  const T* b;
  int64_t b_panel;
  T* c;
  int64_t c_panel;
  int64_t m, k, panels;
  bool accumulate;
  bool exact;  // no product needs a rounding (float only): multiply and add equal one fused multiply-add
};

// Addresses of 32-byte rows of fractals: row r of fractal row f and k block q lies at f*outer + q*inner + r*32.
struct FractalJob {
  const uint8_t* src;
  int64_t outer, inner;  // bytes
  int64_t rows;          // of A, a multiple of 16; or columns of B
  int64_t k;             // elements
  void* dst;             // A: [rows][ld]; B: panels [k][16] at distance ld
  int64_t ld;
};

// 16 rows of 16 elements of 16 bits; `turned`: the transposed one is meant.
struct Fractal {
  const uint8_t* at = nullptr;
  bool turned = false;
};

// The same from fractals anywhere: that of fractal row f and k block q is first[f * outer + q * inner].
struct NotedJob {
  const Fractal* first;
  int64_t outer, inner;
  int64_t rows, k;  // fractal rows, k blocks
  void* dst;        // as of FractalJob
  int64_t ld;
};

// Repeats whose lanes are dense, and where the results of each go, apart from all lanes.
struct RepeatJob {
  uint8_t* dst;
  const uint8_t* src;
  int64_t dst_rep, src_rep, repeats;  // bytes from one to the next
  bool saturate;
};

// Bursts of 32 or 64 bytes in rows: none meets another, and none is read where one is written.
struct GridJob {
  uint8_t* dst;
  const uint8_t* src;
  int64_t rows, columns, length;
  int64_t dst_row, dst_column, src_row, src_column;  // bytes from one to the next
};

struct Kernels {
  const char* name;
  LaneFn lane[kLaneOps][kDTypes];

  SelectFn select[2];  // elements of 2 and 4 bytes, by blocks (`flat` is not used)

  void (*half_to_float)(float* dst, const uint16_t* src, int64_t n);
  void (*float_to_half)(uint16_t* dst, const float* src, int64_t n, bool saturate);
  void (*bfloat_to_float)(float* dst, const uint16_t* src, int64_t n);
  void (*float_to_bfloat)(uint16_t* dst, const float* src, int64_t n, bool saturate);

  // 32-byte blocks, in order: copies; and of `dst` the bits where `keep` (dense, as `src`) is 0. Bit b of `on` says
  // whether block b takes part.
  void (*copy_blocks)(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, uint32_t on);
  void (*blend_blocks)(uint8_t* dst, int64_t dst_step, const uint8_t* src, const uint8_t* keep, uint32_t on);
  // `count` bursts of 32, 64, 128 or 256 bytes, in order; each is read before it is written.
  void (*copy_bursts)(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, int64_t count,
                      int64_t length);
  void (*copy_grid)(const GridJob& job);
  // Row r of `rows` is `blocks` blocks from src[r] on, which go `step` apart from dst + r * 32 on: none meets another.
  void (*lay_rows)(uint8_t* dst, int64_t step, const uint8_t* const* src, int64_t rows, int64_t blocks);
  // float32 at any address: dst += src, in `size` bytes.
  void (*add_floats)(uint8_t* dst, const uint8_t* src, int64_t size);
  // The 8 blocks of a repeat with the bits of `off` cleared or set; other blocks than those of `on` lie in `off` whole.
  void (*fill_off)(uint8_t* dst, const uint8_t* src, int64_t src_step, const uint8_t* off, bool set, uint32_t on);

  // Integral by a rounding mode number, then int32: saturating, NaN gives 0. Arrays are padded by 64 bytes.
  void (*float_to_int)(int32_t* dst, const float* src, int64_t n, int mode);

  // Bit i of dst = s0[i] <compare> s1[i] for n (a multiple of 8) elements; s1 is one element if `broadcast`.
  void (*compare[kDTypes])(uint8_t* dst, const uint8_t* s0, const uint8_t* s1, int64_t n, int compare, bool broadcast);
  // Tree sums of `width` adjacent elements each, n / width results. n is the lanes of a repeat; width is n, n / 8 or 2.
  void (*tree_sum[kDTypes])(const RepeatJob& job, int n, int width);
  // The 8 blocks of a repeat: of each the first element that no later one beats. Float dtypes only, else null.
  void (*group_extreme[kDTypes])(const RepeatJob& job, bool largest);
  // First element that no later one beats among n; returns its number.
  int (*extreme[kDTypes])(const uint8_t* src, int n, bool largest);

  // 16 rows of 16 16-bit elements, transposed.
  void (*transpose16)(uint8_t* const dst[16], const uint8_t* const src[16]);
  // vnchwconv of elements of 1 << n bytes: 16 blocks a repeat (halves of blocks for bytes), read before one is written.
  void (*nchw[3])(uint8_t* const dst[16], const uint8_t* const src[16], int64_t repeats, int64_t dst_rep,
                  int64_t src_rep);

  // Fractals unpacked to 32-bit values (float, or int32 of 8-bit integers). Returns whether every product of such
  // values is exact in float32.
  bool (*pack_a[kDTypes])(const FractalJob&);
  bool (*pack_b[kDTypes])(const FractalJob&);
  bool (*lay_a[2])(const NotedJob&);  // of float16 and bfloat16
  bool (*lay_b[2])(const NotedJob&);
  void (*gemm)(const GemmJob<float>&);
  void (*gemm_int)(const GemmJob<int32_t>&);
};

// The level in use.
const Kernels& kernels();
const char* kernel_level();
bool set_kernel_level(const char* name, std::string& error);

// Null when the level was not compiled for this architecture.
const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace mco
