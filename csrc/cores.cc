// SPDX-License-Identifier: Apache-2.0
#include "cores.h"

#include <algorithm>

#include "shadow.h"

namespace mco {

void CoreLog::add(uint32_t buffer, GmUse use, uint32_t loc, int64_t base, const Touched& touched) {
  for (const Box& box : touched.boxes) {
    // Loops read the same rows again, or the rows that follow.
    const size_t last = entries_.size(), look = std::min<size_t>(last, 16);
    bool known = false;
    for (size_t i = last - look; i < last && !known; ++i) {
      Entry& e = entries_[i];
      if (e.buffer != buffer || e.use != use || e.loc != loc || e.box.count != box.count) continue;
      if (e.box.outer_count != box.outer_count || e.box.step != box.step || e.box.outer_step != box.outer_step)
        continue;
      const int64_t here = base + box.start, there = e.base + e.box.start;
      if (here == there && e.box.bytes >= box.bytes) {
        known = true;
      } else if (box.count == 1 && box.outer_count == 1 && here <= there + e.box.bytes && here + box.bytes >= there) {
        const int64_t lo = std::min(here, there), hi = std::max(here + box.bytes, there + e.box.bytes);
        e.base = 0;
        e.box.start = lo;
        e.box.bytes = hi - lo;
        known = true;
      }
    }
    if (!known) entries_.push_back({buffer, loc, use, base, box});
  }
}

Cores::Cores(const Program& p, std::vector<int64_t> bytes)
    : program_(p), written_(written_buffers(p)), bytes_(std::move(bytes)), of_(p.buffers.size()) {
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    if (p.buffers[i].scope != GM) written_[i] = 0;
  }
}

void Cores::take(int64_t block, CoreLog& log) {
  if (log.entries().empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_ += log.entries().size();
  taken_.push_back({block, std::move(log.entries())});
  log.entries().clear();
  if (entries_ > kMostEntries) paint_early();
}

uint32_t Cores::number_of(int64_t block, uint32_t loc, GmUse use) {
  const auto [at, fresh] = numbers_.try_emplace({block, loc, use}, uint32_t(who_.size() + 1));
  if (fresh) who_.push_back({block, loc, use});
  return at->second;
}

void Cores::clash(const Who& first, const Who& second, uint32_t buffer, int64_t lo, int64_t hi, Findings& found) {
  const bool both = first.use != GmUse::Read && second.use != GmUse::Read;
  // The read, or of two writes that of the higher block.
  const Who& at = both ? (first.block > second.block ? first : second) : (first.use == GmUse::Read ? first : second);
  const Who& with = &at == &first ? second : first;
  found.add(Fault::RaceCores, at.loc, with.loc, buffer, at.block, lo, hi, [&] {
    const char* does = at.use == GmUse::Read ? "reads" : at.use == GmUse::Add ? "adds to" : "writes";
    const char* did = with.use == GmUse::Add ? "adds to" : "writes";
    return format("block %lld %s bytes [%lld, %lld) of %s, which block %lld %s, and nothing orders the two",
                  (long long)at.block, does, (long long)lo, (long long)hi, program_.buffers[buffer].name.c_str(),
                  (long long)with.block, did);
  });
}

void Cores::paint(const Taken& taken, const CoreLog::Entry& e, bool reads, const Tile& tile, Findings& found) {
  if ((e.use == GmUse::Read) != reads) return;
  Bytes& of = of_[e.buffer];
  const uint32_t me = number_of(taken.block, e.loc, e.use);
  const auto differs = [&](uint32_t number) { return number && who_[number - 1].block != taken.block; };
  const auto clashes = [&](uint32_t number) {
    return differs(number) && !(e.use == GmUse::Add && who_[number - 1].use == GmUse::Add);
  };
  // Two writes that leave the same value. A block that moves back, so as to end a tensor with whole blocks, does so
  // with a part of its run; who writes a whole run again is not meant to.
  const auto same_value = [&](uint32_t number) {
    const GmUse use = who_[number - 1].use;
    return use != GmUse::Add && e.use != GmUse::Add && (e.use == GmUse::Rewrite || use == GmUse::Rewrite) && !reads;
  };
  each_run(e.box, [&](int64_t first, int64_t last) {
    const int64_t run_lo = e.base + first, run_hi = e.base + last;
    const int64_t lo = std::max(run_lo, tile.lo), hi = std::min(run_hi, tile.hi);
    // Neighbouring bytes that clash with the same access are one event.
    uint32_t open = 0;
    int64_t open_at = 0;
    const auto close = [&](int64_t end) {
      const bool moved_back = open && same_value(open) && (open_at != run_lo || end != run_hi);
      if (open && !moved_back) clash(who_[me - 1], who_[open - 1], e.buffer, open_at, end, found);
      open = 0;
    };
    for (int64_t i = lo; i < hi; ++i) {
      const size_t at = size_t(i - tile.lo);
      uint32_t with = clashes(of.writer[at]) ? of.writer[at] : 0;
      if (reads) {
        if (!of.reader[at]) {
          of.reader[at] = me;
        } else if (differs(of.reader[at]) && !of.other[at]) {
          of.other[at] = me;
        }
      } else {
        if (!with && differs(of.reader[at])) with = of.reader[at];
        if (!with && differs(of.other[at])) with = of.other[at];
        if (!of.writer[at] || e.use == GmUse::Write) of.writer[at] = me;
      }
      if (with != open) {
        close(i);
        open = with;
        open_at = i;
      }
    }
    close(hi);
  });
}

void Cores::paint(uint32_t buffer, const Tile& tile, Findings& found) {
  Bytes& of = of_[buffer];
  if (of.writer.empty()) {
    for (auto* numbers : {&of.writer, &of.reader, &of.other}) numbers->assign(size_t(tile.hi - tile.lo), 0);
  }
  for (const bool reads : {false, true}) {
    for (const Taken& t : taken_) {
      for (const CoreLog::Entry& e : t.entries) {
        if (e.buffer == buffer) paint(t, e, reads, tile, found);
      }
    }
  }
}

// Whether accesses of different blocks to a tensor lie in ranges apart, as they do where blocks share rows out.
bool Cores::apart(uint32_t buffer) const {
  std::map<int64_t, std::pair<int64_t, int64_t>> range;  // of each block
  for (const Taken& t : taken_) {
    for (const CoreLog::Entry& e : t.entries) {
      if (e.buffer != buffer) continue;
      const int64_t lo = e.base + e.box.start, hi = e.base + int64_t(e.box.end());
      const auto [at, fresh] = range.try_emplace(t.block, lo, hi);
      if (!fresh) at->second = {std::min(at->second.first, lo), std::max(at->second.second, hi)};
    }
  }
  std::vector<std::pair<int64_t, int64_t>> sorted;
  for (const auto& [block, r] : range) sorted.push_back(r);
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].first < sorted[i - 1].second) return false;
  }
  return true;
}

std::vector<uint32_t> Cores::buffers() const {
  std::vector<uint8_t> seen(of_.size(), 0);
  for (const Taken& t : taken_) {
    for (const CoreLog::Entry& e : t.entries) seen[e.buffer] = 1;
  }
  std::vector<uint32_t> list;
  for (uint32_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) list.push_back(i);
  }
  return list;
}

void Cores::sort_taken() {
  std::stable_sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) { return a.block < b.block; });
}

// Compares a part of a stage, because its log grows large; from now on every byte of its tensors is noted.
void Cores::paint_early() {
  sort_taken();
  for (const uint32_t buffer : buffers()) paint(buffer, {0, bytes_[buffer]}, early_);
  taken_.clear();
  entries_ = 0;
  painted_early_ = true;
}

void Cores::next_stage(Findings& found) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (painted_early_) {
    paint_early();
    found.merge(std::move(early_));
  } else {
    sort_taken();
    for (const uint32_t buffer : buffers()) {
      if (apart(buffer)) continue;
      for (int64_t lo = 0; lo < bytes_[buffer]; lo += kTileBytes) {
        paint(buffer, {lo, std::min(lo + kTileBytes, bytes_[buffer])}, found);
        of_[buffer] = Bytes();
      }
    }
  }
  taken_.clear();
  entries_ = 0;
  painted_early_ = false;
  for (Bytes& b : of_) b = Bytes();
  who_.clear();
  numbers_.clear();
}

}  // namespace mco
