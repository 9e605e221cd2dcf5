// SPDX-License-Identifier: Apache-2.0
// Every refusal of loads, arguments, launches and compilations.
#include "kernels.h"

namespace {

CASE(attributes_of_launches) {
  Loaded l(kernels());
  Sum s(64);
  aclrtLaunchKernelAttr attr = {};
  aclrtLaunchKernelCfg cfg = {&attr, 1};
  const auto refused = [&](int id, uint32_t value, const char* part) {
    attr.id = aclrtLaunchKernelAttrId(id);
    attr.value.rsv[0] = value;
    expect(launch(l.get("add"), 1, s.args(1), &cfg), 107000, part);
  };
  refused(1, 2, "schemMode is 2; accepted: 0 or 1");
  refused(2, 64, "dynUBufSize is 64; accepted: 0");
  refused(3, 2, "engineType is 2");
  refused(4, 1, "blockDimOffset is 1; accepted: 0");
  refused(5, 2, "isBlockTaskPrefetch is 2");
  refused(6, 1, "isDataDump is 1; accepted: 0: there are no dumps");
  refused(9, 0, "an attribute of id 9");
  cfg.attrs = nullptr;
  expect(launch(l.get("add"), 1, s.args(1), &cfg), 100000, "attrs of cfg is null");
}

CASE(statuses_of_launches) {
  Loaded l(kernels());
  Sum s(64);
  const aclrtFuncHandle add = l.get("add");
  expect(launch(nullptr, 1, s.args(1)), 107017, "funcHandle is no function");
  expect(launch(l.binary, 1, s.args(1)), 107017, "funcHandle is no function");
  expect(launch(add, 0, s.args(1)), 107000, "numBlocks is 0; accepted: 1 to 65535");
  expect(launch(add, 65536, s.args(1)), 107000, "numBlocks is 65536");
  expect(launch(add, 1, s.args(1), nullptr, l.binary), 100000, "stream: no stream");
  AddArgs args = s.args(1);
  const auto sized = [&](void* host, size_t size) {
    return aclrtLaunchKernelWithHostArgs(add, 1, nullptr, nullptr, host, size, nullptr, 0);
  };
  expect(sized(&args, 31), 107000, "argsSize is 31; accepted: 32, the 5 parameters of add");
  expect(sized(&args, 40), 107000, "argsSize is 40; accepted: 32");
  expect(sized(nullptr, 32), 100000, "hostArgs is null");
  args.z = &args;
  expect(sized(&args, 32), 107000, "add: argument 2 is 0x");
  {
    Device gone(256);
    args.z = gone.at;
  }
  expect(sized(&args, 32), 107000, "no memory of aclrtMalloc, or was freed");
  Handles h(add), other(l.get("fill"));
  expect(aclrtLaunchKernelWithConfig(add, 1, nullptr, nullptr, nullptr, nullptr), 107017, "argsHandle is none");
  expect(aclrtLaunchKernelWithConfig(add, 1, nullptr, nullptr, other.args, nullptr), 107000, "argsHandle is of fill");
  expect(aclrtLaunchKernelWithConfig(add, 1, nullptr, nullptr, h.args, &args), 100000, "reserve is not null");
}

CASE(statuses_of_arguments) {
  Loaded l(kernels());
  Handles h(l.get("add")), other(l.get("add"));
  void* value = nullptr;
  void* place = nullptr;
  expect(aclrtKernelArgsInit(nullptr, &place), 107017, "funcHandle is no function");
  expect(aclrtKernelArgsInit(l.get("add"), nullptr), 100000, "argsHandle is null");
  expect(aclrtKernelArgsAppend(l.binary, &value, 8, &place), 107017, "argsHandle is none");
  expect(aclrtKernelArgsAppend(h.args, nullptr, 8, &place), 100000, "param is null");
  expect(aclrtKernelArgsAppend(h.args, &value, 8, nullptr), 100000, "paramHandle is null");
  expect(aclrtKernelArgsAppendPlaceHolder(h.args, nullptr), 100000, "paramHandle is null");
  expect(aclrtKernelArgsFinalize(nullptr), 107017, "argsHandle is none");
  good(h.append(value)), good(other.append(value));
  expect(aclrtKernelArgsParaUpdate(h.args, other.params[0], &value, 8), 107017, "paramHandle is none of argsHandle");
  expect(aclrtKernelArgsParaUpdate(h.args, h.params[0], nullptr, 8), 100000, "param is null");
  expect(aclrtKernelArgsGetPlaceHolderBuffer(h.args, h.params[0], 8, nullptr), 100000, "bufferAddr is null");
}

CASE(unloaded_binaries) {
  aclrtBinHandle binary = nullptr;
  aclrtFuncHandle function = nullptr;
  good(aclrtBinaryLoadFromData(kernels().data(), kernels().size(), nullptr, &binary));
  good(aclrtBinaryGetFunction(binary, "add", &function));
  Handles h(function);
  good(h.append(binary));
  good(aclrtBinaryUnLoad(binary));
  expect(aclrtBinaryUnLoad(binary), 107017, "binHandle is none, or was unloaded");
  expect(aclrtBinaryGetFunction(binary, "add", &function), 107017, "binHandle is none, or was unloaded");
  expect(h.run(1), 107017, "funcHandle is no function, or its binary was unloaded");
  expect(h.append(binary), 107017, "argsHandle is none, or its binary was unloaded");
  expect(aclrtKernelArgsFinalize(h.args), 107017, "argsHandle is none");
}

CASE(statuses_of_loads) {
  aclrtBinHandle binary = &file;
  const auto load = [&](const void* data, size_t size) {
    return aclrtBinaryLoadFromData(data, size, nullptr, &binary);
  };
  expect(load(nullptr, 8), 100000, "data is (nil) with 8 bytes");
  expect_true(binary == nullptr, "a handle of a refused load");
  expect(load(kernels().data(), 0), 100000, "with 0 bytes");
  expect(aclrtBinaryLoadFromData(kernels().data(), 8, nullptr, nullptr), 100000, "binHandle is null");
  expect(aclrtBinaryLoadFromFile(nullptr, nullptr, &binary), 100000, "binPath is empty");
  expect(aclrtBinaryLoadFromFile("/no/such/file.o", nullptr, &binary), 100003, "/no/such/file.o cannot be read");
  expect(aclrtBinaryLoadFromFile("/", nullptr, &binary), 100003, "cannot be read");
  expect(aclrtBinaryLoadFromFile("/bin/sh", nullptr, &binary), 100003, "an ELF file of machine 0x");
  unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
  elf[18] = 0x29, elf[19] = 0x10;
  expect(load(elf, sizeof elf), 107000, "an ELF file of machine 0x1029, which is no kernel here");
  expect(load("text that is no binary at all", 30), 107000, "no binary of this package; accepted: what `ms-custom-ops");
  aclrtBinaryLoadOption given = {};
  aclrtBinaryLoadOptions options = {&given, 1};
  const auto with = [&](int type, uint32_t value) {
    given.type = aclrtBinaryLoadOptionType(type), given.value.magic = value;
    return aclrtBinaryLoadFromData(kernels().data(), kernels().size(), &options, &binary);
  };
  expect(with(1, 2), 107000, "option 0 is of type 1 with value 2");
  expect(with(2, 7), 107000, "option 0 is of type 2 with value 7");
  expect(with(3, 0), 207000, "a kernel for the AI CPU; accepted: kernels for the AI core");
  expect(with(4, 0), 107000, "option 0 is of type 4");
  options.options = nullptr;
  expect(with(1, 0), 100000, "options is null");
  Loaded l(kernels());
  aclrtFuncHandle function = nullptr;
  expect(aclrtBinaryGetFunction(l.binary, "sub", &function), 107000, "kernelName is 'sub'; accepted: add, fill, spin");
  expect(aclrtBinaryGetFunction(l.binary, nullptr, &function), 100000, "kernelName is null");
  expect(aclrtBinaryGetFunction(l.binary, "add", nullptr), 100000, "funcHandle is null");
  expect(aclrtGetFunctionName(l.get("add"), 3, nullptr), 100000, "name is null");
  char letters[4];
  expect(aclrtGetFunctionName(l.get("add"), 3, letters), 107000, "maxLen is 3; accepted: at least 4");
  expect(aclrtGetFunctionName(l.binary, 4, letters), 107017, "funcHandle is no function");
  expect(aclrtBinaryGetFunctionByEntry(l.binary, 0, &function), 207000, "reserved by the manual");
}

CASE(damaged_binaries) {
  const std::vector<char>& whole = kernels();
  aclrtBinHandle binary = nullptr;
  for (size_t size = 1; size < whole.size(); size += size < 200 ? 1 : 7919) {
    const std::vector<char> cut(whole.begin(), whole.begin() + long(size));  // its end is the end of its memory
    expect(aclrtBinaryLoadFromData(cut.data(), cut.size(), nullptr, &binary), 107000, "aclrtBinaryLoadFromData: ");
  }
  for (size_t at = 0; at < whole.size(); at += at < 200 ? 1 : 7919) {
    std::vector<char> changed = whole;
    changed[at] = char(changed[at] ^ 0x40);
    expect(aclrtBinaryLoadFromData(changed.data(), changed.size(), nullptr, &binary), 107000, "accepted: ");
  }
  std::vector<char> longer = whole;
  longer.push_back(0);
  expect(aclrtBinaryLoadFromData(longer.data(), longer.size(), nullptr, &binary), 107000, "that its header tells");
}

CASE(statuses_of_compilation) {
  aclrtcProg none = nullptr;
  size_t size = 0;
  const char* text[] = {"x"};
  const char* away[] = {"../x.h"};
  const char* empty[] = {nullptr};
  expect(aclrtcCreateProg(nullptr, "", "a", 0, nullptr, nullptr), 176000, "prog is null");
  expect(aclrtcCreateProg(&none, nullptr, "a", 0, nullptr, nullptr), 176001, "src is null");
  expect(aclrtcCreateProg(&none, "", "a", -1, nullptr, nullptr), 176001, "numHeaders is -1; accepted: 0 to 4096");
  expect(aclrtcCreateProg(&none, "", "a", 1, nullptr, text), 176001, "numHeaders is 1");
  expect(aclrtcCreateProg(&none, "", "a", 1, empty, text), 176001, "header 0 or its name is null");
  expect(aclrtcCreateProg(&none, "", "a", 1, text, away), 176001, "includeNames[0] is '../x.h'");
  expect(aclrtcCompileProg(none, 0, nullptr), 176000, "prog is none");
  expect(aclrtcGetBinDataSize(none, &size), 176000, "prog is none");
  expect(aclrtcDestroyProg(nullptr), 176000, "prog is null");
  expect(aclrtcDestroyProg(&none), 176000, "prog is none");
  Prog p("extern \"C\" __global__ __aicore__ void k(GM_ADDR x)\n{\n    nothing(x);\n}\n", "");
  char letter = 0;
  expect(aclrtcGetBinDataSize(p.prog, &size), 176000, "prog has no binary");
  expect(aclrtcGetBinData(p.prog, &letter), 176000, "prog has no binary");
  expect(aclrtcGetBinDataSize(p.prog, nullptr), 176001, "a null pointer");
  expect(aclrtcGetCompileLogSize(p.prog, nullptr), 176001, "a null pointer");
  expect(aclrtcGetCompileLog(p.prog, nullptr), 176001, "a null pointer");
  expect(aclrtcAddNameExpr(p.prog, nullptr), 176001, "nameExpression is empty");
  expect(aclrtcCompileProg(p.prog, -1, nullptr), 176001, "numOptions is -1");
  expect(aclrtcCompileProg(p.prog, 1, nullptr), 176001, "numOptions is 1");
  expect(aclrtcCompileProg(p.prog, 1, empty), 176001, "option 0 is null");
  expect(p.compile({"--what"}), 176002, "option is '--what'; accepted: --npu-arch=dav-2201 or dav-2002");
  expect_true(p.log().find("option is '--what'") == 0, "the log of an unknown option");
  expect(p.compile({"--npu-arch=dav-9999"}), 176002, "option is '--npu-arch=dav-9999'");
  expect(p.compile({"-I/no/such/folder"}), 176002, "option is '-I/no/such/folder'");
  expect(p.compile(), 176003, "default_program.cpp:3: ");
  expect_true(p.log().find("nothing") != std::string::npos, "the log of a wrong source");
  Prog without("int x;\n");
  expect(without.compile(), 176003, "a __global__ __aicore__ function");
}

CASE(options_of_compilation) {
  Prog p("#if !defined(USER_PARTS) || USER_PARTS != 2 || __NPU_ARCH__ != 2002\n#error wrong\n#endif\n"
         "extern \"C\" __global__ __aicore__ void k(GM_ADDR) {}\n", "options");
  expect(p.compile({"--npu-arch=dav-2002"}), 176003, "wrong");
  good(p.compile({"--npu-arch=dav-2002", "-DUSER_PARTS=2", "-O0", "-std=c++17", "-g", "-Wall"}));
  const Loaded l(p.binary());
  Device x(4);
  void* args[] = {x.at};
  good(aclrtLaunchKernelWithHostArgs(l.get("k"), 2, nullptr, nullptr, args, sizeof args, nullptr, 0));
}

}  // namespace
