// SPDX-License-Identifier: Apache-2.0
// The threads of the engine. Several host threads may use the pool at once; each also works on its own job.
#pragma once

#if defined(__linux__)
#include <sched.h>
#endif

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mco {

class ThreadPool {
 public:
  static ThreadPool& instance();

  // Calls `work` on the calling thread and on up to `helpers` threads of the pool; returns when all calls that
  // started have returned. `work` must be done when it returns once: helpers may come late or never. While the caller
  // waits for helpers, it calls `meanwhile` every few milliseconds. What `work` throws on any thread is an Error here.
  void run(int helpers, const std::function<void()>& work, const std::function<void()>& meanwhile);

  static void set_threads(int n);  // < 1: the hardware's number
  static int threads();

 private:
  struct Job {
    const std::function<void()>* work;
    int wanted;   // helpers that may still join
    int running;  // helpers inside
    bool failed;
  };
  void add_workers(int wanted);
  void worker();
  void keep_clear();
  static bool call(const std::function<void()>& work) noexcept;  // false when it threw

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job*> jobs_;
  std::vector<std::thread::native_handle_type> workers_;  // they never end
  int idle_ = 0;
  int caller_cpu_ = -1;  // of the last job
#if defined(__linux__)
  cpu_set_t mask_{};  // processors of the workers; none: not set
#endif
};

}  // namespace mco
