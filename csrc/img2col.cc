// SPDX-License-Identifier: Apache-2.0
// Image to column and back.
#include <algorithm>
#include <cstring>
#include <vector>

#include "number.h"
#include "window.h"

namespace mco {

namespace {

// Byte range [lo, hi) that a set of 32-byte blocks takes.
struct Extent {
  int64_t low = INT64_MAX, high = INT64_MIN;
  void add(int64_t block) {
    low = std::min(low, block);
    high = std::max(high, block);
  }
  bool empty() const { return low > high; }
};

const uint8_t* read_blocks(Machine& m, const Instr& in, const Extent& e) {
  if (e.empty()) return nullptr;
  return m.read(in, isa::load3dv1::src, Wide(e.low) * kBlockBytes, Wide(e.high + 1) * kBlockBytes);
}

}  // namespace

namespace {

Window checked(const Machine& m, const Instr& in, const std::array<int64_t, kWindowValues>& v) {
  Window w;
  w.v = v;
  const int64_t span_w = (w.filter_w() - 1) * w.dilation_w() + 1, span_h = (w.filter_h() - 1) * w.dilation_h() + 1;
  const int64_t whole_w = w.width() + w.pad_l() + w.pad_r(), whole_h = w.height() + w.pad_t() + w.pad_b();
  if (span_w > whole_w || span_h > whole_h) {
    m.refuse(in, "span of the filter", format("%lld x %lld", (long long)span_w, (long long)span_h),
             format("at most %lld x %lld", (long long)whole_w, (long long)whole_h));
  }
  w.last_x = whole_w - span_w;
  w.last_y = whole_h - span_h;
  w.out_w = w.last_x / w.stride_w() + 1;
  w.out_h = w.last_y / w.stride_h() + 1;
  return w;
}

}  // namespace

Window Window::of_arguments(const Machine& m, const Instr& in, int pad_l) {
  std::array<int64_t, kWindowValues> v;
  for (int i = 0; i < kWindowValues; ++i) v[size_t(i)] = ranged_arg(m, in, pad_l + i);
  return checked(m, in, v);
}

Window Window::of_attributes(const Machine& m, const Instr& in, int pad_l) {
  std::array<int64_t, kWindowValues> v;
  for (int i = 0; i < kWindowValues; ++i) v[size_t(i)] = in.attrs[size_t(pad_l + i)];
  return checked(m, in, v);
}

Start start_of(const Machine& m, const Instr& in, const Window& w, int fetch_w) {
  // fetch_w, fetch_h, first_w, first_h follow each other in both instructions.
  using namespace isa::col2img;
  static_assert(isa::load3dv1::fetch_h - isa::load3dv1::fetch_w == fetch_h - isa::col2img::fetch_w &&
                    isa::load3dv1::first_w - isa::load3dv1::fetch_w == first_w - isa::col2img::fetch_w &&
                    isa::load3dv1::first_h - isa::load3dv1::fetch_w == first_h - isa::col2img::fetch_w,
                "the same order in load3dv1 and col2img");
  const int at = fetch_w - isa::col2img::fetch_w;
  Start s{ranged_arg(m, in, at + first_w), ranged_arg(m, in, at + first_h), 0, 0};
  if (s.first_w > w.last_x) {
    m.refuse(in, "first_w", std::to_string(s.first_w), format("0 to %lld", (long long)w.last_x));
  }
  auto tap = [&](int index, int64_t count) {
    const int64_t v = m.arg(in, index);
    if (v >= count) {
      m.refuse(in, in.op->args[size_t(index)].name, std::to_string(v), format("0 to %lld", (long long)(count - 1)));
    }
    return v;
  };
  s.fetch_w = tap(fetch_w, w.filter_w());
  s.fetch_h = tap(at + fetch_h, w.filter_h());
  return s;
}

void need_other_scope(const Program& p, const Instr& in, int first, int last) {
  need_scope(p, in, isa::load3dv1::dst, kOnChip);
  for (int i = first; i <= last; ++i) need_scope(p, in, i, kOnChip);
  const Scope dst = p.buffers[in.tensors[isa::load3dv1::dst].buffer].scope;
  for (int i = first; i <= last; ++i) {
    if (p.buffers[in.tensors[size_t(i)].buffer].scope == dst) {
      refuse(p, in, "scope of dst", kScopeName[dst],
             std::string("another scope than ") + in.op->tensors[size_t(i)].name);
    }
  }
}

PadBlock pad_block(const Machine& m, const Instr& in, int tensor, int value) {
  const DType t = in.tensors[size_t(tensor)].dtype;
  PadBlock pad;
  uint8_t one[8];
  const int size = value_to_bits(m.value_arg(in, value, t), t, one);
  for (int i = 0; i < kBlockBytes; i += size) std::memcpy(pad.bytes + i, one, size_t(size));
  return pad;
}

void check_load3dv1(const Program& p, const Instr& in) {
  need_other_scope(p, in, isa::load3dv1::src, isa::load3dv1::src);
  need_same_dtype(p, in, isa::load3dv1::dst, isa::load3dv1::src);
}

void run_load3dv1(Machine& m, const Instr& in) {
  const Window w = Window::of_arguments(m, in, isa::load3dv1::pad_l);
  const int64_t repeat = ranged_arg(m, in, isa::load3dv1::repeat), c1 = ranged_arg(m, in, isa::load3dv1::c1),
                jump = ranged_arg(m, in, isa::load3dv1::jump);
  const Start s = start_of(m, in, w, isa::load3dv1::fetch_w);
  const PadBlock pad = pad_block(m, in, isa::load3dv1::dst, isa::load3dv1::pad_value);
  if (!repeat) return;
  uint8_t* dst = m.write(in, isa::load3dv1::dst, 0, wide_product(Wide(repeat - 1) * jump + 1, kFractalBytes));
  const bool along_m = in.attrs[isa::load3dv1::repeat_mode] == 1;
  const int64_t tap0 = (c1 * w.filter_h() + s.fetch_h) * w.filter_w() + s.fetch_w;
  std::vector<int64_t> blocks(size_t(repeat * kFractalSide), -1);
  Extent extent;
  for (int64_t r = 0; r < repeat; ++r) {
    const int64_t tap = tap0 + (along_m ? 0 : r), fw = tap % w.filter_w(), fh = tap / w.filter_w() % w.filter_h();
    for (int64_t i = 0; i < kFractalSide; ++i) {
      const Tap t = w.tap(w.place(i + (along_m ? r * kFractalSide : 0), s.first_w, s.first_h), fw, fh);
      if (!t.inside) continue;
      const int64_t block = w.block(t, tap / (w.filter_w() * w.filter_h()));
      blocks[size_t(r * kFractalSide + i)] = block;
      extent.add(block);
    }
  }
  const uint8_t* src = read_blocks(m, in, extent);
  for (int64_t r = 0; r < repeat; ++r) {
    for (int64_t i = 0; i < kFractalSide; ++i) {
      const int64_t block = blocks[size_t(r * kFractalSide + i)];
      std::memcpy(dst + r * jump * kFractalBytes + i * kBlockBytes, block < 0 ? pad.bytes : src + block * kBlockBytes,
                  size_t(kBlockBytes));
    }
  }
}

void check_load3dv2(const Program& p, const Instr& in) {
  need_other_scope(p, in, isa::load3dv1::src, isa::load3dv1::src);
  need_same_dtype(p, in, isa::load3dv2::dst, isa::load3dv2::src);
}

namespace {

// The window of the image-to-column matrix, rounded up to whole fractals.
struct Matrix {
  int64_t rows, columns, m_start, k_start, channels, k0;
  int layout;

  // Element of dst that holds entry (i, j) of the window.
  int64_t place(int64_t i, int64_t j) const {
    const int64_t outer = layout == 0 ? i : j, inner = layout == 0 ? j : i;
    const int64_t fractal = layout == 1 ? i / k0 * (columns / kFractalSide) + j / kFractalSide
                                        : outer / kFractalSide * ((layout == 0 ? columns : rows) / k0) + inner / k0;
    return (fractal * kFractalSide + outer % kFractalSide) * k0 + inner % k0;
  }
};

// For every row of the window and every block of k0 columns it touches: the block of src, or -1.
template <class Use>
void each_block(const Matrix& x, const Window& w, Use use) {
  const int64_t first = x.k_start / x.k0, last = (x.k_start + x.columns - 1) / x.k0;
  for (int64_t i = 0; i < x.rows; ++i) {
    const Pixel p = w.place(x.m_start + i, 0, 0);
    for (int64_t b = first; b <= last; ++b) {
      const int64_t fw = b % w.filter_w(), fh = b / w.filter_w() % w.filter_h();
      const int64_t c1 = b / (w.filter_w() * w.filter_h());
      const Tap t = w.tap(p, fw, fh);
      use(i, b, t.inside && c1 * x.k0 < x.channels ? w.block(t, c1) : -1);
    }
  }
}

}  // namespace

void run_load3dv2(Machine& m, const Instr& in) {
  Matrix x;
  x.layout = int(in.attrs[isa::load3dv2::layout]);
  x.channels = ranged_arg(m, in, isa::load3dv2::channels);
  const int64_t k_ext = ranged_arg(m, in, isa::load3dv2::k_ext), m_ext = ranged_arg(m, in, isa::load3dv2::m_ext);
  x.k_start = ranged_arg(m, in, isa::load3dv2::k_start);
  x.m_start = ranged_arg(m, in, isa::load3dv2::m_start);
  const Window w = Window::of_arguments(m, in, isa::load3dv2::pad_l);
  const int64_t size = in.tensors[isa::load3dv2::dst].size;
  x.k0 = kBlockBytes / size;
  if (x.channels % x.k0) {
    m.refuse(in, "channels", std::to_string(x.channels), format("a multiple of %lld", (long long)x.k0));
  }
  if (!x.channels || !k_ext || !m_ext) return;
  x.rows = round_up(m_ext, x.layout == 0 ? kFractalSide : x.k0);
  x.columns = round_up(k_ext, x.layout == 0 ? x.k0 : kFractalSide);
  uint8_t* dst = m.write(in, isa::load3dv2::dst, 0, wide_product(Wide(x.rows) * x.columns, size));
  Extent extent;
  each_block(x, w, [&](int64_t, int64_t, int64_t block) {
    if (block >= 0) extent.add(block);
  });
  const uint8_t* src = read_blocks(m, in, extent);
  const PadBlock pad = pad_block(m, in, isa::load3dv2::dst, isa::load3dv2::pad_value);
  each_block(x, w, [&](int64_t i, int64_t b, int64_t block) {
    const uint8_t* from = block < 0 ? pad.bytes : src + block * kBlockBytes;
    for (int64_t c = 0; c < x.k0; ++c) {
      const int64_t j = b * x.k0 + c - x.k_start;
      if (j >= 0 && j < x.columns) std::memcpy(dst + x.place(i, j) * size, from + c * size, size_t(size));
    }
  });
}

void check_col2img(const Program& p, const Instr& in) {
  need_scope(p, in, isa::col2img::dst, kOnChip);
  need_scope(p, in, isa::col2img::src, kOnChip);
  need_dtype(p, in, isa::col2img::src, bit(F16) | bit(F32));
  need_same_dtype(p, in, isa::col2img::src, isa::col2img::dst);
}

void run_col2img(Machine& m, const Instr& in) {
  const Window w = Window::of_arguments(m, in, isa::col2img::pad_l);
  const int64_t repeat = ranged_arg(m, in, isa::col2img::repeat);
  const Start s = start_of(m, in, w, isa::col2img::fetch_w);
  if (!repeat) return;
  const DType t = in.tensors[isa::col2img::dst].dtype;
  const int64_t size = kSize[t], row = kFractalSide * size, pixels = repeat * kFractalSide;
  const uint8_t* src = m.read(in, isa::col2img::src, 0, Wide(pixels) * row);
  std::vector<int64_t> places(size_t(pixels), -1);
  Extent extent;
  for (int64_t p = 0; p < pixels; ++p) {
    const Tap tap = w.tap(w.place(p, s.first_w, s.first_h), s.fetch_w, s.fetch_h);
    if (!tap.inside) continue;
    places[size_t(p)] = w.block(tap, 0);
    extent.add(places[size_t(p)]);
  }
  if (extent.empty()) return;
  uint8_t* dst = m.write(in, isa::col2img::dst, Wide(extent.low) * row, Wide(extent.high + 1) * row);
  uint8_t* rows = m.arena.scratch(0, pixels * row);
  std::memcpy(rows, src, size_t(pixels * row));
  for (int64_t p = 0; p < pixels; ++p) {
    if (places[size_t(p)] < 0) continue;
    uint8_t* to = dst + places[size_t(p)] * row;
    const uint8_t* from = rows + p * row;
    for (int64_t c = 0; c < row; c += size) {
      store_float(to + c, load_float(to + c, t) + load_float(from + c, t), t, m.saturate);
    }
  }
}

}  // namespace mco
