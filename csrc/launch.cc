// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "../ms_custom_ops/ascendc/include_host/mco_host/api.h"
#include "arena.h"
#include "core.h"
#include "pool.h"

namespace {

constexpr size_t kTilingAlign = 32;
constexpr size_t kMostBytes = size_t{1} << 40;

// A copy of a launch that owns what it points to.
struct Kept {
  mco_launch view;
  std::string name;
  std::vector<int64_t> scopes, bytes;
  std::vector<int32_t> slots, copies, depends, list_tensors, list_words;
  std::vector<uint64_t> words;
  std::vector<uint8_t> tiling;
  std::mutex host;                     // a host's call is one at a time
  std::atomic<bool> went_well{false};  // a run of it

  explicit Kept(const mco_launch& from) : view(from), name(from.name) {
    const int tensors = from.inputs + from.outputs;
    scopes.assign(from.launch.scope_bytes, from.launch.scope_bytes + 8);
    bytes.assign(from.bytes, from.bytes + tensors);
    slots.assign(from.slots, from.slots + from.slot_count);
    list_tensors.resize(slots.size());
    list_words.resize(slots.size());
    if (from.list_tensors) {
      list_tensors.assign(from.list_tensors, from.list_tensors + from.slot_count);
      list_words.assign(from.list_words, from.list_words + from.slot_count);
      words.assign(from.words, from.words + std::accumulate(list_words.begin(), list_words.end(), 0));
    }
    copies.assign(from.copies, from.copies + from.outputs);
    tiling.assign(from.tiling, from.tiling + from.tiling_size);
    if (from.host_call) depends.assign(from.depends, from.depends + from.inputs);
    view.name = name.c_str();
    view.launch.scope_bytes = scopes.data();
    view.bytes = bytes.data();
    view.slots = slots.data();
    view.list_tensors = list_tensors.data();
    view.list_words = list_words.data();
    view.words = words.data();
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
    const int32_t slot = launch.slots[i];
    if (slot < -1 || slot >= tensors) return "a slot names no tensor";
    if (!launch.list_tensors) continue;
    const int32_t listed = launch.list_tensors[i], words = launch.list_words[i];
    if (listed < 0 || words < 0 || (listed ? slot < 0 || listed > tensors - slot : words != 0)) {
      return "a list names no tensors";
    }
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

constexpr uintptr_t kWorkspaceAlign = 512;

// Memory of one run beyond the tensors, kept for later runs.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : memory_(mco::take_workspace(static_cast<int64_t>(bytes + kWorkspaceAlign))) {
    const uintptr_t first =
        reinterpret_cast<uintptr_t>(memory_->reserve(static_cast<int64_t>(bytes + kWorkspaceAlign)));
    at_ = reinterpret_cast<char*>((first + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign);
  }
  ~Workspace() { mco::give_workspace(std::move(memory_)); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  char* get() const { return at_; }

 private:
  std::unique_ptr<mco::Block64> memory_;
  char* at_;
};

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

// Outputs start as copies of inputs, or as zeros.
void BeginOutputs(const Kept& kept, const mco_tensor* tensors) {
  for (int i = 0; i < kept.view.outputs; i++) {
    const mco_tensor& output = tensors[kept.view.inputs + i];
    const int32_t from = kept.copies[static_cast<size_t>(i)];
    if (!output.bytes) continue;
    if (from < 0) {
      std::memset(output.data, 0, static_cast<size_t>(output.bytes));
    } else if (tensors[from].data != output.data) {
      std::memcpy(output.data, tensors[from].data, static_cast<size_t>(output.bytes));
    }
  }
}

// What the parameters of one run are, and the memory that they lie in.
class Arguments {
 public:
  Arguments(const Kept& kept, const mco_tensor* tensors) : kept_(kept), tensors_(tensors) {
    const uint64_t* words = kept.words.data();
    for (size_t i = 0; i < kept.slots.size(); i++) {
      const int32_t slot = kept.slots[i], listed = kept.list_tensors[i];
      const std::string name = "argument " + std::to_string(i);
      if (!listed) {
        values_.push_back(slot < 0 ? nullptr : tensors[slot].data);
        if (slot >= 0) AddTensor(slot, name);
        continue;
      }
      auto& descriptor = descriptors_.emplace_back(words, words + kept.list_words[i]);
      words += kept.list_words[i];
      for (int32_t n = 0; n < listed; n++) {
        descriptor.push_back(reinterpret_cast<uint64_t>(tensors[slot + n].data));
        AddTensor(slot + n, name + "[" + std::to_string(n) + "]");
      }
      Add(descriptor.data(), descriptor.size() * sizeof descriptor[0], name);
    }
  }

  // A parameter behind those of the tensors. `fresh` bytes at its end hold nothing yet.
  void Add(void* data, size_t bytes, const std::string& name, size_t fresh = 0) {
    values_.push_back(data);
    names_.push_back(name);
    memory_.push_back({data, static_cast<int64_t>(bytes), names_.back().c_str(), static_cast<int64_t>(fresh), 0, 0});
  }

  void Fill(mco_asc_launch* launch) {
    for (void*& value : values_) args_.push_back(&value);
    launch->args = args_.data();
    launch->memory = memory_.data();
    launch->memories = static_cast<int32_t>(memory_.size());
  }

 private:
  void AddTensor(int32_t number, const std::string& name) {
    const mco_tensor& tensor = tensors_[number];
    auto known = [&](const mco_asc_memory& m) { return m.data == tensor.data; };
    if (!tensor.bytes || std::any_of(memory_.begin(), memory_.end(), known)) return;
    const int output = number - kept_.view.inputs;
    const bool empty = output >= 0 && kept_.copies[static_cast<size_t>(output)] == -1;
    names_.push_back(name);
    memory_.push_back({tensor.data, tensor.bytes, names_.back().c_str(), 0, empty, 0});
  }

  const Kept& kept_;
  const mco_tensor* const tensors_;
  std::vector<void*> values_;
  std::vector<const void*> args_;
  std::deque<std::vector<uint64_t>> descriptors_;
  std::deque<std::string> names_;
  std::vector<mco_asc_memory> memory_;
};

// A workspace holds nothing that could pass for a result: bytes of the poison of on-chip memory, by as many threads as
// the launch has.
void Poison(char* at, size_t bytes, int threads) {
  constexpr size_t kPart = size_t{1} << 18;
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t first; (first = next.fetch_add(kPart)) < bytes;) {
      std::memset(at + first, mco::Core::kPoison, std::min(kPart, bytes - first));
    }
  };
  const size_t wanted =
      std::min(bytes / kPart, static_cast<size_t>(threads > 0 ? threads : mco::ThreadPool::threads()));
  mco::ThreadPool::instance().run(wanted > 1 ? static_cast<int>(wanted) - 1 : 0, work, [] {});
}

int Run(Kept& kept, const mco_tensor* tensors, char* err, size_t errlen) {
  const mco_launch& view = kept.view;
  mco_asc_launch launch = view.launch;
  std::vector<uint8_t> tiling;
  size_t user = 0;
  {
    std::lock_guard<std::mutex> lock(kept.host);
    Tile(kept, tensors, &launch, &tiling, &user);
  }
  tiling.resize((tiling.size() + kTilingAlign - 1) / kTilingAlign * kTilingAlign + kTilingAlign);
  BeginOutputs(kept, tensors);
  const Workspace workspace(view.system_workspace + user);
  // A kernel that reads what nobody has written shows it in its first run, and in checked ones. Later ones leave the
  // memories as they are, as a chip does.
  launch.keep_memory = kept.went_well && !mco_get_check();
  if (!launch.keep_memory) Poison(workspace.get() + view.system_workspace, user, launch.threads);
  Arguments arguments(kept, tensors);
  arguments.Add(workspace.get(), view.system_workspace + user, "workspace", user);
  arguments.Add(tiling.data(), tiling.size(), "tiling");
  arguments.Fill(&launch);
  const int status = mco_asc_run(&launch, err, errlen);
  if (status == 0) kept.went_well = true;
  return status;
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
    Kept* kept = reinterpret_cast<Kept*>(const_cast<mco_launch*>(launch));  // its first member
    return Run(*kept, tensors, err, errlen);
  } catch (const std::exception& error) {
    return Fail(error.what(), err, errlen);
  }
}

}  // extern "C"
