// SPDX-License-Identifier: Apache-2.0
#include "asc_directory.h"

namespace mco::asc {

Directory::Directory() : shared_(std::make_shared<Tables>()), program_(shared_->program) {
  program_.locations.resize(1);  // 0: nobody knows
}

uint32_t Directory::place(const Place& place) {
  if (!place.file) return 0;
  const auto [at, fresh] = places_.try_emplace({place.file, place.line}, uint32_t(program_.locations.size()));
  if (fresh) {
    program_.locations.push_back({Name(shared_->names.emplace_back(place.file)), place.line});
  }
  return at->second;
}

uint32_t Directory::number_of(const Home& home) {
  if (home.number != kNone) return home.number;
  const MemorySpan memory{home.base, home.bytes, home.address, home.lazy_name(), Scope(home.scope)};
  return home.number = number_of(memory, home.queue ? home.queue->made : Place());
}

uint32_t Directory::number_of(const MemorySpan& memory, const Place& made) {
  const int64_t address = memory.scope == GM ? int64_t(reinterpret_cast<uintptr_t>(memory.base)) : memory.address;
  const uint32_t next = uint32_t(program_.buffers.size());
  const auto [at, fresh] = buffers_.try_emplace(
      std::make_tuple(std::string(memory.name.c_str()), int(memory.scope), address, memory.bytes), next);
  if (!fresh) return at->second;
  Buffer b;
  b.name = Name(shared_->names.emplace_back(memory.name.c_str()));
  b.scope = memory.scope;
  b.address = memory.address;
  b.size_bytes = memory.bytes;
  b.loc = place(made);
  program_.buffers.push_back(b);
  added(next, memory);
  return next;
}

}  // namespace mco::asc
