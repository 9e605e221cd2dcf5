// SPDX-License-Identifier: Apache-2.0
// What is to be done for a call, as ms_custom_ops/aclnn/plan.py wrote it.
#pragma once

#include "arrays.h"
#include "../capi.h"
#include "../launch.h"

namespace mco_acl {

struct Chain {
  char source = 'z';  // p: parameter, c: constant, m: tensor made for the run, r: result of the Program, z: zeros
  int number = 0;
  mco::DType dtype = mco::F32;  // of the end
  std::vector<int64_t> shape;
  std::vector<Step> steps;
};

// Lengths of sequences that are read at each call.
struct Lengths {
  int param = 0;
  bool sums = false;  // inclusive prefix sums are wanted, else counts
  int64_t tokens = 0;
  std::string axis, name;
};

// Weights of trapezoid steps, made of two parameters at each run (computed.h): two tensors, numbered in the order of
// the plan.
struct Weights {
  int trap = 0, dt = 0;
  int places = -1;  // the constant with the step of each row; -1: rows are steps
  int64_t steps = 0, rows = 0;
};

// A launch of a compiled Ascend C kernel, in place of a Program (launches.cc).
struct Launch {
  int64_t blocks = 0, workspace = 0;  // workspace: bytes of the kernel's own
  uint64_t key = 0;
  int32_t inputs = 0, outputs = 0, saturate = 0, split = 0, arch = 0;
  int64_t scopes[8] = {};
  std::vector<int32_t> slots, copies, list_tensors, list_words;  // as of mco_launch
  std::vector<uint64_t> words;
  std::vector<std::string> libraries;  // one, or those of cube and of vector cores
  std::string tiling;
  const mco_launch* ready = nullptr;
  decltype(&mco_launch_run) run = nullptr;  // of the engine that the libraries are linked with
};

struct Result {
  mco::DType dtype;
  std::vector<int64_t> shape;
};

struct Output {
  int param;
  Chain chain;
};

struct Plan {
  int status = 0;
  std::string text;  // of a failure
  uint64_t workspace = 0;
  std::string files, program_op, program_key;
  std::vector<Lengths> lengths;
  std::vector<Shaped> constants;
  std::vector<Weights> weights;
  std::vector<Chain> inputs;
  std::vector<Result> results;
  std::vector<Output> outputs;
  const mco_program* program = nullptr;  // a reference; null: none is run
  std::unique_ptr<Launch> launch;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { mco_free(const_cast<mco_program*>(program)); }
};

// Refused (561000) for what is no plan.
std::shared_ptr<Plan> read_plan(const std::string& text);
// The plan of a request: of this process, of the program cache, or made by Python. A failure that it tells is refused.
std::shared_ptr<const Plan> plan_of(const std::string& op, const std::string& request);

// Loads the launch of a plan, known under `key`; false with the reason when its libraries are not there.
bool load_launch(Plan& plan, const std::string& key, std::string* reason);
// What the environment says of runs, for a launch by the engine that the kernel's library is linked with.
void configure_launch(void* library, mco_asc_launch* launch);

// What the helper process answers; refused (561003) where there is none.
struct Answer {
  std::string plan, key, program;
};
Answer ask_python(const std::string& request);

}  // namespace mco_acl
