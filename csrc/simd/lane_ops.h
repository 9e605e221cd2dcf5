// SPDX-License-Identifier: Apache-2.0
// The element-wise operations and the loops that walk them through memory.

// Counts of a shift in steps that the processor knows; `half` is the shift that brings the rounding bit to bit 0.
template <class Tr>
struct Shift {
  typedef typename Tr::scalar T;
  static constexpr int kMost = Tr::kBytes * 8 - 1;
  T by, more, half, half_more;
  bool none;
  MCO_INLINE T cap(int64_t n) { return T(n < kMost ? n : kMost); }
  explicit Shift(int64_t n)
      : by(cap(n)), more(n > kMost), half(cap(n > 0 ? n - 1 : 0)), half_more(n - 1 > kMost), none(n == 0) {}
};

#define MCO_OP(NAME, SOURCES, DST, BODY)                                        \
  struct NAME {                                                                 \
    static constexpr int kSources = SOURCES;                                    \
    static constexpr bool kDst = DST;                                           \
    template <class Tr, class v>                                                \
    MCO_INLINE v run(v d, v a, v b, v s, bool sat, Shift<Tr> sh) {              \
      typedef Arith<Tr> A;                                                      \
      (void)d, (void)a, (void)b, (void)s, (void)sat, (void)sh, (void)sizeof(A); \
      BODY                                                                      \
    }                                                                           \
  };

template <class v>
MCO_INLINE v above_zero(v x) {
  return x > 0 ? x : v{};
}

MCO_OP(OpAdd, 2, false, return A::add(a, b);)
MCO_OP(OpSub, 2, false, return A::sub(a, b);)
MCO_OP(OpMul, 2, false, return A::mul(a, b);)
MCO_OP(OpDiv, 2, false, return a / b;)
MCO_OP(OpMax, 2, false, return a > b ? a : b;)
MCO_OP(OpMin, 2, false, return a < b ? a : b;)
MCO_OP(OpAnd, 2, false, return a & b;)
MCO_OP(OpOr, 2, false, return a | b;)
MCO_OP(OpAddRelu, 2, false, return above_zero(Tr::round(A::add(a, b), sat));)
MCO_OP(OpSubRelu, 2, false, return above_zero(Tr::round(A::sub(a, b), sat));)
MCO_OP(OpMla, 2, true, return A::add(Tr::round(A::mul(a, b), sat), d);)
MCO_OP(OpMadd, 2, true, return A::add(Tr::round(A::mul(a, d), sat), b);)
MCO_OP(OpMaddRelu, 2, true, return above_zero(Tr::round(A::add(Tr::round(A::mul(a, d), sat), b), sat));)
MCO_OP(OpAbs, 1, false, return A::abs(a);)
MCO_OP(OpRelu, 1, false, return above_zero(a);)
MCO_OP(OpExp, 1, false, return Tr::exp(a);)
MCO_OP(OpLn, 1, false, return Tr::template special<Ln>(a);)
MCO_OP(OpRsqrt, 1, false, return Tr::template special<Rsqrt>(a);)
MCO_OP(OpRec, 1, false, return 1.0f / a;)
MCO_OP(OpSqrt, 1, false, return root(a);)
MCO_OP(OpNot, 1, false, return ~a;)
MCO_OP(OpAdds, 1, false, return A::add(a, s);)
MCO_OP(OpMuls, 1, false, return A::mul(a, s);)
MCO_OP(OpMaxs, 1, false, return a > s ? a : s;)
MCO_OP(OpMins, 1, false, return a < s ? a : s;)
MCO_OP(OpLrelu, 1, false, return a >= 0 ? a : A::mul(a, s);)
MCO_OP(OpAxpy, 1, true, return A::add(Tr::round(A::mul(a, s), sat), d);)
MCO_OP(OpDup, 0, false, return s;)
// A shift by the width of the dtype or more is taken in two steps, since the processor only knows smaller ones.
MCO_OP(OpShl, 1, false, return (v)((typename Tr::u)a << sh.by << sh.more);)
MCO_OP(OpShr, 1, false, return a >> sh.by >> sh.more;)
MCO_OP(OpShrRound, 1, false, return sh.none ? a : A::add(a >> sh.by >> sh.more, a >> sh.half >> sh.half_more & 1);)
#undef MCO_OP

template <class Tr, class Op>
MCO_INLINE void piece(uint8_t* out, const uint8_t* d, const uint8_t* a, const uint8_t* b, typename Tr::v s, bool sat,
                      Shift<Tr> sh) {
  typedef typename Tr::v v;
  v vd0{}, va{}, vb{};
  if (Op::kDst) vd0 = Tr::load(d);
  if (Op::kSources > 0) va = Tr::load(a);
  if (Op::kSources > 1) vb = Tr::load(b);
  Tr::store(out, Op::template run<Tr>(vd0, va, vb, s, sat, sh), sat);
}

// What is done in another way than register by register.
template <class Tr, class Op>
struct Whole {
  // The number of elements that are done of `n` dense ones.
  MCO_INLINE int64_t run(uint8_t*, const uint8_t*, int64_t) { return 0; }
  // Whether the blocks are done.
  MCO_INLINE bool blocks(const LaneJob&) { return false; }
};
#if MCO_W == 8
template <>
struct Whole<Float32<8>, OpExp> {
  static constexpr int64_t kFew = 4;  // registers, which are faster in one pass

  MCO_INLINE int64_t run(uint8_t* d, const uint8_t* a, int64_t n) {
    if (n < kFew * 8) return 0;
    LongExp::dense(d, a, n / 8);
    return n / 8 * 8;
  }
  MCO_INLINE bool blocks(const LaneJob& j) {
    if (j.tail || j.blocks < kFew) return false;
    // Repeat by repeat where one may read what the one before it has written.
    const bool apart = j.dst != j.s0 || j.dst_rep >= (j.blocks - 1) * j.dst_blk + kBlockBytes;
    const int64_t rounds = apart ? 1 : j.repeats, repeats = apart ? j.repeats : 1;
    for (int64_t r = 0; r < rounds; ++r) {
      LongExp::strided(j.dst + r * j.dst_rep, j.dst_blk, j.dst_rep, j.s0 + r * j.s0_rep, j.s0_blk, j.s0_rep, repeats,
                       j.blocks);
    }
    return true;
  }
};
#endif

// `n` elements from the start of the addresses, fewer than a SIMD register more than needed are read.
template <class Tr, class Op>
MCO_INLINE void run_span(uint8_t* d, const uint8_t* a, const uint8_t* b, int64_t n, typename Tr::v s, bool sat,
                         Shift<Tr> sh) {
  constexpr int64_t kStep = Tr::kLanes * Tr::kBytes, kUnrolled = 8 * Tr::kLanes;
  const int64_t bytes = n * Tr::kBytes;
  int64_t at = Whole<Tr, Op>::run(d, a, n) * Tr::kBytes;
  if (n > kUnrolled) {  // the loop costs as much as one register's work
    for (; at + 4 * kStep <= bytes; at += 4 * kStep) {
      MCO_UNROLL
      for (int64_t i = 0; i < 4 * kStep; i += kStep) {
        piece<Tr, Op>(d + at + i, d + at + i, a + at + i, b + at + i, s, sat, sh);
      }
    }
  }
  for (; at + kStep <= bytes; at += kStep) piece<Tr, Op>(d + at, d + at, a + at, b + at, s, sat, sh);
  if (at < bytes) {
    uint8_t rest[kStep];
    piece<Tr, Op>(rest, d + at, a + at, b + at, s, sat, sh);
    __builtin_memcpy(d + at, rest, size_t(bytes - at));
  }
}

// The same for elements of several blocks. No more is read behind them than by run_span.
template <class Tr, class Op>
MCO_INLINE void run_dense(uint8_t* d, const uint8_t* a, const uint8_t* b, int64_t n, const LaneJob& j) {
  typedef typename Dense<Tr>::type Wide;
  const int64_t many = Wide::kLanes == Tr::kLanes ? 0 : n / Wide::kLanes * Wide::kLanes, at = many * Tr::kBytes;
  if (many) run_span<Wide, Op>(d, a, b, many, Arith<Wide>::scalar(j), j.saturate, Shift<Wide>(j.iscalar));
  const typename Tr::v s = Arith<Tr>::scalar(j);
  if (many < n) run_span<Tr, Op>(d + at, a + at, b + at, n - many, s, j.saturate, Shift<Tr>(j.iscalar));
}

// Whole blocks one after the other, for which a source has one block: it fills both halves of a register.
template <class Tr, class Op>
struct OneForAll {
  MCO_INLINE bool run(const LaneJob&) { return false; }
};
#if MCO_W == 16
template <class Op>
struct OneForAll<Float32<8>, Op> {
  typedef Float32<16> Wide;
  typedef typename Wide::v v;

  template <bool First>
  MCO_INLINE void walk(const LaneJob& j) {
    const v s = Arith<Wide>::scalar(j);
    const Shift<Wide> sh(j.iscalar);
    const int64_t end = j.blocks * kBlockBytes;
    uint8_t* d = j.dst;
    const uint8_t *one = First ? j.s0 : j.s1, *many = First ? j.s1 : j.s0;
    const int64_t one_rep = First ? j.s0_rep : j.s1_rep, many_rep = First ? j.s1_rep : j.s0_rep;
    for (int64_t r = 0; r < j.repeats; ++r, d += j.dst_rep, one += one_rep, many += many_rep) {
      const v x = (v)_mm512_broadcast_f32x8((__m256)Float32<8>::load(one));
      for (int64_t at = 0; at < end; at += 2 * kBlockBytes) {
        const v y = Wide::load(many + at), old = Op::kDst ? Wide::load(d + at) : v{};
        Wide::store(d + at, Op::template run<Wide>(old, First ? x : y, First ? y : x, s, j.saturate, sh), j.saturate);
      }
    }
  }
  // The block is read before its repeat is written: no place of dst lies in it, unless in the gaps between repeats.
  MCO_INLINE bool run(const LaneJob& j) {
    if (Op::kSources != 2 || j.tail || j.blocks % 2 || j.dst_blk != kBlockBytes) return false;
    if (j.s0_blk == 0 && j.s1_blk == kBlockBytes) {
      walk<true>(j);
    } else if (j.s1_blk == 0 && j.s0_blk == kBlockBytes) {
      walk<false>(j);
    } else {
      return false;
    }
    return true;
  }
};
#endif

template <class Tr, class Op>
static void lane(const LaneJob& job) {
  const LaneJob j = job;  // stores through byte pointers do not reach it
  constexpr int64_t kPerBlock = kBlockBytes / Tr::kBytes;
  if (j.flat) return run_dense<Tr, Op>(j.dst, j.s0, j.s1, j.flat, j);
  if (Whole<Tr, Op>::blocks(j)) return;
  uint8_t* d = j.dst;
  const uint8_t *a = j.s0, *b = j.s1;
  const bool dense = j.dst_blk == kBlockBytes && (Op::kSources < 1 || j.s0_blk == kBlockBytes) &&
                     (Op::kSources < 2 || j.s1_blk == kBlockBytes);
  if (dense) {
    const int64_t n = j.blocks * kPerBlock + j.tail;
    for (int64_t r = 0; r < j.repeats; ++r, d += j.dst_rep, a += j.s0_rep, b += j.s1_rep) {
      run_dense<Tr, Op>(d, a, b, n, j);
    }
    return;
  }
  if (OneForAll<Tr, Op>::run(j)) return;
  const typename Tr::v s = Arith<Tr>::scalar(j);
  const bool sat = j.saturate;
  const Shift<Tr> sh(j.iscalar);
  for (int64_t r = 0; r < j.repeats; ++r, d += j.dst_rep, a += j.s0_rep, b += j.s1_rep) {
    for (int k = 0; k < j.blocks; ++k) {
      run_span<Tr, Op>(d + k * j.dst_blk, a + k * j.s0_blk, b + k * j.s1_blk, kPerBlock, s, sat, sh);
    }
    if (j.tail) {
      const int k = j.blocks;
      run_span<Tr, Op>(d + k * j.dst_blk, a + k * j.s0_blk, b + k * j.s1_blk, j.tail, s, sat, sh);
    }
  }
}
