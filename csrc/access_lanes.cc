// SPDX-License-Identifier: Apache-2.0
// Access of instructions with lanes: program/access/lanes.py and gather.py.
#include <cstring>

#include "access.h"
#include "picks.h"

namespace mco::access {

namespace {

constexpr int64_t kOffsetBytes = 4;

bool is(const Use& use, int operand, const char* name) { return !std::strcmp(use.name(operand), name); }

bool any_on(const LaneGroups& groups) {
  for (const LaneGroup& g : groups) {
    if (!g.runs.empty()) return true;
  }
  return false;
}

int64_t repeats_of(const LaneGroups& groups) {
  int64_t n = 0;
  for (const LaneGroup& g : groups) n += g.repeats;
  return n;
}

// Lanes [first, end) of `repeats` repeats that begin at byte `at`.
void lane_run(int64_t first, int64_t end, int64_t size, int64_t blk, int64_t repeats, int64_t rep, int64_t at,
              Touched& out) {
  if (blk == kBlockBytes) return out.add(at + first * size, (end - first) * size, repeats, rep);
  const int64_t per_block = kBlockBytes / size;
  const int64_t head = ceil_div(first, per_block), tail = end / per_block;  // whole blocks [head, tail)
  const int64_t before = first % per_block;
  if (head > tail) {  // inside one block
    return out.add(at + tail * blk + before * size, (end - first) * size, repeats, rep);
  }
  if (before) out.add(at + (head - 1) * blk + before * size, (per_block - before) * size, repeats, rep);
  out.add(at + head * blk, kBlockBytes, tail - head, blk, repeats, rep);
  out.add(at + tail * blk, end % per_block * size, repeats, rep);
}

void strided(const Use& use, int operand, const LaneGroups& groups, Touched& out) {
  const int64_t size = use.size(operand), blk = use.of(operand, "blk"), rep = use.of(operand, "rep");
  for (const LaneGroup& g : groups) {
    for (const auto& [first, end] : g.runs) lane_run(first, end, size, blk, g.repeats, rep, g.first * rep, out);
  }
}

// Groups of `width` adjacent lanes with a lane on, in place of lanes.
LaneGroups result_groups(const LaneGroups& groups, int64_t width) {
  LaneGroups found;
  for (const LaneGroup& g : groups) {
    LaneGroup r{g.first, g.repeats, {}};
    for (const auto& [first, end] : g.runs) {
      const int64_t a = first / width, b = ceil_div(end, width);
      if (!r.runs.empty() && a <= r.runs.back().second) {
        r.runs.back().second = std::max(r.runs.back().second, b);
      } else {
        r.runs.emplace_back(a, b);
      }
    }
    found.push_back(std::move(r));
  }
  return found;
}

LaneGroups block_groups(const LaneGroups& groups, int64_t lanes) { return result_groups(groups, lanes / kBlocks); }

// Elements that lie one after the other, `per_repeat` to a repeat: those that are on.
void dense(const LaneGroups& groups, int64_t per_repeat, int64_t size, Touched& out) {
  const int64_t step = per_repeat * size;
  for (const LaneGroup& g : groups) {
    for (const auto& [first, end] : g.runs) {
      out.add(g.first * step + first * size, (end - first) * size, g.repeats, step);
    }
  }
}

void anywhere(const Use& use, int operand, Touched& out) {
  out.add(0, use.room(operand));
  out.exact = false;
}

}  // namespace

namespace lanes {

void lanes(const Use& use, int operand, Touched& out) { strided(use, operand, use.groups(), out); }

void compare(const Use& use, int operand, Touched& out) {
  const LaneGroups& groups = use.groups();
  if (!is(use, operand, "dst")) return strided(use, operand, groups, out);
  if (any_on(groups)) out.add(0, repeats_of(groups) * use.plan().lanes / 8);
}

void select(const Use& use, int operand, Touched& out) {
  const LaneGroups& groups = use.groups();
  if (!is(use, operand, "sel")) return strided(use, operand, groups, out);
  const int64_t repeats = repeats_of(groups);
  out.add(0, use.plan().lanes / 8 * (use.attr("mode") ? repeats : std::min<int64_t>(repeats, 1)));
}

void half_blocks(const Use& use, int operand, Touched& out) {
  const LaneGroups& groups = use.groups();
  constexpr int64_t half = kBlockBytes / 2;
  if (is(use, operand, "src")) return strided(use, operand, groups, out);
  if (is(use, operand, "scale")) {
    if (use.attr("vector") && any_on(groups)) out.add(0, 16 * 8);
    return;
  }
  const int64_t blk = use.of(operand, "blk"), rep = use.of(operand, "rep"), high = use.attr("high");
  for (const LaneGroup& g : groups) {
    for (const auto& [first, end] : g.runs) {
      for (int64_t b = first / half; b < ceil_div(end, half); ++b) {
        const int64_t low = std::max(first, b * half), top = std::min(end, (b + 1) * half);
        out.add(g.first * rep + b * blk + low % half + high * half, top - low, g.repeats, rep);
      }
    }
  }
}

void border(const Use& use, int operand, Touched& out) {
  const LaneGroups& groups = use.groups();
  if (is(use, operand, "dst")) return strided(use, operand, groups, out);
  const int64_t width = use.plan().lanes / kBlocks;
  LaneGroups whole = block_groups(groups, use.plan().lanes);
  for (LaneGroup& g : whole) {
    for (auto& run : g.runs) run = {run.first * width, run.second * width};
  }
  strided(use, operand, whole, out);
}

void reductions(const Use& use, int operand, Touched& out) {
  const LaneGroups& groups = use.groups();
  if (is(use, operand, "src")) return strided(use, operand, groups, out);
  const int64_t size = use.size(operand), rep = use.arg("dst_rep");
  const std::string& name = use.in.op->name;
  if (name == "vcadd") {
    for (const LaneGroup& g : groups) out.add(g.first * rep, size, g.repeats, rep);
    return;
  }
  if (name == "vcmax" || name == "vcmin") {
    for (const LaneGroup& g : groups) {
      if (!g.runs.empty()) out.add(g.first * rep, 2 * size, g.repeats, rep);
    }
    return;
  }
  for (const LaneGroup& g : result_groups(groups, name == "vcpadd" ? 2 : use.plan().lanes / kBlocks)) {
    for (const auto& [first, end] : g.runs) out.add(g.first * rep + first * size, (end - first) * size, g.repeats, rep);
  }
}

// How many of the first `elements` elements a fixed pattern keeps.
static int64_t kept(int64_t elements, int64_t pattern) {
  if (pattern == 7) return elements;
  const int64_t step = pattern < 3 ? 2 : 4, first = pattern < 3 ? pattern - 1 : pattern - 3;
  return std::max<int64_t>(0, ceil_div(elements - first, step));
}

void compaction(const Use& use, int operand, Touched& out) {
  constexpr int64_t kPerRepeat = 3;
  const int64_t count = kVectorBytes / use.size(use.operand("src0"));
  const int64_t kind = use.attr("mask_kind"), pattern = use.attr("pattern");
  const int64_t mask0 = use.arg("mask0"), repeat = use.arg("repeat");
  LaneGroups groups;
  if (kind == kMaskCounter) {
    if (mask0 / count) groups.push_back({0, mask0 / count, {{0, count}}});
    if (mask0 % count) groups.push_back({mask0 / count, 1, {{0, mask0 % count}}});
  } else {
    const int64_t each = kind == kPerRepeat ? mask0 : count;
    if (repeat && each > 0) groups.push_back({0, repeat, {{0, each}}});
  }
  if (is(use, operand, "count")) return out.add(0, 4);
  if (is(use, operand, "src0")) return strided(use, operand, groups, out);
  if (is(use, operand, "src1")) {
    const int64_t rep = use.arg("src1_rep");
    for (const LaneGroup& g : groups) {
      if (pattern == 0) out.add(g.first * rep, ceil_div(g.runs[0].second, 8), g.repeats, rep);
    }
    return;
  }
  int64_t total = 0;
  for (const LaneGroup& g : groups) {
    total += g.repeats * (pattern == 0 ? g.runs[0].second : kept(g.runs[0].second, pattern));
  }
  out.add(0, total * use.size(operand));
  out.exact = pattern != 0;
}

}  // namespace lanes

namespace gather {

void gather(const Use& use, int operand, Touched& out) {
  const LaneGroups& groups = use.groups();
  if (is(use, operand, "offset")) return dense(groups, use.plan().lanes, kOffsetBytes, out);
  if (use.has_of(operand, "blk")) return strided(use, operand, groups, out);
  if (any_on(groups)) anywhere(use, operand, out);
}

void blocks(const Use& use, int operand, Touched& out) {
  const int64_t repeat = use.arg("repeat");
  if (is(use, operand, "dst")) {
    return out.add(0, kBlockBytes, kBlocks, use.arg("dst_blk"), repeat, use.arg("dst_rep"));
  }
  if (is(use, operand, "src") && use.operand("offset") >= 0) {
    if (repeat) anywhere(use, operand, out);
    return;
  }
  out.add(0, repeat * kBlocks * use.size(operand));
}

void bilinear(const Use& use, int operand, Touched& out) {
  const LaneGroups& groups = use.groups();
  const int64_t lanes = use.plan().lanes, steps = use.arg("h_repeat");
  if (!steps || !any_on(groups)) return;
  if (is(use, operand, "dst")) return strided(use, operand, groups, out);
  if (is(use, operand, "src0")) return anywhere(use, operand, out);
  const int64_t size = use.size(operand);
  if (is(use, operand, "src1") && !use.attr("repeat_mode")) {
    int64_t n = 0;
    for (const LaneGroup& g : groups) n += g.runs.empty() ? 0 : g.repeats;
    return out.add(0, n * steps * size);
  }
  for (const LaneGroup& g : block_groups(groups, lanes)) {
    for (const auto& [first, end] : g.runs) {
      out.add((g.first * steps * kBlocks + first) * size, (end - first) * size, g.repeats * steps, kBlocks * size);
    }
  }
}

}  // namespace gather

}  // namespace mco::access
