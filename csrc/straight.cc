// SPDX-License-Identifier: Apache-2.0
#include "straight.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "handlers.h"

namespace mco {

namespace {

// Bytes [lo, hi) of an on-chip scope.
struct Range {
  Scope scope = GM;
  int64_t lo = 0, hi = 0;
  bool meets(const Range& o) const { return scope == o.scope && lo < o.hi && o.lo < hi; }
};

bool is_constant(const Program& p, const Instr& in, int arg) { return p.exprs.is_constant(in.args[size_t(arg)]); }
int64_t constant(const Program& p, const Instr& in, int arg) { return p.exprs.expr(in.args[size_t(arg)]).c.i; }

Scope scope_of(const Program& p, const Instr& in, int tensor) {
  return p.buffers[in.tensors[size_t(tensor)].buffer].scope;
}

// No access leaves its buffer.
Range buffer_of(const Program& p, const Operand& o) {
  const Buffer& b = p.buffers[o.buffer];
  return {b.scope, b.address, b.address + b.size_bytes};
}

// `bytes` bytes of an operand whose place is settled.
Range range_of(const Program& p, const Operand& o, int64_t bytes) {
  const int64_t lo = p.buffers[o.buffer].address + o.start;
  return {p.buffers[o.buffer].scope, lo, lo + bytes};
}

struct Load {
  Instr* instr;
  Range to, from;  // `from`: all of its buffer
  bool noted = true;
};

// What is read, sorted and joined.
class Reads {
 public:
  explicit Reads(std::vector<Range> all) {
    const auto before = [](const Range& a, const Range& b) {
      return a.scope != b.scope ? a.scope < b.scope : a.lo < b.lo;
    };
    std::sort(all.begin(), all.end(), before);
    for (const Range& r : all) {
      if (!joined_.empty() && joined_.back().scope == r.scope && r.lo <= joined_.back().hi) {
        joined_.back().hi = std::max(joined_.back().hi, r.hi);
      } else {
        joined_.push_back(r);
      }
    }
  }
  bool meet(const Range& r) const {
    const auto ends_before = [](const Range& a, const Range& b) {
      return a.scope != b.scope ? a.scope < b.scope : a.hi <= b.lo;
    };
    const auto it = std::lower_bound(joined_.begin(), joined_.end(), r, ends_before);
    return it != joined_.end() && it->meets(r);
  }

 private:
  std::vector<Range> joined_;
};

// One side of a product: the loads whose fractals it reads, all of them or it is not taken.
struct Side {
  Range range;
  std::vector<size_t> loads;
  bool taken = false;
};

struct Product {
  Instr* instr;
  Side side[2];
  Range result;
  Instr* leaves = nullptr;
};

class Finder {
 public:
  explicit Finder(Program& p) : p_(p) {}
  void find();

 private:
  static constexpr int64_t kMostSlots = 1024;  // chips have 256 fractals in L0A and L0B
  static constexpr size_t kMostParted = 64;    // places where jumps are to land
  static constexpr int kRounds = 16;
  struct Slot {
    int64_t at;  // of a fractal in its scope
    size_t load;
    bool operator<(const Slot& o) const { return load != o.load ? load < o.load : at < o.at; }
  };
  using Slots = std::vector<Slot>;  // ascending: what is loaded later goes behind
  void step(Instr& in);
  bool load(Instr& in);
  bool product(Instr& in);
  Side side_of(const mco::Operand& o, Scope scope, int64_t bytes) const;
  void written(const Range& r);
  void forget();
  static Slots common(const Slots& a, const Slots& b);
  void part(const Step& s);
  void land(size_t here);
  bool leaves(const Product& product, const Instr& in) const;
  bool settle();
  void mark();

  Program& p_;
  std::vector<Load> loads_;
  std::vector<Product> products_;
  std::vector<Range> read_;                   // by other instructions
  Slots slots_;                               // what has been loaded on every way to here and nothing has touched since
  bool reached_ = true;                       // false behind a jump, up to the next place where one lands
  std::unordered_map<size_t, Slots> parted_;  // the same on the jumps that land at a later step
  std::vector<uint8_t> landed_;               // where what came before is not known
  size_t waiting_ = SIZE_MAX;                 // the product whose result may go with the next instruction
};

void Finder::forget() {
  slots_.clear();
  waiting_ = SIZE_MAX;
}

Finder::Slots Finder::common(const Slots& a, const Slots& b) {
  Slots both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// A jump ahead, which may be taken: what lies where it lands is what every way there has left.
void Finder::part(const Step& s) {
  waiting_ = SIZE_MAX;
  const auto other = parted_.find(s.target);
  if (!reached_) {
    // never taken
  } else if (other != parted_.end()) {
    other->second = common(slots_, other->second);
  } else if (parted_.size() < kMostParted) {
    parted_.emplace(s.target, slots_);
  } else {
    landed_[s.target] = 1;
  }
  if (s.what == What::Goto) {
    slots_.clear();
    reached_ = false;
  }
}

void Finder::land(size_t here) {
  const auto other = parted_.find(here);
  if (landed_[here]) {
    forget();
    reached_ = true;
  } else if (other != parted_.end()) {
    slots_ = reached_ ? common(slots_, other->second) : std::move(other->second);
    waiting_ = SIZE_MAX;
    reached_ = true;
  }
  if (other != parted_.end()) parted_.erase(other);
}

// Bytes change: what lay there, and what was to be taken from there.
void Finder::written(const Range& r) {
  const auto gone = [&](const Slot& s) {
    const Load& l = loads_[s.load];
    return l.from.meets(r) || Range{l.to.scope, s.at, s.at + kFractalBytes}.meets(r);
  };
  slots_.erase(std::remove_if(slots_.begin(), slots_.end(), gone), slots_.end());
}

bool Finder::load(Instr& in) {
  using namespace isa::load2d;
  if (in.op->run != run_load2d) return false;
  const mco::Operand &to = in.tensors[dst], &from = in.tensors[src];
  const Scope target = scope_of(p_, in, dst), source = scope_of(p_, in, src);
  const bool good = (target == L0A || target == L0B) && to.room && to.size == 2 && from.size == 2 &&
                    (source == L1 || source == UB) && is_constant(p_, in, repeat) && is_constant(p_, in, dst_gap);
  if (!good) return false;
  const int64_t count = constant(p_, in, repeat), step = 1 + constant(p_, in, dst_gap);
  if (count < 1 || step < 1 || !to.holds(0, (Wide(count - 1) * step + 1) * kFractalBytes)) return false;
  const Range whole = range_of(p_, to, ((count - 1) * step + 1) * kFractalBytes);
  written(whole);
  if (count > kMostSlots - int64_t(slots_.size())) return false;
  loads_.push_back({&in, whole, buffer_of(p_, from)});
  for (int64_t i = 0; i < count; ++i) slots_.push_back({whole.lo + i * step * kFractalBytes, loads_.size() - 1});
  return true;
}

Side Finder::side_of(const mco::Operand& o, Scope scope, int64_t bytes) const {
  Side side;
  side.range = buffer_of(p_, o);
  if (side.range.scope != scope || !o.holds(0, bytes)) return side;
  side.range = range_of(p_, o, bytes);
  int64_t found = 0;
  for (const Slot& s : slots_) {
    if (loads_[s.load].to.scope != scope || s.at < side.range.lo || s.at >= side.range.hi) continue;
    if ((s.at - side.range.lo) % kFractalBytes) continue;
    ++found;
    if (side.loads.empty() || side.loads.back() != s.load) side.loads.push_back(s.load);
  }
  side.taken = found * kFractalBytes == bytes;
  return side;
}

bool Finder::product(Instr& in) {
  using namespace isa::mmad;
  if (in.op->run != run_mmad) return false;
  const mco::Operand &a = in.tensors[fm], &b = in.tensors[filter], &c = in.tensors[dst];
  const bool good = a.dtype == b.dtype && (a.dtype == F16 || a.dtype == BF16) && is_constant(p_, in, m) &&
                    is_constant(p_, in, k) && is_constant(p_, in, n);
  if (!good) return false;
  const int64_t rows = constant(p_, in, m), depth = constant(p_, in, k), columns = constant(p_, in, n);
  const auto fits = [](int64_t x) { return x > 0 && x < (int64_t(1) << 20); };
  if (rows == 1 || !fits(rows) || !fits(depth) || !fits(columns)) return false;
  const int64_t m1 = ceil_div(rows, kFractalSide), k1 = ceil_div(depth, kFractalSide),
                n1 = ceil_div(columns, kFractalSide);
  Product x;
  x.instr = &in;
  x.side[0] = side_of(a, L0A, m1 * k1 * kFractalBytes);
  x.side[1] = side_of(b, L0B, n1 * k1 * kFractalBytes);
  x.result = buffer_of(p_, c);
  const int64_t bytes = m1 * n1 * kFractalElements * c.size;
  if (c.holds(0, bytes)) x.result = range_of(p_, c, bytes);
  const bool adds = in.attrs[accumulate] != 0;
  if (adds) read_.push_back(x.result);
  written(x.result);
  products_.push_back(x);
  waiting_ = !adds && c.dtype == F32 && x.result.scope == L0C && c.holds(0, bytes) ? products_.size() - 1 : SIZE_MAX;
  return true;
}

// Whether a fixpipe copies the whole result of a product to GM, in its order and as it is.
bool Finder::leaves(const Product& product, const Instr& in) const {
  using namespace isa::fixpipe;
  if (in.op->run != run_fixpipe) return false;
  const mco::Operand &to = in.tensors[dst], &from = in.tensors[src];
  if (scope_of(p_, in, dst) != GM || to.dtype != F32 || from.dtype != F32) return false;
  if (in.attrs[quantize] || in.attrs[relu] || !from.room) return false;
  for (const int arg : {cburst_num, burst_len, src_gap, dst_gap}) {
    if (!is_constant(p_, in, arg)) return false;
  }
  const int64_t count = constant(p_, in, cburst_num), length = constant(p_, in, burst_len),
                gap = constant(p_, in, dst_gap);
  const int64_t rows = round_up(constant(p_, *product.instr, isa::mmad::m), kFractalSide),
                columns = ceil_div(constant(p_, *product.instr, isa::mmad::n), kFractalSide);
  return constant(p_, in, src_gap) == 0 && gap >= 0 && gap % 4 == 0 && count == columns &&
         length == rows * kFractalSide * 4 && range_of(p_, from, count * length).lo == product.result.lo &&
         product.result.scope == scope_of(p_, in, src);
}

void Finder::step(Instr& in) {
  if (waiting_ != SIZE_MAX && leaves(products_[waiting_], in)) {
    products_[waiting_].leaves = &in;
    waiting_ = SIZE_MAX;
    return;
  }
  waiting_ = SIZE_MAX;
  if (load(in) || product(in)) return;
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    const OperandRow& row = in.op->tensors[i];
    const Range r = buffer_of(p_, in.tensors[i]);
    if (r.scope == GM) continue;
    // An operand that is both, or read under a condition, counts as read.
    if (row.read || row.read_if >= 0) read_.push_back(r);
    if (row.written) written(r);
  }
}

// What is not taken is read, which may be what keeps another load. False: this does not end soon.
bool Finder::settle() {
  bool again = true;
  for (int round = 0; again && round < kRounds; ++round) {
    again = false;
    std::vector<Range> reads = read_;
    for (const Product& x : products_) {
      for (const Side& s : x.side) {
        if (!s.taken) reads.push_back(s.range);
      }
    }
    const Reads all(std::move(reads));
    for (Load& l : loads_) {
      if (l.noted && all.meet(l.to)) {
        l.noted = false;
        again = true;
      }
    }
    for (Product& x : products_) {
      for (Side& s : x.side) {
        const bool whole = std::all_of(s.loads.begin(), s.loads.end(), [&](size_t l) { return loads_[l].noted; });
        if (s.taken && !whole) {
          s.taken = false;
          again = true;
        }
      }
      if (x.leaves && all.meet(x.result)) {
        const Instr& in = *x.leaves;
        read_.push_back(buffer_of(p_, in.tensors[isa::fixpipe::src]));
        x.leaves = nullptr;
        again = true;
      }
    }
  }
  return !again;
}

void Finder::mark() {
  for (const Load& l : loads_) {
    if (l.noted) l.instr->straight |= kNoted;
  }
  for (const Product& x : products_) {
    if (x.side[0].taken) x.instr->straight |= kLeft;
    if (x.side[1].taken) x.instr->straight |= kRight;
    if (!x.leaves) continue;
    x.instr->straight |= kLeaves;
    x.instr->partner = x.leaves;
    x.leaves->straight |= kCame;
  }
}

void Finder::find() {
  const std::vector<Step>& steps = p_.stream.steps;
  landed_.assign(steps.size() + 1, 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    const bool jumps = s.what == What::Test || s.what == What::Goto;
    const bool loops = s.what == What::Begin || s.what == What::Blocks || s.what == What::Next;
    if (loops || (jumps && s.target <= i)) landed_[s.target] = 1;
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    land(i);
    switch (s.what) {
      case What::Instr:
        step(*const_cast<Instr*>(s.instr));
        break;
      case What::Sync:
      case What::Alloc:
      case What::Free:
      case What::NoSync:
      case What::Resync:
        break;
      case What::Test:
      case What::Goto:
        part(s);
        break;
      case What::Assign:
        waiting_ = SIZE_MAX;
        break;
      case What::Load:
      case What::Store: {  // of a scalar, from or to any memory
        const Range r = buffer_of(p_, *s.place);
        if (r.scope != GM) s.what == What::Load ? read_.push_back(r) : written(r);
        waiting_ = SIZE_MAX;
        break;
      }
      default:
        forget();
    }
  }
  if (settle()) mark();
}

}  // namespace

void make_straight(Program& p) {
  const auto loads = [](const Step& s) { return s.what == What::Instr && s.instr->op->run == run_mmad; };
  if (std::any_of(p.stream.steps.begin(), p.stream.steps.end(), loads)) Finder(p).find();
}

}  // namespace mco
