// SPDX-License-Identifier: Apache-2.0
// Geometry of a convolution: where output pixels and filter taps lie in a padded feature map of 32-byte blocks.
#pragma once

#include <array>

#include "handlers.h"

namespace mco {

// pad_l pad_r pad_t pad_b l1_h l1_w stride_w stride_h filter_w filter_h dilation_w dilation_h follow each other.
constexpr int kWindowValues = isa::conv2d::dilation_h - isa::conv2d::pad_l + 1;
static_assert(isa::load3dv1::dilation_h - isa::load3dv1::pad_l + 1 == kWindowValues &&
                  isa::load3dv2::dilation_h - isa::load3dv2::pad_l + 1 == kWindowValues &&
                  isa::col2img::dilation_h - isa::col2img::pad_l + 1 == kWindowValues,
              "one order in every instruction");

struct Tap {
  int64_t column, row;  // in the map
  bool inside;
};

struct Pixel {
  int64_t x, y;  // of the window in the padded map
};

struct Window {
  std::array<int64_t, kWindowValues> v;
  int64_t last_x, last_y, out_w, out_h;

  // From the arguments or the attributes, of which the first is number `pad_l`.
  static Window of_arguments(const Machine& m, const Instr& in, int pad_l);
  static Window of_attributes(const Machine& m, const Instr& in, int pad_l);

  int64_t height() const { return at(isa::conv2d::l1_h); }
  int64_t width() const { return at(isa::conv2d::l1_w); }
  int64_t pad_l() const { return at(isa::conv2d::pad_l); }
  int64_t pad_r() const { return at(isa::conv2d::pad_r); }
  int64_t pad_t() const { return at(isa::conv2d::pad_t); }
  int64_t pad_b() const { return at(isa::conv2d::pad_b); }
  int64_t stride_w() const { return at(isa::conv2d::stride_w); }
  int64_t stride_h() const { return at(isa::conv2d::stride_h); }
  int64_t filter_w() const { return at(isa::conv2d::filter_w); }
  int64_t filter_h() const { return at(isa::conv2d::filter_h); }
  int64_t dilation_w() const { return at(isa::conv2d::dilation_w); }
  int64_t dilation_h() const { return at(isa::conv2d::dilation_h); }

  // Window number `pixel`, counted from the one at (first_w, first_h).
  Pixel place(int64_t pixel, int64_t first_w, int64_t first_h) const {
    const int64_t in_row = (last_x - first_w) / stride_w() + 1, later = pixel - in_row;
    if (later < 0) return {first_w + pixel * stride_w(), first_h};
    return {later % out_w * stride_w(), first_h + (1 + later / out_w) * stride_h()};
  }

  Tap tap(Pixel p, int64_t fw, int64_t fh) const {
    const int64_t column = p.x + fw * dilation_w() - pad_l(), row = p.y + fh * dilation_h() - pad_t();
    return {column, row, column >= 0 && column < width() && row >= 0 && row < height() && p.y <= last_y};
  }

  // Number of the block under a tap in [C1, height, width].
  int64_t block(const Tap& t, int64_t c1) const { return (c1 * height() + t.row) * width() + t.column; }

 private:
  int64_t at(int attribute) const { return v[size_t(attribute - isa::conv2d::pad_l)]; }
};

// First window and filter tap of load3dv1 and col2img.
struct Start {
  int64_t first_w, first_h, fetch_w, fetch_h;
};
Start start_of(const Machine& m, const Instr& in, const Window& w, int fetch_w);

// Refused unless dst is on the chip and in another buffer than each of the sources from `first` to `last`.
void need_other_scope(const Program& p, const Instr& in, int first, int last);

// 32 bytes of a value.
struct PadBlock {
  uint8_t bytes[kBlockBytes];
};
// Of argument `value`, in the dtype of an operand.
PadBlock pad_block(const Machine& m, const Instr& in, int tensor, int value);

}  // namespace mco
