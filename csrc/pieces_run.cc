// SPDX-License-Identifier: Apache-2.0
// How a block lets instructions wait, and executes those that have waited piece by piece.
#include <algorithm>
#include <cstring>

#include "handlers.h"
#include "lanes.h"
#include "machine.h"

namespace mco {

namespace {

void convert(const Machine& m, const Still& s, uint8_t* to, const uint8_t* from, int64_t count) {
  if (s.to == F16) {
    m.kernels.float_to_half(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), count, m.saturate);
  } else if (s.to == BF16) {
    m.kernels.float_to_bfloat(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), count, m.saturate);
  } else if (s.from == F16) {
    m.kernels.half_to_float(reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(from), count);
  } else {
    m.kernels.bfloat_to_float(reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(from), count);
  }
}

}  // namespace

Still still_of(Machine& m, const Instr& in) {
  Still s;
  const uint8_t* const base = m.arena.base(UB);
  const int64_t moved = in.waiter->count * kBlockBytes;
  s.kind = in.waiter->kind;
  s.step = in.waiter->reach[0].step;
  if (s.kind == Waiter::Lanes) {
    LaneJob job;
    s.op = uint8_t(flat_job(m, in, job));
    s.to = s.from = in.tensors[0].dtype;
    s.scalar = job.scalar;
    s.iscalar = job.iscalar;
    s.dst = job.dst - base;
    if (job.s0) s.source[0] = job.s0 - base;
    if (job.s1) s.source[1] = job.s1 - base;
  } else if (s.kind == Waiter::Convert) {
    s.to = in.tensors[isa::vconv::dst].dtype;
    s.from = in.tensors[isa::vconv::src].dtype;
    s.dst = m.write(in, isa::vconv::dst, 0, in.plan->operand[0].hi) - base;
    s.source[0] = m.read(in, isa::vconv::src, 0, in.plan->operand[1].hi) - base;
  } else if (s.kind == Waiter::In) {
    s.dst = m.write(in, isa::data_move::dst, 0, moved) - base;
  } else if (s.kind == Waiter::Out) {
    s.source[0] = m.read(in, isa::data_move::src, 0, moved) - base;
  }
  return s;
}

// The address in GM of a move, checked as by its handler; null where it must be made where it stands.
uint8_t* Machine::far_side(const Instr& in) {
  const bool out = in.waiter->kind == Waiter::Out;
  if (out && atomic != kDTypes) return nullptr;
  int64_t room;
  const int operand = out ? int(isa::data_move::dst) : int(isa::data_move::src);
  uint8_t* at = move_operand(in, operand, in.waiter->count * kBlockBytes, out, room);
  return room == INT64_MAX ? at : nullptr;
}

void Machine::wait(const Instr& in) {
  const Waiter& w = *in.waiter;
  if (!rows_.empty()) rows_.run(kernels);
  if (waiting_.empty()) {
    if (!w.begins) return in.op->run(*this, in);
    sequence_ = program.sequences->begin();
  }
  const bool moves = w.kind == Waiter::In || w.kind == Waiter::Out;
  uint8_t* const far = moves ? far_side(in) : nullptr;
  Sequences::Node* const longer = moves && !far ? nullptr : program.sequences->longer(sequence_, in);
  if (!longer) {
    catch_up();
    return in.op->run(*this, in);
  }
  sequence_ = longer;
  waiting_.push_back({&in, far});
}

void Machine::run_waiting() {
  std::vector<Waiting> all;
  all.swap(waiting_);
  if (const Order* order = program.sequences->order(sequence_, *this)) {
    run_pieces(*order, all);
  } else {
    for (const Waiting& w : all) run_one(w);
  }
  all.clear();
  waiting_.swap(all);  // with its memory
}

// Registers may have changed since a move has waited, so that its address is that of then.
void Machine::run_one(const Waiting& w) {
  const Instr& in = *w.instr;
  const int64_t bytes = in.waiter->count * kBlockBytes;
  if (in.waiter->kind == Waiter::In) {
    std::memcpy(write(in, isa::data_move::dst, 0, bytes), w.far, size_t(bytes));
  } else if (in.waiter->kind == Waiter::Out) {
    std::memcpy(w.far, read(in, isa::data_move::src, 0, bytes), size_t(bytes));
  } else {
    in.op->run(*this, in);
  }
}

void Machine::run_pieces(const Order& order, const std::vector<Waiting>& all) {
  uint8_t* const base = arena.base(UB);
  LaneJob job{};
  job.saturate = saturate;
  for (const Piece& p : order.pieces) {
    const Still& s = order.members[p.member];
    if (s.kind == Waiter::Lanes) {
      const int64_t at = int64_t(p.first) * s.step;
      const uint8_t* source[2];
      for (int k = 0; k < 2; ++k) {
        const uint8_t* const first = p.from[k] == Piece::kOwn ? base + s.source[k] : all[p.from[k]].far + s.shift[k];
        source[k] = s.source[k] == Still::kNone ? nullptr : first + at;
      }
      job.dst = base + s.dst + at;
      job.s0 = source[0];
      job.s1 = source[1];
      job.flat = p.count;
      job.scalar = s.scalar;
      job.iscalar = s.iscalar;
      kernels.lane[s.op][s.to](job);
    } else if (s.kind == Waiter::Convert) {
      convert(*this, s, base + s.dst + p.first * kSize[s.to], base + s.source[0] + p.first * kSize[s.from], p.count);
    } else if (s.kind == Waiter::Whole) {
      all[p.member].instr->op->run(*this, *all[p.member].instr);
    } else {
      const int64_t at = p.first * kBlockBytes;
      uint8_t* const far = all[p.member].far;
      const bool in = s.kind == Waiter::In;
      std::memcpy((in ? base + s.dst : far) + at, (in ? far : base + s.source[0]) + at, size_t(p.count * kBlockBytes));
    }
  }
}

}  // namespace mco
