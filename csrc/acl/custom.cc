// SPDX-License-Identifier: Apache-2.0
// Ops of other libraries (libcust_opapi.so), which bring their tables along.
#include <map>

#include "aclnn/ms_custom_ops.h"
#include "ops.h"

namespace mco_acl {
namespace {

constexpr int kMostParams = 256;

// An op with texts of its own: executors may outlive the library that brought it.
struct Custom {
  std::string name, op, project;
  std::deque<std::string> names;
  std::vector<Param> params;
  Op view{};
};

const Op& kept(const aclmcoOp* given) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::string, std::unique_ptr<Custom>>;
  if (!given || given->size != sizeof(aclmcoOp) || given->count < 0 || given->count > kMostParams) {
    refuse(ACLNN_ERR_INNER,
           "561000: an op of another version of ms_custom_ops; accepted: a library built again with "
           "ms-custom-ops aclnn --project");
  }
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Custom>& found = all[std::string(given->project) + "|" + given->op];
  if (found) return found->view;
  auto made = std::make_unique<Custom>();
  made->name = given->name, made->op = given->op, made->project = given->project;
  for (int i = 0; i < given->count; ++i) {
    const aclmcoParam& p = given->params[i];
    if (p.type < 0 || p.type > int(Type::kBools)) refuse(ACLNN_ERR_INNER, "561000: a parameter of type %d", p.type);
    made->names.push_back(p.name);
    made->params.push_back({made->names.back().c_str(), Type(p.type), p.optional != 0});
  }
  made->view = {made->name.c_str(), made->op.c_str(), made->params.data(), given->count, made->project.c_str()};
  found = std::move(made);
  return found->view;
}

}  // namespace
}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclnnStatus aclmcoFirstPhase(const aclmcoOp* op, const aclmcoArgument* arguments, uint64_t* workspaceSize,
                             aclOpExecutor** executor) {
  const Op* known = nullptr;
  std::vector<Argument> given;
  const int status = guarded(ACLNN_ERR_INNER, [&] {
    known = &kept(op);
    for (int i = 0; i < known->count; ++i) given.push_back({arguments[i].handle, arguments[i].i, arguments[i].f});
  });
  return status ? status : first_phase(*known, given.data(), workspaceSize, executor);
}

aclnnStatus aclmcoSecondPhase(const aclmcoOp* op, void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                              aclrtStream stream) {
  const Op* known = nullptr;
  const int status = guarded(ACLNN_ERR_INNER, [&] { known = &kept(op); });
  return status ? status : second_phase(*known, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
