// SPDX-License-Identifier: Apache-2.0
// Compilation at run time: the Python process of the helper builds, and answers with a log and a binary.
#include "acl/acl_rt_compile.h"

#include <cstdlib>
#include <cstring>

#include "plan.h"

namespace mco_acl {
namespace {

constexpr int kMostHeaders = 4096, kMostOptions = 4096;
constexpr size_t kMostNames = 256;
constexpr char kDefaultName[] = "default_program";

struct Source : Object {
  std::mutex mutex;  // of one compilation at a time
  std::string text, name;
  std::vector<std::pair<std::string, std::string>> headers;  // name and text
  std::deque<std::string> names;                             // of templates, as they were added
  std::string log, binary;                                   // of the last compilation
};

template <class F>
aclError rtc(F body) noexcept {
  const int status = guarded(ACL_ERROR_RTC_FAILURE, body);
  return status == ACL_ERROR_BAD_ALLOC ? ACL_ERROR_RTC_OUT_OF_MEMORY : status;
}

std::shared_ptr<Source> source_of(const char* call, aclrtcProg prog) {
  auto found = find<Source>(prog, Kind::kSource);
  if (!found) {
    refuse(ACL_ERROR_RTC_INVALID_PROG, "%s: prog is none, or destroyed before; accepted: what aclrtcCreateProg gave",
           call);
  }
  return found;
}

// A file of its own folder: a name may not lead out of it.
bool stays_inside(const std::string& name) {
  if (name.empty() || name[0] == '/' || name.size() > 1024) return false;
  return ("/" + name + "/").find("/../") == std::string::npos;
}

void add(std::string* request, const std::string& field) { *request += std::to_string(field.size()) + "\n" + field; }

std::string request_of(const Source& source, int count, const char** options) {
  std::string request = "rtc\n";
  add(&request, soc_name());
  add(&request, source.name);
  add(&request, source.text);
  add(&request, std::to_string(source.headers.size()));
  for (const auto& header : source.headers) add(&request, header.first), add(&request, header.second);
  add(&request, std::to_string(source.names.size()));
  for (const std::string& name : source.names) add(&request, name);
  for (int i = 0; i < count; ++i) add(&request, options[i]);
  return request;
}

// An answer is its status in the first line, and the log.
void compile(const char* call, Source& source, int count, const char** options) {
  const std::lock_guard<std::mutex> lock(source.mutex);
  source.log.clear(), source.binary.clear();
  Answer answer;
  try {
    answer = ask_python(request_of(source, count, options));
  } catch (const Failure& failure) {
    source.log = failure.what();
    refuse(ACL_ERROR_RTC_FAILURE, "%s: %s", call, failure.what());
  }
  const size_t line = answer.plan.find('\n');
  const int status = line == std::string::npos ? ACL_ERROR_RTC_FAILURE : std::atoi(answer.plan.c_str());
  source.log = line == std::string::npos ? answer.plan : answer.plan.substr(line + 1);
  if (status) throw Failure(status, std::string(call) + ": " + source.log);
  source.binary = std::move(answer.program);
}

void need_binary(const char* call, const Source& source) {
  if (source.binary.empty()) {
    refuse(ACL_ERROR_RTC_INVALID_PROG, "%s: prog has no binary; accepted: after an aclrtcCompileProg that returned 0",
           call);
  }
}

void need_place(const char* call, const void* place) {
  if (!place) refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: a null pointer; accepted: a place for the result", call);
}

void take_headers(const char* call, int count, const char** headers, const char** names, Source* source) {
  if (count < 0 || count > kMostHeaders || (count > 0 && (!headers || !names))) {
    refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: numHeaders is %d; accepted: 0 to %d, with headers and includeNames", call,
           count, kMostHeaders);
  }
  for (int i = 0; i < count; ++i) {
    if (!headers[i] || !names[i]) {
      refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: header %d or its name is null; accepted: two texts", call, i);
    }
    if (!stays_inside(names[i])) {
      refuse(ACL_ERROR_RTC_INVALID_INPUT,
             "%s: includeNames[%d] is '%s'; accepted: the name of an #include, relative and without ..", call, i,
             names[i]);
    }
    source->headers.emplace_back(names[i], headers[i]);
  }
}

}  // namespace
}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclError aclrtcCreateProg(aclrtcProg* prog, const char* src, const char* name, int numHeaders, const char** headers,
                          const char** includeNames) {
  return rtc([&] {
    const char* const call = "aclrtcCreateProg";
    if (!prog) refuse(ACL_ERROR_RTC_INVALID_PROG, "%s: prog is null; accepted: a place for the handle", call);
    *prog = nullptr;
    if (!src) refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: src is null; accepted: the text of a source", call);
    auto fresh = std::make_shared<Source>();
    fresh->text = src;
    fresh->name = name && *name ? name : kDefaultName;
    take_headers(call, numHeaders, headers, includeNames, fresh.get());
    *prog = enroll(fresh, Kind::kSource);
  });
}

aclError aclrtcCompileProg(aclrtcProg prog, int numOptions, const char** options) {
  return rtc([&] {
    const char* const call = "aclrtcCompileProg";
    const auto source = source_of(call, prog);
    if (numOptions < 0 || numOptions > kMostOptions || (numOptions > 0 && !options)) {
      refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: numOptions is %d; accepted: 0 to %d, with options", call, numOptions,
             kMostOptions);
    }
    for (int i = 0; i < numOptions; ++i) {
      if (!options[i]) refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: option %d is null; accepted: a text", call, i);
    }
    compile(call, *source, numOptions, options);
  });
}

aclError aclrtcAddNameExpr(aclrtcProg prog, const char* const nameExpression) {
  return rtc([&] {
    const char* const call = "aclrtcAddNameExpr";
    const auto source = source_of(call, prog);
    if (!nameExpression || !*nameExpression) {
      refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: nameExpression is empty; accepted: the name of a kernel", call);
    }
    const std::lock_guard<std::mutex> lock(source->mutex);
    if (!source->binary.empty()) {
      refuse(ACL_ERROR_RTC_NO_NAME_EXPR_AFTER_COMPILATION, "%s: after aclrtcCompileProg; accepted: before it", call);
    }
    if (source->names.size() >= kMostNames) {
      refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: one more name; accepted: up to %zu", call, kMostNames);
    }
    source->names.emplace_back(nameExpression);
  });
}

aclError aclrtcGetLoweredName(aclrtcProg prog, const char* nameExpression, const char** loweredName) {
  return rtc([&] {
    const char* const call = "aclrtcGetLoweredName";
    const auto source = source_of(call, prog);
    need_place(call, loweredName);
    *loweredName = nullptr;
    if (!nameExpression) refuse(ACL_ERROR_RTC_INVALID_INPUT, "%s: nameExpression is null; accepted: a name", call);
    const std::lock_guard<std::mutex> lock(source->mutex);
    if (source->binary.empty()) {
      refuse(ACL_ERROR_RTC_NO_LOWERED_NAMES_BEFORE_COMPILATION, "%s: before aclrtcCompileProg; accepted: after it",
             call);
    }
    for (const std::string& name : source->names) {
      if (name == nameExpression) *loweredName = name.c_str();
    }
    if (!*loweredName) {
      refuse(ACL_ERROR_RTC_NAME_EXPR_NOT_VALID, "%s: nameExpression is '%s'; accepted: one of aclrtcAddNameExpr", call,
             nameExpression);
    }
  });
}

aclError aclrtcGetBinDataSize(aclrtcProg prog, size_t* binDataSizeRet) {
  return rtc([&] {
    const auto source = source_of("aclrtcGetBinDataSize", prog);
    need_place("aclrtcGetBinDataSize", binDataSizeRet);
    const std::lock_guard<std::mutex> lock(source->mutex);
    need_binary("aclrtcGetBinDataSize", *source);
    *binDataSizeRet = source->binary.size();
  });
}

aclError aclrtcGetBinData(aclrtcProg prog, char* binData) {
  return rtc([&] {
    const auto source = source_of("aclrtcGetBinData", prog);
    need_place("aclrtcGetBinData", binData);
    const std::lock_guard<std::mutex> lock(source->mutex);
    need_binary("aclrtcGetBinData", *source);
    std::memcpy(binData, source->binary.data(), source->binary.size());
  });
}

aclError aclrtcGetCompileLogSize(aclrtcProg prog, size_t* logSizeRet) {
  return rtc([&] {
    const auto source = source_of("aclrtcGetCompileLogSize", prog);
    need_place("aclrtcGetCompileLogSize", logSizeRet);
    const std::lock_guard<std::mutex> lock(source->mutex);
    *logSizeRet = source->log.size() + 1;
  });
}

aclError aclrtcGetCompileLog(aclrtcProg prog, char* log) {
  return rtc([&] {
    const auto source = source_of("aclrtcGetCompileLog", prog);
    need_place("aclrtcGetCompileLog", log);
    const std::lock_guard<std::mutex> lock(source->mutex);
    std::memcpy(log, source->log.c_str(), source->log.size() + 1);
  });
}

aclError aclrtcDestroyProg(aclrtcProg* prog) {
  return rtc([&] {
    const char* const call = "aclrtcDestroyProg";
    if (!prog) refuse(ACL_ERROR_RTC_INVALID_PROG, "%s: prog is null; accepted: the place of a handle", call);
    source_of(call, *prog);
    withdraw(*prog, Kind::kSource);
    *prog = nullptr;
  });
}

}  // extern "C"
