// SPDX-License-Identifier: Apache-2.0
// Moves that fill or rearrange.
#include <cstring>

#include "handlers.h"
#include "number.h"

namespace mco {

namespace {

constexpr int64_t kMaxSide = 65535;
enum Format : int64_t { kYuv420sp = 0, kRgb888 = 4, kYuv400 = 9 };

int64_t side(const Machine& m, const Instr& in, const char* name) {
  const int64_t v = m.arg(in, arg_index(*in.op, name));
  if (v > kMaxSide) m.refuse(in, name, std::to_string(v), format("0 to %lld", (long long)kMaxSide));
  return v;
}

}  // namespace

void check_fill(const Program& p, const Instr& in) { need_scope(p, in, 0, kOnChip); }

void run_fill(Machine& m, const Instr& in) {
  const int64_t repeat = side(m, in, "repeat");
  if (!repeat) return;
  const DType t = in.tensors[0].dtype;
  uint8_t one[8];
  const int64_t size = value_to_bits(m.value_arg(in, arg_index(*in.op, "pad_value"), t), t, one);
  uint8_t* dst = m.write(in, 0, 0, Wide(repeat) * kFractalBytes);
  for (int64_t i = 0; i < repeat * kFractalBytes; i += size) std::memcpy(dst + i, one, size_t(size));
}

void check_v4dtrans(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  need_same_dtype(p, in, 0, 1);
}

void run_v4dtrans(Machine& m, const Instr& in) {
  const int64_t m_len = side(m, in, "m_len"), channels = side(m, in, "channels"), size = in.tensors[0].size;
  const Wide bytes = Wide(m_len) * channels * size;
  if (!bytes) return;
  const int64_t rows = in.attrs[0] ? channels : m_len, columns = in.attrs[0] ? m_len : channels;
  const uint8_t* src = m.read(in, 1, 0, bytes);
  uint8_t* dst = m.write(in, 0, 0, bytes);
  uint8_t* whole = m.arena.scratch(0, int64_t(bytes));
  std::memcpy(whole, src, size_t(bytes));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(dst + (c * rows + r) * size, whole + (r * columns + c) * size, size_t(size));
    }
  }
}

void check_load_image(const Program& p, const Instr& in) {
  need_scope(p, in, 0, kOnChip);
  need_dtype(p, in, 0, bit(U8) | bit(F16));
  need_dtype(p, in, 1, bit(U8));
  const int64_t format = in.attrs[0];
  if (format != kYuv420sp && format != kRgb888 && format != kYuv400) {
    refuse(p, in, "format", std::to_string(format), "0, 4, 9");
  }
  if (format == kYuv420sp) need_dtype(p, in, 2, bit(U8));
}

void run_load_image(Machine& m, const Instr& in) {
  const int64_t src_w = side(m, in, "src_w"), src_h = side(m, in, "src_h");
  const int64_t x0 = side(m, in, "first_w"), y0 = side(m, in, "first_h");
  const int64_t width = side(m, in, "width"), height = side(m, in, "height");
  const int64_t kind = in.attrs[0], swap = in.attrs[1] != 0;
  if (x0 + width > src_w) {
    m.refuse(in, "first and width of the crop", std::to_string(x0 + width), format("0 to %lld", (long long)src_w));
  }
  if (y0 + height > src_h) {
    m.refuse(in, "first and height of the crop", std::to_string(y0 + height), format("0 to %lld", (long long)src_h));
  }
  if (!width || !height) return;
  uint8_t* dst = m.write(in, 0, 0, Wide(width) * height * kBlockBytes);
  const int64_t bytes = kind == kRgb888 ? 3 : 1, y1 = y0 + height - 1, x1 = x0 + width - 1;
  const int64_t pair_row = ceil_div(src_w, 2) * 2;
  const uint8_t* src = m.read(in, 1, (Wide(y0) * src_w + x0) * bytes, (Wide(y1) * src_w + x1 + 1) * bytes);
  const uint8_t* pairs = nullptr;
  if (kind == kYuv420sp) {
    pairs = m.read(in, 2, Wide(y0 / 2) * pair_row + x0 / 2 * 2, Wide(y1 / 2) * pair_row + x1 / 2 * 2 + 2);
  }
  const bool half = in.tensors[0].dtype == F16;
  for (int64_t y = y0; y <= y1; ++y) {
    for (int64_t x = x0; x <= x1; ++x, dst += kBlockBytes) {
      uint8_t pixel[3] = {};
      const uint8_t* from = src + (y * src_w + x) * bytes;
      if (kind == kRgb888) {
        for (int c = 0; c < 3; ++c) pixel[c] = from[swap ? 2 - c : c];
      } else {
        pixel[0] = *from;
      }
      if (kind == kYuv420sp) {
        const uint8_t* uv = pairs + y / 2 * pair_row + x / 2 * 2;
        pixel[1] = uv[swap];
        pixel[2] = uv[1 - swap];
      }
      std::memset(dst, 0, size_t(kBlockBytes));
      for (int c = 0; c < 3; ++c) {
        if (half) {
          store_float(dst + 2 * c, float(pixel[c]), F16, false);
        } else {
          dst[c] = pixel[c];
        }
      }
    }
  }
}

}  // namespace mco
