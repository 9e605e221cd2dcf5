// SPDX-License-Identifier: Apache-2.0
// The inner loops of one level and their table. The including file has set MCO_W and the target, and has included
// every standard header before, so that no function of the standard library is compiled for this level only.
namespace mco {
namespace {

#include "vec.h"

#include "math.h"

#include "exp512.h"

#include "types.h"

#include "lane_ops.h"

#include "block_ops.h"

#include "transpose_ops.h"

#include "reduce_ops.h"

#include "convert_ops.h"

#include "cube_ops.h"

constexpr int kNarrow = MCO_W;                // lanes of 16-bit floats: at most one 32-byte block
constexpr int kWide = MCO_W > 8 ? 8 : MCO_W;  // lanes of float32 in one 32-byte block

template <class Tr>
void set_numeric(Kernels& k, DType t) {
  k.lane[kAdd][t] = lane<Tr, OpAdd>;
  k.lane[kSub][t] = lane<Tr, OpSub>;
  k.lane[kMul][t] = lane<Tr, OpMul>;
  k.lane[kMax][t] = lane<Tr, OpMax>;
  k.lane[kMin][t] = lane<Tr, OpMin>;
  k.lane[kAddRelu][t] = lane<Tr, OpAddRelu>;
  k.lane[kSubRelu][t] = lane<Tr, OpSubRelu>;
  k.lane[kMla][t] = lane<Tr, OpMla>;
  k.lane[kMadd][t] = lane<Tr, OpMadd>;
  k.lane[kMaddRelu][t] = lane<Tr, OpMaddRelu>;
  k.lane[kAbs][t] = lane<Tr, OpAbs>;
  k.lane[kRelu][t] = lane<Tr, OpRelu>;
  k.lane[kAdds][t] = lane<Tr, OpAdds>;
  k.lane[kMuls][t] = lane<Tr, OpMuls>;
  k.lane[kMaxs][t] = lane<Tr, OpMaxs>;
  k.lane[kMins][t] = lane<Tr, OpMins>;
  k.lane[kAxpy][t] = lane<Tr, OpAxpy>;
}

// With registers of 8 lanes at most, which suit the 8 to 16 lanes of a block.
template <class Tr>
void set_reductions(Kernels& k, DType t) {
  k.compare[t] = compare<Tr>;
  k.extreme[t] = extreme<Tr>;
}

template <class Tr>
void set_float(Kernels& k, DType t) {
  set_numeric<Tr>(k, t);
  k.lane[kDiv][t] = lane<Tr, OpDiv>;
  k.lane[kExp][t] = lane<Tr, OpExp>;
  k.lane[kLn][t] = lane<Tr, OpLn>;
  k.lane[kRec][t] = lane<Tr, OpRec>;
  k.lane[kSqrt][t] = lane<Tr, OpSqrt>;
  k.lane[kRsqrt][t] = lane<Tr, OpRsqrt>;
  k.lane[kLrelu][t] = lane<Tr, OpLrelu>;
}

template <class T, class U>
void set_integer(Kernels& k, DType t) {
  typedef Integer<T, U> Tr;
  set_numeric<Tr>(k, t);
  set_reductions<Tr>(k, t);
  k.lane[kShl][t] = lane<Tr, OpShl>;
  k.lane[kShr][t] = lane<Tr, OpShr>;
  k.lane[kShrRound][t] = lane<Tr, OpShrRound>;
}

template <class T>
void set_words(Kernels& k, DType t) {
  typedef Integer<T, uint16_t> Tr;
  k.lane[kAnd][t] = lane<Tr, OpAnd>;
  k.lane[kOr][t] = lane<Tr, OpOr>;
  k.lane[kNot][t] = lane<Tr, OpNot>;
}

void set_dup(Kernels& k) {
  for (int t = 0; t < kDTypes; ++t) {
    switch (kSize[t]) {
      case 1:
        k.lane[kDup][t] = lane<Integer<uint8_t, uint8_t>, OpDup>;
        break;
      case 2:
        k.lane[kDup][t] = lane<Integer<uint16_t, uint16_t>, OpDup>;
        break;
      case 4:
        k.lane[kDup][t] = lane<Integer<uint32_t, uint32_t>, OpDup>;
        break;
      default:
        k.lane[kDup][t] = lane<Integer<uint64_t, uint64_t>, OpDup>;
        break;
    }
  }
}

template <DType T>
void set_cube(Kernels& k) {
  k.pack_a[T] = pack_a<T>;
  k.pack_b[T] = pack_b<T>;
}

Kernels make_kernels(const char* name) {
  Kernels k{};
  k.name = name;
  set_float<Float16<kNarrow>>(k, F16);
  set_float<Bfloat16<kNarrow>>(k, BF16);
  set_float<Float32<kWide>>(k, F32);
  set_reductions<Float16<kWide>>(k, F16);
  set_reductions<Bfloat16<kWide>>(k, BF16);
  set_reductions<Float32<kWide>>(k, F32);
  k.group_extreme[F16] = group_extreme<Float16<kWide>>;
  k.group_extreme[BF16] = group_extreme<Bfloat16<kWide>>;
  k.group_extreme[F32] = group_extreme<Float32<kWide>>;
  k.tree_sum[F16] = tree_sum<Float16<kWide>>;
  k.tree_sum[BF16] = tree_sum<Bfloat16<kWide>>;
  k.tree_sum[F32] = tree_sum<Float32<kWide>>;
  set_integer<int8_t, uint8_t>(k, I8);
  set_integer<uint8_t, uint8_t>(k, U8);
  set_integer<int16_t, uint16_t>(k, I16);
  set_integer<uint16_t, uint16_t>(k, U16);
  set_integer<int32_t, uint32_t>(k, I32);
  set_integer<uint32_t, uint32_t>(k, U32);
  set_words<int16_t>(k, I16);
  set_words<uint16_t>(k, U16);
  set_dup(k);
  k.select[0] = select_blocks<uint16_t>;
  k.select[1] = select_blocks<uint32_t>;
  k.copy_blocks = copy_blocks;
  k.blend_blocks = blend_blocks;
  k.copy_bursts = copy_bursts;
  k.copy_grid = copy_grid;
  k.lay_rows = lay_rows;
  k.add_floats = add_floats;
  k.fill_off = fill_off;
  k.half_to_float = half_to_float_all;
  k.float_to_half = float_to_half_all;
  k.bfloat_to_float = bfloat_to_float_all;
  k.float_to_bfloat = float_to_bfloat_all;
  k.float_to_int = float_to_int_all;
  k.transpose16 = transpose16;
  k.nchw[0] = nchw<1>;
  k.nchw[1] = nchw<2>;
  k.nchw[2] = nchw<4>;
  set_cube<F16>(k);
  set_cube<BF16>(k);
  set_cube<F32>(k);
  set_cube<I8>(k);
  set_cube<U8>(k);
  k.lay_a[0] = lay_a<F16>;
  k.lay_a[1] = lay_a<BF16>;
  k.lay_b[0] = lay_b<F16>;
  k.lay_b[1] = lay_b<BF16>;
  k.gemm = gemm_float;
  k.gemm_int = gemm_int;
  return k;
}

}  // namespace
}  // namespace mco
