// SPDX-License-Identifier: Apache-2.0
// Process-wide objects that survive fork: the child of a fork starts with a fresh one, since locks may be held and
// threads are gone there. The old object is left as it is.
#pragma once

#include <pthread.h>

#include <atomic>

namespace mco {

// The object lives until the process ends: other threads may still use it when static objects are destroyed.
template <class T>
T& fork_safe() {
  static std::atomic<T*> object{nullptr};
  static const bool registered = [] {
    object.store(new T);
    return pthread_atfork(nullptr, nullptr, [] { object.store(new T); }) == 0;
  }();
  (void)registered;
  return *object.load(std::memory_order_acquire);
}

}  // namespace mco
