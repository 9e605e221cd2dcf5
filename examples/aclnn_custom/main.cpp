// SPDX-License-Identifier: Apache-2.0
// Calls AddCustom of libcust_opapi.so and compares every number.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnn_add_custom.h"

#define CHECK(call)                                                                              \
    do {                                                                                         \
        const int status = (call);                                                               \
        if (status != 0) {                                                                       \
            const char* text = aclGetRecentErrMsg();                                             \
            std::printf("%s: status %d: %s\n", #call, status, text == nullptr ? "" : text);      \
            return 1;                                                                            \
        }                                                                                        \
    } while (0)

int main()
{
    const std::vector<int64_t> shape = {3, 5, 333};
    const int64_t count = 3 * 5 * 333;
    const size_t bytes = count * sizeof(aclFloat16);
    std::vector<aclFloat16> x(count), y(count), z(count);
    for (int64_t i = 0; i < count; ++i) {
        x[i] = aclFloatToFloat16(static_cast<float>(i % 97) / 8);
        y[i] = aclFloatToFloat16(static_cast<float>(i % 31) - 15);
    }

    aclrtContext context = nullptr;
    aclrtStream stream = nullptr;
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateContext(&context, 0));
    CHECK(aclrtCreateStream(&stream));

    void* memory[3] = {};
    aclTensor* tensor[3] = {};
    const aclFloat16* host[2] = {x.data(), y.data()};
    for (int i = 0; i < 3; ++i) {
        CHECK(aclrtMalloc(&memory[i], bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        if (i < 2) {
            CHECK(aclrtMemcpy(memory[i], bytes, host[i], bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        }
        tensor[i] = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                                    shape.size(), memory[i]);
    }

    uint64_t workspaceSize = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnAddCustomGetWorkspaceSize(tensor[0], tensor[1], tensor[2], &workspaceSize, &executor));
    void* workspace = nullptr;
    if (workspaceSize > 0) {
        CHECK(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    CHECK(aclnnAddCustom(workspace, workspaceSize, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(z.data(), bytes, memory[2], bytes, ACL_MEMCPY_DEVICE_TO_HOST));

    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
        wrong += z[i] != aclFloatToFloat16(aclFloat16ToFloat(x[i]) + aclFloat16ToFloat(y[i]));
    }
    std::printf("%lld of %lld numbers are wrong\n", static_cast<long long>(wrong), static_cast<long long>(count));

    for (int i = 0; i < 3; ++i) {
        CHECK(aclDestroyTensor(tensor[i]));
        CHECK(aclrtFree(memory[i]));
    }
    if (workspace != nullptr) {
        CHECK(aclrtFree(workspace));
    }
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtDestroyContext(context));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return wrong == 0 ? 0 : 1;
}
