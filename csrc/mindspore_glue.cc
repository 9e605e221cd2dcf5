// SPDX-License-Identifier: Apache-2.0
// The one function MindSpore calls for every op of the package (ops.Custom, func_type "aot") and its Init, and one for
// casts beside them.
// MindSpore is built with the old string ABI, so this file is too; it speaks to the engine through the C interface.
#define _GLIBCXX_USE_CXX11_ABI 0

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cache_file.h"
#include "capi.h"
#include "launch.h"

namespace mco_mindspore {

// Mirror of mindspore::AotKernelData and mindspore::AotExtra: only the order of the virtual functions and the two
// members behind them matter. MindSpore deletes the kernel data through the virtual destructor. A named namespace: of a
// class without a derived one, local to this file, the compiler concludes that no virtual call can ever arrive.
struct AotKernelData {
  virtual ~AotKernelData() = default;
};

class AotExtra {
 public:
  virtual ~AotExtra() = default;
  virtual bool HasAttr(std::string name) = 0;
  virtual bool GetAttrBool(std::string name) = 0;
  virtual int64_t GetAttrInt(std::string name) = 0;
  virtual float GetAttrFloat(std::string name) = 0;
  virtual std::string GetAttrStr(std::string name) = 0;
  virtual std::vector<int64_t> GetAttrIntVec(std::string name) = 0;
  virtual std::vector<float> GetAttrFloatVec(std::string name) = 0;
  virtual std::vector<std::vector<int64_t>> GetAttrInt2DVec(std::string name) = 0;
  virtual std::vector<std::vector<float>> GetAttrFloat2DVec(std::string name) = 0;
  std::vector<size_t> workspace;
  AotKernelData* kernel_data = nullptr;
};

}  // namespace mco_mindspore

namespace {

using mco_mindspore::AotExtra;
using mco_mindspore::AotKernelData;

constexpr size_t kErrorBytes = 4096;
// Waking a thread takes some 50 us here; what is over sooner runs on the calling thread alone.
constexpr std::chrono::microseconds kShort(100);

struct DType {
  const char* name;
  int64_t bytes;
};
// Indexed by the dtype code of the binary Program.
constexpr DType kDTypes[] = {{"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"int8", 1},  {"uint8", 1},  {"int16", 2},
                             {"uint16", 2},  {"int32", 4},    {"uint32", 4},  {"int64", 8}, {"uint64", 8}, {"bool", 1}};
constexpr int kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);

int DTypeCode(const char* name) {
  for (int i = 0; i < kDTypeCount; i++) {
    if (!std::strcmp(kDTypes[i].name, name)) return i;
  }
  return -1;
}

struct Error : std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(text) {}
};

// What Python told this process.
struct Published {
  std::mutex mutex;
  std::map<std::string, std::string> sources;  // op -> hash, of the ops whose primitives were built here
  std::map<std::string, std::string> files;    // list of files -> what is wrong with them
  std::string folder;
};

Published& State() {
  static Published* state = new Published;  // never destroyed: graphs may outlive static destructors
  return *state;
}

// Tensors of one call as MindSpore hands them over: inputs, then outputs.
struct Tensors {
  const int* ndims;
  int64_t* const* shapes;
  const char* const* dtypes;

  std::string Text(size_t i) const {
    std::string text = std::string(dtypes[i]) + "[";
    for (int d = 0; d < ndims[i]; d++) text += (d ? "," : "") + std::to_string(shapes[i][d]);
    return text + "]";
  }
  int64_t Elements(size_t i) const {
    int64_t n = 1;
    for (int d = 0; d < ndims[i]; d++) n *= shapes[i][d];
    return n;
  }
  int64_t Bytes(size_t i) const {
    for (const DType& type : kDTypes) {
      if (!std::strcmp(type.name, dtypes[i])) return Elements(i) * type.bytes;
    }
    throw Error("dtype of tensor " + std::to_string(i) + " is " + dtypes[i] + "; accepted: the dtypes of a Program");
  }
  bool Dynamic(size_t i) const {
    for (int d = 0; d < ndims[i]; d++) {
      if (shapes[i][d] < 0) return true;
    }
    return false;
  }
};

struct OpData : AotKernelData {
  std::string error;  // of Init, whose own exceptions reach the user without their text
  std::string op, prefix, source, files, folder;
  std::vector<size_t> inputs, outputs;  // positions, among all inputs or outputs, of the Program's tensors
  size_t params = 0, results = 0;
  bool bound = false;  // for these tensors, MindSpore's numbers one after the other:
  std::vector<int64_t> bound_shapes;
  std::vector<std::string> bound_dtypes;
  std::vector<size_t> given;      // of all tensors, those of the Program, in its order
  std::vector<int64_t> bytes;     // theirs
  std::vector<size_t> unwritten;  // results that the Program does not write
  std::vector<int64_t> unwritten_bytes;
  bool empty = false;
  bool ran = false;
  bool alone = false;  // its last run was short: the next one wakes no thread
  const mco_program* program = nullptr;
  bool launches = false;  // a compiled kernel instead of a Program
  const mco_launch* launch = nullptr;

  ~OpData() override { Release(); }
  void Release() {
    if (program) mco_free(const_cast<mco_program*>(program));
    program = nullptr;
    launch = nullptr;
    bound = alone = false;
  }
  size_t Total() const { return params + results; }
  // Whether these are the tensors it is bound for. Every call asks, so without a string made anew.
  bool IsBoundFor(const Tensors& t) const {
    if (!bound || bound_dtypes.size() != Total()) return false;
    size_t at = 0;
    for (size_t i = 0; i < Total(); i++) {
      const size_t n = static_cast<size_t>(t.ndims[i]);
      if (at + n + 1 > bound_shapes.size() || bound_shapes[at++] != t.ndims[i]) return false;
      for (size_t d = 0; d < n; d++) {
        if (bound_shapes[at++] != t.shapes[i][d]) return false;
      }
      if (std::strcmp(bound_dtypes[i].c_str(), t.dtypes[i])) return false;
    }
    return at == bound_shapes.size();
  }
  void NoteBound(const Tensors& t) {
    bound_shapes.clear();
    bound_dtypes.clear();
    for (size_t i = 0; i < Total(); i++) {
      bound_shapes.push_back(t.ndims[i]);
      bound_shapes.insert(bound_shapes.end(), t.shapes[i], t.shapes[i] + t.ndims[i]);
      bound_dtypes.push_back(t.dtypes[i]);
    }
    given = inputs;
    for (size_t i : outputs) given.push_back(params + i);
    bytes.clear();
    for (size_t i : given) bytes.push_back(t.Bytes(i));
    unwritten.clear();
    unwritten_bytes.clear();
    for (size_t i = params; i < Total(); i++) {
      if (std::find(outputs.begin(), outputs.end(), i - params) != outputs.end()) continue;
      unwritten.push_back(i);
      unwritten_bytes.push_back(t.Bytes(i));
    }
    bound = true;
  }
};

std::vector<size_t> Positions(AotExtra* extra, const char* name, size_t limit) {
  std::vector<size_t> positions;
  for (int64_t i : extra->GetAttrIntVec(name)) {
    if (i < 0 || static_cast<size_t>(i) >= limit) throw Error(std::string("attribute ") + name + " is out of range");
    positions.push_back(static_cast<size_t>(i));
  }
  return positions;
}

void ReadAttributes(AotExtra* extra, OpData* data) {
  for (const char* name : {"mco_op", "mco_prefix", "mco_source", "mco_files", "mco_cache", "mco_inputs", "mco_outputs",
                           "mco_params", "mco_results", "mco_launches"}) {
    if (!extra->HasAttr(name)) {
      throw Error(std::string("attribute ") + name +
                  " is missing: mco_op runs only the primitives of ms_custom_ops.mco_generated_ops_primitives of the "
                  "same release");
    }
  }
  data->op = extra->GetAttrStr("mco_op");
  data->prefix = extra->GetAttrStr("mco_prefix");
  data->source = extra->GetAttrStr("mco_source");
  data->files = extra->GetAttrStr("mco_files");
  data->folder = extra->GetAttrStr("mco_cache");
  data->params = static_cast<size_t>(extra->GetAttrInt("mco_params"));
  data->results = static_cast<size_t>(extra->GetAttrInt("mco_results"));
  data->inputs = Positions(extra, "mco_inputs", data->params);
  data->outputs = Positions(extra, "mco_outputs", data->results);
  data->launches = extra->GetAttrInt("mco_launches") != 0;
}

// What is wrong with a list of files, "<SHA-256> <path>" a line as ms_custom_ops/sources.py made it; empty when all of
// them are as listed.
std::string ChangedFile(const std::string& files) {
  char digest[MCO_DIGEST];
  for (size_t at = 0; at < files.size();) {
    const size_t end = std::min(files.find('\n', at), files.size());
    const size_t space = std::min(files.find(' ', at), end);
    const std::string path = files.substr(std::min(space + 1, end), end - std::min(space + 1, end));
    if (mco_file_digest(path.c_str(), digest)) return path + " is gone or no plain file";
    if (files.compare(at, space - at, digest) != 0) return path + " has changed";
    at = end + 1;
  }
  return "";
}

// A graph out of MindSpore's compiler cache or a MindIR file keeps the key it was built with, whatever the kernel's
// sources have become since. A process that built the op's primitive knows its sources; else the files are compared.
void CheckSource(const OpData& data) {
  Published& state = State();
  std::lock_guard<std::mutex> lock(state.mutex);
  std::string reason;
  auto published = state.sources.find(data.op);
  if (published != state.sources.end()) {
    if (published->second != data.source) reason = "those of this process are " + published->second;
  } else {
    auto known = state.files.find(data.files);
    if (known == state.files.end()) known = state.files.emplace(data.files, ChangedFile(data.files)).first;
    reason = known->second;
  }
  if (reason.empty()) return;
  throw Error(data.op + ": the graph was compiled from kernel sources " + data.source + ", but " + reason +
              "; accepted: the same sources. Delete the folder of MindSpore's compiler cache "
              "(MS_COMPILER_CACHE_PATH) so that the graph is compiled anew, or export the MindIR file again");
}

// Puts the entry of `key` from a cache file into the table; returns why it could not.
std::string LoadFile(const std::string& path, const std::string& key) {
  char error[kErrorBytes] = "";
  uint8_t* program = nullptr;
  size_t size = 0;
  const int status = mco_cache_read(path.c_str(), key.c_str(), &program, &size, error, sizeof(error));
  if (status < 0) return status == -ENOENT ? "no such file" : std::strerror(-status);
  if (status > 0) return error;
  const int refused = mco_table_put(key.c_str(), program, size, error, sizeof(error));
  mco_cache_free(program);
  return refused ? error : "";
}

std::string Key(const OpData& data, const Tensors& t) {
  std::vector<const char*> dtypes;
  std::vector<int> ndims;
  std::vector<const int64_t*> shapes;
  for (size_t i : data.inputs)
    dtypes.push_back(t.dtypes[i]), ndims.push_back(t.ndims[i]), shapes.push_back(t.shapes[i]);
  auto write = [&](char* out, size_t size) {
    return mco_cache_key(data.prefix.c_str(), static_cast<int>(dtypes.size()), dtypes.data(), ndims.data(),
                         shapes.data(), out, size);
  };
  std::string key(write(nullptr, 0), 0);
  write(&key[0], key.size() + 1);
  return key;
}

const mco_program* Find(const OpData& data, const std::string& key) {
  if (const mco_program* program = mco_table_find(key.c_str())) return program;
  std::vector<std::string> folders;
  if (!data.folder.empty()) folders.push_back(data.folder);
  {
    std::lock_guard<std::mutex> lock(State().mutex);
    if (!State().folder.empty() && State().folder != data.folder) folders.push_back(State().folder);
  }
  char name[MCO_CACHE_NAME], error[kErrorBytes] = "";
  if (mco_cache_name(data.op.c_str(), key.c_str(), name, error, sizeof(error))) throw Error(error);
  std::string looked = "the memory of this process";
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + name;
    const std::string reason = LoadFile(path, key);
    if (reason.empty()) return mco_table_find(key.c_str());
    looked += ", " + path + " (" + reason + ")";
  }
  throw Error(data.op + ": no Program for " + key.substr(data.prefix.size() + 1) + "; looked in " + looked +
              ". The graph comes from a MindIR file or MindSpore's compiler cache and its Program is gone: run the "
              "net once from Python, where the kernel can be traced again (for the compiler cache: delete its folder, "
              "MS_COMPILER_CACHE_PATH, before)");
}

void CheckOperand(const OpData& data, const Tensors& t, size_t position, const mco_program* program, int index) {
  mco_io io;
  if (mco_program_io(program, index, &io)) {
    throw Error(data.op + ": the Program has no operand " + std::to_string(index));
  }
  const bool known = io.dtype >= 0 && io.dtype < kDTypeCount;
  const char* dtype = known ? kDTypes[io.dtype].name : "of an unknown code";
  if (std::strcmp(dtype, t.dtypes[position]) || (io.bytes >= 0 && io.bytes != t.Bytes(position))) {
    throw Error(data.op + ": tensor " + std::to_string(position) + " is " + t.Text(position) + "; accepted: operand '" +
                io.name + "' of the Program, " + dtype + ", " + std::to_string(io.bytes) + " bytes");
  }
}

const mco_launch* FindLaunch(const OpData& data, const std::string& key) {
  if (const mco_launch* launch = mco_launch_find(key.c_str())) return launch;
  throw Error(data.op + ": no compiled kernel for " + key.substr(data.prefix.size() + 1) +
              " in this process. The graph comes from a MindIR file or MindSpore's compiler cache; accepted: the net "
              "run once from Python, where the kernel is built (for the compiler cache: delete its folder, "
              "MS_COMPILER_CACHE_PATH, before)");
}

// Finds and checks the Program for these tensors.
void Bind(OpData* data, const Tensors& t) {
  data->Release();
  data->empty = true;
  for (size_t i : data->outputs) data->empty = data->empty && t.Elements(data->params + i) == 0;
  if (!data->empty && data->launches) {
    CheckSource(*data);
    data->launch = FindLaunch(*data, Key(*data, t));
  } else if (!data->empty) {
    CheckSource(*data);
    data->program = Find(*data, Key(*data, t));
    int inputs = 0, outputs = 0, scalars = 0;
    mco_program_counts(data->program, &inputs, &outputs, &scalars);
    const int wanted_inputs = static_cast<int>(data->inputs.size());
    const int wanted_outputs = static_cast<int>(data->outputs.size());
    if (inputs != wanted_inputs || outputs != wanted_outputs || scalars != 0) {
      throw Error(data->op + ": the Program has " + std::to_string(inputs) + " inputs, " + std::to_string(outputs) +
                  " outputs, " + std::to_string(scalars) + " scalars; accepted: " + std::to_string(wanted_inputs) +
                  " inputs, " + std::to_string(wanted_outputs) + " outputs and no scalar");
    }
    int index = 0;
    for (size_t i : data->inputs) CheckOperand(*data, t, i, data->program, index++);
    for (size_t i : data->outputs) CheckOperand(*data, t, data->params + i, data->program, index++);
  }
  data->NoteBound(t);
}

void Run(OpData& data, void** params) {
  // MindSpore does not clear outputs; a placeholder is never left random
  for (size_t i = 0; i < data.unwritten.size(); i++) {
    std::memset(params[data.unwritten[i]], 0, static_cast<size_t>(data.unwritten_bytes[i]));
  }
  if (data.empty) return;
  std::vector<mco_tensor> tensors(data.given.size());
  for (size_t i = 0; i < tensors.size(); i++) tensors[i] = {params[data.given[i]], data.bytes[i]};
  const int count = static_cast<int>(tensors.size());
  char error[kErrorBytes];
  error[0] = 0;
  if (data.launch) {
    if (mco_launch_run(data.launch, tensors.data(), count, error, sizeof(error))) throw Error(data.op + ": " + error);
    return;
  }
  mco_options options{};
  options.struct_size = sizeof(options);
  options.deterministic = 1;
  options.threads = data.alone ? 1 : 0;
  const auto start = std::chrono::steady_clock::now();
  if (mco_run(data.program, tensors.data(), count, nullptr, 0, &options, error, sizeof(error))) {
    throw Error(data.op + ": " + error);
  }
  // With others it may have been twice as fast.
  data.alone = std::chrono::steady_clock::now() - start < (data.alone ? kShort : kShort / 2);
}

// Before the first run of a kernel: MindSpore has just compiled a graph. What its compiler freed stays with the
// allocator, some 50 KiB for each node, and the tensors of the graph, which lie elsewhere, would come on top of it. At
// most once a second, as it is the same for all kernels of the graph.
void ReturnFreedMemory() {
#ifdef __GLIBC__
  static std::mutex mutex;
  static std::chrono::steady_clock::time_point last;
  std::lock_guard<std::mutex> lock(mutex);
  const auto now = std::chrono::steady_clock::now();
  if (last.time_since_epoch().count() && now - last < std::chrono::seconds(1)) return;
  malloc_trim(0);
  last = std::chrono::steady_clock::now();
#endif
}

}  // namespace

extern "C" {

// Publishes the hash of an op's kernel sources as this process has them.
MCO_API void mco_publish(const char* op, const char* source) {
  std::lock_guard<std::mutex> lock(State().mutex);
  State().sources[op] = source;
}

// The folder of the program cache of this process, looked in after the one a graph was built with.
MCO_API void mco_set_cache_folder(const char* folder) {
  std::lock_guard<std::mutex> lock(State().mutex);
  State().folder = folder;
}

// MindSpore calls this once per kernel, before the first run. The text of an exception thrown here would be lost, so
// it is kept for mco_op.
MCO_API int mco_opInit(int* ndims, int64_t** shapes, const char** dtypes, void* extra_pointer) {
  auto* extra = static_cast<AotExtra*>(extra_pointer);
  std::unique_ptr<OpData> data(new OpData);
  try {
    ReadAttributes(extra, data.get());
    const Tensors t{ndims, shapes, dtypes};
    bool dynamic = false;
    for (size_t i = 0; i < data->Total(); i++) dynamic = dynamic || t.Dynamic(i);
    if (!dynamic) Bind(data.get(), t);
  } catch (const std::exception& error) {
    data->error = error.what();
  }
  extra->kernel_data = data.release();
  return 0;
}

MCO_API int mco_op(int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes, void*,
                   void* extra_pointer) {
  auto* data = static_cast<OpData*>(static_cast<AotExtra*>(extra_pointer)->kernel_data);
  if (!data) throw Error("mco_op: no kernel data; accepted: a kernel that went through mco_opInit");
  if (!data->error.empty()) throw Error(data->error);
  if (static_cast<size_t>(nparam) != data->Total()) {
    throw Error(data->op + ": " + std::to_string(nparam) + " tensors; accepted: " + std::to_string(data->params) +
                " inputs and " + std::to_string(data->results) + " outputs");
  }
  const Tensors t{ndims, shapes, dtypes};
  if (!data->ran) ReturnFreedMemory();
  data->ran = true;
  if (!data->IsBoundFor(t)) Bind(data, t);
  Run(*data, params);
  return 0;
}

// A cast between floats (ms_custom_ops/mindspore/cast.py). It reads no attributes.
MCO_API int mco_cast(int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes, void*, void*) {
  if (nparam != 2) throw Error("mco_cast: " + std::to_string(nparam) + " tensors; accepted: a tensor and its result");
  const Tensors t{ndims, shapes, dtypes};
  const int from = DTypeCode(dtypes[0]), to = DTypeCode(dtypes[1]);
  if (t.Elements(0) != t.Elements(1) || mco_cast_floats(params[1], to, params[0], from, t.Elements(0))) {
    throw Error("mco_cast: " + t.Text(0) + " as " + t.Text(1) +
                "; accepted: float16, bfloat16 or float32 as one of them, of as many elements");
  }
  return 0;
}

}  // extern "C"
