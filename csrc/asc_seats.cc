// SPDX-License-Identifier: Apache-2.0
#include "asc_seats.h"

#include <deque>
#include <mutex>
#include <new>

#include "forksafe.h"

namespace mco::asc {

namespace {

// Enough for all cores of the largest chip, which a barrier of all has begun at once.
constexpr size_t kKeptSeats = 96;

struct Kept {
  std::mutex mutex;
  std::deque<std::pair<SeatKind, std::unique_ptr<Seat>>> seats;  // the longest unused first
};

Kept& kept() { return fork_safe<Kept>(); }

}  // namespace

std::unique_ptr<Seat> take_seat(const SeatKind& kind) {
  {
    Kept& k = kept();
    std::lock_guard<std::mutex> lock(k.mutex);
    for (auto at = k.seats.rbegin(); at != k.seats.rend(); ++at) {
      if (!(at->first == kind)) continue;
      auto seat = std::move(at->second);
      k.seats.erase(std::next(at).base());
      return seat;
    }
  }
  return std::make_unique<Seat>();
}

void give_seats(const SeatKind& kind, std::vector<std::unique_ptr<Seat>> seats) noexcept {
  Kept& k = kept();
  std::vector<std::unique_ptr<Seat>> old;  // freed without the lock
  try {
    old.reserve(seats.size());
    std::lock_guard<std::mutex> lock(k.mutex);
    for (auto& seat : seats) {
      k.seats.emplace_back(kind, std::move(seat));
      if (k.seats.size() <= kKeptSeats) continue;
      old.push_back(std::move(k.seats.front().second));
      k.seats.pop_front();
    }
  } catch (const std::bad_alloc&) {  // what is kept is a convenience
  }
}

}  // namespace mco::asc
