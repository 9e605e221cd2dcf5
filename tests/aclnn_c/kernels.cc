// SPDX-License-Identifier: Apache-2.0
// Kernels that are compiled or loaded at run time: launches, arguments, threads.
#include "kernels.h"

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

namespace {

CASE(compiled_at_run_time_on_8_blocks) {
  Loaded l(kernels());
  Sum s;
  good(launch(l.get("add"), 8, s.args(0.5f)));
  good(aclrtSynchronizeStream(nullptr));
  s.check(0.5f);
  expect_true(l.get("add") == l.get("add"), "a function has two handles");
}

CASE(from_a_file) {
  aclrtBinHandle binary = nullptr;
  aclrtFuncHandle function = nullptr;
  aclrtBinaryLoadOption given[2] = {};
  given[0].type = ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD, given[0].value.isLazyLoad = 1;
  given[1].type = ACL_RT_BINARY_LOAD_OPT_MAGIC, given[1].value.magic = ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE;
  aclrtBinaryLoadOptions options = {given, 2};
  good(aclrtBinaryLoadFromFile(file.c_str(), &options, &binary));
  good(aclrtBinaryGetFunction(binary, "add", &function));
  Sum s(129);
  aclrtStream stream = nullptr;
  good(aclrtCreateStream(&stream));
  good(launch(function, 3, s.args(-2), nullptr, stream));
  good(aclrtSynchronizeStream(stream));
  s.check(-2);
  good(aclrtDestroyStream(stream));
  good(aclrtBinaryUnLoad(binary));
}

CASE(by_the_older_functions) {
  const aclrtBinary given = aclrtCreateBinary(kernels().data(), kernels().size());
  aclrtBinHandle binary = nullptr;
  aclrtFuncHandle function = nullptr;
  good(aclrtBinaryLoad(given, &binary));
  good(aclrtDestroyBinary(given));
  good(aclrtBinaryGetFunction(binary, "add", &function));
  char name[4] = "";
  good(aclrtGetFunctionName(function, 4, name));
  expect_true(name == std::string("add"), "the name of a function");
  Sum s(64);
  Device memory(sizeof(AddArgs));
  memory.put(std::vector<AddArgs>{s.args(6)});
  good(aclrtLaunchKernel(function, 1, memory.at, memory.size, nullptr));
  s.check(6);
  good(aclrtBinaryUnLoad(binary));
  expect(aclrtBinaryLoad(given, &binary), 107017, "binary is none, or was destroyed");
  expect(aclrtDestroyBinary(given), 107017, "binary is none, or was destroyed");
  expect_true(aclrtCreateBinary(nullptr, 8) == nullptr, "a binary of nothing");
  expect_true(recent().find("data is (nil) with 8 bytes") != std::string::npos, "the text of a null binary");
}

CASE(arguments_in_device_memory) {
  Loaded l(kernels());
  Sum s;
  Device memory(sizeof(AddArgs));
  memory.put(std::vector<AddArgs>{s.args(3)});
  good(aclrtLaunchKernel(l.get("add"), 8, memory.at, memory.size, nullptr));
  s.check(3);
  memory.put(std::vector<AddArgs>{s.args(4)});
  aclrtLaunchKernelAttr attr = {};
  attr.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, attr.value.schemMode = 1;
  aclrtLaunchKernelCfg cfg = {&attr, 1};
  good(aclrtLaunchKernelV2(l.get("add"), 1, memory.at, memory.size, &cfg, nullptr));
  s.check(4);
  expect(aclrtLaunchKernel(l.get("add"), 8, nullptr, memory.size, nullptr), 100000, "argsData is null");
  AddArgs host = s.args(1);
  expect(aclrtLaunchKernel(l.get("add"), 8, &host, sizeof host, nullptr), 107000, "accepted: 32 bytes of aclrtMalloc");
  expect(aclrtLaunchKernel(l.get("add"), 8, static_cast<char*>(memory.at) + 8, sizeof host, nullptr), 107000,
         "with 24 bytes; accepted: 32 bytes");
  expect(aclrtLaunchKernel(l.get("add"), 8, memory.at, 24, nullptr), 107000, "argsSize is 24; accepted: 32");
}

CASE(arguments_one_by_one) {
  Loaded l(kernels());
  Sum s;
  Handles h(l.get("add"));
  good(h.append(s.x.at)), good(h.append(s.y.at)), good(h.append(s.z.at)), good(h.append(2.0f));
  expect(aclrtKernelArgsFinalize(h.args), 107000, "4 arguments; accepted: the 5 of add");
  expect(h.run(8), 107000, "not whole; accepted: after aclrtKernelArgsFinalize");
  expect(h.append(uint16_t(1)), 107000, "paramSize is 2; accepted: 4, of argument 4 of add");
  expect(h.hold(), 107000, "argument 4 of add is a number");
  good(h.append(uint32_t(s.count)));
  expect(h.append(1), 107000, "one more argument; accepted: the 5 of add");
  good(aclrtKernelArgsFinalize(h.args));
  expect(h.append(1), 107000, "the arguments are whole");
  good(h.run(8));
  s.check(2);
  good(h.update(3, -1.0f));
  expect(h.update(3, 1.0), 107000, "paramSize is 8; accepted: 4, of argument 3");
  good(h.run(2));
  s.check(-1);
}

CASE(place_holders) {
  Loaded l(kernels());
  Device z(16);
  Handles h(l.get("fill"));
  good(h.append(z.at)), good(h.hold());
  expect(aclrtKernelArgsFinalize(h.args), 107000, "argument 1 is a place holder without memory");
  void* buffer = nullptr;
  expect(aclrtKernelArgsGetPlaceHolderBuffer(h.args, h.params[1], 0, &buffer), 107000, "dataSize is 0");
  expect(aclrtKernelArgsGetPlaceHolderBuffer(h.args, h.params[0], 8, &buffer), 107000, "is of aclrtKernelArgsAppend;");
  good(aclrtKernelArgsGetPlaceHolderBuffer(h.args, h.params[1], 8, &buffer));
  expect(aclrtKernelArgsGetPlaceHolderBuffer(h.args, h.params[1], 8, &buffer), 107000, "accepted: once");
  buffer = nullptr;
  Handles again(l.get("fill"));
  good(again.append(z.at)), good(again.hold());
  good(aclrtKernelArgsGetPlaceHolderBuffer(again.args, again.params[1], 8, &buffer));
  const uint32_t numbers[] = {4, 70};
  std::memcpy(buffer, numbers, sizeof numbers);
  good(aclrtKernelArgsFinalize(again.args));
  good(again.run(1));
  expect_true(z.get<uint32_t>() == std::vector<uint32_t>{70, 71, 72, 73}, "numbers of a place holder");
  expect(h.update(1, z.at), 107000, "is of aclrtKernelArgsAppendPlaceHolder; accepted: of aclrtKernelArgsAppend");
}

CASE(place_holders_behind_the_arguments) {
  Loaded l(kernels());
  Device z(12);
  struct {
    void *z, *numbers;
    uint32_t behind[2];
  } host = {z.at, nullptr, {3, 9}};
  aclrtPlaceHolderInfo info = {8, 16};
  const auto run = [&](size_t size, aclrtPlaceHolderInfo* infos, size_t count) {
    return aclrtLaunchKernelWithHostArgs(l.get("fill"), 1, nullptr, nullptr, &host, size, infos, count);
  };
  good(run(sizeof host, &info, 1));
  expect_true(z.get<uint32_t>() == std::vector<uint32_t>{9, 10, 11}, "numbers behind the arguments");
  expect_true(host.numbers == nullptr, "the host's arguments were changed");
  expect(run(sizeof host, nullptr, 1), 100000, "placeHolderArray is null");
  expect(run(sizeof host, nullptr, 0), 107000, "argsSize is 24; accepted: 16, the 2 parameters of fill");
  info.addrOffset = 4;
  expect(run(sizeof host, &info, 1), 107000, "addrOffset of place holder 0 is 4; accepted: where a pointer of fill");
  info = {8, 24};
  expect(run(sizeof host, &info, 1), 107000, "dataOffset of place holder 0 is 24; accepted: 16 to 23");
  info = {8, 8};
  expect(run(sizeof host, &info, 1), 107000, "dataOffset of place holder 0 is 8");
}

CASE(templates_by_their_names) {
  Prog p(kTemplate, "times.cpp");
  expect(p.compile(), 176003, "none of the templates ['times']");
  good(aclrtcAddNameExpr(p.prog, "tools::times<float, 3>"));
  good(aclrtcAddNameExpr(p.prog, "tools::times<int32_t, -2>"));
  const char* name = nullptr;
  expect(aclrtcGetLoweredName(p.prog, "tools::times<float, 3>", &name), 176006, "before aclrtcCompileProg");
  good(p.compile());
  expect(aclrtcAddNameExpr(p.prog, "more"), 176005, "after aclrtcCompileProg");
  expect(aclrtcGetLoweredName(p.prog, "times", &name), 176007, "nameExpression is 'times'");
  good(aclrtcGetLoweredName(p.prog, "tools::times<int32_t, -2>", &name));
  const Loaded l(p.binary());
  Device x(4), z(4);
  x.put(std::vector<int32_t>{21});
  void* args[] = {x.at, z.at};
  good(aclrtLaunchKernelWithHostArgs(l.get(name), 1, nullptr, nullptr, args, sizeof args, nullptr, 0));
  expect_true(z.get<int32_t>()[0] == -42, "a template's result");
}

CASE(cube_and_vector_cores_by_libraries_of_their_own) {
  Prog p(kMixed, "who.cpp");
  good(p.compile());
  const Loaded l(p.binary());
  Device z(6 * sizeof(int32_t));
  void* args[] = {z.at};
  good(aclrtLaunchKernelWithHostArgs(l.get("who"), 2, nullptr, nullptr, args, sizeof args, nullptr, 0));
  expect_true(z.get<int32_t>() == std::vector<int32_t>{100, 101, 200, 201, 202, 203}, "what the cores wrote");
}

CASE(two_threads) {
  kernels();
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&bad, t] {
      try {
        good(aclrtSetDevice(0));
        aclrtStream stream = nullptr;
        good(aclrtCreateStream(&stream));
        for (int round = 0; round < 10; ++round) {
          Loaded l(kernels());
          Sum s(500 + 100 * size_t(t));
          good(launch(l.get("add"), 4, s.args(float(round)), nullptr, stream));
          good(aclrtSynchronizeStream(stream));
          s.check(float(round));
        }
        good(aclrtDestroyStream(stream));
        good(aclrtResetDevice(0));
      } catch (const std::exception& error) {
        std::printf("thread %d: %s\n", t, error.what());
        ++bad;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_true(bad == 0, "a thread failed");
}

CASE(faults_of_kernels) {
  Loaded l(kernels());
  Sum s(64);
  AddArgs args = s.args(1);
  args.total = 65;
  expect(launch(l.get("add"), 1, args), 507015, "add: ");
  args = s.args(1), args.y = nullptr;
  expect(launch(l.get("add"), 1, args), 507015, "add: ");
  good(launch(l.get("add"), 1, s.args(1)));
  s.check(1);
}

CASE(timeouts) {
  Loaded l(kernels());
  Device z(4);
  z.put(std::vector<uint32_t>{0});
  void* args[] = {z.at};
  aclrtLaunchKernelAttr attrs[2] = {};
  attrs[0].id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US, attrs[0].value.timeoutUs = {200000, 0};
  attrs[1].id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, attrs[1].value.timeout = 1;
  aclrtLaunchKernelCfg cfg = {attrs, 1};
  const auto run = [&] {
    return aclrtLaunchKernelWithHostArgs(l.get("spin"), 1, nullptr, &cfg, args, sizeof args, nullptr, 0);
  };
  expect(run(), 507015, "spin: ");
  attrs[0].value.timeoutUs = {0xFFFFFFFF, 0xFFFFFFFF};  // 585,000 years
  Sum s(64);
  good(launch(l.get("add"), 1, s.args(1), &cfg));
  s.check(1);
  cfg.numAttrs = 2;
  expect(run(), 107000, "two timeouts; accepted: TIMEOUT or TIMEOUT_US");
}

// What waits on a stream: arguments as they were at the launch, those of the device as they are when it runs.
int delayed_launches() {
  Loaded l(kernels());
  Sum s(64), t(64);
  AddArgs args = s.args(2);
  good(aclrtLaunchKernelWithHostArgs(l.get("add"), 2, nullptr, nullptr, &args, sizeof args, nullptr, 0));
  args.scale = 100;
  std::printf("%s\n", s.z.get<float>()[0] == s.a[0] + 2 * s.b[0] ? "at once" : "delayed");
  Device memory(sizeof args);
  const AddArgs later = t.args(5);
  good(aclrtMemcpyAsync(memory.at, sizeof later, &later, sizeof later, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
  good(aclrtLaunchKernel(l.get("add"), 2, memory.at, sizeof later, nullptr));
  good(aclrtSynchronizeStream(nullptr));
  s.check(2), t.check(5);
  int status = 0;
  {
    Sum gone(64);
    status = launch(l.get("add"), 1, gone.args(1));
  }
  const int told = aclrtSynchronizeStream(nullptr);
  std::printf("%d %d %s\n", status, told, told ? recent().c_str() : "");
  return 0;
}

// The kernel of a file on one block, or why not.
int load_file(bool run) {
  aclrtBinHandle binary = nullptr;
  const int status = aclrtBinaryLoadFromFile(file.c_str(), nullptr, &binary);
  std::printf("%d %s\n", status, status ? recent().c_str() : "");
  if (status || !run) return 0;
  aclrtFuncHandle function = nullptr;
  good(aclrtBinaryGetFunction(binary, "add", &function));
  Sum s(64);
  const int ended = launch(function, 1, s.args(1));
  std::printf("%d %s\n", ended, ended ? recent().c_str() : "");
  if (!ended) s.check(1);
  return 0;
}

int compile_alone() {
  Prog p(kKernels);
  const int status = p.compile();
  std::printf("%d %s\n%s\n", status, status ? recent().c_str() : "", p.log().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (argc > 2) file = argv[2];
  try {
    aclrtBinHandle binary = nullptr;
    expect(aclrtBinaryLoadFromFile("/bin/sh", nullptr, &binary), 107002, "this thread has no context");
    good(aclInit(nullptr));
    good(aclrtSetDevice(0));
    if (what == "delay") return delayed_launches();
    if (what == "load" || what == "run") return load_file(what == "run");
    if (what == "compile") return compile_alone();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  for (const Case& each : cases()) {
    if (what != "all" && what != each.name) continue;
    try {
      each.body();
      std::printf("%s: ok\n", each.name);
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", each.name, error.what());
    }
    std::fflush(stdout);
  }
  return aclrtResetDevice(0);
}
