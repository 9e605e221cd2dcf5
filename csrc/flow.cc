// SPDX-License-Identifier: Apache-2.0
#include "flow.h"

#include <algorithm>
#include <cstring>

#include "handlers.h"
#include "number.h"
#include "picks.h"

namespace mco {

namespace {

constexpr int64_t kOffsetBytes = 4;

int64_t lane_at(const Lanes& l, int64_t r, int64_t lane) {
  const int64_t per_block = kBlockBytes / l.size;
  return r * l.rep + lane / per_block * l.blk + lane % per_block * l.size;
}

bool is_any(Handler run, std::initializer_list<Handler> these) {
  return std::find(these.begin(), these.end(), run) != these.end();
}

}  // namespace

Mark Flow::named(int operand, Mark mark) {
  if (mark == kHeld || mark >= kFirstOrigin) return mark;
  return c_.run_.gm.number_of({in_.loc, operands_[size_t(operand)].buffer, mark == kCarried});
}

Mark Flow::range_mark(int operand, int64_t lo, int64_t hi) {
  const Mark* marks = operands_[size_t(operand)].marks;
  if (!marks || all_held(marks + lo, hi - lo)) return kHeld;
  for (int64_t i = lo; i < hi; ++i) {
    if (marks[i]) return named(operand, marks[i]);
  }
  return kHeld;
}

Mark Flow::first_mark(int operand) {
  const OperandUse& o = operands_[size_t(operand)];
  if (!o.marks || !o.touched->exact) return kHeld;
  Mark found = kHeld;
  each_run(*o.touched, [&](int64_t lo, int64_t hi) {
    if (!found) found = range_mark(operand, lo, hi);
  });
  return found;
}

void Flow::put(int operand, int64_t lo, int64_t hi, Mark mark) {
  Mark* marks = operands_[size_t(operand)].marks;
  if (marks) std::memset(marks + lo, mark, size_t(hi - lo));
}

void Flow::put_all(int operand, Mark mark) {
  each_run(*operands_[size_t(operand)].touched, [&](int64_t lo, int64_t hi) { put(operand, lo, hi, mark); });
}

void Flow::decides(int operand, const char* what) {
  if (operand < 0) return;
  const OperandUse& o = operands_[size_t(operand)];
  if (!o.marks) return;
  each_run(*o.touched, [&](int64_t lo, int64_t hi) {
    if (all_held(o.marks + lo, hi - lo)) return;
    int64_t at = lo;
    while (!o.marks[at]) ++at;
    const Mark mark = o.marks[at];
    const Origin origin = mark >= kFirstOrigin ? c_.run_.gm.origin(mark) : Origin();
    const bool carried = mark == kCarried || origin.carried;
    const uint32_t other = mark >= kFirstOrigin ? origin.loc : c_.program_.buffers[o.buffer].loc;
    c_.add(carried ? Fault::DoubleBufferCarry : Fault::UninitializedRead, in_.loc, other, o.buffer, o.start + at,
           o.start + hi, [&] {
             return format("%s: %s, %s, were never written", c_.name_of(in_), what,
                           c_.place(o.buffer, o.start + at, o.start + hi).c_str());
           });
  });
}

void Flow::run() {
  const Handler run = in_.op->run;
  const bool adds = m_.atomic != kDTypes && m_.scope(in_, 0) == GM;
  if (is_any(run, {run_move_l0c, run_fixpipe, run_l0c_out}) || (adds && run == run_data_move) ||
      (adds && run == run_move_pad)) {
    return elements();
  }
  if (is_any(run, {run_lanes, run_vconv, run_two_sources, run_vci, run_vcopy})) return lanes();
  if (is_any(run, {run_select, run_select_scalars})) return select();
  if (is_any(run, {run_compare, run_masked_compare})) return compare();
  if (run == run_reduce) return reduce();
  if (is_any(run, {run_mmad, run_matmul})) return product();
  if (run == run_l0c_matrix) return matrix();
  if (is_any(run, {run_vgather, run_vscatter, run_vgatherb})) return gather();
  if (run == run_vreduce) return keep();
  if (is_any(run, {run_mrgsort, run_rpsort})) return records();
  if (is_any(run, {run_data_move, run_move_pad, run_nd2nz, run_load2d, run_load2d_square, run_broadcast_l0c, run_nchw,
                   run_vtranspose, run_v4dtrans, run_vbcb, run_vpadding, run_mrgch, run_field, run_load3dv1,
                   run_load3dv2})) {
    return bytes();
  }
  decides(index("offset"), "offsets");
  all();
}

void Flow::lanes() {
  const Plan& p = use_.plan();
  const LaneShape& shape = in_.op->shape;
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      Mark mark = kHeld;
      for (int k = 0; k < p.operands && !mark; ++k) {
        const int operand = shape.tensor[k];
        if (!operands_[size_t(operand)].reads) continue;
        const int64_t at = lane_at(p.operand[k], r, lane);
        mark = range_mark(operand, at, at + p.operand[k].size);
      }
      const int64_t to = lane_at(p.operand[0], r, lane);
      put(shape.tensor[0], to, to + p.operand[0].size, mark);
    });
  }
}

// A lane is what it is taken from; a bit of sel without content could take either.
void Flow::select() {
  const Plan& p = use_.plan();
  const LaneShape& shape = in_.op->shape;
  const int sel = index("sel");
  const OperandUse& bits = operands_[size_t(sel)];
  const uint8_t* data = m_.view(bits.buffer).base + bits.start;
  const bool further = use_.attr("mode") != 0;
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      const int64_t byte = (further ? r * (p.lanes / 8) : 0) + lane / 8;
      const bool first = data[byte] >> (lane % 8) & 1;
      Mark mark = kHeld;
      if (bits.marks && bits.marks[byte] && c_.lacks_bit(bits.marks + byte, lane % 8)) {
        mark = named(sel, bits.marks[byte]);
      }
      for (int k = 1; k < p.operands && !mark; ++k) {
        const int operand = shape.tensor[k];
        if ((in_.op->tensors[size_t(operand)].name[3] == '0') != first) continue;  // src0, src1
        const int64_t at = lane_at(p.operand[k], r, lane);
        mark = range_mark(operand, at, at + p.operand[k].size);
      }
      const int64_t to = lane_at(p.operand[0], r, lane);
      put(shape.tensor[0], to, to + p.operand[0].size, mark);
    });
  }
}

void Flow::compare() {
  const Plan& p = use_.plan();
  const LaneShape& shape = in_.op->shape;
  Mark* marks = operands_[0].marks;
  if (!marks) return;
  for (int64_t r = 0; r < p.repeats; ++r) {
    for (int first = 0; first < p.lanes; first += 8) {
      Mark mark = kHeld;
      uint8_t lacking = 0, on = 0;
      for (int lane = first; lane < first + 8; ++lane) {
        if (!lane_on(p, lane, p.on(r))) continue;
        on |= uint8_t(1u << (lane - first));
        for (int k = 0; k < p.operands; ++k) {
          const int64_t at = lane_at(p.operand[k], r, lane);
          const Mark m = range_mark(shape.tensor[k], at, at + p.operand[k].size);
          if (!m) continue;
          mark = m;
          lacking |= uint8_t(1u << (lane - first));
        }
      }
      if (!on) continue;
      Mark* byte = marks + (r * p.lanes + first) / 8;
      if (on != 0xFF && *byte) {  // the other bits keep what they are
        for (int i = 0; i < 8; ++i) {
          if (!(on >> i & 1) && c_.lacks_bit(byte, i)) lacking |= uint8_t(1u << i);
        }
        if (!mark && lacking) mark = named(0, *byte);
      }
      *byte = mark;
      c_.note_bits(byte, lacking);
    }
  }
}

void Flow::reduce() {
  const Plan& p = use_.plan();
  const Lanes& s = p.operand[0];
  const int src = in_.op->shape.tensor[0], dst = index("dst");
  const int64_t rep = use_.arg("dst_rep"), size = use_.size(dst);
  const int code = in_.op->code;
  const bool whole = code == kReduceAdd || code == kReduceMax || code == kReduceMin;
  const int width = whole ? p.lanes : code == kPairAdd ? 2 : p.lanes / kBlocks;
  const int64_t bytes = code == kReduceMax || code == kReduceMin ? 2 * size : size;
  for (int64_t r = 0; r < p.repeats; ++r) {
    for (int first = 0; first < p.lanes; first += width) {
      Mark mark = kHeld;
      bool on = code == kReduceAdd;  // of no lane the sum is 0
      for (int lane = first; lane < first + width; ++lane) {
        if (!lane_on(p, lane, p.on(r))) continue;
        on = true;
        const int64_t at = lane_at(s, r, lane);
        if (!mark) mark = range_mark(src, at, at + s.size);
      }
      const int64_t to = r * rep + first / width * size;
      if (on) put(dst, to, to + bytes, mark);
    }
  }
}

// Element by element in the order of both sides; what is added to keeps its own lack.
void Flow::elements() {
  const int dst = index("dst"), src = index("src");
  for (size_t i = 0; i < operands_.size(); ++i) {
    const bool other = int(i) != dst && int(i) != src;
    if (other && !operands_[i].touched->boxes.empty() && first_mark(int(i))) return all();
  }
  const bool adds = m_.atomic != kDTypes && m_.scope(in_, dst) == GM;
  const int64_t from = use_.size(src), to = use_.size(dst);
  std::vector<Mark> marks;
  each_run(*operands_[size_t(src)].touched, [&](int64_t lo, int64_t hi) {
    for (int64_t at = lo; at + from <= hi; at += from) marks.push_back(range_mark(src, at, at + from));
  });
  size_t next = 0;
  each_run(*operands_[size_t(dst)].touched, [&](int64_t lo, int64_t hi) {
    for (int64_t at = lo; at + to <= hi && next < marks.size(); at += to, ++next) {
      Mark mark = marks[next];
      if (!mark && adds) mark = range_mark(dst, at, at + to);
      put(dst, at, at + to, mark);
    }
  });
}

void Flow::gather() {
  const int dst = index("dst"), src = index("src"), offset = index("offset");
  decides(offset, "offsets");
  const OperandUse& o = operands_[size_t(offset)];
  if (o.touched->boxes.empty()) return;
  const uint8_t* data = m_.view(o.buffer).base + o.start;
  const auto at = [&](int64_t number) {
    uint32_t v;
    std::memcpy(&v, data + number * kOffsetBytes, sizeof v);
    return int64_t(in_.tensors[size_t(offset)].dtype == I32 ? int64_t(int32_t(v)) : int64_t(v));
  };
  const auto inside = [&](int operand, int64_t lo, int64_t bytes) {
    return lo >= 0 && lo + bytes <= m_.view(operands_[size_t(operand)].buffer).size - operands_[size_t(operand)].start;
  };
  if (in_.op->run == run_vgatherb) {
    const int64_t repeat = use_.arg("repeat"), blk = use_.arg("dst_blk"), rep = use_.arg("dst_rep");
    for (int64_t i = 0; i < repeat * kBlocks; ++i) {
      const int64_t from = at(i), to = i / kBlocks * rep + i % kBlocks * blk;
      if (inside(src, from, kBlockBytes)) put(dst, to, to + kBlockBytes, range_mark(src, from, from + kBlockBytes));
    }
    return;
  }
  const Plan& p = use_.plan();
  const int64_t base = use_.arg("base"), size = p.operand[0].size;
  const bool scatters = in_.op->run == run_vscatter;
  for (int64_t r = 0; r < p.repeats; ++r) {
    each_lane(p, r, [&](int lane) {
      const int64_t there = base + at(r * p.lanes + lane), here = lane_at(p.operand[0], r, lane);
      if (!inside(scatters ? dst : src, there, size)) return;
      const int64_t from = scatters ? here : there, to = scatters ? there : here;
      put(dst, to, to + size, range_mark(src, from, from + size));
    });
  }
}

// vreduce: the kept elements one behind the other.
void Flow::keep() {
  const int dst = index("dst"), src = index("src0"), bits = index("src1");
  decides(bits, "bits of the pattern");
  const int64_t size = use_.size(src), per_block = kBlockBytes / size, pattern = use_.attr("pattern");
  const int64_t blk = use_.arg("src0_blk"), rep = use_.arg("src0_rep"), bits_rep = use_.arg("src1_rep");
  const int64_t lanes = kVectorBytes / size, kind = use_.attr("mask_kind"), mask0 = use_.arg("mask0");
  const int64_t repeats = kind == kMaskCounter ? ceil_div(mask0, lanes) : use_.arg("repeat");
  const OperandUse& pattern_use = operands_[size_t(bits)];
  const uint8_t* data = m_.view(pattern_use.buffer).base + pattern_use.start;
  const auto kept = [&](int64_t r, int64_t e) {
    if (pattern == 0) return (data[r * bits_rep + e / 8] >> (e % 8) & 1) != 0;
    return pattern == 7 || (pattern < 3 ? e % 2 == pattern - 1 : e % 4 == pattern - 3);
  };
  int64_t to = 0;
  for (int64_t r = 0; r < repeats; ++r) {
    const int64_t on = kind == kMaskCounter ? std::min(lanes, mask0 - r * lanes) : kind == 3 ? mask0 : lanes;
    for (int64_t e = 0; e < on; ++e) {
      if (!kept(r, e)) continue;
      const int64_t at = r * rep + e / per_block * blk + e % per_block * size;
      put(dst, to, to + size, range_mark(src, at, at + size));
      to += size;
    }
  }
  put_all(index("count"), kHeld);
}

namespace {

// The memory of some buffers is their shadow for a while.
class Swapped {
 public:
  Swapped(std::vector<View>& views) : views_(views) {}
  ~Swapped() {
    for (const auto& [buffer, base] : saved_) views_[buffer].base = base;
  }
  void swap(uint32_t buffer, uint8_t* base) {
    for (const auto& one : saved_) {
      if (one.first == buffer) return;
    }
    saved_.emplace_back(buffer, views_[buffer].base);
    views_[buffer].base = base;
  }

 private:
  std::vector<View>& views_;
  std::vector<std::pair<uint32_t, uint8_t*>> saved_;
};

}  // namespace

// What moves bytes moves their marks: the instruction itself, on the shadow.
void Flow::bytes() {
  const int pad = in_.op->run == run_move_pad ? -1 : pad_index();
  if (pad >= 0 && m_.value_arg(in_, pad, in_.tensors[0].dtype).i != 0) return all();
  {
    Swapped views(m_.views_);
    for (const OperandUse& o : operands_) {
      Mark* base = c_.marks_of(o.buffer);
      if (!base && o.writes) return;
      views.swap(o.buffer, base ? base : c_.run_.gm.readable(o.buffer, m_.view(o.buffer).size));
    }
    in_.op->run(m_, in_);
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i].writes) continue;
    int source = 0;
    while (source + 1 < int(operands_.size()) && !operands_[size_t(source)].reads) ++source;
    Mark* marks = operands_[i].marks;
    each_run(*operands_[i].touched, [&](int64_t lo, int64_t hi) {
      for (int64_t at = lo; at < hi; ++at) {
        if (marks[at] == kNeverWritten || marks[at] == kCarried) marks[at] = named(source, marks[at]);
      }
    });
  }
  if (in_.op->run == run_move_pad && m_.scope(in_, 0) != GM) unpad();
}

// The padding of a move is a value, which is held.
void Flow::unpad() {
  const int64_t nburst = use_.arg("nburst"), burst = use_.arg("burst"), size = use_.size(0);
  const int64_t left = use_.arg("left_pad") * size, right = use_.arg("right_pad") * size;
  const int64_t whole = round_up(left + burst + right, kBlockBytes), step = whole + use_.arg("dst_gap");
  if (whole == 0) return;
  for (int64_t i = 0; i < nburst; ++i) {
    put(0, i * step, i * step + left, kHeld);
    put(0, i * step + left + burst, i * step + whole, kHeld);
  }
}

int Flow::pad_index() const {
  for (size_t i = 0; i < in_.op->args.size(); ++i) {
    if (!std::strcmp(in_.op->args[i].name, "pad_value")) return int(i);
  }
  return -1;
}

// Sorting moves whole records, by their scores: a field that lacks content in one record may in any of the result.
void Flow::records() {
  const int dst = index("dst");
  const bool pairs = use_.has_attr("record") && use_.attr("record");
  const int64_t size = use_.size(dst), bytes = pairs ? 8 : 8 * size;
  const int64_t score = pairs ? 0 : 4 * size;
  std::vector<Mark> field(size_t(bytes), kHeld);
  for (size_t i = 0; i < operands_.size(); ++i) {
    const OperandUse& o = operands_[i];
    if (!o.reads || !o.marks) continue;
    each_run(*o.touched, [&](int64_t lo, int64_t hi) {
      if (all_held(o.marks + lo, hi - lo)) return;
      for (int64_t at = lo; at < hi; ++at) {
        Mark& mark = field[size_t((at - lo) % bytes)];
        if (o.marks[at] && !mark) mark = named(int(i), o.marks[at]);
      }
    });
  }
  const Mark order = field[size_t(score)];
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i].writes) continue;
    put_all(int(i), order);
    if (order || int(i) != dst || !operands_[i].marks) continue;
    each_run(*operands_[i].touched, [&](int64_t lo, int64_t hi) {
      for (int64_t at = lo; at < hi; ++at) operands_[i].marks[at] = field[size_t((at - lo) % bytes)];
    });
  }
}

void Flow::all() {
  Mark mark = kHeld;
  for (size_t i = 0; i < operands_.size() && !mark; ++i) {
    if (operands_[i].reads) mark = first_mark(int(i));
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].writes) put_all(int(i), mark);
  }
}

}  // namespace mco
