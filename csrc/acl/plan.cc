// SPDX-License-Identifier: Apache-2.0
// Where plans and Programs come from: memory, the program cache, Python.
#include "plan.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <unordered_map>

#include "../cache_file.h"

namespace mco_acl {
namespace {

constexpr size_t kErrorBytes = 4096, kMostPlans = 4096;

struct Plans {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const Plan>> known;
  std::map<std::string, std::string> files;  // list of files -> what is wrong with them
};

Plans& plans() {
  static Plans& only = *new Plans;
  return only;
}

// As ms_custom_ops/config.py; "" where the cache is off.
std::string cache_folder() {
  const std::string given = variable("MS_CUSTOM_OPS_CACHE_DIR"), home = variable("HOME");
  if (given == "off" || given == "OFF" || given == "Off") return "";
  if (!given.empty()) return given[0] == '~' && (given.size() == 1 || given[1] == '/') ? home + given.substr(1) : given;
  const std::string base = variable("XDG_CACHE_HOME");
  if (!base.empty() && base[0] == '/') return base + "/ms_custom_ops";
  return !home.empty() && home[0] == '/' ? home + "/.cache/ms_custom_ops" : "";
}

// The bytes of an entry of the cache, or "" with the reason.
std::string entry(const std::string& op, const std::string& key, std::string* reason) {
  const std::string folder = cache_folder();
  char name[MCO_CACHE_NAME], error[kErrorBytes] = "";
  if (folder.empty()) {
    *reason = "the program cache is off";
    return "";
  }
  if (mco_cache_name(op.c_str(), key.c_str(), name, error, sizeof error)) {
    *reason = error;
    return "";
  }
  const std::string path = folder + "/" + name;
  uint8_t* bytes = nullptr;
  size_t size = 0;
  const int status = mco_cache_read(path.c_str(), key.c_str(), &bytes, &size, error, sizeof error);
  if (status) {
    *reason = path + ": " + (status > 0 ? error : status == -ENOENT ? "no such file" : std::strerror(-status));
    return "";
  }
  const std::unique_ptr<uint8_t, void (*)(uint8_t*)> owned(bytes, mco_cache_free);
  return std::string(reinterpret_cast<const char*>(bytes), size);
}

// What has become of a list of files, "<SHA-256> <path>" a line: "" where all are as listed or gone. They are gone
// where a cache was carried to a machine without this package.
std::string changed_file(const std::string& files) {
  char digest[MCO_DIGEST];
  for (size_t at = 0; at < files.size();) {
    const size_t end = std::min(files.find('\n', at), files.size());
    const std::string line = files.substr(at, end - at);
    const size_t space = line.find(' ');
    at = end + 1;
    if (space == std::string::npos) return "a list of files that cannot be read";
    const std::string path = line.substr(space + 1);
    if (!mco_file_digest(path.c_str(), digest) && line.compare(0, space, digest) != 0) return path + " has changed";
  }
  return "";
}

bool current(const Plan& plan, std::string* reason) {
  Plans& p = plans();
  const std::lock_guard<std::mutex> lock(p.mutex);
  auto known = p.files.find(plan.files);
  if (known == p.files.end()) known = p.files.emplace(plan.files, changed_file(plan.files)).first;
  if (!known->second.empty()) *reason = known->second;
  return known->second.empty();
}

void put_program(Plan& plan, const std::string& bytes) {
  char error[kErrorBytes] = "";
  if (mco_table_put(plan.program_key.c_str(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), error,
                    sizeof error)) {
    refuse(ACLNN_ERR_INNER, "%s: the Program cannot be loaded: %s", plan.program_op.c_str(), error);
  }
  plan.program = mco_table_find(plan.program_key.c_str());
}

// Whether the plan's Program, or the libraries of its launch, are there, in memory or in the cache.
bool find_program(Plan& plan, const std::string& request, std::string* reason) {
  if (plan.launch) return load_launch(plan, request, reason);
  if (plan.program_op.empty()) return true;
  plan.program = mco_table_find(plan.program_key.c_str());
  if (plan.program) return true;
  const std::string bytes = entry(plan.program_op, plan.program_key, reason);
  if (bytes.empty()) return false;
  put_program(plan, bytes);
  return true;
}

std::shared_ptr<Plan> cached(const std::string& op, const std::string& request, std::string* reason) {
  const std::string found = entry(op, request, reason);
  if (found.empty()) return nullptr;
  auto plan = read_plan(found);
  return current(*plan, reason) && find_program(*plan, request, reason) ? plan : nullptr;
}

std::shared_ptr<Plan> asked(const std::string& op, const std::string& request, const std::string& reason) {
  Answer answer;
  try {
    answer = ask_python(request);
  } catch (const Failure& failure) {
    refuse(failure.code,
           "%d (find kernel): %s: no kernel for this call (%s), and none can be made: %s; accepted: a Python "
           "with ms_custom_ops, or the kernel made ahead with: ms-custom-ops aclnn --plan '%s'",
           failure.code, op.c_str(), reason.c_str(), failure.what(), request.c_str());
  }
  auto plan = read_plan(answer.plan);
  if (!plan->program_op.empty()) put_program(*plan, answer.program);
  std::string missing;
  if (plan->launch && !load_launch(*plan, request, &missing)) {
    refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "561003 (find kernel): %s: %s", op.c_str(), missing.c_str());
  }
  return plan;
}

// Writes a call down for `ms-custom-ops compile --calls`, once in a process.
void note(const std::string& request) {
  const std::string path = variable("MS_CUSTOM_OPS_ACL_CALLS");
  if (path.empty()) return;
  std::ofstream file(path, std::ios::app);
  file << request + "\n";
  file.close();
  if (file.fail()) {
    refuse(ACLNN_ERR_RUNTIME_ERROR,
           "361001 (runtime): MS_CUSTOM_OPS_ACL_CALLS is %s; accepted: a file that can be written", path.c_str());
  }
}

}  // namespace

std::shared_ptr<const Plan> plan_of(const std::string& op, const std::string& request) {
  Plans& p = plans();
  {
    const std::lock_guard<std::mutex> lock(p.mutex);
    const auto known = p.known.find(request);
    if (known != p.known.end()) return known->second;
  }
  std::string reason;
  std::shared_ptr<Plan> plan = cached(op, request, &reason);
  if (!plan) plan = asked(op, request, reason);
  if (plan->status) throw Failure(plan->status, plan->text);
  const std::lock_guard<std::mutex> lock(p.mutex);
  if (!p.known.count(request)) note(request);
  if (p.known.size() >= kMostPlans) p.known.clear();
  return p.known[request] = plan;
}

}  // namespace mco_acl
