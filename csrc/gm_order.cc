// SPDX-License-Identifier: Apache-2.0
#include "gm_order.h"

#include <algorithm>

namespace mco {

GmOrder::GmOrder(const Program& p, std::vector<std::string> titles)
    : program_(p), titles_(std::move(titles)), known_(titles_.size()) {}

void GmOrder::join(Known& to, const Known& from) {
  Known all;
  all.reserve(to.size() + from.size());
  size_t i = 0;
  for (const auto& [core, clock] : from) {
    while (i < to.size() && to[i].first < core) all.push_back(to[i++]);
    all.emplace_back(core, clock);
    if (i < to.size() && to[i].first == core) {
      for (size_t p = 0; p < clock.size(); ++p) all.back().second[p] = std::max(clock[p], to[i].second[p]);
      ++i;
    }
  }
  all.insert(all.end(), to.begin() + long(i), to.end());
  to = std::move(all);
}

GmOrder::Known GmOrder::tell(int64_t core, const Pipes::Clock& own) const {
  Known all = known_[size_t(core)];
  join(all, {{core, own}});
  return all;
}

void GmOrder::learn(int64_t core, const Known& known) { join(known_[size_t(core)], known); }

void GmOrder::polls(int64_t core) {
  const auto polled = [core](const Event& e) { return e.core == core && e.pipe == 0; };
  for (auto& [buffer, segments] : of_) {
    for (auto& [lo, s] : segments) s.reads.erase(std::remove_if(s.reads.begin(), s.reads.end(), polled), s.reads.end());
  }
}

void GmOrder::forget() { of_.clear(); }

bool GmOrder::knows(int64_t core, const Event& past) const {
  if (past.core == core) return true;  // the order of its own pipes is looked at elsewhere
  const Known& known = known_[size_t(core)];
  const auto at = std::lower_bound(known.begin(), known.end(), past.core,
                                   [](const auto& entry, int64_t wanted) { return entry.first < wanted; });
  return at != known.end() && at->first == past.core && at->second[size_t(past.pipe)] >= past.time;
}

// The segment that begins at a byte, where one holds the byte.
GmOrder::Segments::iterator GmOrder::split(Segments& all, int64_t at) {
  auto after = all.lower_bound(at);
  if (after == all.begin() || (after != all.end() && after->first == at)) return after;
  auto before = std::prev(after);
  if (before->second.end <= at) return after;
  Segment rest = before->second;
  before->second.end = at;
  return all.emplace_hint(after, at, std::move(rest));
}

void GmOrder::note(std::vector<Event>& list, const Event& e) {
  for (Event& have : list) {
    if (have.core == e.core && have.pipe == e.pipe) {
      have = e;
      return;
    }
  }
  list.push_back(e);
}

void GmOrder::clash(const Event& e, const Event& past, int64_t lo, int64_t hi, Findings& found) {
  const Event& at = e.use != GmUse::Read && past.use == GmUse::Read ? past : e;
  const Event& with = &at == &e ? past : e;
  found.add(Fault::RaceCores, at.loc, with.loc, e.buffer, at.core, lo, hi, [&] {
    const char* does = at.use == GmUse::Read ? "reads" : at.use == GmUse::Add ? "adds to" : "writes";
    const char* did = with.use == GmUse::Add ? "adds to" : "writes";
    return format("%s %s bytes [%lld, %lld) of %s, which %s %s, and nothing orders the two",
                  titles_[size_t(at.core)].c_str(), does, (long long)lo, (long long)hi,
                  program_.buffers[e.buffer].name.c_str(), titles_[size_t(with.core)].c_str(), did);
  });
}

// `whole`: the bytes are a whole run of the access. One that moves back, so as to end a tensor with whole blocks,
// writes a part of its run again with the value that is there, which is no race.
void GmOrder::look(const Event& e, const Segment& s, int64_t lo, int64_t hi, bool whole, Findings& found) {
  for (const Event& past : s.writes) {
    if (knows(e.core, past) || (e.use == GmUse::Add && past.use == GmUse::Add)) continue;
    const bool same_value = (e.use == GmUse::Rewrite || past.use == GmUse::Rewrite) && e.use != GmUse::Read &&
                            e.use != GmUse::Add && past.use != GmUse::Add;
    if (!same_value || whole) clash(e, past, lo, hi, found);
  }
  if (e.use == GmUse::Read) return;
  for (const Event& past : s.reads) {
    if (!knows(e.core, past)) clash(e, past, lo, hi, found);
  }
}

void GmOrder::run(const Event& e, int64_t lo, int64_t hi, Findings& found) {
  Segments& all = of_[e.buffer];
  auto at = split(all, lo);
  split(all, hi);
  const bool replaces = e.use == GmUse::Write || e.use == GmUse::Rewrite;
  int64_t next = lo;
  for (; at != all.end() && at->first < hi; ++at) {
    Segment& s = at->second;
    look(e, s, at->first, s.end, at->first == lo && s.end == hi, found);
    if (!replaces) {
      if (next < at->first) all.emplace_hint(at, next, Segment{at->first, {}, {}});
      next = s.end;
    }
  }
  if (replaces) {
    all.erase(all.lower_bound(lo), at);
    all.emplace_hint(at, lo, Segment{hi, {e}, {}});
    return;
  }
  if (next < hi) all.emplace_hint(at, next, Segment{hi, {}, {}});
  for (at = all.lower_bound(lo); at != all.end() && at->first < hi; ++at) {
    Segment& s = at->second;
    if (e.use == GmUse::Read) {
      note(s.reads, e);
      continue;
    }
    if (!s.writes.empty() && s.writes[0].use != GmUse::Add) s.writes.clear();
    note(s.writes, e);
    s.reads.clear();
  }
}

void GmOrder::access(const Event& e, int64_t base, const Touched& touched, Findings& found) {
  each_run(touched, [&](int64_t lo, int64_t hi) { run(e, base + lo, base + hi, found); });
}

}  // namespace mco
