// SPDX-License-Identifier: Apache-2.0
// The SIMD level in use: the best one the processor has, unless another one was asked for.
#include <atomic>
#include <cstring>

#include "simd/neon_level.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mco {

namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a, b, c = 0, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

const Kernels* level(const char* name) {
  if (!std::strcmp(name, "generic")) return generic_kernels();
  if (!std::strcmp(name, "avx2")) return has_avx2() ? avx2_kernels() : nullptr;
  if (!std::strcmp(name, "avx512")) return has_avx512() ? avx512_kernels() : nullptr;
  if (!std::strcmp(name, "neon")) return neon_kernels();
  return nullptr;
}

const Kernels* best() {
  for (const char* name : {"avx512", "avx2", "neon"}) {
    if (const Kernels* k = level(name)) return k;
  }
  return generic_kernels();
}

std::atomic<const Kernels*> current{nullptr};

}  // namespace

const Kernels& kernels() {
  const Kernels* k = current.load(std::memory_order_acquire);
  if (!k) {
    k = best();
    const Kernels* none = nullptr;
    if (!current.compare_exchange_strong(none, k)) k = none;
  }
  return *k;
}

const char* kernel_level() { return kernels().name; }

bool set_kernel_level(const char* name, std::string& error) {
  const bool automatic = name && !std::strcmp(name, "auto");
  const Kernels* k = !name ? nullptr : automatic ? best() : level(name);
  if (!k) {
    std::string here = "auto, generic";
    for (const char* other : {"avx2", "avx512", "neon"}) {
      if (level(other)) here += std::string(", ") + other;
    }
    error = std::string("set_isa: isa is ") + (name ? name : "null") + "; accepted on this machine: " + here;
    return false;
  }
  current.store(k, std::memory_order_release);
  return true;
}

}  // namespace mco
