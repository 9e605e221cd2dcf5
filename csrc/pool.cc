// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#include <algorithm>
#include <atomic>
#include <system_error>

#include "forksafe.h"

namespace mco {

namespace {

constexpr int kMaxThreads = 1024;

std::atomic<int> wanted_threads{0};  // 0: not set

int hardware_threads() { return int(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

ThreadPool& ThreadPool::instance() { return fork_safe<ThreadPool>(); }

void ThreadPool::set_threads(int n) { wanted_threads = n < 1 ? 0 : std::min(n, kMaxThreads); }

int ThreadPool::threads() {
  const int n = wanted_threads;
  return n ? n : hardware_threads();
}

void ThreadPool::run(int helpers, const std::function<void()>& work) {
  Job job{&work, std::min(helpers, kMaxThreads), 0};
  if (helpers > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(&job);
    // Without a new thread the work is done by fewer.
    for (int missing = job.wanted - idle_; missing > 0 && workers_ < kMaxThreads; --missing) {
      try {
        std::thread([this] { worker(); }).detach();
      } catch (const std::system_error&) {
        break;
      }
      ++workers_;
    }
    wake_.notify_all();
  }
  work();
  if (helpers > 0) {
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
    job.wanted = 0;
    done_.wait(lock, [&] { return job.running == 0; });
  }
}

void ThreadPool::worker() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return !jobs_.empty(); });
    --idle_;
    Job* job = jobs_.front();
    if (--job->wanted <= 0) jobs_.pop_front();
    ++job->running;
    lock.unlock();
    (*job->work)();
    lock.lock();
    if (--job->running == 0) done_.notify_all();
  }
}

}  // namespace mco
