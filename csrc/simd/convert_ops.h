// SPDX-License-Identifier: Apache-2.0
// Dense conversions between float formats, and the 16x16 transpose.

// Up to 31 bytes behind the source are read.
static void half_to_float_all(float* dst, const uint16_t* src, int64_t n) {
  int64_t i = 0;
  for (; i + MCO_W <= n; i += MCO_W) st(dst + i, half_load<MCO_W>(src + i));
  if (i < n) {
    const typename V<MCO_W>::f rest = half_load<MCO_W>(src + i);
    __builtin_memcpy(dst + i, &rest, size_t(n - i) * 4);
  }
}

static void bfloat_to_float_all(float* dst, const uint16_t* src, int64_t n) {
  int64_t i = 0;
  for (; i + MCO_W <= n; i += MCO_W) st(dst + i, bfloat_load<MCO_W>(src + i));
  if (i < n) {
    const typename V<MCO_W>::f rest = bfloat_load<MCO_W>(src + i);
    __builtin_memcpy(dst + i, &rest, size_t(n - i) * 4);
  }
}

// Up to 63 bytes behind the source are read.
static void float_to_half_all(uint16_t* dst, const float* src, int64_t n, bool saturate) {
  typedef typename V<MCO_W>::f v;
  int64_t i = 0;
  for (; i + MCO_W <= n; i += MCO_W) half_store<MCO_W>(dst + i, ld<v>(src + i), saturate);
  if (i < n) {
    uint16_t rest[MCO_W];
    half_store<MCO_W>(rest, ld<v>(src + i), saturate);
    __builtin_memcpy(dst + i, rest, size_t(n - i) * 2);
  }
}

static void float_to_bfloat_all(uint16_t* dst, const float* src, int64_t n, bool saturate) {
  typedef typename V<MCO_W>::f v;
  int64_t i = 0;
  for (; i + MCO_W <= n; i += MCO_W) bfloat_store<MCO_W>(dst + i, ld<v>(src + i), saturate);
  if (i < n) {
    uint16_t rest[MCO_W];
    bfloat_store<MCO_W>(rest, ld<v>(src + i), saturate);
    __builtin_memcpy(dst + i, rest, size_t(n - i) * 2);
  }
}

#if MCO_W >= 8

// Rows of a 16x16 matrix of 16-bit elements, transposed in registers.
MCO_INLINE void transpose_rows(__m256i r[16]) {
  __m256i t[16];
  MCO_UNROLL
  for (int i = 0; i < 16; i += 2) {  // pairs of rows: elements side by side
    t[i] = _mm256_unpacklo_epi16(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 1]);
  }
  MCO_UNROLL
  for (int i = 0; i < 16; i += 4) {  // fours
    r[i] = _mm256_unpacklo_epi32(t[i], t[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi32(t[i], t[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi32(t[i + 1], t[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi32(t[i + 1], t[i + 3]);
  }
  MCO_UNROLL
  for (int i = 0; i < 16; i += 8) {  // eights
    MCO_UNROLL
    for (int k = 0; k < 4; ++k) {
      t[i + 2 * k] = _mm256_unpacklo_epi64(r[i + k], r[i + k + 4]);
      t[i + 2 * k + 1] = _mm256_unpackhi_epi64(r[i + k], r[i + k + 4]);
    }
  }
  MCO_UNROLL
  for (int k = 0; k < 8; ++k) {  // halves of registers
    r[k] = _mm256_permute2x128_si256(t[k], t[k + 8], 0x20);
    r[k + 8] = _mm256_permute2x128_si256(t[k], t[k + 8], 0x31);
  }
}

static void transpose16(uint8_t* const dst[16], const uint8_t* const src[16]) {
  __m256i r[16];
  MCO_UNROLL
  for (int i = 0; i < 16; ++i) r[i] = ld<__m256i>(src[i]);
  transpose_rows(r);
  MCO_UNROLL
  for (int i = 0; i < 16; ++i) st(dst[i], r[i]);
}

#else

static void transpose16(uint8_t* const dst[16], const uint8_t* const src[16]) {
  uint16_t in[16][16], out[16][16];
  for (int i = 0; i < 16; ++i) __builtin_memcpy(in[i], src[i], 32);
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) out[k][i] = in[i][k];
  }
  for (int i = 0; i < 16; ++i) __builtin_memcpy(dst[i], out[i], 32);
}

#endif

// Integral float32 by a rounding mode number of the instruction set.
template <int Mode>
MCO_INLINE typename V<MCO_W>::f integral(typename V<MCO_W>::f x) {
  typedef typename V<MCO_W>::f f;
  typedef typename V<MCO_W>::u u;
  typedef typename V<MCO_W>::i i;
  const u sign = (u)x & 0x80000000u, negative = (u)((i)x < 0);
  const f magnitude = (f)((u)x & 0x7fffffffu);
  const f near = (magnitude + 0x1p23f) - 0x1p23f;
  f whole = near > magnitude ? near - 1.0f : near;  // truncated
  const u inexact = (u)(whole < magnitude);
  if (Mode <= 1) whole = near;
  if (Mode == 2) whole = (inexact & negative) != 0u ? whole + 1.0f : whole;
  if (Mode == 3) whole = (inexact & ~negative) != 0u ? whole + 1.0f : whole;
  if (Mode == 4) whole = magnitude - whole >= 0.5f ? whole + 1.0f : whole;
  if (Mode == 6) {
    const f half = whole * 0.5f;
    const u even = (u)((half + 0x1p23f) - 0x1p23f == half);
    whole = (inexact & even) != 0u ? whole + 1.0f : whole;
  }
  whole = magnitude < 0x1p23f ? whole : magnitude;  // NaN and large values stay what they are
  return (f)((u)whole | sign);
}

// n is a multiple of the register width or the arrays are padded.
template <int Mode>
MCO_INLINE void float_to_int_mode(int32_t* dst, const float* src, int64_t n) {
  typedef typename V<MCO_W>::f f;
  typedef typename V<MCO_W>::i i;
  for (int64_t k = 0; k < n; k += MCO_W) {
    const f x = integral<Mode>(ld<f>(src + k));
    const i above = x >= 0x1p31f, below = x < -0x1p31f, inside = ~above & (x >= -0x1p31f);
    const f safe = inside ? x : f{};
    i y = __builtin_convertvector(safe, i);
    y = (above & 0x7fffffff) | (below & INT32_MIN) | (inside & y);
    st(dst + k, y);
  }
}

static void float_to_int_all(int32_t* dst, const float* src, int64_t n, int mode) {
  switch (mode) {
    case 2: return float_to_int_mode<2>(dst, src, n);
    case 3: return float_to_int_mode<3>(dst, src, n);
    case 4: return float_to_int_mode<4>(dst, src, n);
    case 5: return float_to_int_mode<5>(dst, src, n);
    case 6: return float_to_int_mode<6>(dst, src, n);
    default: return float_to_int_mode<1>(dst, src, n);
  }
}
