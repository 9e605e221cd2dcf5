// SPDX-License-Identifier: Apache-2.0
// Launches from a program of a user's own: ICPU_RUN_KF, kernel<<<...>>>, ACLRT_LAUNCH_KERNEL.
#pragma once

#include "kernel_operator.h"
#include "mco/entry.h"

namespace mco_asc {

// The first value is the function itself.
template <class... A>
void call_with_function(const void* const* args) {
  void (*function)(A...);
  std::memcpy(&function, args[0], sizeof function);
  call(function, args + 1);
}

// Pointers of a program are those of the kernel, whatever they point to.
template <class To, class From>
inline To launch_value(From value) {
  if constexpr (std::is_pointer<To>::value && std::is_pointer<From>::value) {
    return reinterpret_cast<To>(const_cast<void*>(static_cast<const void*>(value)));
  } else if constexpr (std::is_pointer<To>::value && std::is_null_pointer<From>::value) {
    return nullptr;
  } else {
    return To(value);
  }
}
// What <<<>>> takes for a parameter: what C++ takes, and a void* for any pointer.
template <class To, class From>
constexpr bool launches_as() {
  using Bare = std::remove_reference_t<From>;
  return std::is_convertible<From, To>::value ||
         (std::is_pointer<To>::value && std::is_same<std::remove_cv_t<Bare>, void*>::value);
}

template <class F>
class Launcher;
template <class... A>
class Launcher<void (*)(A...)> {
 public:
  Launcher(void (*function)(A...), int64_t blocks) : function_(function), blocks_(blocks) {}
  void operator()(A... values) const {
    const void* args[] = {&function_, static_cast<const void*>(&values)...};
    mco_asc_run_alone(&call_with_function<A...>, args, blocks_, default_kind(), __NPU_ARCH__);
  }
  template <class... V, std::enable_if_t<sizeof...(V) == sizeof...(A) && !(std::is_convertible<V, A>::value && ...) &&
                                             (launches_as<A, V>() && ...),
                                         int> = 0>
  void operator()(V&&... values) const {
    (*this)(launch_value<A>(values)...);
  }

 private:
  void (*function_)(A...);
  int64_t blocks_;
};

template <class... A>
inline Launcher<void (*)(A...)> launcher(void (*function)(A...), int64_t blocks) {
  return {function, blocks};
}

}  // namespace mco_asc

// The other numbers of a launch are the use of the L2 cache, or memory, and the stream: a launch here is done when it
// returns.
#define MCO_ASC_LAUNCH(kernel, blocks, ...) mco_asc::launcher(kernel, blocks)
#define ICPU_RUN_KF(kernel, blocks, ...) mco_asc::launcher(&kernel, blocks)(__VA_ARGS__)
#define ICPU_SET_TILING_KEY(key) mco_asc_set_tiling_key(uint64_t(key))
#define ACLRT_LAUNCH_KERNEL(kernel) \
  [](uint32_t mco_blocks, void*, auto... mco_values) { mco_asc::launch_as(&kernel, mco_blocks, mco_values...); }

namespace mco_asc {

template <class... A, class... V>
inline void launch_as(void (*function)(A...), int64_t blocks, V... values) {
  static_assert(sizeof...(A) == sizeof...(V), "ACLRT_LAUNCH_KERNEL: another number of arguments than the kernel takes");
  launcher(function, blocks)(launch_value<A>(values)...);
}

}  // namespace mco_asc

namespace AscendC {

inline void* GmAlloc(size_t bytes) { return mco_asc_gm_alloc(bytes); }
inline void GmFree(void* memory) { mco_asc_gm_free(memory); }
inline void SetKernelMode(KernelMode mode) { mco_asc_set_kernel_mode(int(mode)); }

}  // namespace AscendC

using AscendC::KernelMode;
