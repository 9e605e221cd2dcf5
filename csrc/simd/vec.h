// SPDX-License-Identifier: Apache-2.0
// SIMD building blocks of one level, on compiler vector types. Included once per level, after its target pragma;
// MCO_W is the native number of floats: 4 (generic), 8 (avx2), 16 (avx512).
//
// Only operators with one correctly rounded result are used, and fused multiply-add only by name, so that all levels
// give the same bits.
#define MCO_INLINE static inline __attribute__((always_inline))
#define MCO_UNROLL _Pragma("GCC unroll 32")
#define MCO_SPECIALISED inline __attribute__((always_inline))  // the linkage is that of the template

template <int W>
struct V {
  typedef float f __attribute__((vector_size(W * 4)));
  typedef int32_t i __attribute__((vector_size(W * 4)));
  typedef uint32_t u __attribute__((vector_size(W * 4)));
  typedef uint16_t h __attribute__((vector_size(W * 2)));
};

// Doubles: half the native number of floats.
constexpr int D = MCO_W / 2;
typedef double vd __attribute__((vector_size(D * 8)));
typedef int64_t vl __attribute__((vector_size(D * 8)));
typedef uint64_t vul __attribute__((vector_size(D * 8)));

template <class T>
MCO_INLINE T ld(const void* at) {
  T t;
  __builtin_memcpy(&t, at, sizeof t);
  return t;
}

template <class T>
MCO_INLINE void st(void* at, T t) {
  __builtin_memcpy(at, &t, sizeof t);
}

template <class T, class E>
MCO_INLINE T splat(E e) {
  return T{} + e;
}

template <int W>
MCO_INLINE typename V<W>::f splat_f(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return (typename V<W>::f)(typename V<W>::u{} + bits);  // 0.0f + x would lose the sign of -0
}

// ---- float16, in software -------------------------------------------------------------------------------------

template <int W>
MCO_INLINE typename V<W>::f half_load(const void* at) {
  typedef typename V<W>::u u;
  typedef typename V<W>::f f;
  uint16_t raw[W];
  __builtin_memcpy(raw, at, sizeof raw);
  u h;
  for (int k = 0; k < W; ++k) h[k] = raw[k];
  const u sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  const f scaled = (f)(magnitude << 13) * 0x1p112f;
  const u nan = (u)(magnitude > 0x7c00u) & 0x400000u;
  const u special = (u)(magnitude >= 0x7c00u);
  const u wide = ((magnitude & 0x3ffu) << 13) | 0x7f800000u | nan;
  return (f)((special & wide) | (~special & (u)scaled) | sign);
}

template <int W>
MCO_INLINE typename V<W>::u half_bits(typename V<W>::f x) {
  typedef typename V<W>::u u;
  typedef typename V<W>::f f;
  const u bits = (u)x, sign = bits >> 16 & 0x8000u, m = bits & 0x7fffffffu;
  const u small = (u)((f)m + 0.5f) - 0x3f000000u;
  const u normal = (m + 0xc8000fffu + (m >> 13 & 1u)) >> 13;
  const u nan = (m >> 13 & 0x3ffu) | 0x7e00u;
  const u is_small = (u)(m < 0x38800000u), is_large = (u)(m >= 0x47800000u), is_nan = (u)(m > 0x7f800000u);
  u r = (is_small & small) | (~is_small & normal);
  r = (is_large & 0x7c00u) | (~is_large & r);
  r = (is_nan & nan) | (~is_nan & r);
  return r | sign;
}

// Bits of a 16-bit float in 32-bit lanes: infinity becomes the largest finite value, NaN becomes 0.
template <int W>
MCO_INLINE typename V<W>::u saturate_bits(typename V<W>::u h, uint32_t infinity) {
  typedef typename V<W>::u u;
  const u m = h & 0x7fffu;
  const u is_inf = (u)(m == infinity), is_nan = (u)(m > infinity);
  return ((is_inf & ((h & 0x8000u) | (infinity - 1))) | (~is_inf & h)) & ~is_nan;
}

template <int W>
MCO_INLINE void narrow_store(void* at, typename V<W>::u h) {
  uint16_t raw[W];
  for (int k = 0; k < W; ++k) raw[k] = (uint16_t)h[k];
  __builtin_memcpy(at, raw, sizeof raw);
}

template <int W>
MCO_INLINE void half_store(void* at, typename V<W>::f x, bool saturate) {
  typename V<W>::u h = half_bits<W>(x);
  if (saturate) h = saturate_bits<W>(h, 0x7c00u);
  narrow_store<W>(at, h);
}

template <int W>
MCO_INLINE typename V<W>::f half_round(typename V<W>::f x, bool saturate) {
  uint16_t raw[W];
  half_store<W>(raw, x, saturate);
  return half_load<W>(raw);
}

// ---- bfloat16 --------------------------------------------------------------------------------------------------

template <int W>
MCO_INLINE typename V<W>::f bfloat_load(const void* at) {
  typedef typename V<W>::h h;
  typedef typename V<W>::u u;
  return (typename V<W>::f)(__builtin_convertvector(ld<h>(at), u) << 16);
}

template <int W>
MCO_INLINE typename V<W>::u bfloat_bits(typename V<W>::f x, bool saturate) {
  typedef typename V<W>::u u;
  const u bits = (u)x;
  const u is_nan = (u)((bits & 0x7fffffffu) > 0x7f800000u);
  u r = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  r = (is_nan & (bits >> 16 | 0x40u)) | (~is_nan & r);
  return saturate ? saturate_bits<W>(r, 0x7f80u) : r;
}

template <int W>
MCO_INLINE void bfloat_store(void* at, typename V<W>::f x, bool saturate) {
  typedef typename V<W>::h h;
  st(at, __builtin_convertvector(bfloat_bits<W>(x, saturate), h));
}

template <int W>
MCO_INLINE typename V<W>::f bfloat_round(typename V<W>::f x, bool saturate) {
  return (typename V<W>::f)(bfloat_bits<W>(x, saturate) << 16);
}

// ---- what the instruction set decides --------------------------------------------------------------------------

#if MCO_W >= 8

template <>
MCO_SPECIALISED V<8>::f half_load<8>(const void* at) {
  return (V<8>::f)_mm256_cvtph_ps(ld<__m128i>(at));
}

MCO_INLINE __m128i saturate_half(__m128i h) {
  const __m128i m = _mm_and_si128(h, _mm_set1_epi16(0x7fff));
  const __m128i special = _mm_cmpgt_epi16(m, _mm_set1_epi16(0x7bff));
  if (__builtin_expect(_mm_testz_si128(special, special), 1)) return h;
  const __m128i nan = _mm_cmpgt_epi16(m, _mm_set1_epi16(0x7c00));
  const __m128i largest = _mm_or_si128(_mm_andnot_si128(_mm_set1_epi16(0x7fff), h), _mm_set1_epi16(0x7bff));
  return _mm_andnot_si128(nan, _mm_blendv_epi8(h, largest, special));
}

template <>
MCO_SPECIALISED void half_store<8>(void* at, V<8>::f x, bool saturate) {
  const __m128i h = _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  st(at, saturate ? saturate_half(h) : h);
}

template <>
MCO_SPECIALISED V<8>::f half_round<8>(V<8>::f x, bool saturate) {
  const __m128i h = _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return (V<8>::f)_mm256_cvtph_ps(saturate ? saturate_half(h) : h);
}

#endif

#if MCO_W == 16

template <>
MCO_SPECIALISED V<16>::f half_load<16>(const void* at) {
  return (V<16>::f)_mm512_cvtph_ps(ld<__m256i>(at));
}

MCO_INLINE __m256i saturate_half(__m256i h) {
  const __m256i m = _mm256_and_si256(h, _mm256_set1_epi16(0x7fff));
  const __mmask16 special = _mm256_cmpgt_epi16_mask(m, _mm256_set1_epi16(0x7bff));
  if (__builtin_expect(special == 0, 1)) return h;
  const __mmask16 nan = _mm256_cmpgt_epi16_mask(m, _mm256_set1_epi16(0x7c00));
  const __m256i largest = _mm256_or_si256(_mm256_andnot_si256(_mm256_set1_epi16(0x7fff), h), _mm256_set1_epi16(0x7bff));
  return _mm256_maskz_mov_epi16((__mmask16)~nan, _mm256_mask_mov_epi16(h, special, largest));
}

MCO_INLINE __m256i to_half(V<16>::f x, bool saturate) {
  const __m256i h = _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return saturate ? saturate_half(h) : h;
}

template <>
MCO_SPECIALISED void half_store<16>(void* at, V<16>::f x, bool saturate) {
  st(at, to_half(x, saturate));
}

template <>
MCO_SPECIALISED V<16>::f half_round<16>(V<16>::f x, bool saturate) {
  return (V<16>::f)_mm512_cvtph_ps(to_half(x, saturate));
}

#endif

// The value in [low, high] next to x; a NaN stays one.
#if MCO_W >= 8
MCO_INLINE V<8>::f within(V<8>::f x, float low, float high) {
  const __m256 above = _mm256_max_ps(_mm256_set1_ps(low), (__m256)x);  // the second operand where one is a NaN
  return (V<8>::f)_mm256_min_ps(_mm256_set1_ps(high), above);
}
#else
MCO_INLINE V<4>::f within(V<4>::f x, float low, float high) {
  x = x < low ? splat_f<4>(low) : x;
  return x > high ? splat_f<4>(high) : x;
}
#endif

#if MCO_W == 16
MCO_INLINE V<16>::f within(V<16>::f x, float low, float high) {
  const __m512 above = _mm512_max_ps(_mm512_set1_ps(low), (__m512)x);
  return (V<16>::f)_mm512_min_ps(_mm512_set1_ps(high), above);
}

// Doubles of D floats, part `Part` of a register of W, and back.
template <int Part>
MCO_INLINE vd widen(V<16>::f x) {
  return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, Part));
}
template <int Part>
MCO_INLINE vd widen(V<8>::f x) {
  return (vd)_mm512_cvtps_pd((__m256)x);
}
MCO_INLINE V<8>::f narrow(vd x) { return (V<8>::f)_mm512_cvtpd_ps((__m512d)x); }
MCO_INLINE V<16>::f join(V<8>::f a, V<8>::f b) {
  return (V<16>::f)_mm512_insertf32x8(_mm512_castps256_ps512((__m256)a), (__m256)b, 1);
}
MCO_INLINE vd root(vd x) { return (vd)_mm512_sqrt_pd((__m512d)x); }
MCO_INLINE V<16>::f root(V<16>::f x) { return (V<16>::f)_mm512_sqrt_ps((__m512)x); }
MCO_INLINE V<8>::f root(V<8>::f x) { return (V<8>::f)_mm256_sqrt_ps((__m256)x); }
MCO_INLINE V<16>::f fused(V<16>::f a, V<16>::f b, V<16>::f c) {
  return (V<16>::f)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
MCO_INLINE vd fused(vd a, vd b, vd c) { return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
#elif MCO_W == 8
template <int Part>
MCO_INLINE vd widen(V<8>::f x) {
  return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, Part));
}
MCO_INLINE V<4>::f narrow(vd x) { return (V<4>::f)_mm256_cvtpd_ps((__m256d)x); }
MCO_INLINE V<8>::f join(V<4>::f a, V<4>::f b) {
  return (V<8>::f)_mm256_insertf128_ps(_mm256_castps128_ps256((__m128)a), (__m128)b, 1);
}
MCO_INLINE vd root(vd x) { return (vd)_mm256_sqrt_pd((__m256d)x); }
MCO_INLINE V<8>::f root(V<8>::f x) { return (V<8>::f)_mm256_sqrt_ps((__m256)x); }
MCO_INLINE V<8>::f fused(V<8>::f a, V<8>::f b, V<8>::f c) {
  return (V<8>::f)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
MCO_INLINE vd fused(vd a, vd b, vd c) { return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
#elif !defined(MCO_NEON)
template <int Part>
MCO_INLINE vd widen(V<4>::f x) {
  return vd{double(x[2 * Part]), double(x[2 * Part + 1])};
}
MCO_INLINE vd narrow(vd x) { return x; }
MCO_INLINE V<4>::f join(vd a, vd b) { return V<4>::f{float(a[0]), float(a[1]), float(b[0]), float(b[1])}; }
MCO_INLINE vd root(vd x) { return vd{std::sqrt(x[0]), std::sqrt(x[1])}; }
MCO_INLINE V<4>::f root(V<4>::f x) {
  for (int k = 0; k < 4; ++k) x[k] = std::sqrt(x[k]);
  return x;
}
// Correct on any machine; slow where the processor has no such instruction.
MCO_INLINE V<4>::f fused(V<4>::f a, V<4>::f b, V<4>::f c) {
  for (int k = 0; k < 4; ++k) c[k] = std::fma(a[k], b[k], c[k]);
  return c;
}
MCO_INLINE vd fused(vd a, vd b, vd c) { return vd{std::fma(a[0], b[0], c[0]), std::fma(a[1], b[1], c[1])}; }
#endif
#ifdef MCO_NEON
#include "neon.h"
#endif
