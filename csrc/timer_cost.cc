// SPDX-License-Identifier: Apache-2.0
// What an instruction costs alone: by its row, its shape and the way it moves bytes.
#include <algorithm>

#include "handlers.h"
#include "lanes.h"
#include "timer.h"

namespace mco {

namespace {

int64_t ceil_of(int64_t value, int64_t unit) { return value <= 0 ? 0 : ceil_div(value, unit); }

// Bytes that GM serves for `count` runs of `length` bytes `step` apart from address `at` on.
double served(const Chip& chip, int64_t at, int64_t count, int64_t length, int64_t step, double unaligned) {
  if (count <= 0 || length <= 0) return 0;
  if (step == length) {
    length *= count;
    count = 1;
    step = 0;
  }
  const int64_t granule = int64_t(chip.granule), line = int64_t(chip.line);
  const double each = double(round_up(length, granule));
  const double whole = double(count) * (count > 1 ? std::max(each, chip.burst) : each);
  const bool off = length >= line && (at % line != 0 || (count > 1 && step % line != 0));
  return off ? whole * unaligned : whole;
}

void through_gm(Work& w, const Chip& chip, bool to_gm, double rate, double gm_bytes) {
  w.gm = true;
  w.to_gm = to_gm;
  w.rate = rate;
  w.gm_bytes = gm_bytes;
  w.waste = w.bytes > 0 ? gm_bytes / double(w.bytes) : 1;
  w.gap = chip.move_gap;
  w.latency = to_gm ? chip.mte3_latency : chip.mte2_latency;
}

double on_chip_rate(const Chip& chip, Scope dst, Scope src) {
  if (dst == BT) return chip.l1_bt;
  if (dst == L0A) return chip.l1_l0a;
  if (dst == L0B) return chip.l1_l0b;
  if (src == L0C || dst == L0C) return chip.l0c_ub;
  if (dst == L1) return chip.ub_l1;
  return src == L1 ? chip.l1_ub : chip.ub_ub;
}

void move(Work& w, const Machine& m, const Instr& in, const Chip& chip, bool pad) {
  const int64_t count = m.arg(in, isa::data_move::nburst), length = m.arg(in, isa::data_move::burst);
  const int64_t gap = m.arg(in, w.src == GM ? isa::data_move::src_gap : isa::data_move::dst_gap);
  w.bytes = count * length;
  if (w.src != GM && w.dst != GM) {
    const double time = std::max(double(count), double(w.bytes) / on_chip_rate(chip, w.dst, w.src));
    w.occupies = time;
    w.lasts = time + chip.on_chip_latency;
    return;
  }
  const bool to_gm = w.dst == GM;
  const int64_t at = m.view(in.tensors[to_gm ? 0 : 1].buffer).size ? m.place(in, to_gm ? 0 : 1) : 0;
  const double rate = to_gm ? (w.src == UB ? chip.ub_gm : chip.l1_gm) : w.dst == UB ? chip.gm_ub : chip.gm_l1;
  through_gm(w, chip, to_gm, rate, served(chip, at, count, length, length + gap, pad ? 1 : chip.unaligned));
  w.occupies = w.lasts = double(count);
}

void nd2nz(Work& w, const Machine& m, const Instr& in, const Chip& chip) {
  using namespace isa::nd2nz;
  const int64_t size = in.tensors[0].size, count = m.arg(in, nd_num), rows = m.arg(in, nd_n);
  const int64_t row = m.arg(in, nd_d) * size, stride = m.arg(in, src_n_stride) * size;
  w.bytes = count * rows * row;
  const double factor = stride % kBlockBytes ? chip.nd2nz_unaligned : 1;
  through_gm(w, chip, false, chip.nd2nz, double(count) * served(chip, 0, rows, row, stride, 1) * factor);
}

void load_l0(Work& w, const Chip& chip, int64_t fractals, double latency, double gap) {
  w.bytes = fractals * kFractalBytes;
  if (w.src == GM) return through_gm(w, chip, false, chip.gm_l1, double(w.bytes));
  const double time = double(w.bytes) / on_chip_rate(chip, w.dst, w.src);
  w.occupies = time + gap;
  w.lasts = time + latency;
}

void product(Work& w, const Chip& chip, int64_t m, int64_t k, int64_t n, int64_t size) {
  const double tiles =
      double(ceil_of(m, kFractalSide)) * double(ceil_of(k, kBlockBytes / size)) * double(ceil_of(n, kFractalSide));
  const double time = tiles * (size == 4 ? chip.mmad_float32 : 1);
  w.macs = m * k * n;
  w.cube =
      double(w.macs) * double(size) / (double(kBlockBytes) * kFractalElements) * (size == 4 ? chip.mmad_float32 : 1);
  w.occupies = time + chip.mmad_head;
  w.lasts = time + chip.mmad_alone;
}

// Products of L1 operands, which are loaded into L0 on the way.
void whole_product(Work& w, const Chip& chip, int64_t m, int64_t k, int64_t n, int64_t size) {
  product(w, chip, m, k, n, size);
  const double loads = double(m * k * size) / chip.l1_l0a + double(k * n * size) / chip.l1_l0b;
  w.occupies = std::max(w.occupies, loads) + chip.load2d_latency;
  w.lasts = std::max(w.lasts, loads) + chip.load2d_latency;
}

void convolution(Work& w, const Instr& in, const Chip& chip) {
  using namespace isa::conv2d;
  const auto attr = [&](int i) { return in.attrs[size_t(i)]; };
  const int64_t size = in.tensors[1].size;
  const auto out = [&](int64_t side, int64_t pads, int64_t filter, int64_t dilation, int64_t stride) {
    return std::max<int64_t>((side + pads - (filter - 1) * dilation - 1) / std::max<int64_t>(stride, 1) + 1, 0);
  };
  const int64_t pixels = out(attr(l1_h), attr(pad_t) + attr(pad_b), attr(filter_h), attr(dilation_h), attr(stride_h)) *
                         out(attr(l1_w), attr(pad_l) + attr(pad_r), attr(filter_w), attr(dilation_w), attr(stride_w));
  whole_product(w, chip, pixels, attr(c1) * attr(filter_h) * attr(filter_w) * (kBlockBytes / size), attr(cout), size);
}

void fix(Work& w, const Machine& m, const Instr& in, const Chip& chip) {
  using namespace isa::fixpipe;
  const int64_t count = m.arg(in, cburst_num), elements = m.arg(in, burst_len) / in.tensors[1].size;
  const int64_t length = elements * in.tensors[0].size;
  w.bytes = count * length;
  const double time = double(count * elements) / chip.fix_elements;
  if (w.dst == GM) {
    through_gm(w, chip, true, chip.fix_gm,
               served(chip, m.place(in, 0), count, length, length + m.arg(in, dst_gap), chip.unaligned));
    w.gap = 0;
    w.latency = chip.fix_latency;
  }
  w.occupies = time;
  w.lasts = time + (w.dst == GM ? 0 : chip.fix_latency);
}

// Matrices out of L0C: rows, or columns of fractals, each a burst.
void fix_matrix(Work& w, const Machine& m, const Instr& in, const Chip& chip) {
  using namespace isa::l0c_matrix;
  const int64_t rows = m.arg(in, isa::l0c_matrix::rows), across = m.arg(in, columns), wide = in.attrs[width];
  const int64_t size = in.tensors[dst].size, elements = m.arg(in, matrices) * rows * across;
  const int64_t bursts = m.arg(in, matrices) * (wide ? ceil_of(across, wide) : rows);
  const int64_t length = (wide ? rows * wide : across) * size;
  w.bytes = elements * size;
  const double time = double(elements) / chip.fix_elements;
  if (w.dst == GM) {
    through_gm(w, chip, true, chip.fix_gm,
               served(chip, m.place(in, dst), bursts, length, m.arg(in, dst_stride), chip.unaligned));
    w.gap = 0;
    w.latency = chip.fix_latency;
  }
  w.occupies = time;
  w.lasts = time + (w.dst == GM ? 0 : chip.fix_latency);
}

// Units of 256 elements out of or into L0C.
void l0c_move(Work& w, const Instr& in, int64_t fractals, const Chip& chip, double startup) {
  const int64_t size = std::max(in.tensors[0].size, in.tensors[1].size);
  w.bytes = fractals * kFractalElements * size;
  const double time = double(w.bytes) / chip.l0c_ub;
  w.occupies = time;
  w.lasts = time + startup;
}

// Of vreduce: in counter mode the mask is a number of elements of each repeat.
int64_t compaction_repeats(const Machine& m, const Instr& in, int64_t lanes) {
  using namespace isa::vreduce;
  const int64_t kind = in.attrs[mask_kind], times = m.arg(in, repeat);
  if (kind == kMaskCount) return times;
  return ceil_of(m.raw_arg(in, mask0), lanes) * (kind == kMaskCounter ? 1 : times);
}

void vector(Work& w, const Machine& m, const Instr& in, const Costs& costs, const RowCost& row, const Shifts& shifts) {
  int widest = 1;
  for (const Operand& o : in.tensors) widest = std::max(widest, std::min<int>(o.size, 4));
  int64_t repeats = 1;
  if (in.op->run == run_vreduce) {
    repeats = compaction_repeats(m, in, kVectorBytes / in.tensors[isa::vreduce::src0].size);
  } else if (in.op->shape.operands > 0) {
    PlanRoom room;
    const Plan& plan = plan_of(m, in, room);
    repeats = plan.empty() ? 0 : plan.repeats;
    if (!plan.by_bits && repeats)
      w.vector_bytes = ((repeats - 1) * plan.count + plan.last) * (kVectorBytes / plan.lanes);
    widest = int(kVectorBytes / plan.lanes);
  } else if (in.op->shape.repeat >= 0) {
    repeats = m.arg(in, in.op->shape.repeat);
  }
  w.bank = repeats ? bank_cycles(m, in, costs.chip, shifts) : 0;
  const double time = double(repeats) * row.cycles[widest == 1 ? 0 : widest == 2 ? 1 : 2] + w.bank;
  w.occupies = time + (repeats ? costs.chip.vector_gap : 0);
  w.lasts = time + (repeats ? row.startup : 0);
}

int lane_of(const Work& w, int pipe, bool split) {
  if (split && pipe == kMte2 && w.dst != UB) return kCubeMte2;
  if (split && pipe == kMte3 && w.src == L1) return kCubeMte3;
  return pipe;
}

}  // namespace

Work library_work(const Costs& costs, Scope dst, double bytes, double most, bool scratch) {
  const Chip& chip = costs.chip;
  Work w;
  w.dst = dst;
  w.src = UB;
  if (dst == GM) {
    w.lane = kMte3;
    w.bytes = int64_t(bytes);
    through_gm(w, chip, true, chip.ub_gm, bytes);
    w.occupies = w.lasts = 1;
    return w;
  }
  w.lane = kV;
  w.vector_bytes = int64_t(bytes);
  const double each = costs.of(find_op("vadd")).startup + std::max(bytes, most) / double(kVectorBytes);
  w.occupies = w.lasts = (scratch ? 1 : chip.library) * each;
  return w;
}

Work work_of(const Machine& m, const Instr& in, const Costs& costs, const Shifts& shifts) {
  const Chip& chip = costs.chip;
  const RowCost& row = costs.of(in.op);
  Work w;
  if (in.tensors.size() > 0) w.dst = m.scope(in, 0);
  w.src = in.tensors.size() > 1 ? m.scope(in, 1) : w.dst;
  int pipe = row.pipe >= 0 ? row.pipe : costs.route[w.dst][w.src];
  if (pipe < 0 && (w.dst == SMASK || w.src == SMASK)) pipe = kV;  // the mask of comparisons, beside the vector unit
  // What the library of Ascend C hands from one core of a split chip to another goes through GM and back.
  const bool handed = pipe < 0 && chip.split != 0 && ((w.dst == UB && w.src == L0C) || (w.dst == L1 && w.src == UB));
  if (handed) pipe = w.src == L0C ? kFix : kMte2;
  if (pipe < 0) {
    m.refuse(in, "route", std::string(kScopeName[w.src]) + " to " + kScopeName[w.dst], "a route of the chip");
  }
  w.lane = lane_of(w, pipe, chip.split != 0);
  const Handler run = in.op->run;
  if (run == run_data_move || run == run_move_pad) {
    move(w, m, in, chip, run == run_move_pad);
  } else if (run == run_nd2nz) {
    nd2nz(w, m, in, chip);
  } else if (run == run_load2d) {
    load_l0(w, chip, m.arg(in, isa::load2d::repeat), chip.load2d_latency, chip.load2d_gap);
  } else if (run == run_load3dv1) {
    load_l0(w, chip, m.arg(in, isa::load3dv1::repeat), chip.load3d_latency, chip.load3d_gap);
  } else if (run == run_load3dv2) {
    const int64_t k0 = kBlockBytes / in.tensors[0].size;
    load_l0(w, chip,
            ceil_of(m.arg(in, isa::load3dv2::m_ext), kFractalSide) * ceil_of(m.arg(in, isa::load3dv2::k_ext), k0),
            chip.load3d_latency, chip.load3d_gap);
  } else if (run == run_load2d_square) {
    const int64_t fractals =
        in.tensors[0].size == kFractalBytes / (kFractalSide * kFractalSide) ? 1 : 2;  // of a square
    load_l0(w, chip, m.arg(in, isa::load2d_square::repeat) * fractals, chip.load2d_latency, chip.load2d_gap);
  } else if (run == run_fill_blocks) {
    using namespace isa::fill_blocks;
    w.src = L1;
    load_l0(w, chip, ceil_of(m.arg(in, repeat) * m.arg(in, blocks) * kBlockBytes, kFractalBytes), chip.load2d_latency,
            chip.load2d_gap);
  } else if (run == run_fill) {
    w.src = L1;  // no source: as fast as a load
    load_l0(w, chip, m.arg(in, isa::fill::repeat), chip.load2d_latency, chip.load2d_gap);
  } else if (run == run_load_image) {
    const bool crop = m.arg(in, isa::load_image::functions) & 1;
    w.bytes = m.arg(in, crop ? isa::load_image::width : isa::load_image::src_w) *
              m.arg(in, crop ? isa::load_image::height : isa::load_image::src_h) * 3;
    through_gm(w, chip, false, chip.gm_l1, double(w.bytes));
  } else if (run == run_mmad) {
    product(w, chip, m.arg(in, isa::mmad::m), m.arg(in, isa::mmad::k), m.arg(in, isa::mmad::n), in.tensors[1].size);
  } else if (run == run_matmul) {
    whole_product(w, chip, in.attrs[isa::matmul::m], in.attrs[isa::matmul::k], in.attrs[isa::matmul::n],
                  in.tensors[1].size);
  } else if (run == run_conv2d) {
    convolution(w, in, chip);
  } else if (run == run_fixpipe) {
    fix(w, m, in, chip);
  } else if (run == run_l0c_matrix) {
    fix_matrix(w, m, in, chip);
  } else if (run == run_move_l0c) {
    l0c_move(w, in, m.arg(in, isa::data_move_l0c::nburst) * m.arg(in, isa::data_move_l0c::burst), chip, row.startup);
  } else if (run == run_broadcast_l0c) {
    using namespace isa::broadcast_l0c;
    l0c_move(w, in, m.arg(in, nburst) * m.arg(in, burst) * m.arg(in, copies), chip, row.startup);
  } else if (run == run_l0c_out) {
    l0c_move(w, in, m.arg(in, isa::l0c_out::nburst) * m.arg(in, isa::l0c_out::burst), chip, row.startup);
  } else if (w.lane == kV) {
    vector(w, m, in, costs, row, shifts);
  }
  if (handed) {
    const double out = w.src == L0C ? chip.fix_gm : chip.ub_gm, back = w.dst == UB ? chip.gm_ub : chip.gm_l1;
    w.occupies = std::max(w.occupies, double(w.bytes) / out + double(w.bytes) / back);
    w.lasts = w.occupies + chip.mte3_latency + chip.mte2_latency;
  }
  return w;
}

}  // namespace mco
