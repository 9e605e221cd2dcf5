// SPDX-License-Identifier: Apache-2.0
// Executors, workspaces, memory, views.
#include "harness.h"

namespace {

struct Ready : Call {
  Ready() {
    make();
    good(first());
    take_workspace();
  }
};

CASE(executor_null) {
  Ready c;
  c.executor = nullptr;
  c.second_refused(161001, "executor is null");
}

CASE(executor_used) {
  Ready c;
  good(c.second());
  c.second_refused(361001, "executor is used already, destroyed, or none");
}

CASE(executor_of_another_op) {
  Ready c;
  expect(aclnnDacsSegsum(c.workspace, c.size, c.executor, nullptr), 361001, "executor is of SparseFlashAttentionGrad");
  good(c.second());
}

CASE(executor_that_is_none) {
  Ready c;
  int local = 0;
  c.executor = reinterpret_cast<aclOpExecutor*>(&local);
  c.second_refused(361001, "executor is used already, destroyed, or none");
  c.executor = reinterpret_cast<aclOpExecutor*>(c.t["query"].handle);
  c.second_refused(361001, "executor is used already, destroyed, or none");
}

CASE(executor_destroyed) {
  Ready c;
  good(aclDestroyAclOpExecutor(c.executor));
  c.second_refused(361001, "executor is used already, destroyed, or none");
  expect(aclDestroyAclOpExecutor(c.executor), 361001, "used already, destroyed");
}

CASE(executor_of_two_threads) {
  Ready c;
  aclrtContext context = nullptr;
  good(aclrtGetCurrentContext(&context));
  int codes[2] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      aclrtSetCurrentContext(context);
      codes[i] = c.second();
    });
  }
  for (std::thread& each : threads) each.join();
  expect_true((codes[0] == 0 && codes[1] == 361001) || (codes[1] == 0 && codes[0] == 361001),
              "one of two threads runs it");
}

CASE(threads_side_by_side) {
  const auto wanted = Call().run();
  aclrtContext context = nullptr;
  good(aclrtGetCurrentContext(&context));
  std::vector<std::string> wrongs(4);
  std::vector<std::thread> threads;
  for (std::string& told : wrongs) {
    threads.emplace_back([&told, &wanted, context] {
      try {
        good(aclrtSetCurrentContext(context));
        for (int i = 0; i < 20; ++i) expect_true(Call().run() == wanted, "outputs of a thread differ");
      } catch (const std::exception& error) {
        told = error.what();
      }
    });
  }
  for (std::thread& each : threads) each.join();
  for (const std::string& told : wrongs) expect_true(told.empty(), told.c_str());
}

CASE(executor_repeatable) {
  Ready c;
  good(aclSetAclOpExecutorRepeatable(c.executor));
  good(c.second());
  const auto once = c.outputs();
  for (const char* name : kOutputs) good(aclrtMemset(c.t[name].address, c.t[name].size, 0, c.t[name].size));
  good(c.second());
  expect_true(c.outputs() == once, "the second run differs");
  good(aclDestroyAclOpExecutor(c.executor));
}

CASE(executor_with_other_addresses) {
  Call expected;
  expected.t["query"].bytes = halves(3 * 8 * 16, 77);
  const auto wanted = expected.run();
  Ready c;
  good(aclSetAclOpExecutorRepeatable(c.executor));
  good(aclSetInputTensorAddr(c.executor, 0, c.t["query"].handle, expected.t["query"].address));
  good(aclSetOutputTensorAddr(c.executor, 1, c.t["dKey"].handle, expected.t["dKey"].address));
  good(aclrtMemset(expected.t["dKey"].address, expected.t["dKey"].size, 0, expected.t["dKey"].size));
  good(c.second());
  expect_true(expected.t["dKey"].content() == wanted.at("dKey"), "the output has another address");
  expect(aclSetInputTensorAddr(c.executor, 99, c.t["query"].handle, c.t["query"].address), 161002, "index is 99");
  expect(aclSetInputTensorAddr(c.executor, 1, c.t["query"].handle, c.t["query"].address), 161002,
         "another shape or dtype");
  expect(aclSetDynamicInputTensorAddr(c.executor, 0, 0, nullptr, nullptr), 161001,
         "a null pointer; accepted: a tensor");
  const aclTensor* const one[] = {c.t["query"].handle};
  aclTensorList* list = aclCreateTensorList(one, 1);
  expect(aclSetDynamicInputTensorAddr(c.executor, 0, 0, list, c.t["query"].address), 161002,
         "is one tensor; accepted: those without Dynamic");
}

CASE(workspace_a_byte_short) {
  Ready c;
  const uint64_t need = c.size;
  c.size = need - 1;
  c.second_refused(361001, "workspace_size is");
  void* small = nullptr;
  good(aclrtMalloc(&small, need - 1, ACL_MEM_MALLOC_HUGE_FIRST));
  std::swap(small, c.workspace);
  c.size = need;
  c.second_refused(361001, "of aclrtMalloc that were not freed");
  std::swap(small, c.workspace);
  good(aclrtFree(small));
  good(c.second());  // a refused run leaves the executor
}

CASE(workspace_null_or_freed) {
  Ready c;
  void* kept = c.workspace;
  c.workspace = nullptr;
  c.second_refused(361001, "workspace is");
  c.workspace = kept;
  good(aclrtFree(c.workspace));
  c.second_refused(361001, "of aclrtMalloc that were not freed");
  c.workspace = nullptr;
}

CASE(memory_of_a_tensor_freed) {
  Ready c;
  good(aclrtFree(c.t["key"].address));
  c.t["key"].address = nullptr;
  c.second_refused(361001, "memory of key is");
}

CASE(memory_of_the_host) {
  Call c;
  c.make();
  std::vector<unsigned char> host(c.t["dValue"].size);
  const Shape shape = c.t["dValue"].shape, strides = row_strides(shape);
  aclDestroyTensor(c.t["dValue"].handle);
  c.t["dValue"].handle = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT16, strides.data(), 0, ACL_FORMAT_ND,
                                         shape.data(), shape.size(), host.data());
  good(c.first());
  c.take_workspace();
  c.second_refused(361001, "memory of d_value is");
}

CASE(memory_that_is_too_small) {
  Call c;
  c.make();
  const Shape shape = c.t["dKey"].shape, strides = row_strides(shape);
  aclDestroyTensor(c.t["dKey"].handle);
  char* late = static_cast<char*>(c.t["dKey"].address) + 2;
  c.t["dKey"].handle = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT16, strides.data(), 0, ACL_FORMAT_ND,
                                       shape.data(), shape.size(), late);
  good(c.first());
  c.take_workspace();
  c.second_refused(361001, "memory of d_key is");
}

CASE(tensors_may_go_after_the_first_phase) {
  Ready c;
  const auto wanted = Call().run();
  for (auto& entry : c.t) {
    if (entry.second.handle) good(aclDestroyTensor(entry.second.handle));
    entry.second.handle = nullptr;
  }
  good(c.second());
  expect_true(c.outputs() == wanted, "the outputs differ");
}

CASE(strided_outputs_and_inputs_of_v2) {
  Call plain, c;
  plain.v2 = c.v2 = true;
  const auto wanted = plain.run();
  c.t["dKey"].strides = {24, 24, 1};  // rows of 16 with 8 between
  c.t["dKey"].offset = 3;
  c.t["dKey"].behind = 2;
  c.t["key"].strides = {1, 1, 20};  // transposed
  std::vector<unsigned char> transposed(20 * 16 * 2);
  for (int j = 0; j < 20; ++j) {
    for (int d = 0; d < 16; ++d) std::memcpy(&transposed[(d * 20 + j) * 2], &plain.t["key"].bytes[(j * 16 + d) * 2], 2);
  }
  c.t["key"].bytes = transposed;
  const auto out = c.run();
  std::vector<unsigned char> rows, between;
  const auto& raw = out.at("dKey");
  for (size_t at = 0; at < raw.size() / 2; ++at) {
    const bool inside = at >= 3 && (at - 3) % 24 < 16 && (at - 3) / 24 < 20;
    auto& side = inside ? rows : between;
    side.insert(side.end(), &raw[at * 2], &raw[at * 2] + 2);
  }
  expect_true(rows == wanted.at("dKey"), "the rows of a strided output");
  expect_true(between == std::vector<unsigned char>(between.size(), 0x11), "what lies between the rows was written");
  expect_true(out.at("dQuery") == wanted.at("dQuery"), "dQuery of a transposed key");
}

CASE(outputs_on_inputs) {
  Call plain;
  const auto wanted = plain.run();
  Call c;
  c.make();
  const Shape shape = c.t["dKey"].shape, strides = row_strides(shape);
  aclDestroyTensor(c.t["dKey"].handle);
  c.t["dKey"].handle = aclCreateTensor(shape.data(), 3, ACL_FLOAT16, strides.data(), 0, ACL_FORMAT_ND, shape.data(), 3,
                                       c.t["key"].address);
  good(c.first());
  c.take_workspace();
  good(c.second());
  expect_true(c.t["key"].content() == wanted.at("dKey"), "an output on the memory of an input");
}

CASE(views_that_are_none) {
  const int64_t shape[] = {2, 3}, strides[] = {3, 1}, negative[] = {-1, 1}, small[] = {5};
  char memory[64];
  const auto none = [&](const aclTensor* tensor, const char* part) {
    expect_true(tensor == nullptr, "a tensor was made");
    const std::string text = recent();
    expect_true(text.find(part) != std::string::npos, text.c_str());
  };
  none(aclCreateTensor(shape, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, small, 1, memory), "reaches element 5");
  none(aclCreateTensor(shape, 2, ACL_FLOAT, negative, 0, ACL_FORMAT_ND, shape, 2, memory), "stride is -1");
  none(aclCreateTensor(negative, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 2, memory), "has the size -1");
  none(aclCreateTensor(shape, 2, ACL_FLOAT, strides, -1, ACL_FORMAT_ND, shape, 2, memory), "offset is -1");
  none(aclCreateTensor(shape, 99, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 2, memory), "rank 99");
  none(aclCreateTensor(nullptr, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 2, memory), "viewDims is null");
  none(aclCreateTensor(shape, 2, static_cast<aclDataType>(99), strides, 0, ACL_FORMAT_ND, shape, 2, memory),
       "dataType 99");
  const int64_t huge[] = {int64_t(1) << 40, int64_t(1) << 40};
  none(aclCreateTensor(huge, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, memory), "that no memory holds");
}

CASE(what_a_tensor_is) {
  const int64_t shape[] = {2, 3}, strides[] = {4, 1}, storage[] = {20};
  aclTensor* tensor = aclCreateTensor(shape, 2, ACL_BF16, strides, 5, ACL_FORMAT_NCL, storage, 1, nullptr);
  int64_t *dims = nullptr, offset = 0;
  uint64_t count = 0;
  good(aclGetViewShape(tensor, &dims, &count));
  expect_true(count == 2 && dims[0] == 2 && dims[1] == 3, "view shape");
  delete[] dims;
  good(aclGetViewStrides(tensor, &dims, &count));
  expect_true(count == 2 && dims[0] == 4 && dims[1] == 1, "strides");
  delete[] dims;
  good(aclGetStorageShape(tensor, &dims, &count));
  expect_true(count == 1 && dims[0] == 20, "storage shape");
  delete[] dims;
  aclFormat format = ACL_FORMAT_ND;
  aclDataType dtype = ACL_FLOAT;
  good(aclGetViewOffset(tensor, &offset));
  good(aclGetFormat(tensor, &format));
  good(aclGetDataType(tensor, &dtype));
  expect_true(offset == 5 && format == ACL_FORMAT_NCL && dtype == ACL_BF16, "offset, format, dtype");
  expect(aclGetDataType(nullptr, &dtype), 161001, "null pointer");
  good(aclDestroyTensor(tensor));
  expect(aclGetDataType(tensor, &dtype), 161002, "destroyed");
  expect(aclDestroyTensor(tensor), 161002, "destroyed before");
  good(aclDestroyTensor(nullptr));
}

CASE(scalars_arrays_lists) {
  float value = 2.5f;
  const int64_t numbers[] = {1, 2, 3};
  const float floats[] = {1, 2};
  const bool flags[] = {true};
  aclScalar* scalar = aclCreateScalar(&value, ACL_FLOAT);
  aclIntArray* ints = aclCreateIntArray(numbers, 3);
  aclFloatArray* reals = aclCreateFloatArray(floats, 2);
  aclBoolArray* bools = aclCreateBoolArray(flags, 1);
  uint64_t size = 0;
  good(aclGetIntArraySize(ints, &size));
  expect_true(size == 3, "size of an aclIntArray");
  good(aclGetFloatArraySize(reals, &size));
  expect_true(size == 2, "size of an aclFloatArray");
  good(aclGetBoolArraySize(bools, &size));
  expect_true(size == 1, "size of an aclBoolArray");
  expect_true(!aclCreateScalar(nullptr, ACL_FLOAT) && !aclCreateIntArray(nullptr, 2), "made of null");
  const aclScalar* scalars[] = {scalar};
  aclScalarList* list = aclCreateScalarList(scalars, 1);
  good(aclGetScalarListSize(list, &size));
  good(aclDestroyScalarList(list));
  expect(aclDestroyScalar(scalar), 161002, "destroyed before");  // its list owned it
  const int64_t shape[] = {2};
  const aclTensor* tensors[] = {aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr)};
  aclTensorList* views = aclCreateTensorList(tensors, 1);
  good(aclGetTensorListSize(views, &size));
  expect_true(size == 1, "size of a list");
  good(aclDestroyTensorList(views));
  expect(aclDestroyTensor(tensors[0]), 161002, "destroyed before");
  expect(aclDestroyIntArray(reinterpret_cast<aclIntArray*>(reals)), 161002, "none of this library's");
  good(aclDestroyIntArray(ints));
  good(aclDestroyFloatArray(reals));
  good(aclDestroyBoolArray(bools));
}

CASE(only_what_changes_form_is_copied) {
  Call c;
  c.make();
  good(c.first());
  c.take_workspace();
  const uint64_t before = aclmcoCopiedBytes();
  good(c.second());
  // Sums of the keys are rounded from float32 and put into the outputs; statistics of 8 heads get 16; lengths a block.
  const uint64_t keys = 3 * 2 * 20 * 16 * 2, statistics = 2 * 3 * 16 * 4, lengths = 2 * 8 * 4;
  expect_true(aclmcoCopiedBytes() - before == keys + statistics + lengths, "bytes that were copied");
}

}  // namespace
