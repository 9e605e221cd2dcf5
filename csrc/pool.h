// SPDX-License-Identifier: Apache-2.0
// The threads of the engine. Several host threads may use the pool at once; each also works on its own job.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mco {

class ThreadPool {
 public:
  static ThreadPool& instance();

  // Calls `work` on the calling thread and on up to `helpers` threads of the pool; returns when all calls that
  // started have returned. `work` must be done when it returns once: helpers may come late or never.
  void run(int helpers, const std::function<void()>& work);

  static void set_threads(int n);  // < 1: the hardware's number
  static int threads();

 private:
  struct Job {
    const std::function<void()>* work;
    int wanted;   // helpers that may still join
    int running;  // helpers inside
  };
  void worker();
  void keep_clear();

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job*> jobs_;
  std::vector<std::thread::native_handle_type> workers_;  // they never end
  int idle_ = 0;
  int caller_cpu_ = -1;  // of the last job
  std::string mask_;     // processors of the workers, as the system writes a set of them
};

}  // namespace mco
