// SPDX-License-Identifier: Apache-2.0
// Ops of other libraries (libcust_opapi.so), which bring their tables along.
#include <map>

#include "aclnn/ms_custom_ops.h"
#include "objects.h"
#include "ops.h"

namespace mco_acl {
namespace {

constexpr int kMostParams = 256;  // as plan_text.cc takes them

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
    if (p.type < 0 || p.type > int(Type::kOutputs)) refuse(ACLNN_ERR_INNER, "561000: a parameter of type %d", p.type);
    made->names.push_back(p.name);
    made->params.push_back({made->names.back().c_str(), Type(p.type), p.optional != 0});
  }
  made->view = {made->name.c_str(), made->op.c_str(), made->params.data(), given->count, made->project.c_str()};
  found = std::move(made);
  return found->view;
}

// An op whose tensors of lists are parameters of their own: of one call.
struct Spread {
  std::deque<std::string> names;
  std::vector<Param> params;
  std::vector<Argument> arguments;
  Op view{};
};

std::shared_ptr<List> list_of(const Op& op, const Param& param, const void* handle) {
  if (!handle) {
    refuse(ACLNN_ERR_PARAM_NULLPTR, "161001 (null pointer): %s: %s is null; accepted: an aclTensorList", op.name,
           param.name);
  }
  auto list = find<List>(handle, Kind::kTensorList);
  if (!list || list->values.empty()) {
    refuse(ACLNN_ERR_PARAM_INVALID,
           "161002 (invalid parameter): %s: %s is %s; accepted: one of aclCreateTensorList with at least one tensor",
           op.name, param.name, list ? "an empty list" : "destroyed, or no aclTensorList");
  }
  return list;
}

std::shared_ptr<Spread> spread(const Op& op, const aclmcoArgument* given) {
  auto out = std::make_shared<Spread>();
  for (int i = 0; i < op.count; ++i) {
    const Param& param = op.params[i];
    if (param.type != Type::kInputs && param.type != Type::kOutputs) {
      out->params.push_back(param);
      out->arguments.push_back({given[i].handle, given[i].i, given[i].f});
      continue;
    }
    const auto list = list_of(op, param, given[i].handle);
    if (list->values.size() + size_t(op.count) + out->params.size() > size_t(kMostParams)) {
      refuse(ACLNN_ERR_PARAM_INVALID,
             "161002 (invalid parameter): %s: %s is a list of %zu tensors; accepted: up to %d tensors in all", op.name,
             param.name, list->values.size(), kMostParams - op.count);
    }
    for (size_t n = 0; n < list->values.size(); ++n) {
      out->names.push_back(text("%s[%zu]", param.name, n));
      out->params.push_back({out->names.back().c_str(), param.type == Type::kInputs ? Type::kInput : Type::kOutput,
                             false, n ? InList::kNext : InList::kFirst});
      out->arguments.push_back({list->values[n], 0, 0});
    }
  }
  out->view = op;
  out->view.params = out->params.data(), out->view.count = int(out->params.size()), out->view.caller = &op;
  return out;
}

}  // namespace
}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclnnStatus aclmcoFirstPhase(const aclmcoOp* op, const aclmcoArgument* arguments, uint64_t* workspaceSize,
                             aclOpExecutor** executor) {
  std::shared_ptr<Spread> call;
  if (workspaceSize) *workspaceSize = 0;
  if (executor) *executor = nullptr;
  const int status = guarded(ACLNN_ERR_INNER, [&] { call = spread(kept(op), arguments); });
  return status ? status : first_phase(call->view, call->arguments.data(), workspaceSize, executor, call);
}

aclnnStatus aclmcoSecondPhase(const aclmcoOp* op, void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                              aclrtStream stream) {
  const Op* known = nullptr;
  const int status = guarded(ACLNN_ERR_INNER, [&] { known = &kept(op); });
  return status ? status : second_phase(*known, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
