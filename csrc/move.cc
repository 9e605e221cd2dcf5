// SPDX-License-Identifier: Apache-2.0
// Data moves of bytes. Gaps run from the end of one burst to the start of the next; bursts run in order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "handlers.h"
#include "number.h"

namespace mco {

namespace {

struct Bursts {
  int64_t count, length, step;  // bytes accessed, distance of the heads

  Wide extent() const { return count == 0 || length == 0 ? Wide(0) : Wide(count - 1) * step + length; }
};

// Distance of bursts: length + gap; refused when it leaves 63 bits (nothing so far apart lies in one tensor).
int64_t step_of(const Machine& m, const Instr& in, int64_t length, int64_t gap) {
  int64_t step;
  if (__builtin_add_overflow(length, gap, &step)) {
    m.refuse(in, "burst and gap", format("%lld and %lld", (long long)length, (long long)gap), "a sum below 2**63");
  }
  return step;
}

void copy_bursts(uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step, int64_t count, int64_t length) {
  if (dst_step == length && src_step == length) {
    if (dst + count * length <= src || src + count * length <= dst) {
      std::memcpy(dst, src, size_t(count * length));
      return;
    }
  }
  if (length == 32 || length == 64 || length == 128 || length == 256) {
    return kernels().copy_bursts(dst, dst_step, src, src_step, count, length);
  }
  for (int64_t n = 0; n < count; ++n) std::memmove(dst + n * dst_step, src + n * src_step, size_t(length));
}

void land(Machine& m, const Instr& in, uint8_t* dst, int64_t dst_step, const uint8_t* src, int64_t src_step,
          int64_t count, int64_t length) {
  const bool adds = m.atomic != kDTypes && m.scope(in, isa::data_move::dst) == GM;
  if (!adds) return copy_bursts(dst, dst_step, src, src_step, count, length);
  if (dst_step == length && src_step == length) {
    m.to_gm(in, isa::data_move::dst, dst, src, count * length);
    return;
  }
  for (int64_t n = 0; n < count; ++n) m.to_gm(in, isa::data_move::dst, dst + n * dst_step, src + n * src_step, length);
}

// Bursts of which some end behind the GM tensor on one side: what is read there is zero, what is written there is
// dropped.
void move_to_tail(Machine& m, const Instr& in, uint8_t* dst, int64_t dst_step, int64_t dst_room, const uint8_t* src,
                  int64_t src_step, int64_t src_room, int64_t count, int64_t length) {
  const auto held = [length](int64_t room, Wide first) { return int64_t(std::clamp<Wide>(room - first, 0, length)); };
  for (int64_t n = 0; n < count; ++n) {
    const int64_t have = held(src_room, Wide(n) * src_step), take = held(dst_room, Wide(n) * dst_step);
    if (dst_room != INT64_MAX) {
      if (take) land(m, in, dst + n * dst_step, take, src + n * src_step, take, 1, take);
      continue;
    }
    uint8_t* to = dst + n * dst_step;
    if (have) std::memmove(to, src + n * src_step, size_t(have));
    std::memset(to + have, 0, size_t(length - have));
  }
}

}  // namespace

void check_data_move(const Program& p, const Instr& in) {
  need_scope(p, in, isa::data_move::dst, bit(GM) | kOnChip);
  if (p.buffers[in.tensors[isa::data_move::dst].buffer].scope == GM) need_scope(p, in, isa::data_move::src, kOnChip);
}

void run_data_move(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, isa::data_move::nburst), length = m.arg(in, isa::data_move::burst);
  const int64_t src_step = step_of(m, in, length, m.arg(in, isa::data_move::src_gap)),
                dst_step = step_of(m, in, length, m.arg(in, isa::data_move::dst_gap));
  const Bursts from{count, length, src_step}, to{count, length, dst_step};
  int64_t src_room, dst_room;
  const uint8_t* src = m.move_operand(in, isa::data_move::src, from.extent(), false, src_room);
  uint8_t* dst = m.move_operand(in, isa::data_move::dst, to.extent(), true, dst_room);
  if (to.extent() == 0) return;
  if (src_room != INT64_MAX || dst_room != INT64_MAX) {
    return move_to_tail(m, in, dst, dst_step, dst_room, src, src_step, src_room, count, length);
  }
  land(m, in, dst, dst_step, src, src_step, count, length);
}

void check_move_pad(const Program& p, const Instr& in) {
  const bool to_gm = p.buffers[in.tensors[isa::data_move_pad::dst].buffer].scope == GM;
  need_scope(p, in, isa::data_move_pad::src, to_gm ? kOnChip : bit(GM) | kOnChip);
}

// GM to UB: runs of whole 32-byte blocks, padded on both sides.
static void move_in(Machine& m, const Instr& in, int64_t count, int64_t burst, int64_t src_gap, int64_t dst_gap) {
  const DType t = in.tensors[isa::data_move_pad::dst].dtype;
  const int size = in.tensors[isa::data_move_pad::dst].size;
  const Wide left = Wide(m.arg(in, isa::data_move_pad::left_pad)) * size,
             right = Wide(m.arg(in, isa::data_move_pad::right_pad)) * size;
  const Wide whole = (left + burst + right + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  if (whole > INT64_MAX / 2) m.refuse(in, "burst and padding", "more than 2**62 bytes", "fewer");
  uint8_t pad[8];
  value_to_bits(m.value_arg(in, isa::data_move_pad::pad_value, t), t, pad);
  const Bursts from{count, burst, step_of(m, in, burst, src_gap)};
  const Bursts to{count, int64_t(whole), step_of(m, in, int64_t(whole), dst_gap)};
  const uint8_t* src = m.read(in, isa::data_move_pad::src, 0, from.extent());
  uint8_t* dst = m.write(in, isa::data_move_pad::dst, 0, to.extent());
  if (to.extent() == 0) return;
  const int64_t head = int64_t(left), tail = int64_t(right), end = head + burst + tail;
  for (int64_t n = 0; n < count; ++n, dst += to.step) {
    if (burst) std::memmove(dst + head, src + n * from.step, size_t(burst));
    for (int64_t i = 0; i < head; i += size) std::memcpy(dst + i, pad, size_t(size));
    for (int64_t i = head + burst; i < end; i += size) std::memcpy(dst + i, pad, size_t(size));
    std::memset(dst + end, 0, size_t(to.length - end));
  }
}

void run_move_pad(Machine& m, const Instr& in) {
  const int64_t count = m.arg(in, isa::data_move_pad::nburst), burst = m.arg(in, isa::data_move_pad::burst),
                src_gap = m.arg(in, isa::data_move_pad::src_gap), dst_gap = m.arg(in, isa::data_move_pad::dst_gap);
  if (m.scope(in, isa::data_move_pad::dst) != GM) return move_in(m, in, count, burst, src_gap, dst_gap);
  const int64_t left = m.arg(in, isa::data_move_pad::left_pad), right = m.arg(in, isa::data_move_pad::right_pad);
  if (left || right) {
    m.refuse(in, "padding of a move to GM", format("%lld and %lld elements", (long long)left, (long long)right),
             "none");
  }
  if (burst > INT64_MAX - kBlockBytes) m.refuse(in, "burst", std::to_string(burst), "fewer bytes");
  const Bursts from{count, burst, step_of(m, in, round_up(burst, kBlockBytes), src_gap)};
  const Bursts to{count, burst, step_of(m, in, burst, dst_gap)};
  const uint8_t* src = m.read(in, isa::data_move_pad::src, 0, from.extent());
  uint8_t* dst = m.write(in, isa::data_move_pad::dst, 0, to.extent());
  if (to.extent() == 0) return;
  land(m, in, dst, to.step, src, from.step, count, burst);
}

void check_nd2nz(const Program& p, const Instr& in) {
  need_scope(p, in, isa::nd2nz::dst, kOnChip);
  need_same_dtype(p, in, isa::nd2nz::dst, isa::nd2nz::src);
}

void run_nd2nz(Machine& m, const Instr& in) {
  const int64_t matrices = m.arg(in, isa::nd2nz::nd_num), rows = m.arg(in, isa::nd2nz::nd_n),
                columns = m.arg(in, isa::nd2nz::nd_d);
  const int64_t src_nd = m.arg(in, isa::nd2nz::src_nd_stride), src_n = m.arg(in, isa::nd2nz::src_n_stride);
  const int64_t dst_c0 = m.arg(in, isa::nd2nz::dst_c0_stride), dst_n = m.arg(in, isa::nd2nz::dst_n_stride),
                dst_nd = m.arg(in, isa::nd2nz::dst_nd_stride);
  if (!matrices || !rows || !columns) return;
  const int size = in.tensors[isa::nd2nz::dst].size;
  int64_t whole, tail;  // blocks of a row, and bytes behind them
  Wide src_end, dst_end;
  constexpr int kFewBits = 24;  // of numbers whose products stay within 63 bits
  const bool few = (matrices | rows | columns | src_nd | src_n | dst_c0 | dst_n | dst_nd) >> kFewBits == 0;
  if (few) {
    const int64_t bytes = columns * size;
    whole = bytes / kBlockBytes;
    tail = bytes % kBlockBytes;
    src_end = ((matrices - 1) * src_nd + (rows - 1) * src_n + columns) * size;
    dst_end =
        (matrices - 1) * dst_nd * size + ((whole + (tail != 0) - 1) * dst_c0 + (rows - 1) * dst_n + 1) * kBlockBytes;
  } else {
    const int64_t k0 = kBlockBytes / size, blocks = ceil_div(columns, k0);
    whole = columns / k0;
    tail = columns % k0 * size;
    src_end = wide_product(wide_product(matrices - 1, src_nd) + wide_product(rows - 1, src_n) + columns, size);
    dst_end = wide_product(wide_product(matrices - 1, dst_nd), size) +
              wide_product(wide_product(blocks - 1, dst_c0) + wide_product(rows - 1, dst_n) + 1, kBlockBytes);
  }
  const uint8_t* src = m.read(in, isa::nd2nz::src, 0, src_end);
  uint8_t* dst = m.write(in, isa::nd2nz::dst, 0, dst_end);
  // Column by column where the order cannot be told: every block has a place of its own, and none is read.
  if (few && !tail && rows > 1 && m.scope(in, isa::nd2nz::src) == GM && dst_n > 0 && dst_c0 >= rows * dst_n) {
    for (int64_t q = 0; q < matrices; ++q) {
      m.kernels.copy_grid({dst + q * dst_nd * size, src + q * src_nd * size, whole, rows, kBlockBytes,
                           dst_c0 * kBlockBytes, dst_n * kBlockBytes, kBlockBytes, src_n * size});
    }
    return;
  }
  for (int64_t q = 0; q < matrices; ++q) {
    for (int64_t n = 0; n < rows; ++n) {
      const uint8_t* from = src + (q * src_nd + n * src_n) * size;
      uint8_t* to = dst + q * dst_nd * size + n * dst_n * kBlockBytes;
      for (int64_t b = 0; b < whole; ++b) {
        std::memcpy(to + b * dst_c0 * kBlockBytes, from + b * kBlockBytes, size_t(kBlockBytes));
      }
      if (!tail) continue;
      uint8_t last[kBlockBytes] = {};
      std::memcpy(last, from + whole * kBlockBytes, size_t(tail));
      std::memcpy(to + whole * dst_c0 * kBlockBytes, last, sizeof last);
    }
  }
}

}  // namespace mco
