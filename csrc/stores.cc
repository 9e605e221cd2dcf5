// SPDX-License-Identifier: Apache-2.0
#include "stores.h"

#include <iterator>
#include <map>
#include <utility>

#include "number.h"

namespace mco {

namespace {

constexpr size_t kMost = 1024;  // stores of a run

// Stores of one run, by where they lie. No two of them meet, so that their order does not matter.
class Joined {
 public:
  // False where it meets another one.
  bool add(Scope scope, int64_t at, const uint8_t* bytes, int size) {
    const auto next = stores_.lower_bound({scope, at});
    if (next != stores_.end() && next->first.first == scope && next->first.second < at + size) return false;
    if (next != stores_.begin()) {
      const auto& before = *std::prev(next);
      if (before.first.first == scope && before.first.second + int64_t(before.second.size()) > at) return false;
    }
    stores_.emplace_hint(next, std::make_pair(scope, at), std::vector<uint8_t>(bytes, bytes + size));
    return true;
  }
  size_t count() const { return stores_.size(); }

  // Appends what they write, in as few pieces as they lie in; their number.
  uint32_t append_to(Stream& stream) const {
    const size_t first = stream.stored.size();
    for (const auto& [place, bytes] : stores_) {
      const auto [scope, at] = place;
      const uint32_t from = uint32_t(stream.stored_bytes.size()), size = uint32_t(bytes.size());
      Stored* last = stream.stored.size() > first ? &stream.stored.back() : nullptr;
      if (last && last->scope == scope && last->at + last->bytes == at) {
        last->bytes += size;
      } else {
        stream.stored.push_back({uint32_t(at), size, from, scope});
      }
      stream.stored_bytes.insert(stream.stored_bytes.end(), bytes.begin(), bytes.end());
    }
    return uint32_t(stream.stored.size() - first);
  }

 private:
  std::map<std::pair<Scope, int64_t>, std::vector<uint8_t>> stores_;
};

// Adds a step to a run where it is a store of a constant to a place that is in its buffer.
bool join(const Program& p, const Step& s, Joined& run) {
  if (s.what != What::Store) return false;
  const Operand& o = *s.place;
  const Buffer& b = p.buffers[o.buffer];
  if (b.scope == GM || !p.exprs.is_constant(s.a) || !p.exprs.is_constant(o.offset)) return false;
  const int64_t elements = p.exprs.expr(o.offset).c.i;
  if (elements < 0 || elements >= b.size_bytes / o.size || b.address + b.size_bytes > UINT32_MAX) return false;
  uint8_t raw[8];
  const int size = value_to_bits(convert_value(p.exprs.expr(s.a).c, s.from, o.dtype), o.dtype, raw);
  return run.add(b.scope, b.address + elements * o.size, raw, size);
}

}  // namespace

void join_stores(Program& p) {
  std::vector<Step>& steps = p.stream.steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    Joined run;
    size_t end = i;
    while (run.count() < kMost && join(p, steps[end], run)) ++end;  // the last step is no store
    if (run.count() < 2) continue;
    // A jump may land inside of a run: from there on each is made by itself.
    steps[i].b = uint32_t(run.count());
    steps[i].index = uint32_t(p.stream.stored.size());
    steps[i].target = run.append_to(p.stream);
    i = end - 1;
  }
}

}  // namespace mco
