// SPDX-License-Identifier: Apache-2.0
// A call of aclnnSparseFlashAttentionGrad whose every argument can be changed, and a list of cases.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnn/ms_custom_ops.h"
#include "aclnnop/aclnn_dacs_segsum.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad_v2.h"

using Shape = std::vector<int64_t>;

inline std::string recent() {
  const char* text = aclGetRecentErrMsg();
  return text ? text : "(null)";
}

[[noreturn]] inline void wrong(const std::string& what) { throw std::runtime_error(what); }

// The status of a call, and a part of its text.
inline void expect(int status, int wanted, const std::string& part = "") {
  const std::string text = status ? recent() : "";
  if (status != wanted) wrong("status " + std::to_string(status) + " (" + text + "), wanted " + std::to_string(wanted));
  if (wanted && text.find(part) == std::string::npos) wrong("text '" + text + "' without '" + part + "'");
}
inline void good(int status) { expect(status, 0); }
inline void expect_true(bool holds, const char* what) {
  if (!holds) wrong(what);
}

inline Shape row_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

struct Tensor {
  Shape shape;
  aclDataType dtype = ACL_FLOAT16;
  bool there = true;
  aclFormat format = ACL_FORMAT_ND;
  Shape strides;                     // empty: contiguous
  int64_t offset = 0, behind = 0;    // elements of the memory in front and behind
  std::vector<unsigned char> bytes;  // empty: all 0x11
  void* address = nullptr;
  aclTensor* handle = nullptr;
  size_t size = 0;

  void make() {
    if (!there) return;
    Shape step = strides.empty() ? row_strides(shape) : strides;
    step.resize(shape.size(), 1);
    int64_t last = offset, empty = 0;
    for (size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * step[i], empty |= shape[i] == 0;
    const Shape storage = {(empty ? 0 : last + 1) + behind};
    size = static_cast<size_t>(storage[0] ? storage[0] : 1) * aclDataTypeSize(dtype);
    good(aclrtMalloc(&address, size, ACL_MEM_MALLOC_NORMAL_ONLY));
    bytes.resize(size, 0x11);
    good(aclrtMemcpy(address, size, bytes.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
    handle =
        aclCreateTensor(shape.data(), shape.size(), dtype, step.data(), offset, format, storage.data(), 1, address);
    if (!handle) wrong("aclCreateTensor: " + recent());
  }
  std::vector<unsigned char> content() const {
    std::vector<unsigned char> out(size);
    if (size) good(aclrtMemcpy(out.data(), size, address, size, ACL_MEMCPY_DEVICE_TO_HOST));
    return out;
  }
  void release() {
    if (handle) aclDestroyTensor(handle);
    if (address) aclrtFree(address);
    handle = nullptr, address = nullptr;
  }
};

template <class T>
std::vector<unsigned char> bytes_of(const std::vector<T>& values) {
  std::vector<unsigned char> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

inline std::vector<unsigned char> halves(size_t count, unsigned seed) {
  std::vector<aclFloat16> values;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(aclFloatToFloat16(static_cast<float>(seed >> 8) / 16777216.0f - 0.5f));
  }
  return bytes_of(values);
}

constexpr const char* kInputs[] = {"query", "key", "value", "sparseIndices", "dOut", "out", "softmaxMax", "softmaxSum"};
constexpr const char* kOutputs[] = {"dQuery", "dKey", "dValue", "dQueryRope", "dKeyRope"};

// T1 = 3 queries of 8 heads over T2 = 20 keys, 8 of them each.
struct Call {
  std::map<std::string, Tensor> t;
  double scale = 0.25;
  int64_t block = 1, mode = 3, pre = 2147483647, next = 2147483647;
  std::string layout = "TND";
  bool deterministic = false, v2 = false;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  void* workspace = nullptr;

  Call() {
    const Shape q = {3, 8, 16}, k = {20, 1, 16}, row = {1, 3, 8};
    t["query"].shape = t["dOut"].shape = t["out"].shape = t["dQuery"].shape = q;
    t["key"].shape = t["value"].shape = t["dKey"].shape = t["dValue"].shape = k;
    t["sparseIndices"].shape = {3, 1, 8};
    t["softmaxMax"].shape = t["softmaxSum"].shape = row;
    t["queryRope"].shape = t["dQueryRope"].shape = q;
    t["keyRope"].shape = t["dKeyRope"].shape = k;
    t["actualSeqQ"].shape = t["actualSeqKv"].shape = {1};
    t["sinks"].there = t["dSinks"].there = false;
    t["sinks"].dtype = t["dSinks"].dtype = t["softmaxMax"].dtype = t["softmaxSum"].dtype = ACL_FLOAT;
    t["sinks"].shape = t["dSinks"].shape = {8};
    t["sparseIndices"].dtype = t["actualSeqQ"].dtype = t["actualSeqKv"].dtype = ACL_INT32;
    fill();
  }
  ~Call() {
    for (auto& entry : t) entry.second.release();
    if (workspace) aclrtFree(workspace);
  }
  void fill() {
    unsigned seed = 1;
    for (const char* name : {"query", "key", "value", "dOut", "out", "queryRope", "keyRope"}) {
      size_t count = 1;
      for (int64_t n : t[name].shape) count *= static_cast<size_t>(n);
      t[name].bytes = halves(count, seed++);
    }
    std::vector<int32_t> ids;
    for (int i = 0; i < 24; ++i) ids.push_back((i * 7) % 18);
    t["sparseIndices"].bytes = bytes_of(ids);
    t["softmaxMax"].bytes = bytes_of(std::vector<float>(24, 1.0f));
    t["softmaxSum"].bytes = bytes_of(std::vector<float>(24, 8.0f));
    t["actualSeqQ"].bytes = bytes_of(std::vector<int32_t>{3});
    t["actualSeqKv"].bytes = bytes_of(std::vector<int32_t>{20});
  }
  void make() {
    for (auto& entry : t) entry.second.make();
  }
  int first() {
    const auto h = [&](const char* name) { return t[name].there ? t[name].handle : nullptr; };
    char* text = layout.empty() ? nullptr : &layout[0];
    if (v2) {
      return aclnnSparseFlashAttentionGradV2GetWorkspaceSize(
          h("query"), h("key"), h("value"), h("sparseIndices"), h("dOut"), h("out"), h("softmaxMax"), h("softmaxSum"),
          h("sinks"), h("actualSeqQ"), h("actualSeqKv"), h("queryRope"), h("keyRope"), scale, block, text, mode, pre,
          next, deterministic, h("dQuery"), h("dKey"), h("dValue"), h("dQueryRope"), h("dKeyRope"), h("dSinks"), &size,
          &executor);
    }
    return aclnnSparseFlashAttentionGradGetWorkspaceSize(
        h("query"), h("key"), h("value"), h("sparseIndices"), h("dOut"), h("out"), h("softmaxMax"), h("softmaxSum"),
        h("actualSeqQ"), h("actualSeqKv"), h("queryRope"), h("keyRope"), scale, block, text, mode, pre, next,
        deterministic, h("dQuery"), h("dKey"), h("dValue"), h("dQueryRope"), h("dKeyRope"), &size, &executor);
  }
  int second(aclrtStream stream = nullptr) {
    return v2 ? aclnnSparseFlashAttentionGradV2(workspace, size, executor, stream)
              : aclnnSparseFlashAttentionGrad(workspace, size, executor, stream);
  }
  void take_workspace() {
    if (size && !workspace) good(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
  }
  // Both phases, and the outputs as bytes.
  std::map<std::string, std::vector<unsigned char>> run(aclrtStream stream = nullptr) {
    make();
    good(first());
    take_workspace();
    good(second(stream));
    good(aclrtSynchronizeStream(stream));
    return outputs();
  }
  std::map<std::string, std::vector<unsigned char>> outputs() const {
    std::map<std::string, std::vector<unsigned char>> out;
    for (const char* name : kOutputs) {
      if (t.at(name).there) out[name] = t.at(name).content();
    }
    return out;
  }
  // Refused by the first phase: status, text, no executor, nothing written.
  void refused(int status, const std::string& part) {
    make();
    const auto before = outputs();
    executor = reinterpret_cast<aclOpExecutor*>(1);
    expect(first(), status, part);
    expect_true(executor == nullptr && size == 0, "executor or workspace of a refused call");
    expect_true(outputs() == before, "a refused call wrote");
  }
  void second_refused(int status, const std::string& part) {
    const auto before = outputs();
    expect(second(), status, part);
    expect_true(outputs() == before, "a refused run wrote");
  }
};

struct Case {
  const char* name;
  std::function<void()> body;
};
std::vector<Case>& cases();
struct Add {
  Add(const char* name, std::function<void()> body) { cases().push_back({name, std::move(body)}); }
};
#define CASE(name)                          \
  static void name();                       \
  static const Add add_##name(#name, name); \
  static void name()
