// SPDX-License-Identifier: Apache-2.0
// exp, ln and 1/sqrt, evaluated in float64 (relative error below 2**-46 of exp where |x| is near 100, elsewhere below
// 2**-48) and rounded once to float32, or to odd where a second rounding to 16 bits follows. exp of 16-bit floats is
// evaluated in float32; it is exact for every input, which the tests check one by one.

// Two halves by Horner's rule in x**2, so that they run side by side.
template <int Degree>
MCO_INLINE vd poly(vd x, const double* c) {
  const vd y = x * x;
  vd even = splat<vd>(c[Degree - Degree % 2]), odd_part = splat<vd>(c[Degree - 1 + Degree % 2]);
  MCO_UNROLL
  for (int k = Degree - Degree % 2 - 2; k >= 0; k -= 2) even = even * y + c[k];
  MCO_UNROLL
  for (int k = Degree - 3 + Degree % 2; k >= 1; k -= 2) odd_part = odd_part * y + c[k];
  return even + x * odd_part;
}

// 2**(n/8) for the integer in the low bits of `n`. The table holds the bits of 2**(j/8), less what adding n adds for j.
constexpr uint64_t kEighths[8] = {0x3ff0000000000000u, 0x3fef72b83c7d517bu, 0x3fef06fe0a31b715u, 0x3feebfdad5362a27u,
                                  0x3feea09e667f3bcdu, 0x3feeace5422aa0dbu, 0x3feee89f995ad3adu, 0x3fef5818dcfba487u};

#if MCO_W == 16
MCO_INLINE vul eighth(vul n) { return (vul)_mm512_permutexvar_epi64((__m512i)n, ld<__m512i>(kEighths)); }
#elif MCO_W == 8
// By halves of the entries: the processor looks up 8 entries of 32 bits only.
constexpr uint32_t word_of(int j, int word) { return uint32_t(kEighths[j] >> (32 * word)); }
MCO_INLINE __m256i words_of(int word) {
  return (__m256i)V<8>::u{word_of(0, word), word_of(1, word), word_of(2, word), word_of(3, word),
                          word_of(4, word), word_of(5, word), word_of(6, word), word_of(7, word)};
}
MCO_INLINE vul eighth(vul n) {
  const __m256i index = _mm256_shuffle_epi32((__m256i)n, 0xA0);
  return (vul)_mm256_blend_epi32(_mm256_permutevar8x32_epi32(words_of(0), index),
                                 _mm256_permutevar8x32_epi32(words_of(1), index), 0xAA);
}
#else
MCO_INLINE vul eighth(vul n) { return vul{kEighths[n[0] & 7], kEighths[n[1] & 7]}; }
#endif

// exp(x) = 2**(n/8) * exp(r), r = x - n ln(2)/8, |r| <= ln(2)/16; exp(r) = 1 + r + r**2 Q(r) with Q fitted to a
// relative error of 2**-49 of the whole. The rounding of ln(2)/8 adds less than 2**-53 |x|. |x| < 2**10.
struct Exp {
  static constexpr double kQ[] = {0x1.fffffffffee1fp-2, 0x1.55555548f183fp-3, 0x1.5555558fed808p-5,
                                  0x1.1115b8d49b2c1p-7, 0x1.6c0ed4afbd312p-10};

  static constexpr double kSteps = 0x1.71547652b82fep3, kStep = -0x1.62e42fefa39efp-4, kWhole = 0x1.8p52;
  static constexpr float kLow = -110.0f, kHigh = 100.0f;  // beyond them the result is 0 or infinite

  MCO_INLINE vd finish(vd r, vd scale) {
    const vd y = r * r;
    const vd high = fused(y, splat<vd>(kQ[4]), fused(r, splat<vd>(kQ[3]), splat<vd>(kQ[2])));
    const vd q = fused(y, high, fused(r, splat<vd>(kQ[1]), splat<vd>(kQ[0])));
    return fused(scale, fused(y, q, r), scale);
  }
  MCO_INLINE vd run(vd x) {
    const vd shifted = fused(x, splat<vd>(kSteps), splat<vd>(kWhole));
    const vd scale = (vd)(eighth((vul)shifted) + ((vul)shifted << 49));
    return finish(fused(shifted - kWhole, splat<vd>(kStep), x), scale);
  }
};

// The same in float32 for 16-bit results. 1 + t is rounded to odd, so that the rounding to 16 bits sees on which side
// of a tie the sum lies. `Wide`: the range of bfloat16, where 2**k may be subnormal and is applied in two steps.
template <int W, bool Wide>
MCO_INLINE typename V<W>::f short_exp(typename V<W>::f x) {
  typedef typename V<W>::f f;
  typedef typename V<W>::u u;
  typedef typename V<W>::i i;
  constexpr float kLow = Wide ? -100.0f : -20.0f, kHigh = Wide ? 90.0f : 12.0f;  // 0 or infinite beyond
  x = x < kLow ? splat<f>(kLow) : x;
  x = x > kHigh ? splat<f>(kHigh) : x;
  const f shifted = x * 0x1.715476p0f + 0x1.8p23f;
  const f k = shifted - 0x1.8p23f;
  const f r = (x - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
  const f y = r * r;
  const f q = ((0x1.6d1106p-10f * y + 0x1.55551ap-5f) * y + 0.5f) + r * (0x1.120b6cp-7f * y + 0x1.5554dcp-3f);
  const f t = r + y * q, sum = 1.0f + t, rest = t - (sum - 1.0f);
  const f one = (f)((u)((i)sum + (rest < 0.0f)) | ((u)(rest != 0.0f) & 1u));
  const i n = (i)shifted - 0x4b400000;
  if (!Wide) return one * (f)((u)(n + 127) << 23);
  const i half = n >> 1;
  return one * (f)((u)(half + 127) << 23) * (f)((u)(n - half + 127) << 23);
}

// ln(2**e m) = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)); the series of atanh.
struct Ln {
  static constexpr double kSeries[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                       2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};

  MCO_INLINE vd run(vd x) {
    const vul bits = (vul)x;
    vd e = (vd)(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023);
    vd m = (vd)((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    const vl above = m > 0x1.6a09e667f3bcdp0;
    m = above ? m * 0.5 : m;
    e = above ? e + 1.0 : e;
    const vd f = m - 1.0, s = f / (2.0 + f), z = s * s;
    const vd mantissa = 2.0 * s + s * z * poly<9>(z, kSeries);
    vd y = e * 0x1.62e42fefa2p-1 + (e * 0x1.9ef35793c7673p-41 + mantissa);
    y = x == __builtin_inf() ? x : y;
    y = x == 0.0 ? splat<vd>(-__builtin_inf()) : y;
    return x >= 0.0 ? y : splat<vd>(__builtin_nan(""));
  }
};

struct Rsqrt {
  MCO_INLINE vd run(vd x) { return 1.0 / root(x); }
};

// The float64 rounded to odd at float32's last place (results in the range of float16 are never subnormal there).
MCO_INLINE vd odd(vd x) {
  constexpr uint64_t kBelow = (uint64_t(1) << 29) - 1;
  const vul bits = (vul)x;
  const vul sticky = ((bits & kBelow) + kBelow) & (kBelow + 1);
  return (vd)((bits | sticky) & ~kBelow);
}

template <class Fn, bool ToOdd>
MCO_INLINE vd apply(vd x) {
  const vd y = Fn::run(x);
  return ToOdd ? odd(y) : y;
}

template <class Fn, bool ToOdd, int W>
MCO_INLINE typename V<W>::f through_double(typename V<W>::f x) {
  const auto low = narrow(apply<Fn, ToOdd>(widen<0>(x)));
  if constexpr (W == D) {
    return low;
  } else {
    return join(low, narrow(apply<Fn, ToOdd>(widen<1>(x))));
  }
}

template <int W>
MCO_INLINE typename V<W>::f float_exp(typename V<W>::f x) {
  return through_double<Exp, false, W>(within(x, Exp::kLow, Exp::kHigh));
}

#if MCO_W == 8
// float_exp of many numbers in two passes over pieces that stay in the first-level cache: r and 2**(n/8) of all of
// them, then the polynomials. One chain from the argument to the result is longer than the processor looks ahead. The
// widening to float64 reads memory and the result leaves by halves, so that no register is taken apart; the eighths
// of 8 numbers are looked up at once. Every operation is that of Exp::run, in its order.
struct LongExp {
  static constexpr int kRegisters = 16, kPiece = 8 * kRegisters;
  struct Parts {
    vd r[2], scale[2];
  };

  MCO_INLINE Parts reduce(const float* x) {
    Parts p;
    vd shifted[2];
    MCO_UNROLL
    for (int k = 0; k < 2; ++k) {
      const vd wide = (vd)_mm256_cvtps_pd(ld<__m128>(x + 4 * k));
      shifted[k] = fused(wide, splat<vd>(Exp::kSteps), splat<vd>(Exp::kWhole));
      p.r[k] = fused(shifted[k] - Exp::kWhole, splat<vd>(Exp::kStep), wide);
    }
    const __m256i n = (__m256i)_mm256_shuffle_ps((__m256)shifted[0], (__m256)shifted[1], 0x88);
    const __m256i low = _mm256_permutevar8x32_epi32(words_of(0), n);
    const __m256i high = _mm256_add_epi32(_mm256_permutevar8x32_epi32(words_of(1), n), _mm256_slli_epi32(n, 17));
    p.scale[0] = (vd)_mm256_unpacklo_epi32(low, high);
    p.scale[1] = (vd)_mm256_unpackhi_epi32(low, high);
    return p;
  }

  // `count` registers, or `Count` where that is not 0, at addresses by number. All are read before one is written.
  template <int Count, class To, class From>
  MCO_INLINE void piece(int some, To to, From from) {
    alignas(32) float x[kPiece];
    alignas(32) Parts parts[kRegisters];
    const int count = Count ? Count : some;
    for (int k = 0; k < count; ++k) st(x + 8 * k, within(ld<V<8>::f>(from(k)), Exp::kLow, Exp::kHigh));
    for (int k = 0; k < count; ++k) parts[k] = reduce(x + 8 * k);
    for (int k = 0; k < count; ++k) {
      uint8_t* at = to(k);
      st(at, narrow(Exp::finish(parts[k].r[0], parts[k].scale[0])));
      st(at + 16, narrow(Exp::finish(parts[k].r[1], parts[k].scale[1])));
    }
  }

  // `n` registers one after the other. dst and src are the same or lie apart.
  MCO_INLINE void dense(uint8_t* dst, const uint8_t* src, int64_t n) {
    const auto to = [&](int k) { return dst + k * kBlockBytes; };
    const auto from = [&](int k) { return src + k * kBlockBytes; };
    constexpr int64_t kStep = kRegisters * kBlockBytes;
    for (; n >= kRegisters; n -= kRegisters, dst += kStep, src += kStep) piece<kRegisters>(0, to, from);
    if (n) piece<0>(int(n), to, from);
  }

  // Blocks of repeats; no block reads what another one has written.
  MCO_INLINE void strided(uint8_t* dst, int64_t dst_blk, int64_t dst_rep, const uint8_t* src, int64_t src_blk,
                          int64_t src_rep, int64_t repeats, int blocks) {
    uint8_t* out[kRegisters];
    const uint8_t* in[kRegisters];
    const auto to = [&](int k) { return out[k]; };
    const auto from = [&](int k) { return in[k]; };
    int have = 0;
    for (int64_t r = 0; r < repeats; ++r, dst += dst_rep, src += src_rep) {
      for (int b = 0; b < blocks; ++b) {
        out[have] = dst + b * dst_blk;
        in[have] = src + b * src_blk;
        if (++have < kRegisters) continue;
        piece<kRegisters>(0, to, from);
        have = 0;
      }
    }
    if (have) piece<0>(have, to, from);
  }
};
#endif
