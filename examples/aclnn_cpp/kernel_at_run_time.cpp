// SPDX-License-Identifier: Apache-2.0
// An Ascend C kernel that is compiled at run time, launched on 8 blocks and compared.
#include <vector>

#include "acl/acl.h"
#include "acl/acl_rt_compile.h"
#include "helpers.h"

namespace {

constexpr uint32_t BLOCKS = 8, TOTAL = 16384;

const char* const SOURCE = R"(
#include "kernel_operator.h"

using namespace AscendC;

// Each block adds its part of x and y, through queues with two buffers.
extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total)
{
    const uint32_t part = total / GetBlockNum(), from = part * GetBlockIdx();
    GlobalTensor<half> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ half*)x + from, part);
    yGm.SetGlobalBuffer((__gm__ half*)y + from, part);
    zGm.SetGlobalBuffer((__gm__ half*)z + from, part);
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, 2 * TILE * sizeof(half));
    pipe.InitBuffer(out, 2, TILE * sizeof(half));
    for (uint32_t at = 0; at < part; at += TILE) {
        LocalTensor<half> both = in.AllocTensor<half>();
        DataCopy(both, xGm[at], TILE);
        DataCopy(both[TILE], yGm[at], TILE);
        in.EnQue(both);
        both = in.DeQue<half>();
        LocalTensor<half> sum = out.AllocTensor<half>();
        Add(sum, both, both[TILE], TILE);
        in.FreeTensor(both);
        out.EnQue(sum);
        sum = out.DeQue<half>();
        DataCopy(zGm[at], sum, TILE);
        out.FreeTensor(sum);
    }
}
)";

// The binary of SOURCE; what is wrong with it is printed.
std::vector<char> compiled() {
  aclrtcProg prog = nullptr;
  CHECK(aclrtcCreateProg(&prog, SOURCE, "add_custom.cpp", 0, nullptr, nullptr));
  const char* options[] = {"--npu-arch=dav-2201", "-DTILE=256"};
  if (aclrtcCompileProg(prog, 2, options) != ACL_SUCCESS) {
    size_t size = 0;
    CHECK(aclrtcGetCompileLogSize(prog, &size));
    std::vector<char> log(size);
    CHECK(aclrtcGetCompileLog(prog, log.data()));
    std::printf("%s\n", log.data());
    std::exit(1);
  }
  size_t size = 0;
  CHECK(aclrtcGetBinDataSize(prog, &size));
  std::vector<char> binary(size);
  CHECK(aclrtcGetBinData(prog, binary.data()));
  CHECK(aclrtcDestroyProg(&prog));
  return binary;
}

}  // namespace

int main() {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  const std::vector<char> code = compiled();
  aclrtBinHandle binary = nullptr;
  aclrtFuncHandle function = nullptr;
  CHECK(aclrtBinaryLoadFromData(code.data(), code.size(), nullptr, &binary));
  CHECK(aclrtBinaryGetFunction(binary, "add_custom", &function));

  Random random;
  std::vector<double> x = random.numbers(TOTAL), y = random.numbers(TOTAL), golden;
  const DeviceTensor on[] = {half_tensor(x, {TOTAL}), half_tensor(y, {TOTAL}), empty_half({TOTAL})};
  for (size_t i = 0; i < TOTAL; ++i) golden.push_back(x[i] + y[i]);

  aclrtArgsHandle args = nullptr;
  aclrtParamHandle param = nullptr;
  uint32_t total = TOTAL;
  CHECK(aclrtKernelArgsInit(function, &args));
  for (const DeviceTensor& each : on) {
    void* address = each.address;
    CHECK(aclrtKernelArgsAppend(args, &address, sizeof address, &param));
  }
  CHECK(aclrtKernelArgsAppend(args, &total, sizeof total, &param));
  CHECK(aclrtKernelArgsFinalize(args));
  CHECK(aclrtLaunchKernelWithConfig(function, BLOCKS, stream, nullptr, args, nullptr));
  CHECK(aclrtSynchronizeStream(stream));

  const bool good = close("z", halves(on[2]), golden, 1e-3);
  destroy({on[0], on[1], on[2]});
  CHECK(aclrtBinaryUnLoad(binary));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  std::printf(good ? "all good\n" : "WRONG\n");
  return good ? 0 : 1;
}
