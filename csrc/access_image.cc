// SPDX-License-Identifier: Apache-2.0
// Access of image-to-column instructions: program/access/image.py. The geometry is the engine's own (window.h).
#include <cstring>

#include "access.h"
#include "window.h"

namespace mco::access::image {

namespace {

constexpr int64_t kMostTaps = int64_t(1) << 22;  // more are not looked at one by one

bool is(const Use& use, int operand, const char* name) { return !std::strcmp(use.name(operand), name); }

// Number of the block under tap number `tap` (along filter_w, then filter_h, then channel blocks); -1: in the padding.
int64_t block_under(const Window& w, Pixel p, int64_t tap) {
  const Tap t = w.tap(p, tap % w.filter_w(), tap / w.filter_w() % w.filter_h());
  return t.inside ? w.block(t, tap / (w.filter_w() * w.filter_h())) : -1;
}

// Too many taps: the whole map, inexactly.
bool too_many(const Window& w, Wide taps, int64_t channels, int64_t unit, Touched& out) {
  if (taps <= kMostTaps) return false;
  out.add(0, channels * w.height() * w.width() * unit);
  out.exact = false;
  return true;
}

}  // namespace

void load3dv1(const Use& use, int operand, Touched& out) {
  const int64_t repeat = use.arg("repeat");
  if (is(use, operand, "dst")) return out.add(0, kFractalBytes, repeat, use.arg("jump") * kFractalBytes);
  const Window w = Window::of_arguments(use.machine, use.in, isa::load3dv1::pad_l);
  const Start s = start_of(use.machine, use.in, w, isa::load3dv1::fetch_w);
  const int64_t first = (use.arg("c1") * w.filter_h() + s.fetch_h) * w.filter_w() + s.fetch_w;
  const bool along_m = use.attr("repeat_mode") == 1;
  std::vector<int64_t> starts;
  for (int64_t r = 0; r < repeat; ++r) {
    for (int64_t i = 0; i < kFractalSide; ++i) {
      const Pixel p = w.place(i + (along_m ? kFractalSide * r : 0), s.first_w, s.first_h);
      const int64_t block = block_under(w, p, first + (along_m ? 0 : r));
      if (block >= 0) starts.push_back(block * kBlockBytes);
    }
  }
  out.scatter(starts, kBlockBytes);
}

void load3dv2(const Use& use, int operand, Touched& out) {
  const int64_t channels = use.arg("channels"), k_ext = use.arg("k_ext"), m_ext = use.arg("m_ext");
  if (!channels || !k_ext || !m_ext) return;
  const int64_t size = use.size(operand), k0 = kBlockBytes / size;
  const bool plain = use.attr("layout") == 0;
  const int64_t rows = round_up(m_ext, plain ? kFractalSide : k0), cols = round_up(k_ext, plain ? k0 : kFractalSide);
  if (is(use, operand, "dst")) return out.add(0, rows * cols * size);
  const Window w = Window::of_arguments(use.machine, use.in, isa::load3dv2::pad_l);
  if (too_many(w, Wide(rows) * cols, ceil_div(channels, k0), kBlockBytes, out)) return;
  const int64_t m_start = use.arg("m_start"), k_start = use.arg("k_start"), taps = w.filter_w() * w.filter_h();
  std::vector<int64_t> starts;
  for (int64_t row = 0; row < rows; ++row) {
    const Pixel p = w.place(m_start + row, 0, 0);
    for (int64_t k = k_start; k < k_start + cols; ++k) {
      if (k / k0 / taps * k0 >= channels) break;
      const int64_t block = block_under(w, p, k / k0);
      if (block >= 0) starts.push_back(block * kBlockBytes + k % k0 * size);
    }
  }
  out.scatter(starts, size);
}

void col2img(const Use& use, int operand, Touched& out) {
  const int64_t row = kFractalSide * use.size(operand), pixels = use.arg("repeat") * kFractalSide;
  if (is(use, operand, "src")) return out.add(0, pixels * row);
  const Window w = Window::of_arguments(use.machine, use.in, isa::col2img::pad_l);
  const Start s = start_of(use.machine, use.in, w, isa::col2img::fetch_w);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < pixels; ++i) {
    const int64_t block = block_under(w, w.place(i, s.first_w, s.first_h), s.fetch_h * w.filter_w() + s.fetch_w);
    if (block >= 0) starts.push_back(block * row);
  }
  out.scatter(starts, row);
}

void conv2d(const Use& use, int operand, Touched& out) {
  const int64_t c1 = use.attr("c1"), cout = use.attr("cout"), size = use.size(operand);
  if (!c1 || !cout) return;
  const Window w = Window::of_attributes(use.machine, use.in, isa::conv2d::pad_l);
  const int64_t rows = round_up(w.out_w * w.out_h, kFractalSide), taps = c1 * w.filter_w() * w.filter_h();
  if (is(use, operand, "dst")) return out.add(0, rows * cout * size);
  if (is(use, operand, "weight")) return out.add(0, taps * cout * kBlockBytes);
  if (too_many(w, Wide(rows) * taps, c1, kBlockBytes, out)) return;
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < rows; ++i) {
    const Pixel p = w.place(i, 0, 0);
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t block = block_under(w, p, tap);
      if (block >= 0) starts.push_back(block * kBlockBytes);
    }
  }
  out.scatter(starts, kBlockBytes);
}

}  // namespace mco::access::image
