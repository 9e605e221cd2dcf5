// SPDX-License-Identifier: Apache-2.0
// exp, ln and 1/sqrt, evaluated in float64 (relative error below 2**-50) and rounded once to float32, or to odd where a
// second rounding to 16 bits follows. exp of 16-bit floats is evaluated in float32; it is exact for every input, which
// the tests check one by one.

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

// exp(x) = 2**k * exp(r), r = x - k ln 2, |r| <= ln(2)/2; exp(r) = 1 + r + r**2 Q(r) with Q fitted at Chebyshev nodes.
// ln 2 is split so that k times its high part is exact.
struct Exp {
  static constexpr double kQ[] = {0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d64p-5,
                                  0x1.11111111109b4p-7,  0x1.6c16c1788b646p-10, 0x1.a01a01a7c3d59p-13,
                                  0x1.a019b90eefe8ep-16, 0x1.71de0daf7a6ccp-19, 0x1.2891834686c7ep-22,
                                  0x1.af38a71a18cb9p-26};

  MCO_INLINE vd run(vd x) {
    // Beyond these the result is 0 or infinite.
    x = x < -110.0 ? splat<vd>(-110.0) : x;
    x = x > 100.0 ? splat<vd>(100.0) : x;
    const vd shifted = x * 0x1.71547652b82fep0 + 0x1.8p52;
    const vd k = shifted - 0x1.8p52;
    const vd r = (x - k * 0x1.62e42fefa2p-1) - k * 0x1.9ef35793c7673p-41;
    const vd scale = (vd)(((vul)shifted + 1023u) << 52);
    return (1.0 + (r + r * r * poly<9>(r, kQ))) * scale;
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
