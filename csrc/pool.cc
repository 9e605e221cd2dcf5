// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#if defined(__linux__)
#include <pthread.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base.h"
#include "forksafe.h"

namespace mco {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kFewProcessors = 4;

std::atomic<int> wanted_threads{0};  // 0: not set

int hardware_threads() { return int(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

ThreadPool& ThreadPool::instance() { return fork_safe<ThreadPool>(); }

void ThreadPool::set_threads(int n) { wanted_threads = n < 1 ? 0 : std::min(n, kMaxThreads); }

int ThreadPool::threads() {
  const int n = wanted_threads;
  return n ? n : hardware_threads();
}

void ThreadPool::run(int helpers, const std::function<void()>& work, const std::function<void()>& meanwhile) {
  constexpr std::chrono::milliseconds kLook(20);
  Job job{&work, std::min(helpers, kMaxThreads), 0, false};
  if (helpers > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(&job);
    add_workers(job.wanted);
    if (jobs_.size() == 1) keep_clear();
    wake_.notify_all();
  }
  const bool fine = call(work);
  if (helpers > 0) {
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
    job.wanted = 0;
    while (!done_.wait_for(lock, kLook, [&] { return job.running == 0; })) {
      lock.unlock();
      call(meanwhile);
      lock.lock();
    }
  }
  if (!fine || job.failed) throw Error("out of memory");  // nothing else is left uncaught
}

bool ThreadPool::call(const std::function<void()>& work) noexcept {
  try {
    work();
    return true;
  } catch (...) {
    return false;
  }
}

// Without a new thread the work is done by fewer.
void ThreadPool::add_workers(int wanted) {
  for (int missing = wanted - idle_; missing > 0 && int(workers_.size()) < kMaxThreads; --missing) {
    try {
      workers_.reserve(workers_.size() + 1);
      std::thread thread([this] { worker(); });
      workers_.push_back(thread.native_handle());
#if defined(__linux__)
      pthread_setname_np(workers_.back(), "mco_worker");
      CPU_ZERO(&mask_);
#endif
      thread.detach();
    } catch (...) {  // no memory, no thread
      return;
    }
    ++idle_;  // also before it has started
    caller_cpu_ = -1;
  }
}

// Where processors are few, lets the workers run on those of the caller but the one it is on; elsewhere on all of them.
// A thread that is woken for a short job is otherwise often queued behind its waker, and where other threads sleep and
// wake all the time (as a framework's do) it is moved to an idle processor only after tens of milliseconds: on two
// processors the job ran on one.
void ThreadPool::keep_clear() {
#if defined(__linux__)
  const int cpu = sched_getcpu();
  if (cpu < 0 || cpu == caller_cpu_) return;
  caller_cpu_ = cpu;
  cpu_set_t allowed;
  if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed)) return;
  // A caller that is bound to one processor leaves its workers there with it.
  if (CPU_COUNT(&allowed) > 1 && CPU_COUNT(&allowed) <= kFewProcessors) CPU_CLR(cpu, &allowed);
  if (CPU_EQUAL(&allowed, &mask_)) return;
  mask_ = allowed;
  for (const auto worker : workers_) pthread_setaffinity_np(worker, sizeof allowed, &allowed);
#endif
}

void ThreadPool::worker() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return !jobs_.empty(); });
    --idle_;
    Job* job = jobs_.front();
    if (--job->wanted <= 0) jobs_.pop_front();
    ++job->running;
    lock.unlock();
    const bool fine = call(*job->work);
    lock.lock();
    job->failed = job->failed || !fine;
    if (--job->running == 0) done_.notify_all();
    ++idle_;
  }
}

}  // namespace mco
