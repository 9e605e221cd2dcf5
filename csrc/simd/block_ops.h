// SPDX-License-Identifier: Apache-2.0
// Moves and choices of whole 32-byte blocks. A later instruction reads SIMD registers: copies in narrower pieces would
// keep the processor from forwarding what was just stored.

typedef uint64_t Block __attribute__((vector_size(MCO_W >= 8 ? 32 : 16)));
constexpr int kParts = int(kBlockBytes / sizeof(Block));

static void copy_blocks(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, uint32_t on) {
  for (; on; on &= on - 1) {
    const int b = __builtin_ctz(on);
    Block x[kParts];
    for (int i = 0; i < kParts; ++i) x[i] = ld<Block>(src + b * src_step + i * sizeof(Block));
    for (int i = 0; i < kParts; ++i) st(dst + b * dst_step + i * sizeof(Block), x[i]);
  }
}

// The widest register that `Bytes` fill.
template <int Bytes>
struct Burst {
  typedef uint64_t Piece __attribute__((vector_size(MCO_W == 16 && Bytes >= 64 ? 64 : sizeof(Block))));
};

template <int Bytes>
static void bursts_of(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, int64_t count) {
  typedef typename Burst<Bytes>::Piece Piece;
  constexpr int kPieces = Bytes / int(sizeof(Piece));
  for (; count > 0; --count, dst += dst_step, src += src_step) {
    Piece x[kPieces];
    MCO_UNROLL
    for (int i = 0; i < kPieces; ++i) x[i] = ld<Piece>(src + i * sizeof(Piece));
    MCO_UNROLL
    for (int i = 0; i < kPieces; ++i) st(dst + i * sizeof(Piece), x[i]);
  }
}

static void copy_bursts(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, int64_t count,
                        int64_t length) {
  switch (length) {
    case 32:
      return bursts_of<32>(dst, dst_step, src, src_step, count);
    case 64:
      return bursts_of<64>(dst, dst_step, src, src_step, count);
    case 128:
      return bursts_of<128>(dst, dst_step, src, src_step, count);
    default:
      return bursts_of<256>(dst, dst_step, src, src_step, count);
  }
}

#if MCO_W == 16
// Columns of 32 bytes that lie one behind the other: two of them are a cache line.
static void copy_pairs(const GridJob& job) {
  typedef uint64_t Pair __attribute__((vector_size(64)));
  for (int64_t r = 0; r < job.rows; ++r) {
    uint8_t* to = job.dst + r * job.dst_row;
    const uint8_t* from = job.src + r * job.src_row;
    int64_t c = 0;
    for (; c + 2 <= job.columns; c += 2, to += sizeof(Pair), from += 2 * job.src_column) {
      const __m512i first = _mm512_castsi256_si512((__m256i)ld<Block>(from));
      st(to, (Pair)_mm512_inserti64x4(first, (__m256i)ld<Block>(from + job.src_column), 1));
    }
    if (c < job.columns) st(to, ld<Block>(from));
  }
}
#endif

static void copy_grid(const GridJob& job) {
#if MCO_W == 16
  if (job.length == kBlockBytes && job.dst_column == kBlockBytes) return copy_pairs(job);
#endif
  for (int64_t r = 0; r < job.rows; ++r) {
    uint8_t* const to = job.dst + r * job.dst_row;
    const uint8_t* const from = job.src + r * job.src_row;
    if (job.length == kBlockBytes) {
      bursts_of<32>(to, job.dst_column, from, job.src_column, job.columns);
    } else {
      bursts_of<64>(to, job.dst_column, from, job.src_column, job.columns);
    }
  }
}

// Block by block, so that a cache line is written once.
static void lay_rows(uint8_t* dst, int64_t step, const uint8_t* const* src, int64_t rows, int64_t blocks) {
  for (int64_t b = 0; b < blocks; ++b, dst += step) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* const from = src[r] + b * kBlockBytes;
      Block x[kParts];
      for (int i = 0; i < kParts; ++i) x[i] = ld<Block>(from + i * sizeof(Block));
      for (int i = 0; i < kParts; ++i) st(dst + r * kBlockBytes + i * sizeof(Block), x[i]);
    }
  }
}

static void blend_blocks(uint8_t* dst, int64_t dst_step, const uint8_t* src, const uint8_t* keep, uint32_t on) {
  for (; on; on &= on - 1) {
    const int b = __builtin_ctz(on);
    for (int i = 0; i < kParts; ++i) {
      const int64_t at = b * kBlockBytes + i * int64_t(sizeof(Block));
      uint8_t* to = dst + b * dst_step + i * sizeof(Block);
      const Block k = ld<Block>(keep + at);
      st(to, (ld<Block>(to) & k) | (ld<Block>(src + at) & ~k));
    }
  }
}

static void add_floats(uint8_t* dst, const uint8_t* src, int64_t size) {
  typedef V<MCO_W>::f f;
  int64_t at = 0;
  for (; at + int64_t(sizeof(f)) <= size; at += sizeof(f)) st(dst + at, ld<f>(dst + at) + ld<f>(src + at));
  for (; at < size; at += sizeof(float)) st(dst + at, ld<float>(dst + at) + ld<float>(src + at));
}

static void fill_off(uint8_t* dst, const uint8_t* src, int64_t src_step, const uint8_t* off, bool set, uint32_t on) {
  for (int b = 0; b < 8; ++b) {
    for (int i = 0; i < kParts; ++i) {
      const int64_t part = i * int64_t(sizeof(Block)), at = b * kBlockBytes + part;
      const Block x = on >> b & 1 ? ld<Block>(src + b * src_step + part) : Block{}, k = ld<Block>(off + at);
      st(dst + at, set ? x | k : x & ~k);
    }
  }
}

// The block at `out` = bit ? a : b.
template <class T>
MCO_INLINE void select_block(uint8_t* out, const uint8_t* a, const uint8_t* b, const uint8_t* bits) {
  typedef T v __attribute__((vector_size(sizeof(Block))));
  constexpr int kLanes = int(sizeof(Block) / sizeof(T)), kBits = int(kBlockBytes / sizeof(T));
  v weight;
  for (int k = 0; k < kLanes; ++k) weight[k] = T(T(1) << k);
  uint16_t mask = 0;
  __builtin_memcpy(&mask, bits, kBits / 8);
  Block x[kParts];
  for (int i = 0; i < kParts; ++i) {
    const int64_t at = i * int64_t(sizeof(Block));
    const Block m = (Block)(((v{} + T(mask >> (i * kLanes))) & weight) != 0);
    x[i] = (ld<Block>(a + at) & m) | (ld<Block>(b + at) & ~m);
  }
  for (int i = 0; i < kParts; ++i) st(out + i * sizeof(Block), x[i]);
}

template <class T>
static void select_blocks(const LaneJob& job, const uint8_t* bits, int64_t step) {
  const LaneJob j = job;
  constexpr int kBits = int(kBlockBytes / sizeof(T));
  for (int64_t r = 0; r < j.repeats; ++r) {
    uint8_t* d = j.dst + r * j.dst_rep;
    const uint8_t *a = j.s0 + r * j.s0_rep, *b = j.s1 + r * j.s1_rep, *on = bits + r * step;
    int k = 0;
    for (; k < j.blocks; ++k) {
      select_block<T>(d + k * j.dst_blk, a + k * j.s0_blk, b + k * j.s1_blk, on + k * (kBits / 8));
    }
    if (j.tail) {
      uint8_t rest[kBlockBytes];
      select_block<T>(rest, a + k * j.s0_blk, b + k * j.s1_blk, on + k * (kBits / 8));
      __builtin_memcpy(d + k * j.dst_blk, rest, size_t(j.tail) * sizeof(T));
    }
  }
}
