// SPDX-License-Identifier: Apache-2.0
// The two phases of a call: its plan, then its steps and its Program on the memory of the caller.
#include <cstring>

#include "aclnn/ms_custom_ops.h"
#include "addresses.h"
#include "computed.h"
#include "lengths.h"
#include "plan.h"
#include "request.h"

namespace mco_acl {
namespace {

constexpr size_t kErrorBytes = 4096;

enum class State { kFresh, kRunning, kDone };

struct Executor : Object {
  const Op* op = nullptr;
  std::shared_ptr<const void> owner;  // of the op, where no library is
  std::shared_ptr<const Plan> plan;
  std::vector<View> views;  // by parameter
  bool repeatable = false;
  std::atomic<State> state{State::kFresh};
};

// Memory that a run touches, which stays until it ended.
struct Bound {
  std::vector<Shaped> params;  // by parameter; no data where there is none
  std::vector<Shaped> made;    // of their values
};

mco::DType dtype_of(const View& view) {
  const char* name = dtype_name(view.dtype);
  for (int i = 0; i < mco::kDTypes; ++i) {
    if (!std::strcmp(mco::kDTypeName[i], name)) return mco::DType(i);
  }
  refuse(ACLNN_ERR_INNER, "dtype %s in a plan", name);
}

// The tensor of a parameter, whose memory is checked.
Shaped bind(const Op& op, int param, const View& view) {
  Shaped out;
  out.dtype = dtype_of(view), out.shape = view.dims, out.strides = view.strides;
  const uint64_t bytes = uint64_t(view.extent()) * mco::kSize[out.dtype];
  const Held held = hold(view.data);
  if (bytes > held.room) {
    refuse(ACLNN_ERR_RUNTIME_ERROR,
           "361001 (runtime): %s: memory of %s is %p with %llu bytes; accepted: at least %llu bytes "
           "of aclrtMalloc that were not freed",
           op.name, op.params[param].name, view.data, static_cast<unsigned long long>(held.room),
           static_cast<unsigned long long>(bytes));
  }
  out.owner = held.block;
  out.data = static_cast<char*>(view.data) + (bytes ? view.offset * mco::kSize[out.dtype] : 0);
  return out;
}

Bound bind_all(const Executor& e) {
  Bound bound;
  bound.params.resize(e.views.size());
  for (size_t i = 0; i < e.views.size(); ++i) {
    if (e.views[i].dtype != ACL_DT_UNDEFINED) bound.params[i] = bind(*e.op, int(i), e.views[i]);
  }
  for (const Lengths& about : e.plan->lengths) {
    Shaped& given = bound.params.at(size_t(about.param));
    given = lengths_of(*e.op, about, given);
  }
  return bound;
}

const Shaped& source_of(const Plan& plan, const Chain& chain, const Bound& bound, const std::vector<Shaped>& results) {
  const std::vector<Shaped>& all = chain.source == 'p'   ? bound.params
                                   : chain.source == 'c' ? plan.constants
                                   : chain.source == 'm' ? bound.made
                                                         : results;
  if (size_t(chain.number) >= all.size() || (!all[size_t(chain.number)].data && all[size_t(chain.number)].bytes())) {
    refuse(ACLNN_ERR_INNER,
           "a plan with a tensor that is not there; accepted: ms-custom-ops cache clear, and the call again");
  }
  return all[size_t(chain.number)];
}

// The shape of zeros that a chain begins with: only padding follows them.
std::vector<int64_t> before(const Chain& chain) {
  std::vector<int64_t> shape = chain.shape;
  for (const Step& step : chain.steps) {
    const int64_t axis = step.numbers.empty() ? 0 : step.numbers[0] + (step.numbers[0] < 0 ? int64_t(shape.size()) : 0);
    if (step.kind != StepKind::kPad || axis < 0 || axis >= int64_t(shape.size())) {
      refuse(ACLNN_ERR_INNER, "a plan with steps of zeros; accepted: ms-custom-ops cache clear, and the call again");
    }
    shape[size_t(axis)] -= step.numbers[1];
  }
  return shape;
}

Shaped follow(const Plan& plan, const Chain& chain, const Bound& bound, const std::vector<Shaped>& results) {
  Shaped x = chain.source == 'z' ? zeros(chain.dtype, before(chain)) : source_of(plan, chain, bound, results);
  for (const Step& step : chain.steps) x = apply(x, step, plan.constants);
  if (x.shape != chain.shape || x.dtype != chain.dtype) {
    refuse(ACLNN_ERR_INNER,
           "a plan whose steps end elsewhere; accepted: ms-custom-ops cache clear, and the call again");
  }
  return x;
}

bool touch(const Shaped& a, const Shaped& b) {
  if (!a.bytes() || !b.bytes()) return false;
  const auto end = [](const Shaped& x) {
    int64_t last = 0;
    for (size_t i = 0; i < x.shape.size(); ++i) last += (x.shape[i] - 1) * x.strides[i];
    return x.data + (last + 1) * mco::kSize[x.dtype];
  };
  return a.data < end(b) && b.data < end(a);
}

// Whether the Program can write a result where the caller wants it: no value is to be changed or moved, and no other
// tensor lies there.
bool direct(const Output& output, const Bound& bound) {
  const Chain& chain = output.chain;
  const Shaped& out = bound.params[size_t(output.param)];
  if (chain.source != 'r' || !out.contiguous()) return false;
  for (const Step& step : chain.steps) {
    const StepKind kind = step.kind;
    if (kind != StepKind::kReshape && kind != StepKind::kBatch && kind != StepKind::kUnbatch) return false;
  }
  for (size_t i = 0; i < bound.params.size(); ++i) {
    if (int(i) != output.param && bound.params[i].data && touch(bound.params[i], out)) return false;
  }
  return true;
}

void run_program(const Op& op, const Plan& plan, std::vector<Shaped>& inputs, std::vector<Shaped>& results) {
  std::vector<mco_tensor> tensors;
  for (const Shaped& x : inputs) tensors.push_back({x.data, x.bytes()});
  for (const Shaped& x : results) tensors.push_back({x.data, x.bytes()});
  char error[kErrorBytes] = "";
  const int count = int(tensors.size());
  const int failed = plan.launch
                         ? plan.launch->run(plan.launch->ready, tensors.data(), count, error, sizeof error)
                         : mco_run(plan.program, tensors.data(), count, nullptr, 0, nullptr, error, sizeof error);
  if (failed) {
    refuse(ACLNN_ERR_RUNTIME_ERROR, "361001 (runtime): %s: %s", op.name, error);
  }
}

void make_tensors(const Plan& plan, Bound* bound) {
  for (const Weights& about : plan.weights) {
    const Shaped* places = about.places < 0 ? nullptr : &plan.constants.at(size_t(about.places));
    const Shaped &trap = bound->params.at(size_t(about.trap)), &dt = bound->params.at(size_t(about.dt));
    for (const Shaped& x : trapezoid(about, trap, dt, places)) bound->made.push_back(x);
  }
}

void execute(const Executor& e) {
  const Plan& plan = *e.plan;
  Bound bound = bind_all(e);
  make_tensors(plan, &bound);
  for (const Output& output : plan.outputs) {
    const Shaped& out = bound.params.at(size_t(output.param));
    if (out.shape != output.chain.shape || out.dtype != output.chain.dtype) {
      refuse(ACLNN_ERR_INNER, "a plan of another call; accepted: ms-custom-ops cache clear, and the call again");
    }
  }
  std::vector<Shaped> results(plan.results.size());
  std::vector<bool> in_place(plan.outputs.size(), false);
  if (plan.program || plan.launch) {
    std::vector<Shaped> inputs;
    for (const Chain& chain : plan.inputs) inputs.push_back(packed(follow(plan, chain, bound, results)));
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const Output& output = plan.outputs[i];
      if (!direct(output, bound) || results[size_t(output.chain.number)].data) continue;
      in_place[i] = true;
      const Result& wanted = plan.results[size_t(output.chain.number)];
      Shaped& result = results[size_t(output.chain.number)];
      result = bound.params[size_t(output.param)];
      result.shape = wanted.shape, result.strides = row_strides(wanted.shape);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].data) results[i] = fresh(plan.results[i].dtype, plan.results[i].shape);
    }
    run_program(*e.op, plan, inputs, results);
  }
  std::vector<Shaped> ready;  // all of them before one is written: an output may lie on an input
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    ready.push_back(in_place[i] ? Shaped() : follow(plan, plan.outputs[i].chain, bound, results));
    if (plan.outputs[i].chain.source == 'p') ready.back() = detached(ready.back());
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (!in_place[i]) assign(bound.params[size_t(plan.outputs[i].param)], ready[i]);
  }
}

// Takes what the environment says of the engine, once.
void configure() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string threads = variable("MS_CUSTOM_OPS_NUM_THREADS"), limit = variable("MS_CUSTOM_OPS_TIME_LIMIT");
    if (!threads.empty()) {
      char* end = nullptr;
      const long count = std::strtol(threads.c_str(), &end, 10);
      if (*end || count < 1 || count > INT32_MAX) {
        refuse(ACLNN_ERR_RUNTIME_ERROR,
               "361001 (runtime): MS_CUSTOM_OPS_NUM_THREADS is %s; accepted: an integer of at "
               "least 1",
               threads.c_str());
      }
      mco_set_threads(int(count));
    }
    if (!limit.empty()) {
      char* end = nullptr;
      const double seconds = std::strtod(limit.c_str(), &end);
      if (*end || !(seconds > 0)) {
        refuse(ACLNN_ERR_RUNTIME_ERROR,
               "361001 (runtime): MS_CUSTOM_OPS_TIME_LIMIT is %s; accepted: a number of seconds "
               "above 0",
               limit.c_str());
      }
      mco_set_time_limit(seconds);
    }
    if (variable("MS_CUSTOM_OPS_CHECK") == "1") mco_set_check(1);
  });
}

std::shared_ptr<Executor> executor_of(const char* function, aclOpExecutor* handle) {
  if (!handle) {
    refuse(ACLNN_ERR_PARAM_NULLPTR, "161001 (null pointer): %s: executor is null; accepted: what the first phase gave",
           function);
  }
  auto found = find<Executor>(handle, Kind::kExecutor);
  if (!found) {
    refuse(ACLNN_ERR_RUNTIME_ERROR,
           "361001 (runtime): %s: executor is used already, destroyed, or none; accepted: a new "
           "executor for each run, or a repeatable one",
           function);
  }
  return found;
}

void check_workspace(const Op& op, const Executor& e, void* workspace, uint64_t size) {
  const unsigned long long need = e.plan->workspace;
  if (size < need) {
    refuse(ACLNN_ERR_RUNTIME_ERROR, "361001 (runtime): %s: workspace_size is %llu; accepted: at least %llu bytes",
           op.name, static_cast<unsigned long long>(size), need);
  }
  if (need == 0) return;
  const Held held = hold(workspace);
  if (!workspace || held.room < need) {
    refuse(ACLNN_ERR_RUNTIME_ERROR,
           "361001 (runtime): %s: workspace is %p with %llu bytes; accepted: at least %llu bytes of "
           "aclrtMalloc that were not freed",
           op.name, workspace, static_cast<unsigned long long>(held.room), need);
  }
}

// The executor is this call's alone until it ended; one whose run was refused can be run again.
void take(const Op& op, Executor& e) {
  State expected = State::kFresh;
  if (!e.state.compare_exchange_strong(expected, State::kRunning)) {
    refuse(ACLNN_ERR_RUNTIME_ERROR,
           "361001 (runtime): %s: executor is in use by another thread, or used already; accepted: a "
           "new executor for each run",
           op.name);
  }
}

void check_pointers(const char* function, const void* tensor, const void* address) {
  if (tensor && address) return;
  refuse(ACLNN_ERR_PARAM_NULLPTR, "%s: a null pointer; accepted: a tensor and an address", function);
}

void set_address(const Place& place, Executor& e, const void* tensor, void* address) {
  const auto known = find<Tensor>(tensor, Kind::kTensor);
  if (!known) refuse(ACLNN_ERR_PARAM_INVALID, "%s: the tensor was destroyed, or is none", place.function);
  const int number = parameter_of(place, *e.op);
  View& view = e.views[size_t(number)];
  if (view.dims != known->view.dims || view.dtype != known->view.dtype) {
    refuse(ACLNN_ERR_PARAM_INVALID,
           "%s: %s of %s has another shape or dtype than the tensor; accepted: the tensor of "
           "the first phase",
           place.function, e.op->params[number].name, e.op->name);
  }
  view.data = known->view.data = address;
}

}  // namespace

aclnnStatus first_phase(const Op& op, const Argument* arguments, uint64_t* workspaceSize, aclOpExecutor** executor,
                        std::shared_ptr<const void> owner) {
  if (workspaceSize) *workspaceSize = 0;
  if (executor) *executor = nullptr;
  return guarded(ACLNN_ERR_INNER, [&] {
    if (!workspaceSize || !executor) {
      refuse(ACLNN_ERR_PARAM_NULLPTR,
             "161001 (null pointer): %s: workspaceSize or executor is null; accepted: two places", op.name);
    }
    configure();
    check_nulls(op, arguments);
    auto e = std::make_shared<Executor>();
    e->op = &op, e->owner = std::move(owner);
    e->views.resize(size_t(op.count));
    const std::string request = request_of(op, arguments, &e->views);
    e->plan = plan_of(std::string("aclnn_") + op.op, request);
    if (!delayed()) {
      for (const Lengths& about : e->plan->lengths) {
        lengths_of(op, about, bind(op, about.param, e->views.at(size_t(about.param))));
      }
    }
    *workspaceSize = e->plan->workspace;
    *executor = static_cast<aclOpExecutor*>(enroll(e, Kind::kExecutor));
  });
}

aclnnStatus second_phase(const Op& op, void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                         aclrtStream stream) {
  return guarded(ACLNN_ERR_RUNTIME_ERROR, [&] {
    const auto e = executor_of(op.name, executor);
    if ((e->op->caller ? e->op->caller : e->op) != &op) {
      refuse(ACLNN_ERR_RUNTIME_ERROR, "361001 (runtime): %s: executor is of %s; accepted: what %s gave", op.name,
             e->op->name, (std::string("aclnn") + op.name + "GetWorkspaceSize").c_str());
    }
    check_workspace(op, *e, workspace, workspaceSize);
    const auto on = stream_of(stream);
    take(op, *e);
    try {
      if (delayed()) {
        auto copy = std::make_shared<Executor>();  // addresses as they are now
        copy->op = e->op, copy->owner = e->owner, copy->plan = e->plan, copy->views = e->views;
        bind_all(*copy);
        submit(on, [copy] { execute(*copy); });
      } else {
        execute(*e);
      }
    } catch (...) {
      e->state = State::kFresh;
      throw;
    }
    e->state = e->repeatable ? State::kFresh : State::kDone;
    if (!e->repeatable) withdraw(executor, Kind::kExecutor);
  });
}

}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  return guarded(ACLNN_ERR_INNER, [&] { executor_of("aclSetAclOpExecutorRepeatable", executor)->repeatable = true; });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return guarded(ACLNN_ERR_INNER, [&] {
    executor_of("aclDestroyAclOpExecutor", executor);
    withdraw(executor, Kind::kExecutor);
  });
}

#define MCO_ADDRESS(Name, inputs, outputs)                                                            \
  aclnnStatus acl##Name(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) { \
    return guarded(ACLNN_ERR_INNER, [&] {                                                             \
      const auto e = executor_of("acl" #Name, executor);                                              \
      check_pointers("acl" #Name, tensor, addr);                                                      \
      set_address({"acl" #Name, inputs, outputs, index, false, 0}, *e, tensor, addr);                 \
    });                                                                                               \
  }                                                                                                   \
  aclnnStatus Acl##Name(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) { \
    return acl##Name(executor, index, tensor, addr);                                                  \
  }
MCO_ADDRESS(SetInputTensorAddr, true, false)
MCO_ADDRESS(SetOutputTensorAddr, false, true)
MCO_ADDRESS(SetTensorAddr, true, true)
#undef MCO_ADDRESS

#define MCO_LIST_ADDRESS(Name, inputs, outputs)                                                                      \
  aclnnStatus acl##Name(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex, aclTensorList* tensors, \
                        void* addr) {                                                                                \
    return guarded(ACLNN_ERR_INNER, [&] {                                                                            \
      const auto e = executor_of("acl" #Name, executor);                                                             \
      check_pointers("acl" #Name, tensors, addr);                                                                    \
      const void* tensor = entry_of("acl" #Name, tensors, relativeIndex);                                            \
      set_address({"acl" #Name, inputs, outputs, irIndex, true, relativeIndex}, *e, tensor, addr);                   \
    });                                                                                                              \
  }                                                                                                                  \
  aclnnStatus Acl##Name(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex, aclTensorList* tensors, \
                        void* addr) {                                                                                \
    return acl##Name(executor, irIndex, relativeIndex, tensors, addr);                                               \
  }
MCO_LIST_ADDRESS(SetDynamicInputTensorAddr, true, false)
MCO_LIST_ADDRESS(SetDynamicOutputTensorAddr, false, true)
MCO_LIST_ADDRESS(SetDynamicTensorAddr, true, true)
#undef MCO_LIST_ADDRESS

uint64_t aclmcoCopiedBytes() { return copied_bytes(); }

}  // extern "C"
