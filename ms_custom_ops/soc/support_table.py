# SPDX-License-Identifier: Apache-2.0
"""Which dtypes each instruction has on each chip, as text: ``instruction families: dtypes``.

Facts of the public platform configuration of CANN 8.1 (instruction tables and the TIK-level map). Columns:
310 = Ascend310, 910A, 310P = Ascend310P3 AI core, 310PV = its vector core, 910B = Ascend910B and Ascend910_93
(cube and vector core together). A family that a line does not name does not have the instruction.

Short dtype names: kind and bits. Conversions are ``source2destination`` and a rounding suffix (r nearest
even, f floor, c ceil, a nearest away from zero, z toward zero, o odd). Products are operand, operand, result
for mmad, matmul and conv2d, and result, operand, operand for the vector instructions. The bfloat16 products
of 910B, which that map lacks, are known from the chip's architecture documents, as are load3dv1, load_image,
load_smask, tensor_padding_with_matrix and the bfloat16 forms of load3dv2 and fixpipe.
"""

from __future__ import annotations

TABLE = """
abs 310,910A: s64
abs 310P,310PV,910B: s64 f32
bcnt0 310,910A,310P,310PV,910B: u64
bcnt1 310,910A,310P,310PV,910B: u64
broadcast_ub_to_cc 310,910A,310P: f16 f32 s32
clz 310,910A,310P,310PV,910B: u64
col2img 910A,310P: f16 f32
conv2d 310,910A,310P: s8s8s32 f16f16f32
conv2d 910B: s8s8s32 f16f16f32 f32f32f32
data_move_multi_nd2nz 910B: u8 s8 f16 bf16 u16 s16 f32 s32 u32
data_move_pad 910B: u8 s8 u16 s16 f16 s32 f32 u32 bf16
depthwise_conv 310P: f16f16f16 f32f16f16 s32u8s8 s32s8s8 s32u8u8
fixpipe 310,910A,310P,310PV,910B: f32f16 f32f32 s32s32 s32f16
fixpipe 910B: f32f16 f32f32 s32s32 s32f16 f32bf16
h_cmpv 310: f16
h_cmpv 910A,310P,310PV,910B: f16 f32
h_cos 310,910A: f16 f32
h_quant 310,910A: s322f16
h_sel 310: f16
h_sel 910A,310P,310PV,910B: f16 f32
h_sin 310,910A: f16 f32
load2dv1 310,910A: s8 u8 u16 s16 f16
load2dv2 310P: uint4 int4 s8 u8 u16 s16 f16
load2dv2 910B: s8 u8 u16 s16 f16 f32 bf16
load3dv1 310,910A,310P: s8 u8 f16
load3dv2 310P: s8 u8 f16
load3dv2 910B: s8 u8 f16 f32 bf16
load_image 310,910A,310P: u8 f16
load_image 910B: f16
load_smask 310,910A,310P: u16
matmul 310,910A,310P: s8s8s32 f16f16f32
matmul 910B: s8s8s32 f16f16f32 f32f32f32 bf16bf16f32
max 310,910A: s64
max 310P,310PV,910B: s64 f32
min 310,910A: s64
min 310P,310PV,910B: s64 f32
mmad 310,910A: u8u8u32 s8s8s32 u8s8s32 f16f16f16 f16f16f32
mmad 310P: u8u8u32 u8u8s32 s8s8s32 u8s8s32 f16f16f16 f16f16f32
mmad 910B: u8u8s32 s8s8s32 u8s8s32 f16f16f16 f16f16f32 f32f32f32 bf16bf16f32
mmad_broadcast 310,910A,310P,910B: f16f16 f32f32 s32s32 f32f16
scalar_conv 910A,310P,310PV,910B: s322f32 f322s32r f322s32a f322s32f f322s32c f322s32z f162f32 f322f16
  f322f16o
set_atomic_add 910A: f32
set_atomic_add 310P,310PV: f32 f16 s16
set_atomic_add 910B: f32 f16 s16 s32 s8 bf16
sqrt 310: s64
sqrt 910A,310P,310PV,910B: s64 f32
tensor_padding_with_matrix 310,910A: f16
tensor_padding_with_matrix 310P: s16 u16 f16
tensor_padding_with_matrix 910B: s16 u16 f16 bf16 s32 u32 f32
v4dtrans 310P,310PV: s8 u8 s16 u16 f16 f32 s32 u32
vaadd 310,910A: f16
vaadd 310P,310PV: f16 f32
vabs 310,910A,310P,910B: f16 f32
vabs 310PV: f16 f32 s16
vadd 310,910A: f16 f32 s32
vadd 310P,310PV,910B: f16 f32 s32 s16
vadddeqrelu 910A,310P,310PV: f16s32s32
vaddrelu 310P,310PV,910B: s16 f16 f32
vaddreluconv 310P,310PV: s162s8 f162s8 f322f16
vadds 310,910A: f16 f32
vadds 310P,310PV,910B: f16 f32 s32 s16
vand 310,910A,310P,310PV,910B: s16 u16
vaxpy 310,910A,310P,910B: f16f16f16 f32f32f32 f32f16f16 f16 f32
vaxpy 310PV: f16f16f16 f32f32f32 f32f16f16
vbi 310P,310PV: f16
vbi 910B: f16 f32
vbitsort 310,910A,910B: f16
vbitsort 310P,310PV: f16 f32
vbitsort32 910B: f16 f32
vbrcb 910B: u16u16 s16s16 f16f16 u32u32 s32s32 f32f32
vcadd 310,910A,310P,310PV,910B: f16 f32
vcbd 310P: s322s16
vcbd 310PV: u82u16 u82s16 u82u32 u82s32 u162u8 u162u32 u162s32 s162u8 s162u32 s162s32 u322u8 u322u16 u322s16
  s322u8 s322u16 s322s16
vcgadd 310,910A: f16
vcgadd 310P,310PV,910B: f16 f32
vcgmax 310,910A: f16
vcgmax 310P,310PV,910B: f16 f32
vcgmin 310,910A: f16
vcgmin 310P,310PV,910B: f16 f32
vci 310P,310PV: s16 s32 f16 f32
vcmax 310,910A: f16
vcmax 310P,910B: f16 f32
vcmax 310PV: f16 f32 s16
vcmin 310,910A: f16
vcmin 310P,910B: f16 f32
vcmin 310PV: f16 f32 s16
vcmp 310: f16
vcmp 910A,310P: f16 f32
vcmp 310PV,910B: f16 f32 s16
vcmpv_eq 310: f16
vcmpv_eq 910A,310P,310PV: f16 f32
vcmpv_eq 910B: f16 f32 s32
vcmpv_ge 310: f16
vcmpv_ge 910A,310P,310PV,910B: f16 f32
vcmpv_gt 310: f16
vcmpv_gt 910A,310P,310PV,910B: f16 f32
vcmpv_le 310: f16
vcmpv_le 910A,310P,310PV,910B: f16 f32
vcmpv_lt 310: f16
vcmpv_lt 910A,310P,310PV,910B: f16 f32
vcmpv_ne 310: f16
vcmpv_ne 910A,310P,310PV,910B: f16 f32
vcmpvs_eq 310P,310PV: f16 f32
vcmpvs_eq 910B: f16 f32 s32
vcmpvs_ge 310P,310PV,910B: f16 f32
vcmpvs_gt 310P,310PV,910B: f16 f32
vcmpvs_le 310P,310PV,910B: f16 f32
vcmpvs_lt 310P,310PV,910B: f16 f32
vcmpvs_ne 310P,310PV,910B: f16 f32
vconcat 310,910A: f16
vconcat 310P,310PV: f16 f32
vconv 310: f322f16 f162f32 f162s8 f162u8 deq f162s32f f162s32c f162s32r u82f16 s82f16 s322f16
vconv 910A: f322f16 f162f32 f322f16o f162s8 f162s8a f162s8f f162s8c f162s8z f162u8 f162u8a f162u8f f162u8c
  f162u8z deq s322f32 f162s32r f162s32a f162s32f f162s32c f162s32z f322s32r f322s32a f322s32f f322s32c
  f322s32z u82f16 s82f16 s322f16
vconv 310P: f322f16 f162f32 f322f16o f162s8 f162s8a f162s8f f162s8c f162s8z f162u8 f162u8a f162u8f f162u8c
  f162u8z deq s322f32 f162s32r f162s32a f162s32f f162s32c f162s32z f322s32r f322s32a f322s32f f322s32c
  f322s32z u82f16 s82f16 s322f16 s162u8 s162s8 f162s4 s162f16 f162s16r
vconv 310PV: f322f16 f162f32 f162s8 f162u8 f162s4 s322f16 s162u8 s162s8 s322f32 u82f16 s82f16 s162f16
  s162f32 f162s32r f322s32r f162s16r f322s16r f162s8f f162u8f f162s32f f322s32f f162s8c f162u8c f162s32c
  f322s32c f162s8a f162u8a f162s32a f322s32a f162s8z f162u8z f162s32z f322s32z f322s16z f322f16o
vconv 910B: f322f32r f322f32f f322f32c deq f322f32a f322f32z f322f16 f322f16r f322f16f f322f16c f322f16a
  f322f16z f322f16o f322s64r f322s64f f322s64c f322s64a f322s64z f322s32r f322s32f f322s32c f322s32a
  f322s32z f322s16r f322s16f f322s16c f322s16a f322s16z f162f32 f162s32r f162s32f f162s32c f162s32a f162s32z
  f162s16r f162s16f f162s16c f162s16a f162s16z f162s8 f162s8r f162s8f f162s8c f162s8a f162s8z f162u8 f162u8r
  f162u8f f162u8c f162u8a f162u8z u82f16 s82f16 s162f16 s162f16r s162f16f s162f16c s162f16a s162f16z s162f32
  s162s8 s162u8 s322f32 s322f32r s322f32f s322f32c s322f32a s322f32z s322f16 s322s64 s322s16 s642s32
  s642f32r s642f32f s642f32c s642f32a s642f32z f322bf16r f322bf16f f322bf16c f322bf16a f322bf16z bf162f32
  bf162s32r bf162s32f bf162s32c bf162s32a bf162s32z
vcopy 910B: s16 u16 f16 f32 s32 u32
vcpadd 310,910A: f16
vcpadd 310P,310PV,910B: f16 f32
vdiv 910A,310P,310PV,910B: f16 f32
vdp 310PV: s16
vec_expm1_high_preci 310,910A,310P,310PV,910B: f16
vec_ln_high_preci 310,910A,310P,310PV,910B: f16
vec_rec_high_preci 310,910A,310P,310PV,910B: f16 f32
vec_rsqrt_high_preci 310,910A,310P,310PV,910B: f16 f32
vec_trans_scatter 310,910A,310P,310PV,910B: s8 u8 u16 s16 f16 u32 s32 f32
vector_dup 310,910A,310P,310PV: u16 s16 f16 u32 s32 f32
vector_dup 910B: u16 s16 f16 u32 s32 f32 bf16
vexp 310: f16
vexp 910A,310P,310PV,910B: f16 f32
vextract 310,910A: f16
vextract 310P,310PV: f16 f32
vgather 310P,310PV,910B: s16 u16 f16 f32 s32 u32
vgatherb 910B: u16u16 s16s16 f16f16 u32u32 s32s32 f32f32
viou 310,910A: f16
viou 310P,310PV: f16 f32
vln 310: f16
vln 910A,310P,310PV,910B: f16 f32
vlrelu 310P,310PV,910B: f16 f32
vmadd 310,910A,310P,310PV,910B: f16 f32
vmaddrelu 310,910A,310P,310PV,910B: f16 f32
vmax 310,910A: f16 f32 s32
vmax 310P,310PV,910B: f16 f32 s32 s16
vmaxs 310P,310PV,910B: f16 f32 s32 s16
vmergech 310,910A: s8 u8 s16 u16 f16
vmergech 310P,310PV: s8 u8 f16
vmin 310,910A: f16 f32 s32
vmin 310P,310PV,910B: f16 f32 s32 s16
vmins 310P,310PV,910B: f16 f32 s32 s16
vmla 310,910A,310P,910B: f16f16f16 f32f32f32 f32f16f16 f16 f32
vmla 310PV: f16f16f16 f32f32f32 f32f16f16
vmrgsort4 310,910A,910B: f16
vmrgsort4 310P,310PV: f16 f32
vmrgsort4v2 910B: f16 f32
vmul 310,910A: f16 f32 s32
vmul 310P,310PV,910B: f16 f32 s32 s16
vmulconv 910A,310P,310PV,910B: u8f16f16 s8f16f16
vmuls 310,910A: f16 f32
vmuls 310P,310PV,910B: f16 f32 s32 s16
vnchwconv 310,910A,310P,310PV: s8 u8 u16 s16 f16 s32 f32 u32
vnchwconv 910B: s8 u8 u16 s16 f16 s32 f32 u32 bf16
vnchwtrans 310,910A,310P,310PV,910B: u16 s16 f16
vnot 310,910A,310P,310PV,910B: s16 u16
vor 310,910A,310P,310PV,910B: s16 u16
vpadding 310P,310PV: s16 u16 f16 f32 s32 u32
vrec 310,910A,310P,310PV,910B: f16 f32
vreduce 310P,310PV,910B: s16 u16 f16 f32 s32 u32
vreducev2 910B: s16 u16 f16 f32 s32 u32
vrelu 310,910A: f16
vrelu 310P,310PV,910B: f16 f32 s32
vrpac 310,910A: f16
vrpac 310P,310PV: f16 f32
vrsqrt 310,910A,310P,310PV,910B: f16 f32
vscatter 310P,310PV: s16 u16 f16 f32 s32 u32
vsel 310: f16
vsel 910A,310P,310PV,910B: f16 f32
vshl 310PV: u16 s16 f16 u32 s32 f32
vshl 910B: s16 u16 s32 u32
vshr 310PV,910B: u16 s16 u32 s32
vsqrt 910A,310P,310PV,910B: f16 f32
vsub 310,910A: f16 f32 s32
vsub 310P,310PV,910B: f16 f32 s32 s16
vsubrelu 310P,310PV: s16 f16 f32
vsubreluconv 310P,310PV: s162s8 f162s8 f322f16
vtranspose 310,910A,310P,310PV,910B: u16 s16 f16
"""
