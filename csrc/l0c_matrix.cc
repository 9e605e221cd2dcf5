// SPDX-License-Identifier: Apache-2.0
// Matrices that leave L0C row by row or in columns, with quantization on the way.
#include "handlers.h"
#include "quantize.h"

namespace mco {

namespace {

using namespace isa::l0c_matrix;

struct Matrix {
  int64_t rows, columns, width;  // width 0: row by row
  int64_t src_stride, dst_stride;
  int64_t src_size, dst_size;

  Wide src_end() const {
    const int64_t panels = ceil_div(columns, kFractalSide);
    const Wide tail = Wide(rows - 1) * kFractalSide + (columns - (panels - 1) * kFractalSide);
    const Wide whole = panels > 1 ? Wide(panels - 2) * src_stride + Wide(rows) * kFractalSide * src_size : Wide(0);
    return std::max(whole, Wide(panels - 1) * src_stride + tail * src_size);
  }
  Wide dst_end() const {
    if (!width) return Wide(rows - 1) * dst_stride + Wide(columns) * dst_size;
    const int64_t panels = ceil_div(columns, width);
    const Wide tail = Wide(rows - 1) * width + (columns - (panels - 1) * width);
    const Wide whole = panels > 1 ? Wide(panels - 2) * dst_stride + Wide(rows) * width * dst_size : Wide(0);
    return std::max(whole, Wide(panels - 1) * dst_stride + tail * dst_size);
  }
  // The order in which their parts are written cannot be told.
  bool has_rows_apart() const { return !width && dst_stride >= columns * dst_size; }
  int64_t dst_at(int64_t r, int64_t c) const {
    if (!width) return r * dst_stride + c * dst_size;
    return c / width * dst_stride + (r * width + c % width) * dst_size;
  }
};

bool is_plain(const Convert& c) { return c.quant == kNoQuant && !c.relu && c.src == c.dst; }

// Whole fractals as they are, row after row: one write after the other.
void copy_rows(const Machine& m, const Matrix& x, uint8_t* to, const uint8_t* from) {
  const int64_t side = kFractalSide * x.src_size, panels = x.columns / kFractalSide;
  if (!panels) return;
  m.kernels.copy_grid({to, from, x.rows, panels, side, x.dst_stride, side, side, x.src_stride});
}

// A column of fractals, `count` elements one behind the other, on its way.
void convert_panel(const Machine& m, const Convert& convert, uint8_t* to, const uint8_t* from, int64_t count,
                   uint64_t word, const uint8_t* words, int64_t room) {
  const bool plain = convert.quant == kNoQuant && !convert.relu;
  if (plain && convert.src == convert.dst) {
    std::memcpy(to, from, size_t(count * kSize[convert.src]));
  } else if (plain && convert.src == F32 && convert.dst == F16) {
    m.kernels.float_to_half(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), count,
                            convert.saturate);
  } else if (plain && convert.src == F32 && convert.dst == BF16) {
    m.kernels.float_to_bfloat(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), count,
                              convert.saturate);
  } else {
    for (int64_t e = 0; e < count; ++e) {
      const int64_t column = e % kFractalSide;
      if (words && column < room) std::memcpy(&word, words + column * 8, 8);
      convert(to + e * kSize[convert.dst], from + e * kSize[convert.src], 0, word);
    }
  }
}

}  // namespace

void check_l0c_matrix(const Program& p, const Instr& in) {
  need_scope(p, in, dst, bit(GM) | kOnChip);
  need_scope(p, in, src, kOnChip);
  const DType from = in.tensors[src].dtype, into = in.tensors[dst].dtype;
  const bool quantized = in.attrs[quant] != 0;
  need_dtype(p, in, src, bit(F32) | bit(I32));
  if (!(quantized ? quantizes(from, into) : casts(from, into))) {
    refuse(p, in, format("conversion with quant %d", int(quantized)),
           format("%s to %s", kDTypeName[from], kDTypeName[into]),
           quantized ? "int32 or float32 to a quantized dtype" : "equal dtypes or a cast");
  }
  if (in.attrs[vector]) {
    if (!quantized) refuse(p, in, "quant with a vector scale", "0", "1");
    need_scope(p, in, scale, kOnChip);
    need_dtype(p, in, scale, bit(U64));
  }
}

void run_l0c_matrix(Machine& m, const Instr& in) {
  const int64_t count = ranged_arg(m, in, matrices);
  const Matrix x{ranged_arg(m, in, rows), ranged_arg(m, in, columns), in.attrs[width],     m.arg(in, src_stride),
                 m.arg(in, dst_stride),   in.tensors[src].size,       in.tensors[dst].size};
  const int64_t from_next = m.arg(in, src_next), to_next = m.arg(in, dst_next);
  uint64_t word = uint64_t(m.raw_arg(in, deqscale));
  if (!count || !x.rows || !x.columns) return;
  const uint8_t* from = m.read(in, src, 0, wide_product(count - 1, from_next) + x.src_end());
  uint8_t* to = m.write(in, dst, 0, wide_product(count - 1, to_next) + x.dst_end());
  const bool by_column = in.attrs[vector] != 0;
  const uint8_t* words = by_column ? m.read(in, scale, 0, Wide(x.columns) * 8) : nullptr;
  const bool word_relu = in.attrs[quant] && !by_column && (word >> kReluBit & 1);
  const Convert convert{in.tensors[src].dtype,
                        in.tensors[dst].dtype,
                        in.attrs[quant] ? kScaleWord : kNoQuant,
                        in.attrs[relu] != 0 || word_relu,
                        true,
                        m.saturate};
  const bool gm = m.scope(in, dst) == GM, direct = !gm || m.atomic == kDTypes;
  const int64_t step = std::min<int64_t>(x.width ? x.width : kFractalSide, kFractalSide);
  uint8_t* staged = m.arena.scratch(0, x.rows * kFractalSide * x.dst_size);
  const auto put = [&](uint8_t* at, const uint8_t* bytes, int64_t size) {
    if (direct) {
      std::memcpy(at, bytes, size_t(size));
    } else {
      m.to_gm(in, dst, at, bytes, size);
    }
  };
  const bool by_rows = direct && is_plain(convert) && x.has_rows_apart() && m.scope(in, src) != m.scope(in, dst);
  const int64_t begin = by_rows ? x.columns / kFractalSide * kFractalSide : 0;
  for (int64_t n = 0; n < count; ++n) {
    uint8_t* out = to + n * to_next;
    if (by_rows) copy_rows(m, x, out, from + n * from_next);
    for (int64_t c = begin; c < x.columns; c += kFractalSide) {
      const int64_t room = std::min(kFractalSide, x.columns - c);
      const uint8_t* panel = from + n * from_next + c / kFractalSide * x.src_stride;
      convert_panel(m, convert, staged, panel, (x.rows - 1) * kFractalSide + room, word,
                    words ? words + c * 8 : nullptr, room);
      if (direct && !x.width && room == kFractalSide && x.dst_size == 2) {
        m.kernels.copy_bursts(out + c * 2, x.dst_stride, staged, kFractalSide * 2, x.rows, kFractalSide * 2);
        continue;
      }
      if (x.width == kFractalSide && room == kFractalSide) {
        put(out + x.dst_at(0, c), staged, x.rows * kFractalSide * x.dst_size);
        continue;
      }
      for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t e = 0; e < room; e += step) {
          put(out + x.dst_at(r, c + e), staged + (r * kFractalSide + e) * x.dst_size,
              std::min(step, room - e) * x.dst_size);
        }
      }
    }
  }
}

}  // namespace mco
