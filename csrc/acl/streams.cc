// SPDX-License-Identifier: Apache-2.0
// Streams, events, callbacks. Tasks run at once on the caller's thread, or at the synchronisation in the delayed mode.
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <map>

#include "context.h"

namespace mco_acl {
namespace {

using Clock = std::chrono::steady_clock;

struct Event : Object {
  std::weak_ptr<Stream> stream;
  uint64_t ticket = 0;  // tasks of the stream up to the record
  bool recorded = false, happened = false;
  Clock::time_point when;
};

// One task at a time, whichever stream it is of: a task may wait for another stream.
std::recursive_mutex& turn() {
  static std::recursive_mutex& only = *new std::recursive_mutex;
  return only;
}

std::shared_ptr<Event> event_of(const char* function, aclrtEvent handle) {
  auto event = find<Event>(handle, Kind::kEvent);
  if (!event) refuse(ACL_ERROR_INVALID_PARAM, "%s: no event, or destroyed before", function);
  return event;
}

// Callbacks that wait for the thread which takes them.
struct Reports {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<uint64_t, std::deque<std::function<void()>>> waiting;  // by thread
  std::map<uint64_t, int> subscribed;
};

Reports& reports() {
  static Reports& only = *new Reports;
  return only;
}

// Until the callbacks that block a stream were made, by another thread than this one.
void wait_for_callbacks(const char* function, const Stream& stream, int32_t timeout) {
  Reports& r = reports();
  std::unique_lock<std::mutex> lock(r.mutex);
  if (stream.reporter == uint64_t(pthread_self())) return;
  const auto over = [&] { return !stream.blocked || !r.subscribed.count(stream.reporter); };
  if (timeout < 0) {
    r.arrived.wait(lock, over);
  } else if (!r.arrived.wait_for(lock, std::chrono::milliseconds(timeout), over)) {
    refuse(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "%s: a callback that blocks the stream took more than %d ms", function,
           timeout);
  }
}

void synchronise(const char* function, const std::shared_ptr<Stream>& stream, int32_t timeout = -1) {
  {
    const std::lock_guard<std::recursive_mutex> lock(turn());
    drain(*stream, stream->pushed);
  }
  wait_for_callbacks(function, *stream, timeout);
  const std::lock_guard<std::recursive_mutex> lock(turn());
  if (!stream->error) return;
  const std::string told = stream->error_text;
  stream->error = 0;
  refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "%s: %s", function, told.c_str());
}

void check_timeout(const char* function, int32_t timeout) {
  if (timeout < -1) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: timeout is %d; accepted: milliseconds, or -1 for no limit", function, timeout);
  }
}

void create_stream(const char* function, aclrtStream* stream) {
  if (!stream) refuse(ACL_ERROR_INVALID_PARAM, "%s: a null pointer; accepted: a place for the stream", function);
  const auto owner = context();
  auto fresh = std::make_shared<Stream>();
  fresh->context = owner->number;
  *stream = enroll(fresh, Kind::kStream);
}

void destroy_stream(const char* function, aclrtStream stream, bool finish) {
  const auto known = find<Stream>(stream, Kind::kStream);
  if (!known) refuse(ACL_ERROR_INVALID_PARAM, "%s: no stream, or destroyed before", function);
  withdraw(stream, Kind::kStream);
  if (finish) synchronise(function, known);
}

void hand_callback(uint64_t thread, std::function<void()> callback) {
  Reports& r = reports();
  const std::lock_guard<std::mutex> lock(r.mutex);
  r.waiting[thread].push_back(std::move(callback));
  r.arrived.notify_all();
}

}  // namespace

std::shared_ptr<Stream> stream_of(aclrtStream handle) {
  const auto owner = context();
  if (!handle) return owner->stream;
  auto stream = find<Stream>(handle, Kind::kStream);
  if (!stream) refuse(ACL_ERROR_INVALID_PARAM, "stream: no stream, or destroyed before");
  if (stream->context != owner->number) {
    refuse(ACL_ERROR_RT_STREAM_CONTEXT, "stream: of another context than this thread's; accepted: one of its own");
  }
  return stream;
}

void submit(const std::shared_ptr<Stream>& stream, std::function<void()> task) {
  if (!delayed()) {
    task();
    return;
  }
  const std::lock_guard<std::recursive_mutex> lock(turn());
  stream->tasks.push_back(std::move(task));
  ++stream->pushed;
}

void drain(Stream& stream, uint64_t up_to) {
  while (stream.done < up_to && !stream.tasks.empty()) {
    const std::function<void()> task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    ++stream.done;
    try {
      task();
    } catch (const Failure& failure) {
      if (!stream.error) stream.error = failure.code, stream.error_text = failure.what();
    } catch (const std::exception& error) {
      if (!stream.error) stream.error = ACL_ERROR_RT_INTERNAL_ERROR, stream.error_text = error.what();
    }
  }
}

}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclError aclrtCreateStream(aclrtStream* stream) {
  return guarded(ACL_ERROR_FAILURE, [&] { create_stream("aclrtCreateStream", stream); });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t flag) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (flag & ~(ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC)) {
      refuse(ACL_ERROR_INVALID_PARAM,
             "aclrtCreateStreamWithConfig: flag is 0x%x; accepted: ACL_STREAM_FAST_LAUNCH, "
             "ACL_STREAM_FAST_SYNC",
             flag);
    }
    create_stream("aclrtCreateStreamWithConfig", stream);
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] { destroy_stream("aclrtDestroyStream", stream, true); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] { destroy_stream("aclrtDestroyStreamForce", stream, false); });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] { synchronise("aclrtSynchronizeStream", stream_of(stream)); });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    check_timeout("aclrtSynchronizeStreamWithTimeout", timeout);
    synchronise("aclrtSynchronizeStreamWithTimeout", stream_of(stream), timeout);
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!status) refuse(ACL_ERROR_INVALID_PARAM, "aclrtStreamQuery: a null pointer; accepted: a place for the status");
    const auto known = stream_of(stream);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    *status = known->tasks.empty() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  });
}

aclError aclrtSynchronizeDevice() {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto owner = context();
    synchronise("aclrtSynchronizeDevice", owner->stream);
    for (const auto& object : all_of(Kind::kStream)) {
      const auto stream = std::static_pointer_cast<Stream>(object);
      if (stream->context == owner->number) synchronise("aclrtSynchronizeDevice", stream);
    }
  });
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!event) refuse(ACL_ERROR_INVALID_PARAM, "aclrtCreateEvent: a null pointer; accepted: a place for the event");
    if (flag & ~(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE)) {
      refuse(ACL_ERROR_INVALID_PARAM,
             "aclrtCreateEventWithFlag: flag is 0x%x; accepted: ACL_EVENT_SYNC, "
             "ACL_EVENT_TIME_LINE",
             flag);
    }
    need_context();
    *event = enroll(std::make_shared<Event>(), Kind::kEvent);
  });
}

aclError aclrtCreateEvent(aclrtEvent* event) { return aclrtCreateEventWithFlag(event, ACL_EVENT_TIME_LINE); }

aclError aclrtDestroyEvent(aclrtEvent event) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    event_of("aclrtDestroyEvent", event);
    withdraw(event, Kind::kEvent);
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto known = event_of("aclrtRecordEvent", event);
    const auto on = stream_of(stream);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    known->stream = on;
    known->recorded = true;
    known->happened = false;
    known->ticket = on->pushed + (delayed() ? 1 : 0);
    const uint64_t ticket = known->ticket;
    submit(on, [known, ticket] {
      if (known->ticket != ticket) return;  // recorded again
      known->when = Clock::now();
      known->happened = true;
    });
  });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto known = event_of("aclrtResetEvent", event);
    submit(stream_of(stream), [known] { known->recorded = known->happened = false; });
  });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!status) refuse(ACL_ERROR_INVALID_PARAM, "aclrtQueryEvent: a null pointer; accepted: a place for the status");
    const auto known = event_of("aclrtQueryEvent", event);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    *status = known->happened || !known->recorded ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!status) refuse(ACL_ERROR_INVALID_PARAM, "aclrtQueryEventStatus: a null pointer; accepted: a place for it");
    const auto known = event_of("aclrtQueryEventStatus", event);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    *status = known->happened ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto known = event_of("aclrtSynchronizeEvent", event);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    if (const auto on = known->stream.lock()) drain(*on, known->ticket);
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto known = event_of("aclrtStreamWaitEvent", event);
    const auto on = known->stream.lock();
    const uint64_t ticket = known->ticket;
    submit(stream_of(stream), [on, ticket] {
      if (on) drain(*on, ticket);
    });
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!ms) refuse(ACL_ERROR_INVALID_PARAM, "aclrtEventElapsedTime: a null pointer; accepted: a place for the time");
    const auto start = event_of("aclrtEventElapsedTime", startEvent), end = event_of("aclrtEventElapsedTime", endEvent);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    if (!start->happened || !end->happened) {
      refuse(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
             "aclrtEventElapsedTime: an event that has not taken place; accepted: "
             "recorded ones, after aclrtSynchronizeStream or aclrtSynchronizeEvent");
    }
    *ms = std::chrono::duration<float, std::milli>(end->when - start->when).count();
  });
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto on = stream_of(stream);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    if (on->reporter) refuse(ACL_ERROR_INVALID_PARAM, "aclrtSubscribeReport: the stream has a thread already");
    Reports& r = reports();
    const std::lock_guard<std::mutex> inner(r.mutex);
    on->reporter = threadId;
    ++r.subscribed[threadId];
  });
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto on = stream_of(stream);
    const std::lock_guard<std::recursive_mutex> lock(turn());
    if (!on->reporter || on->reporter != threadId) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtUnSubscribeReport: the thread does not take this stream's callbacks");
    }
    Reports& r = reports();
    const std::lock_guard<std::mutex> inner(r.mutex);
    on->reporter = 0;
    if (--r.subscribed[threadId] == 0) r.subscribed.erase(threadId);
    r.arrived.notify_all();
  });
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!fn) refuse(ACL_ERROR_INVALID_PARAM, "aclrtLaunchCallback: null; accepted: a function");
    if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtLaunchCallback: blockType is %d; accepted: 0 or 1", int(blockType));
    }
    const auto on = stream_of(stream);
    const uint64_t thread = on->reporter;
    if (!thread) {
      refuse(
          ACL_ERROR_RT_STREAM_NO_CB_REG,
          "aclrtLaunchCallback: no thread takes the stream's callbacks; accepted: a call after aclrtSubscribeReport");
    }
    Reports& r = reports();
    if (blockType == ACL_CALLBACK_NO_BLOCK) return submit(on, [=] { hand_callback(thread, [=] { fn(userData); }); });
    {
      const std::lock_guard<std::mutex> lock(r.mutex);
      ++on->blocked;
    }
    submit(on, [=, &r] {
      hand_callback(thread, [=, &r] {
        fn(userData);
        const std::lock_guard<std::mutex> lock(r.mutex);
        --on->blocked;
        r.arrived.notify_all();
      });
    });
  });
}

aclError aclrtProcessReport(int32_t timeout) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    check_timeout("aclrtProcessReport", timeout);
    const uint64_t own = uint64_t(pthread_self());
    Reports& r = reports();
    std::unique_lock<std::mutex> lock(r.mutex);
    if (!r.subscribed.count(own)) {
      refuse(ACL_ERROR_INVALID_PARAM,
             "aclrtProcessReport: this thread takes no stream's callbacks; accepted: one given "
             "to aclrtSubscribeReport");
    }
    const auto there = [&] { return !r.waiting[own].empty(); };
    if (timeout < 0) {
      r.arrived.wait(lock, there);
    } else if (!r.arrived.wait_for(lock, std::chrono::milliseconds(timeout), there)) {
      refuse(ACL_ERROR_WAIT_CALLBACK_TIMEOUT, "aclrtProcessReport: no callback within %d ms", timeout);
    }
    const std::function<void()> callback = std::move(r.waiting[own].front());
    r.waiting[own].pop_front();
    lock.unlock();
    callback();
  });
}

}  // extern "C"
