// SPDX-License-Identifier: Apache-2.0
// Geometry of a convolution: where output pixels and filter taps lie in a padded feature map of 32-byte blocks.
#pragma once

#include "handlers.h"

namespace mco {

// Value of an argument that must lie in the range its name has (ms_custom_ops/engine/reference/img2col.py).
int64_t ranged(const Machine& m, const Instr& in, const char* name, int64_t value);
int64_t ranged_arg(const Machine& m, const Instr& in, const char* name);

struct Tap {
  int64_t column, row;  // in the map
  bool inside;
};

struct Pixel {
  int64_t x, y;  // of the window in the padded map
};

struct Window {
  // pad_l pad_r pad_t pad_b l1_h l1_w stride_w stride_h filter_w filter_h dilation_w dilation_h
  int64_t v[12];
  int64_t last_x, last_y, out_w, out_h;

  static Window of(const Machine& m, const Instr& in, bool attributes);

  int64_t height() const { return v[4]; }
  int64_t width() const { return v[5]; }
  int64_t filter_w() const { return v[8]; }
  int64_t filter_h() const { return v[9]; }

  // Window number `pixel`, counted from the one at (first_w, first_h).
  Pixel place(int64_t pixel, int64_t first_w, int64_t first_h) const {
    const int64_t in_row = (last_x - first_w) / v[6] + 1, later = pixel - in_row;
    if (later < 0) return {first_w + pixel * v[6], first_h};
    return {later % out_w * v[6], first_h + (1 + later / out_w) * v[7]};
  }

  Tap tap(Pixel p, int64_t fw, int64_t fh) const {
    const int64_t column = p.x + fw * v[10] - v[0], row = p.y + fh * v[11] - v[2];
    return {column, row, column >= 0 && column < width() && row >= 0 && row < height() && p.y <= last_y};
  }

  // Number of the block under a tap in [C1, height, width].
  int64_t block(const Tap& t, int64_t c1) const { return (c1 * height() + t.row) * width() + t.column; }
};

// First window and filter tap of load3dv1 and col2img.
struct Start {
  int64_t first_w, first_h, fetch_w, fetch_h;
};
Start start_of(const Machine& m, const Instr& in, const Window& w);

// Refused unless dst is on the chip and in another buffer than each of the sources from `first` to `last`.
void need_other_scope(const Program& p, const Instr& in, int first, int last);

// 32 bytes of a value.
struct PadBlock {
  uint8_t bytes[kBlockBytes];
};
PadBlock pad_block(const Machine& m, const Instr& in, int tensor);

}  // namespace mco
