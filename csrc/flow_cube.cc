// SPDX-License-Identifier: Apache-2.0
// How marks go through products, and through matrices that leave L0C.
#include "flow.h"
#include "handlers.h"

namespace mco {

// An element lacks content where its row of the first or its column of the second operand does.
void Flow::product() {
  const bool plain = in_.op->run == run_matmul;
  const int64_t m = plain ? use_.attr("m") : use_.arg("m"), n = plain ? use_.attr("n") : use_.arg("n");
  const int64_t k = plain ? use_.attr("k") : use_.arg("k");
  if (!m || !k || !n) return;
  const int64_t rows = round_up(m, kFractalSide), cols = round_up(n, kFractalSide), size = use_.size(1);
  const bool row_only = !plain && m == 1;
  const int64_t blocks = ceil_div(k * size, kBlockBytes);
  const auto tail = [&](int64_t b) { return std::min(kBlockBytes, k * size - b * kBlockBytes); };
  std::vector<Mark> row(size_t(rows), kHeld), col(size_t(cols), kHeld);
  for (int64_t i = 0; i < (row_only ? 1 : rows); ++i) {
    Mark& mark = row[size_t(i)];
    for (int64_t b = 0; b < blocks && !mark; ++b) {
      const int64_t at = row_only ? b * kBlockBytes
                         : plain  ? (b * rows + i) * kBlockBytes
                                  : (i / kFractalSide * blocks + b) * kFractalBytes + i % kFractalSide * kBlockBytes;
      mark = range_mark(1, at, at + tail(b));
    }
  }
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t b = 0; b < blocks && !col[size_t(j)]; ++b) {
      const int64_t at = (b * cols + j) * kBlockBytes;
      col[size_t(j)] = range_mark(2, at, at + tail(b));
    }
  }
  const int64_t out = use_.size(0), panel = (row_only ? kFractalElements : rows * kFractalSide) * out;
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < (row_only ? 1 : rows); ++i) {
      const int64_t at = j / kFractalSide * panel + (i * kFractalSide + j % kFractalSide) * out;
      Mark mark = row[size_t(i)] ? row[size_t(i)] : col[size_t(j)];
      if (!mark && operands_[0].reads) mark = range_mark(0, at, at + out);
      put(0, at, at + out, mark);
    }
  }
}

// Element by element, from columns of fractals to rows or other columns; what is added to keeps its own lack, and a
// scale without content takes its column with it.
void Flow::matrix() {
  const int src = index("src"), dst = index("dst"), scale = index("scale");
  const int64_t matrices = use_.arg("matrices"), rows = use_.arg("rows"), columns = use_.arg("columns");
  const int64_t width = use_.attr("width"), from = use_.size(src), to = use_.size(dst);
  const int64_t from_stride = use_.arg("src_stride"), from_next = use_.arg("src_next");
  const int64_t to_stride = use_.arg("dst_stride"), to_next = use_.arg("dst_next"), word = use_.size(scale);
  const bool adds = m_.atomic != kDTypes && m_.scope(in_, dst) == GM, scaled = use_.attr("vector") != 0;
  const auto place = [](int64_t r, int64_t c, int64_t wide, int64_t stride, int64_t size) {
    return wide ? c / wide * stride + (r * wide + c % wide) * size : r * stride + c * size;
  };
  for (int64_t i = 0; i < matrices; ++i) {
    for (int64_t c = 0; c < columns; ++c) {
      const Mark lack = scaled ? range_mark(scale, c * word, (c + 1) * word) : kHeld;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = i * from_next + place(r, c, kFractalSide, from_stride, from);
        const int64_t out = i * to_next + place(r, c, width, to_stride, to);
        Mark mark = lack ? lack : range_mark(src, at, at + from);
        if (!mark && adds) mark = range_mark(dst, out, out + to);
        put(dst, out, out + to, mark);
      }
    }
  }
}

}  // namespace mco
