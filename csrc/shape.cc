// SPDX-License-Identifier: Apache-2.0
// Moves that fill or rearrange.
#include <cstring>

#include "handlers.h"
#include "number.h"

namespace mco {

namespace {

enum Format : int64_t { kYuv420sp = 0, kRgb888 = 4, kYuv400 = 9 };
enum Function : int64_t { kCrop = 1, kSwap = 4, kPad = 512 };

// Whether two channels of the format are exchanged.
bool swaps(const Machine& m, const Instr& in, int64_t kind) {
  constexpr int kRb = isa::load_image::rb_swap, kUv = isa::load_image::uv_swap, kAx = isa::load_image::ax_swap;
  const int own = kind == kRgb888 ? kRb : kind == kYuv420sp ? kUv : -1;
  bool on = false;
  for (const int arg : {kRb, kUv, kAx}) {
    if (!ranged_arg(m, in, arg)) continue;
    if (arg != own) {
      m.refuse(in, format("%s of format %lld", in.op->args[size_t(arg)].name, (long long)kind).c_str(), "1", "0");
    }
    on = true;
  }
  return on;
}

}  // namespace

void check_fill(const Program& p, const Instr& in) { need_scope(p, in, isa::fill::dst, kOnChip); }

void run_fill(Machine& m, const Instr& in) {
  const int64_t repeat = ranged_arg(m, in, isa::fill::repeat);
  if (!repeat) return;
  const DType t = in.tensors[isa::fill::dst].dtype;
  uint8_t one[8];
  const int64_t size = value_to_bits(m.value_arg(in, isa::fill::pad_value, t), t, one);
  uint8_t* dst = m.write(in, isa::fill::dst, 0, Wide(repeat) * kFractalBytes);
  for (int64_t i = 0; i < repeat * kFractalBytes; i += size) std::memcpy(dst + i, one, size_t(size));
}

void run_fill_blocks(Machine& m, const Instr& in) {
  using namespace isa::fill_blocks;
  const int64_t count = ranged_arg(m, in, repeat), length = ranged_arg(m, in, blocks) * kBlockBytes;
  const Wide step = Wide(length) + Wide(m.arg(in, gap)) * kBlockBytes;
  if (!count || !length) return;
  const DType t = in.tensors[dst].dtype;
  uint8_t one[8];
  const int64_t size = value_to_bits(m.value_arg(in, pad_value, t), t, one);
  uint8_t* to = m.write(in, dst, 0, wide_product(count - 1, step) + length);
  for (int64_t n = 0; n < count; ++n, to += int64_t(step)) {
    for (int64_t i = 0; i < length; i += size) std::memcpy(to + i, one, size_t(size));
  }
}

void check_v4dtrans(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  need_same_dtype(p, in, isa::v4dtrans::dst, isa::v4dtrans::src);
}

void run_v4dtrans(Machine& m, const Instr& in) {
  const int64_t m_len = ranged_arg(m, in, isa::v4dtrans::m_len), channels = ranged_arg(m, in, isa::v4dtrans::channels),
                size = in.tensors[isa::v4dtrans::dst].size;
  const Wide bytes = Wide(m_len) * channels * size;
  if (!bytes) return;
  const int64_t rows = in.attrs[isa::v4dtrans::to_hwc] ? channels : m_len,
                columns = in.attrs[isa::v4dtrans::to_hwc] ? m_len : channels;
  const uint8_t* src = m.read(in, isa::v4dtrans::src, 0, bytes);
  uint8_t* dst = m.write(in, isa::v4dtrans::dst, 0, bytes);
  uint8_t* whole = m.arena.scratch(0, int64_t(bytes));
  std::memcpy(whole, src, size_t(bytes));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(dst + (c * rows + r) * size, whole + (r * columns + c) * size, size_t(size));
    }
  }
}

void check_load_image(const Program& p, const Instr& in) {
  need_scope(p, in, isa::load_image::dst, kOnChip);
  need_dtype(p, in, isa::load_image::dst, bit(U8) | bit(F16));
  need_dtype(p, in, isa::load_image::src, bit(U8));
  need_dtype(p, in, isa::load_image::src1, bit(U8));
}

void run_load_image(Machine& m, const Instr& in) {
  const int64_t src_w = ranged_arg(m, in, isa::load_image::src_w), src_h = ranged_arg(m, in, isa::load_image::src_h);
  int64_t x0 = ranged_arg(m, in, isa::load_image::first_w), y0 = ranged_arg(m, in, isa::load_image::first_h);
  int64_t width = ranged_arg(m, in, isa::load_image::width), height = ranged_arg(m, in, isa::load_image::height);
  const int64_t kind = m.arg(in, isa::load_image::format), functions = m.arg(in, isa::load_image::functions);
  if (kind != kYuv420sp && kind != kRgb888 && kind != kYuv400) {
    m.refuse(in, "format", std::to_string(kind), "0, 4 or 9");
  }
  if (functions & ~int64_t(kCrop | kSwap | kPad)) {
    m.refuse(in, "functions", std::to_string(functions), "sums of 1, 4 and 512");
  }
  const int64_t swap = functions & kSwap && swaps(m, in, kind);
  if (!(functions & kCrop)) x0 = y0 = 0, width = src_w, height = src_h;
  if (x0 + width > src_w) {
    m.refuse(in, "first and width of the crop", std::to_string(x0 + width), format("0 to %lld", (long long)src_w));
  }
  if (y0 + height > src_h) {
    m.refuse(in, "first and height of the crop", std::to_string(y0 + height), format("0 to %lld", (long long)src_h));
  }
  if (!width || !height) return;
  uint8_t* dst = m.write(in, isa::load_image::dst, 0, Wide(width) * height * kBlockBytes);
  const int64_t bytes = kind == kRgb888 ? 3 : 1, y1 = y0 + height - 1, x1 = x0 + width - 1;
  const int64_t pair_row = ceil_div(src_w, 2) * 2;
  const uint8_t* src =
      m.read(in, isa::load_image::src, (Wide(y0) * src_w + x0) * bytes, (Wide(y1) * src_w + x1 + 1) * bytes);
  const uint8_t* pairs = nullptr;
  if (kind == kYuv420sp) {
    pairs = m.read(in, isa::load_image::src1, Wide(y0 / 2) * pair_row + x0 / 2 * 2,
                   Wide(y1 / 2) * pair_row + x1 / 2 * 2 + 2);
  }
  const bool half = in.tensors[isa::load_image::dst].dtype == F16;
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
