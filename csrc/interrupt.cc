// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <csignal>

#include <atomic>
#include <mutex>

#include "forksafe.h"

namespace mco {

namespace {

std::atomic<unsigned> count{0};
std::atomic<bool> inside{false};  // a handler behind ours may call ours again
struct sigaction behind;          // the process's own, as long as ours is in place

struct Heeding {
  std::mutex mutex;
  int runs = 0;
};
Heeding& heeding() { return fork_safe<Heeding>(); }

void on_interrupt(int signal, siginfo_t* info, void* context) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (inside.exchange(true)) return;
  if (behind.sa_flags & SA_SIGINFO) {
    behind.sa_sigaction(signal, info, context);
  } else {
    behind.sa_handler(signal);
  }
  inside.store(false);
}

bool is_ours(const struct sigaction& s) { return (s.sa_flags & SA_SIGINFO) && s.sa_sigaction == on_interrupt; }

}  // namespace

unsigned begin_heeding_interrupts() {
  Heeding& h = heeding();
  const std::lock_guard<std::mutex> lock(h.mutex);
  struct sigaction now;
  if (h.runs++ == 0 && sigaction(SIGINT, nullptr, &now) == 0 && !is_ours(now)) {
    const bool own = (now.sa_flags & SA_SIGINFO) || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
    if (own) {
      behind = now;
      struct sigaction ours = now;
      ours.sa_sigaction = on_interrupt;
      ours.sa_flags |= SA_SIGINFO;
      sigaction(SIGINT, &ours, nullptr);
    }
  }
  return interrupts();
}

void end_heeding_interrupts() {
  Heeding& h = heeding();
  const std::lock_guard<std::mutex> lock(h.mutex);
  struct sigaction now;
  // Who has put in another handler meanwhile keeps it.
  if (--h.runs == 0 && sigaction(SIGINT, nullptr, &now) == 0 && is_ours(now)) sigaction(SIGINT, &behind, nullptr);
}

unsigned interrupts() { return count.load(std::memory_order_relaxed); }

}  // namespace mco
