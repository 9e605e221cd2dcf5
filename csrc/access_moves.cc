// SPDX-License-Identifier: Apache-2.0
// Access of moves, sorting, products and L0C: program/access/bursts.py, groups.py, cube.py.
#include <cstring>

#include "access.h"
#include "picks.h"

namespace mco::access {

namespace {

bool is(const Use& use, int operand, const char* name) { return !std::strcmp(use.name(operand), name); }

}  // namespace

namespace bursts {

void bursts(const Use& use, int operand, Touched& out) {
  const int64_t burst = use.arg("burst");
  out.add(0, burst, use.arg("nburst"), burst + use.of(operand, "gap"));
}

void padded_bursts(const Use& use, int operand, Touched& out) {
  const int64_t nburst = use.arg("nburst"), burst = use.arg("burst"), gap = use.of(operand, "gap");
  const int dst = use.operand("dst");
  const bool to_gm = use.scope(dst) == GM;
  if (operand != dst) return out.add(0, burst, nburst, (to_gm ? round_up(burst, kBlockBytes) : burst) + gap);
  if (to_gm) return out.add(0, burst, nburst, burst + gap);
  const int64_t padding = (use.arg("left_pad") + use.arg("right_pad")) * use.size(dst);
  const int64_t whole = round_up(burst + padding, kBlockBytes);
  out.add(0, whole, nburst, whole + gap);
}

void l0c_bursts(const Use& use, int operand, Touched& out) {
  const int64_t nburst = use.arg("nburst"), burst = use.arg("burst"), gap = use.of(operand, "gap");
  const int64_t size = use.size(operand);
  const bool row = use.attr("block_mode") == 1;
  const int64_t unit = row ? kFractalSide : kFractalElements;
  const int64_t spread = row && use.scope(operand) == L0C ? kFractalElements : unit;
  out.add(0, unit * size, burst, spread * size, nburst, burst * spread * size + gap);
}

void fixpipe(const Use& use, int operand, Touched& out) {
  const int64_t bytes = use.arg("burst_len") / use.size(use.operand("src")) * use.size(operand);
  out.add(0, bytes, use.arg("cburst_num"), bytes + use.of(operand, "gap"));
}

void matrices(const Use& use, int operand, Touched& out) {
  const int64_t count = use.arg("nd_num"), rows = use.arg("nd_n"), columns = use.arg("nd_d");
  const int64_t size = use.size(use.operand("dst"));
  if (is(use, operand, "src")) {
    return out.add(0, columns * size, rows, use.arg("src_n_stride") * size, count, use.arg("src_nd_stride") * size);
  }
  const int64_t column = use.arg("dst_c0_stride") * kBlockBytes, row = use.arg("dst_n_stride");
  const int64_t matrix = use.arg("dst_nd_stride") * size, blocks = ceil_div(columns * size, kBlockBytes);
  if (row == 1) return out.add(0, rows * kBlockBytes, blocks, column, count, matrix);
  for (int64_t c = 0; c < blocks; ++c) {
    const size_t before = out.boxes.size();
    out.add(0, kBlockBytes, rows, row * kBlockBytes, count, matrix);
    for (size_t i = before; i < out.boxes.size(); ++i) out.boxes[i].start += c * column;
  }
}

void fractals(const Use& use, int operand, Touched& out) {
  const int64_t repeat = use.arg("repeat");
  if (is(use, operand, "dst")) return out.add(0, kFractalBytes, repeat, (1 + use.arg("dst_gap")) * kFractalBytes);
  out.add(use.arg("index") * kFractalBytes, kFractalBytes, repeat, use.arg("src_stride") * kFractalBytes);
}

void squares(const Use& use, int operand, Touched& out) {
  const int64_t repeat = use.arg("repeat"), parts = use.size(use.operand("dst")) == 2 ? 1 : 2;
  if (is(use, operand, "src")) {
    const int64_t block = parts * kFractalBytes;
    return out.add(use.arg("index") * block, block, repeat, use.arg("src_stride") * block);
  }
  out.add(0, kFractalBytes, parts, (1 + use.arg("fractal_gap")) * kFractalBytes, repeat,
          (1 + use.arg("dst_gap")) * kFractalBytes);
}

void fill(const Use& use, int, Touched& out) { out.add(0, use.arg("repeat") * kFractalBytes); }

void filled_blocks(const Use& use, int, Touched& out) {
  const int64_t blocks = use.arg("blocks");
  out.add(0, blocks * kBlockBytes, use.arg("repeat"), (blocks + use.arg("gap")) * kBlockBytes);
}

void transpose(const Use& use, int operand, Touched& out) {
  if (!use.has("m_len")) return out.add(0, kFractalBytes);
  out.add(0, use.arg("m_len") * use.arg("channels") * use.size(operand));
}

void rows_of_16(const Use& use, int operand, Touched& out) {
  const bool dst = use.name(operand)[0] == 'd', narrow = use.size(operand) == 1;
  const int64_t bytes = narrow ? kBlockBytes / 2 : kBlockBytes;
  const int64_t half = narrow && use.attr(dst ? "dst_high" : "src_high") ? bytes : 0;
  out.add(half, bytes, use.arg("repeat"), use.arg(dst ? "dst_rep" : "src_rep"));
}

void crop(const Use& use, int operand, Touched& out) {
  constexpr int64_t kRgb888 = 4, kYuv420sp = 0, kCrop = 1;
  const bool crop = use.arg("functions") & kCrop;
  const int64_t across = use.arg("src_w"), left = crop ? use.arg("first_w") : 0, top = crop ? use.arg("first_h") : 0;
  const int64_t width = crop ? use.arg("width") : across, height = use.arg(crop ? "height" : "src_h");
  if (!width || !height) return;
  if (is(use, operand, "dst")) return out.add(0, width * height * kBlockBytes);
  const int64_t format = use.arg("format");
  if (is(use, operand, "src")) {
    const int64_t pixel = format == kRgb888 ? 3 : 1;
    return out.add((top * across + left) * pixel, width * pixel, height, across * pixel);
  }
  if (format != kYuv420sp) return;
  const int64_t row = round_up(across, 2), first = left / 2 * 2, last = (left + width - 1) / 2 * 2 + 2;
  out.add(top / 2 * row + first, last - first, (top + height - 1) / 2 - top / 2 + 1, row);
}

void nothing(const Use&, int, Touched&) {}

}  // namespace bursts

namespace groups {

namespace {

constexpr int64_t kGroup = 16, kProposal = 8, kCorners = 4, kSort32 = 32, kRecordBytes = 8, kKept = 4;

void whole(const Use& use, int operand, int64_t per_repeat, Touched& out) {
  out.add(0, use.arg("repeat") * per_repeat * use.size(operand));
}

void once(const Use& use, int operand, int64_t count, Touched& out) {
  if (use.arg("repeat")) out.add(0, count * use.size(operand));
}

void corners(const Use& use, int operand, int64_t proposals, Touched& out) {
  const int64_t size = use.size(operand);
  out.add(0, kCorners * size, proposals, kProposal * size);
}

}  // namespace

void field(const Use& use, int operand, Touched& out) {
  if (!is(use, operand, use.in.op->name == "vconcat" ? "dst" : "src")) return whole(use, operand, kGroup, out);
  const int64_t size = use.size(operand);
  out.add(use.arg("field") * size, size, use.arg("repeat") * kGroup, kProposal * size);
}

void sort16(const Use& use, int operand, Touched& out) { whole(use, operand, kGroup * kProposal, out); }

void sort32(const Use& use, int operand, Touched& out) {
  if (is(use, operand, "dst")) return out.add(0, use.arg("repeat") * kSort32 * kRecordBytes);
  whole(use, operand, kSort32, out);
}

void merge(const Use& use, int operand, Touched& out) {
  static const char* const kLengths[] = {"len0", "len1", "len2", "len3"};
  const int64_t repeat = use.arg("repeat"), lists = lists_of(use.arg("valid_bit"));
  const int64_t record = use.attr("record") ? kRecordBytes : kProposal * use.size(use.operand("dst"));
  int64_t step = 0;
  for (int i = 0; i < lists; ++i) step += use.arg(kLengths[i]) * record;
  if (is(use, operand, "sr")) {
    if (repeat) out.add(0, 4 * 2);
    return;
  }
  if (is(use, operand, "dst")) {
    out.add(0, repeat * step);
    out.exact = !use.attr("suspend");
    return;
  }
  const int number = use.name(operand)[3] - '0';
  if (number < lists) out.add(0, use.arg(kLengths[number]) * record, repeat, step);
}

void areas(const Use& use, int operand, Touched& out) {
  if (is(use, operand, "dst")) return whole(use, operand, kGroup, out);
  corners(use, operand, use.arg("repeat") * kGroup, out);
}

void square(const Use& use, int operand, Touched& out) {
  if (is(use, operand, "dst")) return whole(use, operand, kGroup * kGroup, out);
  const bool boxes = use.in.op->name == "viou";
  if (is(use, operand, "src0")) {
    return boxes ? corners(use, operand, use.arg("repeat") * kGroup, out) : whole(use, operand, kGroup, out);
  }
  if (!use.arg("repeat")) return;
  boxes ? corners(use, operand, kGroup, out) : once(use, operand, kGroup, out);
}

void heads(const Use& use, int operand, Touched& out) {
  if (is(use, operand, "dst")) return whole(use, operand, kBlocks * kKept, out);
  out.add(0, kKept * use.size(operand), kBlocks, kBlockBytes, use.arg("repeat"), kVectorBytes);
}

void suppression(const Use& use, int operand, Touched& out) {
  const bool repeats = use.has("repeat");
  if (is(use, operand, "ir")) return repeats ? once(use, operand, 1, out) : out.add(0, use.size(operand));
  const int64_t row = kGroup * use.size(operand);
  if (!repeats) return out.add(0, row);
  out.add(0, row, use.arg("repeat"), use.of(operand, "rep"));
}

}  // namespace groups

namespace cube {

namespace {

enum Unit { kFractal, kRow, kColumn, kHalf, kFlat };
constexpr int64_t kUnitElements[] = {kFractalElements, 16, 64, 128, 8};
enum Flag { kVectorScale = 1, kBias = 2, kAdd = 4 };

// [K1, rows, 32 bytes] without the padding of the last block.
void columns(int64_t rows, int64_t k, int64_t size, Touched& out) {
  const int64_t full = k * size / kBlockBytes, tail = k * size % kBlockBytes;
  out.add(0, full * rows * kBlockBytes);
  out.add(full * rows * kBlockBytes, tail, rows, kBlockBytes);
}

void units(int64_t mode, int64_t burst, int64_t size, int64_t nburst, int64_t gap, Touched& out) {
  const int64_t row = kFractalSide * size, fractal = kFractalElements * size;
  if (mode == kFlat) return out.add(0, burst * 8 * size, nburst, burst * 8 * size + gap);
  if (mode == kHalf) {
    const int64_t pairs = burst / 2, odd = burst % 2, step = (pairs + odd) * fractal + gap;
    out.add(0, pairs * fractal, nburst, step);
    return out.add(pairs * fractal, odd * 8 * size, 16, row, nburst, step);
  }
  const int64_t step = burst * fractal + gap;
  if (mode == kRow) return out.add(0, row, burst, fractal, nburst, step);
  if (mode == kColumn) return out.add(0, 4 * size, burst * 16, row, nburst, step);
  out.add(0, burst * fractal, nburst, step);
}

int64_t columns_used(int64_t mode, int64_t burst) {
  if (mode == kColumn) return 4;
  return (mode == kHalf || mode == kFlat) && burst == 1 ? 8 : kFractalSide;
}

}  // namespace

void mmad(const Use& use, int operand, Touched& out) {
  const int64_t m = use.arg("m"), k = use.arg("k"), n = use.arg("n");
  if (!m || !k || !n) return;
  const int64_t size = use.size(operand), cols = round_up(n, kFractalSide), rows = round_up(m, kFractalSide);
  if (is(use, operand, "filter")) return columns(cols, k, size, out);
  if (is(use, operand, "dst")) {
    if (m == 1) return out.add(0, kFractalSide * size, cols / kFractalSide, kFractalElements * size);
    return out.add(0, rows * cols * size);
  }
  if (m == 1) return out.add(0, k * size);
  const int64_t full = k * size / kBlockBytes, tail = k * size % kBlockBytes;
  const int64_t step = ceil_div(k * size, kBlockBytes) * kFractalBytes, count = rows / kFractalSide;
  out.add(0, full * kFractalBytes, count, step);
  out.add(full * kFractalBytes, tail, kFractalSide, kBlockBytes, count, step);
}

void matmul(const Use& use, int operand, Touched& out) {
  const int64_t m = use.attr("m"), k = use.attr("k"), n = use.attr("n");
  if (!m || !k || !n) return;
  const int64_t size = use.size(operand), rows = round_up(m, kFractalSide), cols = round_up(n, kFractalSide);
  if (is(use, operand, "dst")) return out.add(0, rows * cols * size);
  columns(is(use, operand, "a") ? rows : cols, k, size, out);
}

void broadcast(const Use& use, int operand, Touched& out) {
  const int64_t burst = use.arg("burst"), copies = use.arg("copies");
  if (!copies) return;
  const int64_t each = is(use, operand, "src") ? kFractalSide : copies * kFractalElements;
  const int64_t bytes = burst * each * use.size(operand);
  out.add(0, bytes, use.arg("nburst"), bytes + use.of(operand, "gap"));
}

void l0c_out(const Use& use, int operand, Touched& out) {
  const int64_t nburst = use.arg("nburst"), burst = use.arg("burst");
  const int64_t mode = use.attr("block_mode"), flags = use.attr("flags"), size = use.size(operand);
  if (!nburst || !burst) return;
  const int64_t elements = burst * kUnitElements[mode];
  if (is(use, operand, "src")) return units(mode, burst, size, nburst, use.arg("src_gap"), out);
  if (is(use, operand, "dst")) {
    const int64_t store = use.attr("store"), gap = use.arg("dst_gap");
    if (!store) return out.add(0, elements * size, nburst, elements * size + gap);
    return out.add((store - 1) * 16, 16, elements / 16, kBlockBytes, nburst, 2 * elements + gap);
  }
  const int wanted = is(use, operand, "scale") ? kVectorScale : is(use, operand, "bias") ? kBias : kAdd;
  if (!(flags & wanted)) return;
  if (wanted == kAdd) return out.add(0, nburst * elements * size);
  out.add(0, columns_used(mode, burst) * size, nburst, kFractalSide * size);
}

void l0c_matrix(const Use& use, int operand, Touched& out) {
  const int64_t matrices = use.arg("matrices"), rows = use.arg("rows"), columns = use.arg("columns"),
                size = use.size(operand);
  if (!matrices || !rows || !columns) return;
  if (is(use, operand, "scale")) {
    if (use.attr("vector")) out.add(0, columns * size);
    return;
  }
  const bool src = is(use, operand, "src");
  const int64_t stride = use.of(operand, "stride"), step = use.of(operand, "next"),
                width = src ? kFractalSide : use.attr("width");
  for (int64_t i = 0; i < matrices; ++i) {
    const size_t before = out.boxes.size();
    if (width) {
      const int64_t full = columns / width;
      out.add(0, rows * width * size, full, stride);
      out.add(full * stride, columns % width * size, rows, width * size);
    } else {
      out.add(0, columns * size, rows, stride);
    }
    for (size_t n = before; n < out.boxes.size(); ++n) out.boxes[n].start += i * step;
  }
}

}  // namespace cube

}  // namespace mco::access
