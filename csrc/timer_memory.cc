// SPDX-License-Identifier: Apache-2.0
// GM as the blocks of a timed run see it: what L2 holds, and their shares of what the chip moves.
//
// Blocks do not see each other while they run. Pages that several of them touch are missed once in all, which each pays
// a part of; what is touched again is in L2 unless the cores moved more than L2 holds in between. Of the rates of the
// whole chip a core has its share, and may save up what it did not use.
#include <algorithm>

#include "timer.h"

namespace mco {

namespace {

int64_t base_of(const Machine& m, uint32_t buffer) { return int64_t(reinterpret_cast<uintptr_t>(m.view(buffer).base)); }

// Pages [first, last] of a touch, within those that the buffer has.
struct Pages {
  int64_t first, last;
};

Pages pages_of(const Machine& m, uint32_t buffer, const Touch& touch, int64_t count) {
  const int64_t base = base_of(m, buffer), most = std::max<int64_t>(count - 1, 0);
  const int64_t first = std::clamp<int64_t>((touch.lo - base) / kPage, 0, most);
  return {first, std::clamp<int64_t>((touch.hi - 1 - base) / kPage, first, most)};
}

}  // namespace

std::vector<Timer::Page>& Timer::pages_at(uint32_t buffer) {
  if (buffer >= pages_.size()) pages_.resize(timing_.program.buffers.size());
  std::vector<Page>& pages = pages_[buffer];
  if (pages.empty()) pages.resize(size_t(timing_.pages_of(buffer)));
  return pages;
}

void Timer::note_pages(const Machine& m) {
  for (const auto& [buffer, touch] : seen_) {
    if (touch.scope != GM || touch.hi <= touch.lo) continue;
    if (timing_.direct) timing_.note_bytes(block_, double(touch.hi - touch.lo));
    std::vector<Page>& pages = pages_at(buffer);
    const Pages range = pages_of(m, buffer, touch, int64_t(pages.size()));
    for (int64_t p = range.first; p <= range.last; ++p) {
      if (pages[size_t(p)].touched > 0) continue;
      pages[size_t(p)].touched = 1;
      timing_.note_page(buffer, p);
    }
  }
}

void Timer::find_misses(const Machine& m, Work& work) {
  double missed = 0;
  for (const auto& [buffer, touch] : seen_) {
    if (touch.scope != GM || touch.hi <= touch.lo) continue;
    std::vector<Page>& pages = pages_at(buffer);
    const Pages range = pages_of(m, buffer, touch, int64_t(pages.size()));
    const double each = double(work.bytes) / double(range.last - range.first + 1);
    const double whole = double(std::min<int64_t>(kPage, std::max<int64_t>(m.view(buffer).size, 1)));
    for (int64_t p = range.first; p <= range.last; ++p) {
      Page& page = pages[size_t(p)];
      const bool first = page.touched < whole;
      const bool lost = !first && !timing_.fits_l2() && (moved_ - page.last) * timing_.spread() > chip_.l2_bytes;
      if (first || lost) missed += each / timing_.sharers(buffer, p);
      page.touched = float(page.touched + each);
      page.last = moved_;
    }
    break;  // the tensor in GM
  }
  work.miss_bytes = std::min(missed * work.waste, work.gm_bytes);
  moved_ += double(work.bytes);
  (work.to_gm ? sum_.gm_written : sum_.gm_read) += int64_t(work.miss_bytes);
  sum_.l2_bytes += int64_t(work.gm_bytes);
}

void Timer::move_through_gm(Work& work, double start, double& shared) {
  const double part = timing_.part(block_), gm_share = chip_.gm_total * part, l2_share = chip_.l2_total * part;
  const double since = std::max(0.0, start - tokens_at_);
  gm_tokens_ = std::min(chip_.credit, gm_tokens_ + gm_share * since);
  l2_tokens_ = std::min(chip_.credit, l2_tokens_ + l2_share * since);
  tokens_at_ = std::max(tokens_at_, start);
  const double missed = work.to_gm ? 0 : work.miss_bytes, behind = std::min(work.rate, chip_.gm_read);
  const double alone = (work.gm_bytes - missed) / work.rate + missed / behind;
  gm_tokens_ -= work.miss_bytes;
  l2_tokens_ -= work.gm_bytes;
  const double late = tokens_at_ - start;
  const double wait = std::max(gm_tokens_ < 0 ? late - gm_tokens_ / gm_share : 0.0,
                               l2_tokens_ < 0 ? late - l2_tokens_ / l2_share : 0.0);
  const double transfer = std::max(alone, wait);
  shared = transfer - alone;
  work.occupies = std::max({work.gap, work.occupies, transfer});
  work.lasts = std::max(work.lasts, transfer) + work.latency;
}

}  // namespace mco
