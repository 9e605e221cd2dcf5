// SPDX-License-Identifier: Apache-2.0
// How a block lets instructions wait, and executes those that have waited piece by piece.
#include <algorithm>
#include <cstring>

#include "handlers.h"
#include "lanes.h"
#include "machine.h"

namespace mco {

namespace {

// An instruction that has waited: where its first element lies. Not cleared: there is room for many.
struct Live {
  const Waiter* waiter;
  LaneFn fn;
  LaneJob job;  // of conversions and moves dst and s0
  DType to, from;
};

void set_live(Live& l, Machine& m, const Instr& in, uint8_t* far) {
  l.waiter = in.waiter;
  switch (in.waiter->kind) {
    case Waiter::Lanes:
      l.fn = flat_job(m, in, l.job);
      break;
    case Waiter::Convert:
      l.job.dst = m.write(in, isa::vconv::dst, 0, in.plan->operand[0].hi);
      l.job.s0 = m.read(in, isa::vconv::src, 0, in.plan->operand[1].hi);
      l.to = in.tensors[isa::vconv::dst].dtype;
      l.from = in.tensors[isa::vconv::src].dtype;
      break;
    case Waiter::In:
      l.job.dst = m.write(in, isa::data_move::dst, 0, in.waiter->count * kBlockBytes);
      l.job.s0 = far;
      break;
    case Waiter::Out:
      l.job.dst = far;
      l.job.s0 = m.read(in, isa::data_move::src, 0, in.waiter->count * kBlockBytes);
      break;
    case Waiter::Whole:
      break;
  }
}

void convert(const Machine& m, const Live& l, int64_t first, int64_t count) {
  uint8_t* to = l.job.dst + first * kSize[l.to];
  const uint8_t* from = l.job.s0 + first * kSize[l.from];
  if (l.to == F16) {
    m.kernels.float_to_half(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), count, m.saturate);
  } else if (l.to == BF16) {
    m.kernels.float_to_bfloat(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), count, m.saturate);
  } else if (l.from == F16) {
    m.kernels.half_to_float(reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(from), count);
  } else {
    m.kernels.bfloat_to_float(reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(from), count);
  }
}

}  // namespace

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
  const std::vector<Piece>* order = program.sequences->order(sequence_);
  Live members[Sequences::kMostMembers];
  for (size_t i = 0; i < all.size(); ++i) set_live(members[i], *this, *all[i].instr, all[i].far);
  const auto run = [&](const Piece& p) {
    const Live& l = members[p.member];
    const Waiter& w = *l.waiter;
    if (w.kind == Waiter::Whole) return all[p.member].instr->op->run(*this, *all[p.member].instr);
    if (w.kind == Waiter::Convert) return convert(*this, l, p.first, p.count);
    if (w.kind != Waiter::Lanes) {
      std::memcpy(l.job.dst + p.first * kBlockBytes, l.job.s0 + p.first * kBlockBytes, size_t(p.count * kBlockBytes));
      return;
    }
    LaneJob job = l.job;
    const int64_t step = w.reach[0].step, at = p.first * step;
    for (int k = 0; k < 2; ++k) {
      const uint8_t*& source = k ? job.s1 : job.s0;
      if (p.from[k] != Piece::kOwn) {
        const Live& move = members[p.from[k]];
        source = move.job.s0 + (w.reach[1 + k].lo - move.waiter->reach[0].lo);
      }
      if (source) source += at;
    }
    job.dst += at;
    job.flat = p.count;
    l.fn(job);
  };
  if (order) {
    for (const Piece& p : *order) run(p);
  } else {
    for (size_t i = 0; i < all.size(); ++i) {
      Piece p;
      p.member = uint8_t(i);
      p.count = int32_t(all[i].instr->waiter->count);
      run(p);
    }
  }
  all.clear();
  if (waiting_.empty()) waiting_.swap(all);  // with its memory
}

}  // namespace mco
