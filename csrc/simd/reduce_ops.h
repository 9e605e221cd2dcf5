// SPDX-License-Identifier: Apache-2.0
// Inner loops of reductions and comparisons on dense elements.

#if MCO_W >= 8

// Sums of adjacent pairs, in order.
MCO_INLINE V<8>::f pair_sums(V<8>::f a, V<8>::f b) {
  return (V<8>::f)_mm256_permute4x64_pd((__m256d)_mm256_hadd_ps((__m256)a, (__m256)b), 0xD8);
}

template <class Tr, int N, int Width>
MCO_INLINE void tree(uint8_t* dst, const uint8_t* src, bool saturate) {
  typedef typename Tr::v v;
  constexpr int kRegisters = N / 8;
  v x[kRegisters];
  MCO_UNROLL
  for (int i = 0; i < kRegisters; ++i) x[i] = Tr::load(src + i * 8 * Tr::kBytes);
  MCO_UNROLL
  for (int have = N, width = Width; width > 1; width /= 2) {
    have /= 2;
    MCO_UNROLL
    for (int i = 0; i < (have + 7) / 8; ++i) {
      x[i] = Tr::round(have >= 8 ? pair_sums(x[2 * i], x[2 * i + 1]) : pair_sums(x[0], x[0]), saturate);
    }
  }
  constexpr int kResults = N / Width;
  MCO_UNROLL
  for (int i = 0; i < (kResults + 7) / 8; ++i) {
    uint8_t out[8 * Tr::kBytes];
    Tr::store(out, x[i], false);
    constexpr int kLast = kResults < 8 ? kResults : 8;
    __builtin_memcpy(dst + i * 8 * Tr::kBytes, out, kLast * Tr::kBytes);
  }
}

template <class Tr, int N, int Width>
static void trees(const RepeatJob& job) {
  const RepeatJob j = job;
  for (int64_t r = 0; r < j.repeats; ++r) tree<Tr, N, Width>(j.dst + r * j.dst_rep, j.src + r * j.src_rep, j.saturate);
}

// The pairs of a and those of b, in each half of a register.
MCO_INLINE __m256 pairs_in_halves(__m256 a, __m256 b) { return _mm256_hadd_ps(a, b); }
MCO_INLINE __m256 halves(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

// float32 numbers of a repeat, eight repeats side by side: sums of eight adjacent ones, then their tree.
MCO_INLINE __m256 eight_sums(const uint8_t* src, int64_t step) {
  __m256 eights[8];
  MCO_UNROLL
  for (int r = 0; r < 8; ++r) {
    const auto* x = reinterpret_cast<const float*>(src + r * step);
    __m256 fours[2];
    MCO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const float* at = x + i * 32;
      fours[i] = pairs_in_halves(pairs_in_halves(_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)),
                                 pairs_in_halves(_mm256_loadu_ps(at + 16), _mm256_loadu_ps(at + 24)));
    }
    eights[r] = halves(fours[0], fours[1]);
  }
  __m256 s[2];  // of four repeats each: sums of the lower and of the upper half of their lanes
  MCO_UNROLL
  for (int i = 0; i < 2; ++i) {
    s[i] = pairs_in_halves(pairs_in_halves(eights[4 * i], eights[4 * i + 1]),
                           pairs_in_halves(eights[4 * i + 2], eights[4 * i + 3]));
  }
  return halves(s[0], s[1]);
}

static void sums_of_repeats(const RepeatJob& job) {
  constexpr int N = int(kVectorBytes) / int(sizeof(float));
  RepeatJob j = job;
  for (; j.repeats >= 8; j.repeats -= 8, j.src += 8 * j.src_rep, j.dst += 8 * j.dst_rep) {
    const __m256 sums = eight_sums(j.src, j.src_rep);
    if (j.dst_rep == int64_t(sizeof(float))) {
      st(j.dst, sums);
      continue;
    }
    alignas(32) float each[8];
    _mm256_store_ps(each, sums);
    for (int r = 0; r < 8; ++r) __builtin_memcpy(j.dst + r * j.dst_rep, each + r, sizeof(float));
  }
  trees<Float32<8>, N, N>(j);
}

template <class Tr>
static void tree_sum(const RepeatJob& job, int, int width) {
  constexpr int N = int(kVectorBytes) / Tr::kBytes;
  if (width == 2) return trees<Tr, N, 2>(job);
  if (width != N) return trees<Tr, N, N / 8>(job);
  if constexpr (Tr::kBytes == 4) {
    sums_of_repeats(job);
  } else {
    trees<Tr, N, N>(job);
  }
}

// Number of the first lane whose condition holds, or 8.
MCO_INLINE int first_lane(V<8>::i hit) { return __builtin_ctz(unsigned(_mm256_movemask_ps((__m256)hit)) | 0x100u); }

#else

template <class Tr>
static void tree(uint8_t* dst, const uint8_t* src, int n, int width, bool saturate) {
  typedef typename Tr::v v;
  alignas(64) float x[kVectorBytes / 2 + 16];
  for (int i = 0; i < n; i += Tr::kLanes) st(x + i, Tr::load(src + i * Tr::kBytes));
  for (; width > 1; width /= 2) {
    n /= 2;
    for (int i = 0; i < n; ++i) x[i] = x[2 * i] + x[2 * i + 1];
    for (int i = 0; i < n; i += Tr::kLanes) st(x + i, Tr::round(ld<v>(x + i), saturate));
  }
  int i = 0;
  for (; i + Tr::kLanes <= n; i += Tr::kLanes) Tr::store(dst + i * Tr::kBytes, ld<v>(x + i), false);
  if (i < n) {
    uint8_t rest[Tr::kLanes * Tr::kBytes];
    Tr::store(rest, ld<v>(x + i), false);
    __builtin_memcpy(dst + i * Tr::kBytes, rest, size_t(n - i) * Tr::kBytes);
  }
}

template <class Tr>
static void tree_sum(const RepeatJob& job, int n, int width) {
  for (int64_t r = 0; r < job.repeats; ++r) {
    tree<Tr>(job.dst + r * job.dst_rep, job.src + r * job.src_rep, n, width, job.saturate);
  }
}

#endif

#if MCO_W >= 8

// a > b ? a : b or a < b ? a : b, so b where one is a NaN or both are zero.
MCO_INLINE __m256 beating(__m256 a, __m256 b, bool largest) {
  return largest ? _mm256_max_ps(a, b) : _mm256_min_ps(a, b);
}

// Blocks become columns: one fold through the lanes of all of them.
template <class Tr>
MCO_INLINE void extremes_of_blocks(uint8_t* dst, const uint8_t* src, bool largest, bool saturate) {
  constexpr int kPieces = int(kBlockBytes) / (8 * Tr::kBytes);
  __m256 best{};
  MCO_UNROLL
  for (int part = 0; part < kPieces; ++part) {
    __m256i r[8];
    MCO_UNROLL
    for (int i = 0; i < 8; ++i) r[i] = (__m256i)Tr::load(src + i * kBlockBytes + part * 8 * Tr::kBytes);
    transpose_words(r);
    if (part == 0) best = (__m256)r[0];
    MCO_UNROLL
    for (int i = part ? 0 : 1; i < 8; ++i) best = beating((__m256)r[i], best, largest);
  }
  Tr::store(dst, (V<8>::f)best, saturate);
}

#else

template <class Tr>
MCO_INLINE void extremes_of_blocks(uint8_t* dst, const uint8_t* src, bool largest, bool saturate) {
  constexpr int kLanes = int(kBlockBytes) / Tr::kBytes;
  float x[kLanes], best[8];
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < kLanes; i += Tr::kLanes) st(x + i, Tr::load(src + g * kBlockBytes + i * Tr::kBytes));
    best[g] = x[0];
    for (int i = 1; i < kLanes; ++i) {
      if (largest ? x[i] > best[g] : x[i] < best[g]) best[g] = x[i];
    }
  }
  for (int g = 0; g < 8; g += Tr::kLanes) {
    Tr::store(dst + g * Tr::kBytes, ld<typename Tr::v>(best + g), saturate);
  }
}

#endif

template <class Tr>
static void group_extreme(const RepeatJob& job, bool largest) {
  const RepeatJob j = job;
  const auto walk = [&j](bool max) {
    for (int64_t r = 0; r < j.repeats; ++r) {
      extremes_of_blocks<Tr>(j.dst + r * j.dst_rep, j.src + r * j.src_rep, max, j.saturate);
    }
  };
  largest ? walk(true) : walk(false);
}

// The first element that no later one beats. A NaN at the start is never beaten, a later one never beats.
template <class Tr>
static int extreme(const uint8_t* src, int n, bool largest) {
  typedef typename Tr::v v;
  constexpr int L = Tr::kLanes;
  uint8_t rest[L * Tr::kBytes];
  const v head = Tr::load(src);
  v best = head[0] - v{};
  if (!(head[0] == head[0])) return 0;  // NaN
  const v first = best;
  auto block = [&](int i) {
    if (i + L <= n) return Tr::load(src + i * Tr::kBytes);
    Tr::store(rest, first, false);
    __builtin_memcpy(rest, src + i * Tr::kBytes, size_t(n - i) * Tr::kBytes);
    return Tr::load(rest);
  };
  for (int i = 0; i < n; i += L) {
    const v x = block(i);
    best = largest ? (x > best ? x : best) : (x < best ? x : best);
  }
  auto winner = best[0];
  for (int k = 1; k < L; ++k) {
    if (largest ? best[k] > winner : best[k] < winner) winner = best[k];
  }
  const v all = winner - v{};
  (void)all;
  for (int i = 0; i < n; i += L) {
    const v x = block(i);
#if MCO_W >= 8
    if constexpr (L == 8 && sizeof(v) == 32) {
      const int lane = first_lane((V<8>::i)(x == all));
      if (lane < 8) return i + lane;
      continue;
    }
#endif
    for (int k = 0; k < L; ++k) {
      if (x[k] == winner) return i + k;
    }
  }
  return 0;
}

template <class Tr, class Relation>
MCO_INLINE void compare_all(uint8_t* dst, const uint8_t* a, const uint8_t* b, int64_t n, bool broadcast, Relation r) {
  typedef typename Tr::v v;
  constexpr int L = Tr::kLanes;
  const v all = Tr::load(b)[0] - v{};
#if MCO_W >= 8
  if constexpr (L == 8 && sizeof(v) == 32) {
    for (int64_t i = 0; i < n; i += 8) {
      const auto hit = r(Tr::load(a + i * Tr::kBytes), broadcast ? all : Tr::load(b + i * Tr::kBytes));
      *dst++ = uint8_t(_mm256_movemask_ps((__m256)hit));
    }
    return;
  }
#endif
  for (int64_t i = 0; i < n;) {
    unsigned bits = 0;
    int have = 0;
    for (; have < 8; have += L, i += L) {
      const auto hit = r(Tr::load(a + i * Tr::kBytes), broadcast ? all : Tr::load(b + i * Tr::kBytes));
      if (L >= 8) {
        for (int g = 0; g < L / 8; ++g) {
          bits = 0;
          for (int k = 0; k < 8; ++k) bits |= unsigned(hit[g * 8 + k] != 0) << k;
          *dst++ = uint8_t(bits);
        }
      } else {
        for (int k = 0; k < L; ++k) bits |= unsigned(hit[k] != 0) << (have + k);
      }
    }
    if (L < 8) *dst++ = uint8_t(bits);
  }
}

// COMPARES of the instruction set: lt, gt, ge, eq, ne, le.
template <class Tr>
static void compare(uint8_t* dst, const uint8_t* a, const uint8_t* b, int64_t n, int relation, bool broadcast) {
  typedef typename Tr::v v;
  switch (relation) {
    case 0:
      return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x < y; });
    case 1:
      return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x > y; });
    case 2:
      return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x >= y; });
    case 3:
      return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x == y; });
    case 4:
      return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x != y; });
    default:
      return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x <= y; });
  }
}
