// SPDX-License-Identifier: Apache-2.0
// exp of 16 float32 in float32 arithmetic, in two parts, where that leaves no doubt about the bits of Exp (math.h);
// the others are computed by Exp. The tests compare the two for all 2**32 numbers.

#if MCO_W == 16

// exp(x) = 2**(n/32) * exp(r), r = x - n ln(2)/32, |r| <= ln(2)/64, which is exact but for what ln(2)/32 has beyond a
// float32. The result is `sum`, a float32, and what it has lost, to 2**-35 of the result. Where adding the lost part
// less 2**-35 and more 2**-35 gives the same float32, it is the one that is nearest to any number in between.
struct QuickExp {
  // The bits of 2**(j/32), less what adding n adds for j; and what it is relative to its float32, less 1 and 2**-35.
  static constexpr uint32_t kParts[32] = {
      0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
      0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
      0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
      0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};
  static constexpr float kBeyond[32] = {
      -0x1p-35f,        -0x1.94b414p-25f, 0x1.8d56d4p-25f,  -0x1.dde2fcp-25f, -0x1.9d0c22p-27f, -0x1.a33bb2p-25f,
      0x1.960904p-25f,  -0x1.2b4dbcp-25f, 0x1.121002p-25f,  -0x1.ce68cep-26f, 0x1.36cbe4p-25f,  0x1.2b6de2p-30f,
      -0x1.0a755p-25f,  -0x1.c5c1b4p-26f, -0x1.01d8acp-27f, -0x1.6cf284p-25f, 0x1.25855cp-26f,  0x1.8aabb8p-26f,
      -0x1.060b44p-25f, -0x1.1ca142p-26f, 0x1.65a1cap-28f,  -0x1.34ce56p-25f, 0x1.a1b5e4p-28f,  -0x1.0bbec8p-25f,
      -0x1.fac304p-27f, -0x1.e54886p-26f, -0x1.6b61b4p-28f, -0x1.b7151ep-28f, -0x1.a7217cp-28f, -0x1.abf132p-26f,
      0x1.5f428ep-28f,  -0x1.2bd5f8p-27f};

  static constexpr float kSteps = 0x1.715476p5f, kWhole = 0x1.8p23f, kStep = -0x1.62e43p-6f, kStepRest = 0x1.05c61p-34f;
  static constexpr float kLow = -60.0f, kHigh = 88.0f;  // beyond them parts may be subnormal or infinite
  static constexpr float kZero = -104.0f;               // below it the result is 0
  static constexpr float kDoubt = 0x1p-34f;             // of the result, from the least to the largest it may be
  static constexpr float kThird = 0x1.555556p-3f, kFourth = 0x1.555556p-5f;

  MCO_INLINE __m512 all(float x) { return _mm512_set1_ps(x); }
  MCO_INLINE __m512 look_up(const void* table, __m512i n) {
    return _mm512_permutex2var_ps(ld<__m512>(table), n, ld<__m512>((const uint8_t*)table + sizeof(__m512)));
  }

  // The lanes of y that are exp(x) for sure.
  MCO_INLINE __mmask16 most(__m512 x, __m512& y) {
    const __m512 shifted = _mm512_fmadd_ps(x, all(kSteps), all(kWhole)), n = _mm512_sub_ps(shifted, all(kWhole));
    const __m512 r = _mm512_fmadd_ps(n, all(kStep), x);
    const __m512i bits = (__m512i)shifted;
    const __m512 scale = (__m512)_mm512_add_epi32((__m512i)look_up(kParts, bits), _mm512_slli_epi32(bits, 18));
    const __m512 little = _mm512_fmadd_ps(n, all(kStepRest), look_up(kBeyond, bits));
    const __m512 q = _mm512_fmadd_ps(r, _mm512_fmadd_ps(r, all(kFourth), all(kThird)), all(0.5f));
    const __m512 rest = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, _mm512_fmadd_ps(little, r, little));
    const __m512 sum = _mm512_fmadd_ps(scale, r, scale);
    const __m512 lost = _mm512_fmadd_ps(scale, rest, _mm512_fmadd_ps(scale, r, _mm512_sub_ps(scale, sum)));
    y = _mm512_add_ps(sum, lost);
    const __m512 largest = _mm512_add_ps(sum, _mm512_fmadd_ps(scale, all(kDoubt), lost));
    const __mmask16 above = _mm512_cmp_ps_mask(x, all(kLow), _CMP_GT_OQ);
    const __mmask16 within = _mm512_mask_cmp_ps_mask(above, x, all(kHigh), _CMP_LT_OQ);
    return _mm512_mask_cmp_ps_mask(within, y, largest, _CMP_EQ_OQ);
  }

  // In memory, so that no vector crosses a call.
  __attribute__((noinline)) static void exactly(float* x) {
    typedef V<16>::f f;
    st(x, through_double<Exp, false, 16>(within(ld<f>(x), Exp::kLow, Exp::kHigh)));
  }

  MCO_INLINE V<16>::f run(V<16>::f x) {
    __m512 y;
    const __mmask16 sure = most((__m512)x, y);
    if (__builtin_expect(sure == 0xffff, 1)) return (V<16>::f)y;
    const __mmask16 zero = _mm512_cmp_ps_mask((__m512)x, all(kZero), _CMP_LT_OQ);  // hidden keys of attention
    if ((sure | zero) == 0xffff) return (V<16>::f)_mm512_maskz_mov_ps((__mmask16)~zero, y);
    alignas(64) float one[16];
    st(one, x);
    exactly(one);
    return ld<V<16>::f>(one);
  }
};

template <>
MCO_SPECIALISED V<16>::f float_exp<16>(V<16>::f x) {
  return QuickExp::run(x);
}

#endif
