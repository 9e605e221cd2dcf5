// SPDX-License-Identifier: Apache-2.0
// Seats that no launch uses: the stacks, memories and cores of launches that went well, with what the cores remember of
// the calls they issued, for the next launch of the same kind.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "asc_core.h"

namespace mco::asc {

// What the cores of a seat are made for.
struct SeatKind {
  bool cube, saturate, split, alone;
  std::array<int64_t, kScopes> bytes;
  bool operator==(const SeatKind& o) const {
    return cube == o.cube && saturate == o.saturate && split == o.split && alone == o.alone && bytes == o.bytes;
  }
};

// A kept seat, or a new one. Thread-safe, as is giving them back.
std::unique_ptr<Seat> take_seat(const SeatKind& kind);
void give_seats(const SeatKind& kind, std::vector<std::unique_ptr<Seat>> seats) noexcept;

}  // namespace mco::asc
