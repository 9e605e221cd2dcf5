// SPDX-License-Identifier: Apache-2.0
// Transposes in registers: 16x16 elements of 16 bits, and the 16 blocks of vnchwconv. Every row is read before one is
// written, rows are written in ascending order.

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

#if MCO_W == 16
// The same of two matrices, which lie in the halves of the registers.
MCO_INLINE void transpose_pairs(__m512i r[16]) {
  __m512i t[16];
  MCO_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi16(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi16(r[i], r[i + 1]);
  }
  MCO_UNROLL
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi32(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi32(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi32(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi32(t[i + 1], t[i + 3]);
  }
  MCO_UNROLL
  for (int i = 0; i < 16; i += 8) {
    MCO_UNROLL
    for (int k = 0; k < 4; ++k) {
      t[i + 2 * k] = _mm512_unpacklo_epi64(r[i + k], r[i + k + 4]);
      t[i + 2 * k + 1] = _mm512_unpackhi_epi64(r[i + k], r[i + k + 4]);
    }
  }
  const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  MCO_UNROLL
  for (int k = 0; k < 8; ++k) {
    r[k] = _mm512_permutex2var_epi64(t[k], even, t[k + 8]);
    r[k + 8] = _mm512_permutex2var_epi64(t[k], odd, t[k + 8]);
  }
}
#endif

// Rows of an 8x8 matrix of 32-bit elements.
MCO_INLINE void transpose_words(__m256i r[8]) {
  __m256i t[8];
  MCO_UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  MCO_UNROLL
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  MCO_UNROLL
  for (int k = 0; k < 4; ++k) {
    t[k] = _mm256_permute2x128_si256(r[k], r[k + 4], 0x20);
    t[k + 4] = _mm256_permute2x128_si256(r[k], r[k + 4], 0x31);
  }
  MCO_UNROLL
  for (int k = 0; k < 8; ++k) r[k] = t[k];
}

template <int Size>
MCO_INLINE void turn_blocks(uint8_t* const dst[16], const uint8_t* const src[16], int64_t to, int64_t from) {
  if constexpr (Size == 1) {
    __m128i r[16], t[16];
    MCO_UNROLL
    for (int i = 0; i < 16; ++i) r[i] = ld<__m128i>(src[i] + from);
    MCO_UNROLL
    for (int stage = 0; stage < 4; ++stage) {  // each one shifts a bit of the row number into the column number
      MCO_UNROLL
      for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm_unpacklo_epi8(r[i], r[i + 8]);
        t[2 * i + 1] = _mm_unpackhi_epi8(r[i], r[i + 8]);
      }
      MCO_UNROLL
      for (int i = 0; i < 16; ++i) r[i] = t[i];
    }
    MCO_UNROLL
    for (int i = 0; i < 16; ++i) st(dst[i] + to, r[i]);
  } else {
    __m256i r[16];
    MCO_UNROLL
    for (int i = 0; i < 16; ++i) r[i] = ld<__m256i>(src[i] + from);
    if (Size == 2) {
      transpose_rows(r);
    } else {
      transpose_words(r);
      transpose_words(r + 8);
    }
    MCO_UNROLL
    for (int i = 0; i < 16; ++i) st(dst[i] + to, r[Size == 2 ? i : i % 2 * 8 + i / 2]);
  }
}

#else

template <int Size>
MCO_INLINE void turn_blocks(uint8_t* const dst[16], const uint8_t* const src[16], int64_t to, int64_t from) {
  constexpr int kBytes = Size == 1 ? 16 : 32, kColumns = kBytes / Size;
  uint8_t in[16][kBytes], out[16][kBytes];
  for (int i = 0; i < 16; ++i) __builtin_memcpy(in[i], src[i] + from, kBytes);
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < kColumns; ++k) {
      const int at = k * 16 + i;  // of the element, in the order of dst
      __builtin_memcpy(&out[at / kColumns][at % kColumns * Size], &in[i][k * Size], Size);
    }
  }
  for (int i = 0; i < 16; ++i) __builtin_memcpy(dst[i] + to, out[i], kBytes);
}

#endif

template <int Size>
static void nchw(uint8_t* const dst[16], const uint8_t* const src[16], int64_t repeats, int64_t dst_rep,
                 int64_t src_rep) {
  for (int64_t r = 0; r < repeats; ++r) turn_blocks<Size>(dst, src, r * dst_rep, r * src_rep);
}

static void transpose16(uint8_t* const dst[16], const uint8_t* const src[16]) { turn_blocks<2>(dst, src, 0, 0); }
