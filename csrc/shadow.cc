// SPDX-License-Identifier: Apache-2.0
#include "shadow.h"

#include <cstdlib>
#include <cstring>

namespace mco {

bool all_held(const Mark* at, int64_t n) {
  uint64_t any = 0, word[8];
  for (; n >= 64; n -= 64, at += 64) {
    std::memcpy(word, at, 64);
    any |= word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] | word[7];
    if (any) return false;
  }
  for (; n >= 8; n -= 8, at += 8) {
    std::memcpy(word, at, 8);
    any |= word[0];
  }
  for (; n > 0; --n, ++at) any |= *at;
  return any == 0;
}

std::vector<uint8_t> written_buffers(const Program& p) {
  std::vector<uint8_t> written(p.buffers.size(), 0);
  for (const Step& s : p.stream.steps) {
    if (s.what == What::Store) written[s.place->buffer] = 1;
    if (s.what != What::Instr) continue;
    for (size_t i = 0; i < s.instr->tensors.size(); ++i) {
      if (writes(*s.instr, int(i))) written[s.instr->tensors[i].buffer] = 1;
    }
  }
  return written;
}

GmShadow::Marks GmShadow::zeros(int64_t bytes) {
  Marks marks(static_cast<Mark*>(std::calloc(size_t(bytes) + size_t(Block64::kPadding), 1)));
  if (!marks) fail("out of memory: the shadow of a tensor of %lld bytes", (long long)bytes);
  return marks;
}

GmShadow::GmShadow(const Program& p, const std::vector<View>& gm, bool all)
    : marks_(p.buffers.size()), held_(p.buffers.size()) {
  const std::vector<uint8_t> written = written_buffers(p);
  std::vector<uint8_t> given(p.buffers.size(), 0);
  for (const uint32_t i : p.inputs) given[i] = 1;
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.scope != GM || (given[i] && !written[i] && !all)) continue;
    marks_[i] = zeros(gm[i].size);
    const bool held = given[i] || b.atomic_init || b.has_init || !b.table.empty();
    if (!held) std::memset(marks_[i].get(), kNeverWritten, size_t(gm[i].size));
  }
}

Mark* GmShadow::readable(uint32_t buffer, int64_t bytes) {
  if (Mark* marks = of(buffer)) return marks;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (buffer >= held_.size()) held_.resize(buffer + 1);
  if (!held_[buffer]) held_[buffer] = zeros(bytes);
  return held_[buffer].get();
}

Mark GmShadow::number_of(const Origin& origin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < origins_.size(); ++i) {
    const Origin& o = origins_[i];
    if (o.loc == origin.loc && o.buffer == origin.buffer && o.carried == origin.carried) return Mark(kFirstOrigin + i);
  }
  if (kFirstOrigin + origins_.size() <= 255) origins_.push_back(origin);
  return Mark(kFirstOrigin + origins_.size() - 1);
}

Origin GmShadow::origin(Mark number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return number >= kFirstOrigin && size_t(number - kFirstOrigin) < origins_.size() ? origins_[number - kFirstOrigin]
                                                                                   : Origin();
}

ChipShadow::ChipShadow(const Program& p) {
  for (int s = UB; s < kScopes; ++s) {
    bytes_[s] = p.arena_bytes[s];
    if (bytes_[s]) base_[s] = memory_[s].reserve(bytes_[s]);
  }
}

void ChipShadow::reset() {
  for (int s = UB; s < kScopes; ++s) {
    if (bytes_[s]) std::memset(base_[s], kNeverWritten, size_t(bytes_[s]));
  }
}

}  // namespace mco
