// SPDX-License-Identifier: Apache-2.0
// Moves of whole 32-byte blocks. A later instruction reads SIMD registers: copies in narrower pieces would keep the
// processor from forwarding what was just stored.

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

template <int Bytes>
static void bursts_of(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, int64_t count) {
  constexpr int kPieces = Bytes / int(sizeof(Block));
  for (; count > 0; --count, dst += dst_step, src += src_step) {
    Block x[kPieces];
    MCO_UNROLL
    for (int i = 0; i < kPieces; ++i) x[i] = ld<Block>(src + i * sizeof(Block));
    MCO_UNROLL
    for (int i = 0; i < kPieces; ++i) st(dst + i * sizeof(Block), x[i]);
  }
}

static void copy_bursts(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, int64_t count,
                        int64_t length) {
  switch (length) {
    case 32: return bursts_of<32>(dst, dst_step, src, src_step, count);
    case 64: return bursts_of<64>(dst, dst_step, src, src_step, count);
    case 128: return bursts_of<128>(dst, dst_step, src, src_step, count);
    default: return bursts_of<256>(dst, dst_step, src, src_step, count);
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

static void fill_off(uint8_t* dst, const uint8_t* src, int64_t src_step, const uint8_t* off, bool set, uint32_t on) {
  for (int b = 0; b < 8; ++b) {
    for (int i = 0; i < kParts; ++i) {
      const int64_t part = i * int64_t(sizeof(Block)), at = b * kBlockBytes + part;
      const Block x = on >> b & 1 ? ld<Block>(src + b * src_step + part) : Block{}, k = ld<Block>(off + at);
      st(dst + at, set ? x | k : x & ~k);
    }
  }
}
