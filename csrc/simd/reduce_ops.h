// SPDX-License-Identifier: Apache-2.0
// Inner loops of reductions and comparisons on dense elements.

template <class Tr>
static void tree_sum(uint8_t* dst, const uint8_t* src, int n, int width, bool saturate) {
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

// The first element that no later one beats. A NaN at the start is never beaten, a later one never beats.
template <class Tr>
static int extreme(const uint8_t* src, int n, bool largest) {
  typedef typename Tr::v v;
  constexpr int L = Tr::kLanes;
  uint8_t rest[L * Tr::kBytes];
  const v head = Tr::load(src);
  v best = head;
  for (int k = 1; k < L; ++k) best[k] = head[0];
  if (!(head[0] == head[0])) return 0;
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
  for (int i = 0; i < n; i += L) {
    const v x = block(i);
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
  v all = Tr::load(b);
  if (broadcast) {
    for (int k = 1; k < L; ++k) all[k] = all[0];
  }
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
    case 0: return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x < y; });
    case 1: return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x > y; });
    case 2: return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x >= y; });
    case 3: return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x == y; });
    case 4: return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x != y; });
    default: return compare_all<Tr>(dst, a, b, n, broadcast, [](v x, v y) { return x <= y; });
  }
}
