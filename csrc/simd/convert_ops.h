// SPDX-License-Identifier: Apache-2.0
// Dense conversions between float formats, and to integers.

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
    case 2:
      return float_to_int_mode<2>(dst, src, n);
    case 3:
      return float_to_int_mode<3>(dst, src, n);
    case 4:
      return float_to_int_mode<4>(dst, src, n);
    case 5:
      return float_to_int_mode<5>(dst, src, n);
    case 6:
      return float_to_int_mode<6>(dst, src, n);
    default:
      return float_to_int_mode<1>(dst, src, n);
  }
}
