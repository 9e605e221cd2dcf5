// SPDX-License-Identifier: Apache-2.0
// SIMD building blocks that aarch64 has an instruction for; included at the end of vec.h at the level neon.

template <>
MCO_SPECIALISED V<4>::f half_load<4>(const void* at) {
  return (V<4>::f)vcvt_f32_f16(ld<float16x4_t>(at));
}

template <>
MCO_SPECIALISED V<4>::u half_bits<4>(V<4>::f x) {
  return (V<4>::u)vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}

template <>
MCO_SPECIALISED void narrow_store<4>(void* at, V<4>::u h) {
  st(at, vmovn_u32((uint32x4_t)h));
}

// Doubles of two floats, part `Part` of a register, and back.
template <int Part>
MCO_INLINE vd widen(V<4>::f x) {
  return (vd)(Part ? vcvt_high_f64_f32((float32x4_t)x) : vcvt_f64_f32(vget_low_f32((float32x4_t)x)));
}
MCO_INLINE vd narrow(vd x) { return x; }
MCO_INLINE V<4>::f join(vd a, vd b) { return (V<4>::f)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)a), (float64x2_t)b); }
MCO_INLINE vd root(vd x) { return (vd)vsqrtq_f64((float64x2_t)x); }
MCO_INLINE V<4>::f root(V<4>::f x) { return (V<4>::f)vsqrtq_f32((float32x4_t)x); }
MCO_INLINE V<4>::f fused(V<4>::f a, V<4>::f b, V<4>::f c) {
  return (V<4>::f)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
MCO_INLINE vd fused(vd a, vd b, vd c) { return (vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b); }
