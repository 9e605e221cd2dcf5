// SPDX-License-Identifier: Apache-2.0
// How lanes of each dtype are loaded, computed with and stored.

template <int W>
struct Float32 {
  typedef typename V<W>::f v;
  typedef int scalar;
  static constexpr int kLanes = W, kBytes = 4;
  static constexpr bool kFloat = true;
  MCO_INLINE v load(const uint8_t* at) { return ld<v>(at); }
  MCO_INLINE void store(uint8_t* at, v x, bool) { st(at, x); }
  MCO_INLINE v round(v x, bool) { return x; }
  template <class Fn>
  MCO_INLINE v special(v x) {
    return through_double<Fn, false, W>(x);
  }
  MCO_INLINE v exp(v x) { return float_exp<W>(x); }
};

template <int W>
struct Float16 {
  typedef typename V<W>::f v;
  typedef int scalar;
  static constexpr int kLanes = W, kBytes = 2;
  static constexpr bool kFloat = true;
  MCO_INLINE v load(const uint8_t* at) { return half_load<W>(at); }
  MCO_INLINE void store(uint8_t* at, v x, bool saturate) { half_store<W>(at, x, saturate); }
  MCO_INLINE v round(v x, bool saturate) { return half_round<W>(x, saturate); }
  template <class Fn>
  MCO_INLINE v special(v x) {
    return through_double<Fn, true, W>(x);
  }
  MCO_INLINE v exp(v x) { return short_exp<W, false>(x); }
};

template <int W>
struct Bfloat16 {
  typedef typename V<W>::f v;
  typedef int scalar;
  static constexpr int kLanes = W, kBytes = 2;
  static constexpr bool kFloat = true;
  MCO_INLINE v load(const uint8_t* at) { return bfloat_load<W>(at); }
  MCO_INLINE void store(uint8_t* at, v x, bool saturate) { bfloat_store<W>(at, x, saturate); }
  MCO_INLINE v round(v x, bool saturate) { return bfloat_round<W>(x, saturate); }
  template <class Fn>
  MCO_INLINE v special(v x) {
    return through_double<Fn, true, W>(x);
  }
  MCO_INLINE v exp(v x) { return short_exp<W, true>(x); }
};

// How many blocks one after the other are walked: a register may take two of them.
template <class Tr>
struct Dense {
  typedef Tr type;
};
#if MCO_W == 16
template <>
struct Dense<Float32<8>> {
  typedef Float32<16> type;
};
#endif

constexpr int kIntBytes = MCO_W >= 8 ? 32 : 16;

template <class T, class U>
struct Integer {
  typedef T v __attribute__((vector_size(kIntBytes)));
  typedef U u __attribute__((vector_size(kIntBytes)));
  typedef T scalar;
  static constexpr int kLanes = kIntBytes / int(sizeof(T)), kBytes = int(sizeof(T));
  static constexpr bool kFloat = false;
  MCO_INLINE v load(const uint8_t* at) { return ld<v>(at); }
  MCO_INLINE void store(uint8_t* at, v x, bool) { st(at, x); }
  MCO_INLINE v round(v x, bool) { return x; }
};

template <class Tr, bool Float = Tr::kFloat>
struct Arith;

template <class Tr>
struct Arith<Tr, true> {
  typedef typename Tr::v v;
  MCO_INLINE v add(v a, v b) { return a + b; }
  MCO_INLINE v sub(v a, v b) { return a - b; }
  MCO_INLINE v mul(v a, v b) { return a * b; }
  MCO_INLINE v abs(v a) {
    typedef typename V<Tr::kLanes>::u u;
    return (v)((u)a & 0x7fffffffu);
  }
  MCO_INLINE v scalar(const LaneJob& j) { return splat_f<Tr::kLanes>(j.scalar); }
};

// Integers wrap: sums and products are taken on the unsigned type.
template <class Tr>
struct Arith<Tr, false> {
  typedef typename Tr::v v;
  typedef typename Tr::u u;
  MCO_INLINE v add(v a, v b) { return (v)((u)a + (u)b); }
  MCO_INLINE v sub(v a, v b) { return (v)((u)a - (u)b); }
  MCO_INLINE v mul(v a, v b) { return (v)((u)a * (u)b); }
  MCO_INLINE v abs(v a) { return a < 0 ? (v)(0 - (u)a) : a; }
  MCO_INLINE v scalar(const LaneJob& j) {
    v x;
    for (int k = 0; k < Tr::kLanes; ++k) x[k] = (typename Tr::scalar)j.iscalar;
    return x;
  }
};
