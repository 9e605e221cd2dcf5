// SPDX-License-Identifier: Apache-2.0
// Inner loops of the cube: fractals to 32-bit values, and the register-blocked product.

#if MCO_W == 16
constexpr int kRows = 8, kPanels = 2;  // 16 accumulators of 16 columns
#elif MCO_W == 8
constexpr int kRows = 6, kPanels = 1;  // 12 accumulators of 8 columns
#else
constexpr int kRows = 2, kPanels = 1;  // 8 accumulators of 4 columns
#endif

struct FloatCube {
  typedef float T;
  typedef typename V<MCO_W>::f v;
  MCO_INLINE v splat_one(float x) { return splat_f<MCO_W>(x); }
  template <bool Exact>
  MCO_INLINE v step(v a, v b, v c) {
    // Where no product needs a rounding, multiply and add equal one fused multiply-add.
    if (Exact && MCO_W == 4) return a * b + c;
    return fused(a, b, c);
  }
};

struct IntCube {
  typedef int32_t T;
  typedef typename V<MCO_W>::u v;
  MCO_INLINE v splat_one(int32_t x) { return splat<v>(uint32_t(x)); }
  template <bool>
  MCO_INLINE v step(v a, v b, v c) {
    return a * b + c;
  }
};

template <class C, bool Exact, int Rows, int Panels>
MCO_INLINE void micro(const GemmJob<typename C::T>& j, const typename C::T* a, const typename C::T* b,
                      typename C::T* c) {
  typedef typename C::v v;
  constexpr int kPer = 16 / MCO_W;  // registers of a panel's row
  constexpr int N = Panels * kPer;
  v acc[Rows][N];
  MCO_UNROLL
  for (int r = 0; r < Rows; ++r) {
    MCO_UNROLL
    for (int n = 0; n < N; ++n) {
      acc[r][n] = j.accumulate ? ld<v>(c + (n / kPer) * j.c_panel + r * 16 + n % kPer * MCO_W) : v{};
    }
  }
  const int64_t lda = j.lda, b_panel = j.b_panel;
  for (int64_t k = j.k; k > 0; --k, ++a, b += 16) {
    v row[N];
    MCO_UNROLL
    for (int n = 0; n < N; ++n) row[n] = ld<v>(b + (n / kPer) * b_panel + n % kPer * MCO_W);
    MCO_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const v x = C::splat_one(a[r * lda]);
      MCO_UNROLL
      for (int n = 0; n < N; ++n) acc[r][n] = C::template step<Exact>(x, row[n], acc[r][n]);
    }
  }
  MCO_UNROLL
  for (int r = 0; r < Rows; ++r) {
    MCO_UNROLL
    for (int n = 0; n < N; ++n) st(c + (n / kPer) * j.c_panel + r * 16 + n % kPer * MCO_W, acc[r][n]);
  }
}

template <class C, bool Exact, int Rows, int Panels>
MCO_INLINE void rest_rows(const GemmJob<typename C::T>& j, const typename C::T* a, const typename C::T* b,
                          typename C::T* c, int64_t rows) {
  if constexpr (Rows > 0) {
    if (rows >= Rows) {
      micro<C, Exact, Rows, Panels>(j, a, b, c);
      rows -= Rows;
      a += Rows * j.lda;
      c += Rows * 16;
    }
    rest_rows<C, Exact, (Rows > 4 ? 4 : Rows / 2), Panels>(j, a, b, c, rows);
  }
}

template <class C, bool Exact, int Panels>
MCO_INLINE void panel_rows(const GemmJob<typename C::T>& j, int64_t panel) {
  const typename C::T* b = j.b + panel * j.b_panel;
  typename C::T* c = j.c + panel * j.c_panel;
  constexpr int kRest = kRows > 4 ? 4 : kRows / 2;
  int64_t m = 0;
  // Few rows wait for their own sums: 8 go as two fours, not as six and two.
  for (; m + kRows <= j.m && (kRows % 4 == 0 || j.m - m != 8); m += kRows) {
    micro<C, Exact, kRows, Panels>(j, j.a + m * j.lda, b, c + m * 16);
  }
  for (; m + kRest <= j.m; m += kRest) micro<C, Exact, kRest, Panels>(j, j.a + m * j.lda, b, c + m * 16);
  rest_rows<C, Exact, kRest / 2, Panels>(j, j.a + m * j.lda, b, c + m * 16, j.m - m);
}

template <class C, bool Exact>
static void gemm(const GemmJob<typename C::T>& j) {
  int64_t panel = 0;
  for (; panel + kPanels <= j.panels; panel += kPanels) panel_rows<C, Exact, kPanels>(j, panel);
  for (; panel < j.panels; ++panel) panel_rows<C, Exact, 1>(j, panel);
}

static void gemm_float(const GemmJob<float>& j) {
  if (j.exact) return gemm<FloatCube, true>(j);
  gemm<FloatCube, false>(j);
}

static void gemm_int(const GemmJob<int32_t>& j) { gemm<IntCube, true>(j); }

// Products of values in this range neither overflow nor lose bits to underflow, if their significands are short.
MCO_INLINE bool moderate(float x) {
  const float m = x < 0 ? -x : x;
  return m == 0 || (m >= 0x1p-60f && m <= 0x1p60f);
}

// E elements of 32 bytes as 32-bit values.
template <DType T>
MCO_INLINE bool unpack_row(void* dst, const uint8_t* src) {
  bool exact = true;
  if constexpr (T == F16) {
    for (int k = 0; k < 16; k += MCO_W) st((float*)dst + k, half_load<MCO_W>(src + 2 * k));
  } else if constexpr (T == BF16) {
    for (int k = 0; k < 16; k += MCO_W) st((float*)dst + k, bfloat_load<MCO_W>(src + 2 * k));
    if (MCO_W == 4) {
      for (int k = 0; k < 16; ++k) exact = exact && moderate(((float*)dst)[k]);
    }
  } else if constexpr (T == F32) {
    __builtin_memcpy(dst, src, 32);
    exact = false;
  } else {
    for (int k = 0; k < 32; ++k) ((int32_t*)dst)[k] = T == I8 ? int32_t(int8_t(src[k])) : int32_t(src[k]);
  }
  return exact;
}

template <DType T>
static bool pack_a(const FractalJob& j) {
  constexpr int64_t E = kBlockBytes / kSize[T];
  bool exact = true;
  for (int64_t m = 0; m < j.rows; ++m) {
    const uint8_t* src = j.src + m / kFractalSide * j.outer + m % kFractalSide * kBlockBytes;
    int32_t* dst = (int32_t*)j.dst + m * j.ld;
    for (int64_t q = 0; q * E < j.k; ++q) exact &= unpack_row<T>(dst + q * E, src + q * j.inner);
  }
  return exact;
}

// [n][k] of one fractal to [k][n].
template <DType T>
MCO_INLINE bool turn_fractal(int32_t* panel, const uint8_t* src) {
  constexpr int64_t E = kBlockBytes / kSize[T];
#if MCO_W >= 8
  if constexpr (T == F16 || T == BF16) {
    __m256i r[16];
    MCO_UNROLL
    for (int i = 0; i < 16; ++i) r[i] = ld<__m256i>(src + i * kBlockBytes);
    transpose_rows(r);
    MCO_UNROLL
    for (int i = 0; i < 16; ++i) unpack_row<T>(panel + i * kFractalSide, (const uint8_t*)&r[i]);
    return true;
  }
#endif
  bool exact = true;
  int32_t row[E];
  for (int n = 0; n < kFractalSide; ++n) {
    exact &= unpack_row<T>(row, src + n * kBlockBytes);
    for (int64_t k = 0; k < E; ++k) panel[k * kFractalSide + n] = row[k];
  }
  return exact;
}

template <DType T>
static bool pack_b(const FractalJob& j) {
  constexpr int64_t E = kBlockBytes / kSize[T];
  bool exact = true;
  for (int64_t p = 0; p < j.rows / kFractalSide; ++p) {
    int32_t* panel = (int32_t*)j.dst + p * j.ld;
    for (int64_t q = 0; q * E < j.k; ++q) {
      exact &= turn_fractal<T>(panel + q * E * kFractalSide, j.src + p * j.outer + q * j.inner);
    }
  }
  return exact;
}

#if MCO_W >= 8
MCO_INLINE __m256i load_block(const uint8_t* at) { return ld<__m256i>(at); }  // where `ld` is a distance
#endif

// A fractal as 16 rows of 16 values `ld` apart, transposed or as it is.
template <DType T, bool Turn>
MCO_INLINE bool lay_fractal(int32_t* dst, int64_t ld, const uint8_t* src) {
  bool exact = true;
  if constexpr (!Turn) {
    for (int i = 0; i < kFractalSide; ++i) exact &= unpack_row<T>(dst + i * ld, src + i * kBlockBytes);
    return exact;
  }
#if MCO_W >= 8
  __m256i r[16];
  MCO_UNROLL
  for (int i = 0; i < 16; ++i) r[i] = load_block(src + i * kBlockBytes);
  transpose_rows(r);
  MCO_UNROLL
  for (int i = 0; i < 16; ++i) exact &= unpack_row<T>(dst + i * ld, (const uint8_t*)&r[i]);
#else
  uint16_t rows[kFractalSide][kFractalSide];
  for (int i = 0; i < kFractalSide; ++i) {
    for (int k = 0; k < kFractalSide; ++k) __builtin_memcpy(&rows[k][i], src + i * kBlockBytes + 2 * k, 2);
  }
  for (int i = 0; i < kFractalSide; ++i) exact &= unpack_row<T>(dst + i * ld, (const uint8_t*)rows[i]);
#endif
  return exact;
}

#if MCO_W == 16
// Two fractals transposed, to places of their own, with rows `ld` apart.
template <DType T>
MCO_INLINE void lay_turned(int32_t* const dst[2], int64_t ld, const uint8_t* const src[2]) {
  __m512i r[16];
  MCO_UNROLL
  for (int i = 0; i < 16; ++i) {
    const __m512i low = _mm512_castsi256_si512(load_block(src[0] + i * kBlockBytes));
    r[i] = _mm512_inserti64x4(low, load_block(src[1] + i * kBlockBytes), 1);
  }
  transpose_pairs(r);
  alignas(64) uint8_t rows[16][2 * kBlockBytes];  // from where they are loaded and converted at once
  MCO_UNROLL
  for (int i = 0; i < 16; ++i) st(rows[i], r[i]);
  for (int i = 0; i < 16; ++i) unpack_row<T>(dst[0] + i * ld, rows[i]);
  for (int i = 0; i < 16; ++i) unpack_row<T>(dst[1] + i * ld, rows[i] + kBlockBytes);
}
#endif

// Lays fractals that may be laid in pairs: those that are to be transposed wait for another one.
template <DType T>
struct Layer {
  int64_t ld;  // between rows
  bool exact = true;
#if MCO_W == 16
  int32_t* to[2] = {};
  const uint8_t* from[2] = {};
  int waiting = 0;
#endif
  MCO_INLINE void lay(Layer& l, int32_t* dst, const uint8_t* src, bool turn) {
    if (!turn) {
      l.exact &= lay_fractal<T, false>(dst, l.ld, src);
      return;
    }
#if MCO_W == 16
    l.to[l.waiting] = dst;
    l.from[l.waiting] = src;
    if (++l.waiting < 2) return;
    l.waiting = 0;
    lay_turned<T>(l.to, l.ld, l.from);
#else
    l.exact &= lay_fractal<T, true>(dst, l.ld, src);
#endif
  }
  MCO_INLINE bool end(Layer& l) {
#if MCO_W == 16
    if (l.waiting) lay_fractal<T, true>(l.to[0], l.ld, l.from[0]);
#endif
    return l.exact;
  }
};

template <DType T>
static bool lay_a(const NotedJob& j) {
  Layer<T> l{j.ld};
  for (int64_t f = 0; f < j.rows; ++f) {
    for (int64_t q = 0; q < j.k; ++q) {
      const Fractal& x = j.first[f * j.outer + q * j.inner];
      int32_t* dst = (int32_t*)j.dst + f * kFractalSide * j.ld + q * kFractalSide;
      Layer<T>::lay(l, dst, x.at, x.turned);
    }
  }
  return Layer<T>::end(l);
}

// A panel has a fractal of B the other way round: k down, columns across.
template <DType T>
static bool lay_b(const NotedJob& j) {
  Layer<T> l{kFractalSide};
  for (int64_t f = 0; f < j.rows; ++f) {
    for (int64_t q = 0; q < j.k; ++q) {
      const Fractal& x = j.first[f * j.outer + q * j.inner];
      int32_t* dst = (int32_t*)j.dst + f * j.ld + q * kFractalElements;
      Layer<T>::lay(l, dst, x.at, !x.turned);
    }
  }
  return Layer<T>::end(l);
}
