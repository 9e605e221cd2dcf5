// SPDX-License-Identifier: Apache-2.0
// Random argument sets against a project's own libcust_opapi.so. fuzz_custom SETS SEED LIBRARY
#include <dlfcn.h>

#include <deque>

#include "random_arguments.h"

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

namespace {

void* library = nullptr;

template <class F>
F function(const std::string& name) {
  void* found = dlsym(library, name.c_str());
  if (!found) wrong("no " + name);
  return reinterpret_cast<F>(found);
}

using Second = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
const Shape kShapes[] = {{41}, {41}, {41}, {3, 41}, {8}, {0}, {1, 1}};

// What a call is given, alive until its end.
struct Given {
  std::deque<Tensor> tensors;
  std::vector<aclTensorList*> lists;
  std::vector<aclIntArray*> arrays;
  std::vector<void*> addresses;
  void* workspace = nullptr;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;

  ~Given() {
    for (aclTensorList* list : lists) aclDestroyTensorList(list);
    for (aclIntArray* array : arrays) aclDestroyIntArray(array);
    for (Tensor& tensor : tensors) {
      if (!lists.empty()) tensor.handle = nullptr;  // the list took it along
      tensor.release();
    }
    if (workspace) aclrtFree(workspace);
  }
  Tensor& made(const Shape& shape, bool wrong_one) {
    Tensor& tensor = tensors.emplace_back();
    tensor.shape = shape, tensor.dtype = ACL_FLOAT;
    if (wrong_one) change_tensor(tensor);
    tensor.make();
    return tensor;
  }
  // A tensor, at times none, or what is none.
  aclTensor* tensor(const Shape& shape, int64_t wrongs) {
    aclTensor* handle = made(shape, below(6) < wrongs).handle;
    if (below(40) == 0) return reinterpret_cast<aclTensor*>(integers({1}));
    if (below(40) == 0 && handle) aclDestroyTensor(handle);
    return handle;
  }
  aclIntArray* integers(const std::vector<int64_t>& values) {
    arrays.push_back(aclCreateIntArray(values.data(), values.size()));
    return arrays.back();
  }
  aclTensorList* list(int64_t wrongs) {
    std::vector<const aclTensor*> items;
    for (int64_t n = below(5) ? 1 + below(4) : below(260); n > 0; --n) {
      items.push_back(made(one_of(kShapes), below(12) < wrongs).handle);
      if (n > 8 && below(4)) break;
    }
    lists.push_back(aclCreateTensorList(items.data(), items.size()));
    return lists.back();
  }
};

int second_phase(Given& g, const std::string& name) {
  if (g.size) good(aclrtMalloc(&g.workspace, g.size, ACL_MEM_MALLOC_HUGE_FIRST));
  switch (below(10)) {
    case 0:
      g.size = g.size ? g.size - 1 : 0;
      break;
    case 1:
      g.executor = reinterpret_cast<aclOpExecutor*>(random_bits());
      break;
    case 2:
      if (!g.tensors.empty() && g.tensors[0].address) aclrtFree(g.tensors[0].address), g.tensors[0].address = nullptr;
      break;
    case 3: {
      aclTensorList* list = g.lists.empty() ? nullptr : g.lists[0];
      void* address = g.tensors.empty() ? nullptr : g.tensors.back().address;
      known(aclSetDynamicInputTensorAddr(g.executor, size_t(below(3)), size_t(below(6)), list, address));
      known(aclSetDynamicTensorAddr(g.executor, size_t(below(3)), size_t(below(6)), list, address));
      break;
    }
    case 4:
      known(aclSetInputTensorAddr(g.executor, size_t(below(4)), g.tensors[0].handle, g.tensors.back().address));
      break;
    case 5:
      aclDestroyAclOpExecutor(g.executor);
      break;
    case 6:
      aclSetAclOpExecutorRepeatable(g.executor);
      break;
    default:
      break;
  }
  int status = 0;
  for (int64_t n = 1 + below(2); n > 0; --n) {
    status = known(function<Second>("aclnn" + name)(g.workspace, g.size, g.executor, nullptr));
  }
  return status;
}

int first_phase(Given& g, const std::string& name) {
  using Two = const aclTensor*;
  const std::string first = "aclnn" + name + "GetWorkspaceSize";
  const Shape shape = one_of(kShapes);
  const int64_t wrongs = below(2);
  uint64_t* size = below(50) ? &g.size : nullptr;
  aclOpExecutor** executor = &g.executor;
  if (name == "ScaleAdd") {
    aclTensor *x = g.tensor(shape, wrongs), *y = g.tensor(shape, wrongs), *z = g.tensor(shape, wrongs);
    aclTensor* bias = below(2) ? g.tensor(shape, wrongs) : nullptr;
    const double scales[] = {0.5, NAN, INFINITY, -1e300, 0};
    return known(function<aclnnStatus (*)(Two, Two, Two, double, Two, uint64_t*, aclOpExecutor**)>(first)(
        x, y, bias, one_of(scales), z, size, executor));
  }
  if (name == "AddInto") {
    aclTensor *acc = g.tensor(shape, wrongs), *x = g.tensor(shape, wrongs);
    return known(function<aclnnStatus (*)(Two, Two, uint64_t*, aclOpExecutor**)>(first)(acc, x, size, executor));
  }
  if (name == "TakeFirst") {
    aclTensor *x = g.tensor(shape, wrongs), *y = g.tensor(shape, wrongs);
    int64_t most = 1;  // the kernel writes as many as it is told to, by a pointer of its own
    for (int64_t n : g.tensors[0].shape) most *= n;
    std::vector<int64_t> counts = {below(most + 1)};
    if (below(10) == 0) counts.resize(size_t(1 + below(3)), 0);
    const aclIntArray* count = below(20) ? g.integers(counts) : reinterpret_cast<const aclIntArray*>(x);
    return known(function<aclnnStatus (*)(Two, const aclIntArray*, Two, uint64_t*, aclOpExecutor**)>(first)(
        x, below(20) ? count : nullptr, y, size, executor));
  }
  if (name == "Fails") {
    aclTensor *x = g.tensor(shape, wrongs), *y = g.tensor(shape, wrongs);
    const std::string ways[] = {"status", "divide", "null", "throw", "abort", "large", one_of(kTexts)};
    std::string how = one_of(ways);
    return known(function<aclnnStatus (*)(Two, char*, Two, uint64_t*, aclOpExecutor**)>(first)(
        x, below(5) ? &how[0] : nullptr, y, size, executor));
  }
  aclTensorList *x = g.list(wrongs), *y = below(3) ? g.list(wrongs) : x;
  if (below(20) == 0) x = reinterpret_cast<aclTensorList*>(g.integers({1, 2}));
  return known(function<aclnnStatus (*)(const aclTensorList*, double, const aclTensorList*, uint64_t*,
                                        aclOpExecutor**)>(first)(below(20) ? x : nullptr, 1.5, y, size, executor));
}

int call() {
  const std::string names[] = {"ScaleAdd", "AddInto", "TakeFirst", "Fails", "ScaleAll"};
  const std::string name = one_of(names);
  Given g;
  try {
    const int status = first_phase(g, name);
    if (status) return status;
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()).find("aclCreateTensor") == std::string::npos) throw;
    return -1;  // no view: refused already
  }
  return second_phase(g, name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  state = std::strtoull(argv[2], nullptr, 10);
  library = dlopen(argv[3], RTLD_NOW);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  good(aclInit(nullptr));
  good(aclrtSetDevice(0));
  std::map<int, int> counts;
  int done = 0;
  try {
    for (; done < std::atoi(argv[1]); ++done) ++counts[call()];
  } catch (const std::exception& error) {
    std::printf("set %d: %s\n", done, error.what());
    return 1;
  }
  for (const auto& entry : counts) std::printf("%d: %d\n", entry.first, entry.second);
  good(aclrtResetDevice(0));
  good(aclFinalize());
  return 0;
}
