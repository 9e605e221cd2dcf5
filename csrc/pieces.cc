// SPDX-License-Identifier: Apache-2.0
#include "pieces.h"

#include <algorithm>

#include "handlers.h"
#include "lanes.h"
#include "machine.h"

namespace mco {

namespace {

constexpr int64_t kPieceBytes = 4 << 10;  // of each tile
constexpr int64_t kLargeBytes = 8 << 10;  // what is smaller stays in the cache as a whole
constexpr size_t kMostPieces = 4096;

bool all_constant(const Program& p, const Instr& in) {
  return std::all_of(in.args.begin(), in.args.end(), [&](uint32_t root) { return p.exprs.is_constant(root); });
}

int64_t constant(const Program& p, const Instr& in, int arg) { return p.exprs.expr(in.args[size_t(arg)]).c.i; }

bool in_ub(const Program& p, const Operand& o) { return p.buffers[o.buffer].scope == UB && o.room; }

Reach reach_of(const Program& p, const Operand& o, int64_t lo, int64_t hi, int step, bool write) {
  const int64_t start = p.buffers[o.buffer].address + o.start;
  return {start + lo, start + hi, step, write, false};
}

void add(Waiter& w, const Reach& t) { w.reach[w.reaches++] = t; }

void cut(Waiter& w, int64_t count, int64_t largest) {
  w.count = count;
  w.piece = kPieceBytes / largest;
  w.begins = w.kind != Waiter::Out && count * largest >= kLargeBytes;
}

// Elements one after the other, each of them read before it is written.
bool flat(const Program& p, const Instr& in) {
  const Plan& plan = *in.plan;
  if (!plan.flat || plan.meeting != Plan::kApart) return false;
  for (int i = 0; i < plan.operands; ++i) {
    const Operand& o = in.tensors[size_t(in.op->shape.tensor[i])];
    if (!in_ub(p, o) || !o.holds(plan.operand[i].lo, plan.operand[i].hi)) return false;
  }
  return true;
}

bool lanes(const Program& p, const Instr& in, Waiter& w) {
  if (!is_flat_lanes(in) || !flat(p, in)) return false;
  const Plan& plan = *in.plan;
  const int size = in.tensors[0].size;
  w.kind = Waiter::Lanes;
  w.sources = plan.operands - 1;
  for (int i = 0; i < plan.operands; ++i) {
    add(w, reach_of(p, in.tensors[size_t(i)], 0, plan.flat * size, size, i == 0));
  }
  if (reads_dst(in)) {
    add(w, w.reach[0]);
    w.reach[w.reaches - 1].write = false;
  }
  cut(w, plan.flat, size);
  return true;
}

bool conversion(const Program& p, const Instr& in, Waiter& w) {
  using namespace isa::vconv;
  if (in.op->run != run_vconv || in.attrs[has_deq] || !flat(p, in)) return false;
  const mco::Operand &to = in.tensors[dst], &from = in.tensors[src];
  constexpr uint32_t kShort = bit(F16) | bit(BF16);
  const bool narrows = from.dtype == F32 && (bit(to.dtype) & kShort) && in.attrs[round_mode] <= 1;
  if (!narrows && !(to.dtype == F32 && (bit(from.dtype) & kShort))) return false;
  w.kind = Waiter::Convert;
  add(w, reach_of(p, to, 0, in.plan->flat * to.size, to.size, true));
  add(w, reach_of(p, from, 0, in.plan->flat * from.size, from.size, false));
  cut(w, in.plan->flat, 4);
  return true;
}

bool move(const Program& p, const Instr& in, Waiter& w) {
  using namespace isa::data_move;
  if (in.op->run != run_data_move) return false;
  const Scope to = p.buffers[in.tensors[dst].buffer].scope, from = p.buffers[in.tensors[src].buffer].scope;
  if (!(to == UB && from == GM) && !(to == GM && from == UB)) return false;
  const mco::Operand& local = in.tensors[to == UB ? dst : src];
  const int64_t count = constant(p, in, nburst), length = constant(p, in, burst);
  const bool dense = count == 1 || (constant(p, in, src_gap) == 0 && constant(p, in, dst_gap) == 0);
  constexpr int64_t kMost = int64_t(1) << 24;
  if (!dense || count < 1 || length < kBlockBytes || count > kMost || length > kMost) return false;
  const int64_t bytes = count * length;
  if (bytes % kBlockBytes || !in_ub(p, local) || !local.holds(0, bytes)) return false;
  Reach other;
  other.gm = true;
  other.write = to == GM;
  const Reach own = reach_of(p, local, 0, bytes, int(kBlockBytes), to == UB);
  w.kind = to == UB ? Waiter::In : Waiter::Out;
  add(w, to == UB ? own : other);
  add(w, to == UB ? other : own);
  cut(w, bytes / kBlockBytes, kBlockBytes);
  return true;
}

// An instruction of UB alone, with the bytes that it reaches at most.
bool whole(const Program& p, const Instr& in, Waiter& w) {
  const Handler run = in.op->run;
  const bool with_plan = run == run_lanes || run == run_vconv || run == run_reduce;
  if (!with_plan && run != run_nchw) return false;
  if (with_plan && (!in.plan || in.plan->by_bits || in.plan->empty())) return false;
  Reach written, read;
  written.write = true;
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    const Operand& o = in.tensors[i];
    if (!in_ub(p, o)) return false;
    const Buffer& b = p.buffers[o.buffer];
    for (Reach* t : {&written, &read}) {
      if (t == &written ? !in.op->tensors[i].written : !in.op->tensors[i].read) continue;
      t->lo = t->hi ? std::min(t->lo, b.address) : b.address;
      t->hi = std::max(t->hi, b.address + b.size_bytes);
    }
  }
  if (reads_dst(in)) {
    read.lo = read.hi ? std::min(read.lo, written.lo) : written.lo;
    read.hi = std::max(read.hi, written.hi);
  }
  add(w, written);
  add(w, read);
  return true;
}

// What of a sequence waits for what.
struct Need {
  size_t before;  // a member
  Reach own, other;
};

struct Member {
  const Waiter* waiter;
  std::vector<Need> needs;
  uint8_t from[2] = {Piece::kOwn, Piece::kOwn};
  bool left_out = false;
  int64_t done = 0;
};

class Finder {
 public:
  explicit Finder(std::vector<Member>& members) : members_(members) {}
  std::vector<Piece> find();

 private:
  void leave_out(size_t move);
  void link();
  bool ready(const Member& m, int64_t end) const;
  std::vector<Member>& members_;
};

// What a member reaches; a source whose copy is left out lies in GM.
Reach reached(const Member& m, int number) {
  const bool moved = m.waiter->is_source(number) && m.from[number - 1] != Piece::kOwn;
  return moved ? Reach{0, 0, 0, false, true} : m.waiter->reach[number];
}

// Leaves out a move into UB where all that is read of it can be read where it comes from, and all of it is overwritten.
void Finder::leave_out(size_t move) {
  const Reach copy = members_[move].waiter->reach[0];
  std::vector<std::pair<int64_t, int64_t>> left{{copy.lo, copy.hi}};
  std::vector<std::pair<size_t, int>> readers;
  bool same = true;  // GM is as it was where the move stands
  for (size_t i = move + 1; i < members_.size(); ++i) {
    const Waiter& w = *members_[i].waiter;
    for (int k = 0; k < w.reaches; ++k) {
      const Reach t = reached(members_[i], k);
      const bool meets = !t.gm && std::any_of(left.begin(), left.end(),
                                              [&](const auto& r) { return t.lo < r.second && r.first < t.hi; });
      if (!meets) continue;
      if (t.write && t.step) continue;  // below, after the sources
      const bool inside =
          std::any_of(left.begin(), left.end(), [&](const auto& r) { return r.first <= t.lo && t.hi <= r.second; });
      // Registers are loaded as a whole: nothing behind the memory of GM is read.
      const bool can = w.is_source(k) && inside && (t.hi - t.lo) % 64 == 0;
      if (!can || !same) return;
      readers.push_back({i, k});
    }
    same = same && w.kind != Waiter::Out;
    if (!w.reach[0].write || w.reach[0].gm || !w.reach[0].step) continue;
    std::vector<std::pair<int64_t, int64_t>> rest;
    for (const auto& r : left) {
      if (r.first < std::min(r.second, w.reach[0].lo)) rest.push_back({r.first, std::min(r.second, w.reach[0].lo)});
      if (std::max(r.first, w.reach[0].hi) < r.second) rest.push_back({std::max(r.first, w.reach[0].hi), r.second});
    }
    left = std::move(rest);
    if (left.empty()) break;
  }
  if (!left.empty()) return;
  for (const auto& r : readers) members_[r.first].from[r.second - 1] = uint8_t(move);
  members_[move].left_out = true;
}

void Finder::link() {
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& m = members_[i];
    std::vector<Reach> own;
    for (int k = 0; k < m.waiter->reaches; ++k) own.push_back(reached(m, k));
    for (size_t j = 0; j < i; ++j) {
      if (members_[j].left_out) continue;
      for (const Reach& t : own) {
        for (int k = 0; k < members_[j].waiter->reaches; ++k) {
          const Reach o = reached(members_[j], k);
          if (t.meets(o)) m.needs.push_back({j, t, o});
        }
      }
    }
  }
}

// Whether the elements up to `end` of a member may be computed now.
bool Finder::ready(const Member& m, int64_t end) const {
  for (const Need& n : m.needs) {
    const Member& before = members_[n.before];
    if (before.done == before.waiter->count) continue;
    if (!n.other.step) return false;
    const int64_t first = n.own.step ? n.own.lo + m.done * n.own.step : n.own.lo,
                  last = n.own.step ? n.own.lo + end * n.own.step : n.own.hi;
    if (last <= n.other.lo || n.other.hi <= first) continue;
    if (before.done < std::min(before.waiter->count, ceil_div(last - n.other.lo, n.other.step))) return false;
  }
  return true;
}

// Whatever of the last members can be computed comes first, so that a piece goes as far as it can.
std::vector<Piece> Finder::find() {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].waiter->kind == Waiter::In) leave_out(i);
  }
  link();
  std::vector<Piece> order;
  size_t open = 0;
  while (open < members_.size()) {
    Member& lowest = members_[open];
    if (lowest.left_out || lowest.done == lowest.waiter->count) {
      ++open;
      continue;
    }
    for (size_t i = members_.size(); i-- > open;) {
      Member& m = members_[i];
      const int64_t end = std::min(m.waiter->count, m.done + m.waiter->piece);
      if (m.left_out || m.done == m.waiter->count || !ready(m, end)) continue;
      Piece piece;
      piece.member = uint8_t(i);
      std::copy(m.from, m.from + 2, piece.from);
      piece.first = int32_t(m.done);
      piece.count = int32_t(end - m.done);
      order.push_back(piece);
      m.done = end;
      break;
    }
  }
  return order;
}

}  // namespace

Sequences::Node* Sequences::longer(Node* node, const Instr& in) {
  for (Node* n = node->first.load(std::memory_order_acquire); n; n = n->other) {
    if (n->instr == &in) return n;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  Node* const first = node->first.load(std::memory_order_relaxed);
  for (Node* n = first; n; n = n->other) {
    if (n->instr == &in) return n;
  }
  if (nodes_.size() >= kMostNodes || node->depth >= kMostMembers) return nullptr;
  nodes_.emplace_back();
  Node& made = nodes_.back();
  made.instr = &in;
  made.before = node;
  made.depth = node->depth + 1;
  made.other = first;
  node->first.store(&made, std::memory_order_release);
  return &made;
}

const Order* Sequences::order(Node* node, Machine& m) {
  if (const Order* found = node->order.load(std::memory_order_acquire)) return found->pieces.empty() ? nullptr : found;
  std::lock_guard<std::mutex> lock(mutex_);
  if (const Order* found = node->order.load(std::memory_order_relaxed)) return found->pieces.empty() ? nullptr : found;
  if (orders_.size() >= kMostOrders) return nullptr;
  std::vector<Member> members(node->depth);
  Order made;
  made.members.resize(node->depth);
  size_t pieces = 0;
  for (Node* n = node; n->instr; n = n->before) {
    const Waiter* w = n->instr->waiter;
    members[n->depth - 1].waiter = w;
    pieces += size_t(ceil_div(w->count, w->piece));
    made.members[n->depth - 1] = still_of(m, *n->instr);
  }
  if (pieces <= kMostPieces) made.pieces = Finder(members).find();
  for (const Piece& p : made.pieces) {
    for (int k = 0; k < 2; ++k) {
      if (p.from[k] == Piece::kOwn) continue;
      made.members[p.member].shift[k] =
          members[p.member].waiter->reach[1 + k].lo - members[p.from[k]].waiter->reach[0].lo;
    }
  }
  orders_.push_back(std::move(made));
  node->order.store(&orders_.back(), std::memory_order_release);
  return orders_.back().pieces.empty() ? nullptr : &orders_.back();
}

void make_pieces(Program& p) {
  bool some = false;
  for (const Step& s : p.stream.steps) {
    if (s.what != What::Instr) continue;
    Instr& in = *const_cast<Instr*>(s.instr);
    if (!all_constant(p, in)) continue;
    Waiter w;
    const bool planned = in.plan && (lanes(p, in, w) || conversion(p, in, w));
    if (!planned && !move(p, in, w) && !whole(p, in, w)) continue;
    in.waiter = &(*p.stream.memory.make<Waiter>(1) = w);
    some = some || w.begins;
  }
  if (some) p.sequences = std::make_shared<Sequences>();
}

}  // namespace mco
