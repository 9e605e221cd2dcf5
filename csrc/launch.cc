// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "../ms_custom_ops/ascendc/include_host/mco_host/api.h"

namespace {

constexpr size_t kTilingAlign = 32;
constexpr size_t kMostBytes = size_t{1} << 40;

// A copy of a launch that owns what it points to.
struct Kept {
  mco_launch view;
  std::string name;
  std::vector<int64_t> scopes, bytes;
  std::vector<int32_t> slots, copies, depends;
  std::vector<uint8_t> tiling;
  std::mutex host;  // a host's call is one at a time

  explicit Kept(const mco_launch& from) : view(from), name(from.name) {
    const int tensors = from.inputs + from.outputs;
    scopes.assign(from.launch.scope_bytes, from.launch.scope_bytes + 8);
    bytes.assign(from.bytes, from.bytes + tensors);
    slots.assign(from.slots, from.slots + from.slot_count);
    copies.assign(from.copies, from.copies + from.outputs);
    tiling.assign(from.tiling, from.tiling + from.tiling_size);
    if (from.host_call) depends.assign(from.depends, from.depends + from.inputs);
    view.name = name.c_str();
    view.launch.scope_bytes = scopes.data();
    view.bytes = bytes.data();
    view.slots = slots.data();
    view.copies = copies.data();
    view.tiling = tiling.data();
    view.depends = depends.data();
  }
};

std::string Problem(const mco_launch& launch) {
  const int tensors = launch.inputs + launch.outputs;
  if (launch.struct_size != sizeof(mco_launch)) return "struct_size is not that of mco_launch";
  if (!launch.name || launch.inputs < 0 || launch.outputs < 1 || launch.slot_count < 0)
    return "counts are out of range";
  if (launch.user_workspace > kMostBytes || launch.system_workspace > kMostBytes) return "the workspace is too large";
  for (int i = 0; i < launch.slot_count; i++) {
    if (launch.slots[i] < -1 || launch.slots[i] >= tensors) return "a slot names no tensor";
  }
  for (int i = 0; i < launch.outputs; i++) {
    const int32_t from = launch.copies[i];
    if (from < -2 || from >= launch.inputs) return "a copy names no input";
    if (from >= 0 && launch.bytes[from] != launch.bytes[launch.inputs + i]) return "a copy has another size";
  }
  return "";
}

struct Table {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Kept>> launches;
};
Table& State() {
  static auto* table = new Table;  // never destroyed: graphs may outlive static destructors
  return *table;
}

int Fail(const std::string& text, char* err, size_t errlen) {
  if (err && errlen) std::snprintf(err, errlen, "%s", text.c_str());
  return 1;
}

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Freed>;

// Memory of one run beyond the tensors.
Memory Allocate(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 512, bytes ? bytes : 1)) throw std::runtime_error("no memory for the workspace");
  return Memory(memory);
}

// Tiling of this run: the one that was put, or the host's answer to the values of this run.
void Tile(const Kept& kept, const mco_tensor* tensors, mco_asc_launch* launch, std::vector<uint8_t>* tiling,
          size_t* workspace) {
  const mco_launch& view = kept.view;
  *tiling = kept.tiling;
  *workspace = view.user_workspace;
  if (!view.host_call) return;
  for (int i = 0; i < view.inputs; i++) {
    if (kept.depends[static_cast<size_t>(i)] >= 0) {
      view.host_data(view.host_call, kept.depends[static_cast<size_t>(i)], tensors[i].data);
    }
  }
  mco_host_tiling answer;
  auto failure = std::make_unique<mco_host_failure>();
  if (view.host_tile(view.host_call, &answer, failure.get())) {
    const char* what = failure->kind == 2   ? "threw an exception"
                       : failure->kind == 3 ? "was stopped by a signal"
                                            : "answered a failure";
    throw std::runtime_error("the tiling function " + std::string(what) +
                             (failure->text[0] ? "; it said: " + std::string(failure->text) : std::string()));
  }
  launch->blocks = static_cast<int32_t>(answer.block_dim);
  launch->tiling_key = answer.tiling_key;
  tiling->assign(answer.data, answer.data + answer.size);
  *workspace = answer.workspace > view.system_workspace ? answer.workspace - view.system_workspace : 0;
  if (*workspace > kMostBytes) throw std::runtime_error("the tiling function asks for a workspace beyond 1 TiB");
}

void Run(Kept& kept, const mco_tensor* tensors, char* err, size_t errlen, int* status) {
  const mco_launch& view = kept.view;
  mco_asc_launch launch = view.launch;
  std::vector<uint8_t> tiling;
  size_t user = 0;
  {
    std::lock_guard<std::mutex> lock(kept.host);
    Tile(kept, tensors, &launch, &tiling, &user);
  }
  tiling.resize((tiling.size() + kTilingAlign - 1) / kTilingAlign * kTilingAlign + kTilingAlign);
  for (int i = 0; i < view.outputs; i++) {
    const mco_tensor& output = tensors[view.inputs + i];
    const int32_t from = kept.copies[static_cast<size_t>(i)];
    if (!output.bytes) continue;
    if (from < 0) {
      std::memset(output.data, 0, static_cast<size_t>(output.bytes));
    } else if (tensors[from].data != output.data) {
      std::memcpy(output.data, tensors[from].data, static_cast<size_t>(output.bytes));
    }
  }
  const Memory workspace = Allocate(view.system_workspace + user);
  std::memset(static_cast<char*>(workspace.get()) + view.system_workspace, 0xff, user);
  std::vector<void*> values;
  for (const int32_t slot : kept.slots) values.push_back(slot < 0 ? nullptr : tensors[slot].data);
  values.push_back(workspace.get());
  values.push_back(tiling.data());
  std::vector<const void*> args;
  for (void*& value : values) args.push_back(&value);
  std::vector<std::string> names;
  std::vector<mco_asc_memory> memory;
  names.reserve(values.size());
  for (size_t i = 0; i < kept.slots.size(); i++) {
    const int32_t slot = kept.slots[i];
    if (slot < 0 || !tensors[slot].bytes) continue;
    const void* const data = tensors[slot].data;
    if (std::any_of(memory.begin(), memory.end(), [&](const mco_asc_memory& m) { return m.data == data; })) continue;
    const int output = slot - view.inputs;
    const bool empty = output >= 0 && kept.copies[static_cast<size_t>(output)] == -1;
    names.push_back("argument " + std::to_string(i));
    memory.push_back({tensors[slot].data, tensors[slot].bytes, names.back().c_str(), 0, empty, 0});
  }
  memory.push_back({workspace.get(), static_cast<int64_t>(view.system_workspace + user), "workspace",
                    static_cast<int64_t>(user), 0, 0});
  memory.push_back({tiling.data(), static_cast<int64_t>(tiling.size()), "tiling", 0, 0, 0});
  launch.args = args.data();
  launch.memory = memory.data();
  launch.memories = static_cast<int32_t>(memory.size());
  *status = mco_asc_run(&launch, err, errlen);
}

}  // namespace

extern "C" {

int mco_launch_put(const char* key, const mco_launch* launch, char* err, size_t errlen) {
  const std::string problem = Problem(*launch);
  if (!problem.empty()) return Fail("mco_launch_put: " + problem, err, errlen);
  std::lock_guard<std::mutex> lock(State().mutex);
  auto& kept = State().launches[key];
  if (!kept) kept.reset(new Kept(*launch));
  return 0;
}

const mco_launch* mco_launch_find(const char* key) {
  std::lock_guard<std::mutex> lock(State().mutex);
  auto found = State().launches.find(key);
  return found == State().launches.end() ? nullptr : &found->second->view;
}

int mco_launch_run(const mco_launch* launch, const mco_tensor* tensors, int n, char* err, size_t errlen) {
  if (n != launch->inputs + launch->outputs) return Fail("mco_launch_run: wrong number of tensors", err, errlen);
  for (int i = 0; i < n; i++) {
    if (tensors[i].bytes != launch->bytes[i]) {
      return Fail("tensor " + std::to_string(i) + " has " + std::to_string(tensors[i].bytes) +
                      " bytes; accepted: " + std::to_string(launch->bytes[i]),
                  err, errlen);
    }
  }
  try {
    int status = 0;
    Kept* kept = reinterpret_cast<Kept*>(const_cast<mco_launch*>(launch));  // its first member
    Run(*kept, tensors, err, errlen, &status);
    return status;
  } catch (const std::exception& error) {
    return Fail(error.what(), err, errlen);
  }
}

}  // extern "C"
