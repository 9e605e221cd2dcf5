// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <system_error>

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

void ThreadPool::run(int helpers, const std::function<void()>& work) {
  Job job{&work, std::min(helpers, kMaxThreads), 0};
  if (helpers > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(&job);
    // Without a new thread the work is done by fewer.
    for (int missing = job.wanted - idle_; missing > 0 && int(workers_.size()) < kMaxThreads; --missing) {
      try {
        std::thread thread([this] { worker(); });
        workers_.push_back(thread.native_handle());
#if defined(__linux__)
        pthread_setname_np(workers_.back(), "mco_worker");
#endif
        thread.detach();
      } catch (const std::system_error&) {
        break;
      }
      caller_cpu_ = -1;
      mask_.clear();
    }
    if (jobs_.size() == 1) keep_clear();
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
  const std::string mask(reinterpret_cast<const char*>(&allowed), sizeof allowed);
  if (mask == mask_) return;
  mask_ = mask;
  for (const auto worker : workers_) pthread_setaffinity_np(worker, sizeof allowed, &allowed);
#endif
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
