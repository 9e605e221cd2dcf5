// SPDX-License-Identifier: Apache-2.0
// What the cases of kernels at run time share: memory of the device, programs, binaries, arguments.
#pragma once

#include "acl/acl_rt_compile.h"
#include "kernel_texts.h"
#include "harness.h"

inline std::string file;  // a binary with the kernel `add`

struct Device {
  void* at = nullptr;
  size_t size;
  explicit Device(size_t bytes) : size(bytes) { good(aclrtMalloc(&at, bytes, ACL_MEM_MALLOC_HUGE_FIRST)); }
  Device(const Device&) = delete;
  ~Device() { aclrtFree(at); }
  template <class T>
  void put(const std::vector<T>& values) {
    good(aclrtMemcpy(at, size, values.data(), values.size() * sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE));
  }
  template <class T>
  std::vector<T> get() const {
    std::vector<T> out(size / sizeof(T));
    good(aclrtMemcpy(out.data(), size, at, size, ACL_MEMCPY_DEVICE_TO_HOST));
    return out;
  }
};

struct Prog {
  aclrtcProg prog = nullptr;
  explicit Prog(const char* source, const char* name = "kernels") {
    const char* headers[] = {kSizes};
    const char* names[] = {"sizes.h"};
    good(aclrtcCreateProg(&prog, source, name, 1, headers, names));
  }
  Prog(const Prog&) = delete;
  ~Prog() {
    if (prog) aclrtcDestroyProg(&prog);
  }
  int compile(std::vector<const char*> options = {"--npu-arch=dav-2201"}) {
    return aclrtcCompileProg(prog, int(options.size()), options.data());
  }
  std::vector<char> binary() {
    size_t size = 0;
    good(aclrtcGetBinDataSize(prog, &size));
    std::vector<char> out(size);
    good(aclrtcGetBinData(prog, out.data()));
    return out;
  }
  std::string log() {
    size_t size = 0;
    good(aclrtcGetCompileLogSize(prog, &size));
    std::vector<char> out(size);
    good(aclrtcGetCompileLog(prog, out.data()));
    expect_true(out.back() == 0, "a log without its zero");
    return out.data();
  }
};

// The binary of kKernels, compiled once.
inline const std::vector<char>& kernels() {
  static const std::vector<char> bytes = [] {
    Prog p(kKernels);
    good(p.compile());
    expect_true(p.log().empty(), "a log of a good compilation");
    return p.binary();
  }();
  return bytes;
}

struct Loaded {
  aclrtBinHandle binary = nullptr;
  explicit Loaded(const std::vector<char>& bytes) {
    good(aclrtBinaryLoadFromData(bytes.data(), bytes.size(), nullptr, &binary));
  }
  Loaded(const Loaded&) = delete;
  ~Loaded() { aclrtBinaryUnLoad(binary); }
  aclrtFuncHandle get(const char* name) const {
    aclrtFuncHandle function = nullptr;
    good(aclrtBinaryGetFunction(binary, name, &function));
    return function;
  }
};

struct AddArgs {
  void *x, *y, *z;
  float scale;
  uint32_t total;
};

// Operands of `add`, whose results must be x + scale * y.
struct Sum {
  size_t count;
  Device x, y, z;
  std::vector<float> a, b;
  explicit Sum(size_t n = 4995) : count(n), x(n * 4), y(n * 4), z(n * 4) {
    for (size_t i = 0; i < n; ++i) a.push_back(float(i) - 7), b.push_back(float(i % 31) * 4 + 1);
    x.put(a), y.put(b);
  }
  AddArgs args(float scale) const { return {x.at, y.at, z.at, scale, uint32_t(count)}; }
  void check(float scale) const {
    const std::vector<float> found = z.get<float>();
    for (size_t i = 0; i < count; ++i) {
      if (found[i] != a[i] + scale * b[i]) wrong("number " + std::to_string(i) + " is " + std::to_string(found[i]));
    }
  }
};

inline int launch(aclrtFuncHandle function, uint32_t blocks, AddArgs args, aclrtLaunchKernelCfg* cfg = nullptr,
           aclrtStream stream = nullptr) {
  return aclrtLaunchKernelWithHostArgs(function, blocks, stream, cfg, &args, sizeof args, nullptr, 0);
}

// Arguments one by one, as handles.
struct Handles {
  aclrtFuncHandle function;
  aclrtArgsHandle args = nullptr;
  std::vector<aclrtParamHandle> params;
  explicit Handles(aclrtFuncHandle of) : function(of) { good(aclrtKernelArgsInit(function, &args)); }
  template <class T>
  int append(T value) {
    aclrtParamHandle param = nullptr;
    const int status = aclrtKernelArgsAppend(args, &value, sizeof value, &param);
    if (!status) params.push_back(param);
    return status;
  }
  int hold() {
    aclrtParamHandle param = nullptr;
    const int status = aclrtKernelArgsAppendPlaceHolder(args, &param);
    if (!status) params.push_back(param);
    return status;
  }
  template <class T>
  int update(size_t number, T value) {
    return aclrtKernelArgsParaUpdate(args, params[number], &value, sizeof value);
  }
  int run(uint32_t blocks) { return aclrtLaunchKernelWithConfig(function, blocks, nullptr, nullptr, args, nullptr); }
};
