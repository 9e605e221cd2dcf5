// SPDX-License-Identifier: Apache-2.0
// A kernel function as an entry of its library: its parameters are read off its type.
#pragma once

#include <cxxabi.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "mco/abi.h"
#include "mco/types.h"

namespace mco_asc {

template <class T>
constexpr mco_asc_argument argument_of() {
  using U = std::remove_cv_t<std::remove_reference_t<T>>;
  const char kind = std::is_pointer<U>::value            ? 'p'
                    : std::is_same<U, half>::value       ? 'h'
                    : std::is_same<U, bfloat16_t>::value ? 'b'
                    : std::is_floating_point<U>::value   ? 'f'
                    : std::is_unsigned<U>::value         ? 'u'
                    : std::is_integral<U>::value         ? 'i'
                    : std::is_enum<U>::value             ? 'i'
                                                         : 's';
  return {kind, uint32_t(sizeof(U))};
}

template <class T>
std::remove_cv_t<std::remove_reference_t<T>> value_of(const void* at) {
  std::remove_cv_t<std::remove_reference_t<T>> value;
  std::memcpy(static_cast<void*>(&value), at, sizeof value);
  return value;
}

template <class... A, size_t... I>
void call(void (*function)(A...), const void* const* args, std::index_sequence<I...>) {
  (void)args;
  function(value_of<A>(args[I])...);
}

// An exception ends the kernel, and not the process; the chip has none.
template <class... A>
void call(void (*function)(A...), const void* const* args) {
  char text[256] = "an exception leaves the kernel";
  try {
    call(function, args, std::index_sequence_for<A...>());
    return;
  } catch (const std::exception& thrown) {
    std::snprintf(text, sizeof text, "an exception leaves the kernel: %s", thrown.what());
  } catch (...) {
  }
  mco_asc_end("throw", text, nullptr);
}

template <class... A>
const mco_asc_entry_info* info_of(void (*)(A...), void (*entry)(const void* const*)) {
  static const mco_asc_argument arguments[sizeof...(A) + 1] = {argument_of<A>()..., {}};
  static const mco_asc_entry_info info = {MCO_ASC_ABI, sizeof...(A), arguments, entry, default_kind()};
  return &info;
}

// Throws what the C++ library throws, from the place of the call.
template <class E, class... A>
[[noreturn]] void throw_from(const void* at, A... text) {
  void* thrown = abi::__cxa_allocate_exception(sizeof(E));
  new (thrown) E(text...);
  mco_asc_throw(thrown, const_cast<std::type_info*>(&typeid(E)), [](void* e) { static_cast<E*>(e)->~E(); }, at);
}

}  // namespace mco_asc

// What would end the process ends the kernel: assert(), abort(), exit() and their like, and a throw says where it was.
#define MCO_ASC_ENDING(NAME, SYMBOL, PARAMETERS)                                                   \
  extern "C" void mco_asc_##NAME PARAMETERS __asm__(SYMBOL);                                       \
  extern "C" void mco_asc_##NAME PARAMETERS {                                                      \
    mco_asc_end(#NAME, "called by the kernel", __builtin_return_address(0));                       \
  }
// Containers throw by functions of the library, which do not know who called them.
#define MCO_ASC_THROWING(NAME, SYMBOL)                                                             \
  extern "C" [[noreturn]] void mco_asc_throw_##NAME(const char*) __asm__(SYMBOL);                  \
  extern "C" void mco_asc_throw_##NAME(const char* text) {                                         \
    mco_asc::throw_from<std::NAME>(__builtin_return_address(0), text);                             \
  }
#define MCO_ASC_THROWINGS                                                                          \
  extern "C" [[noreturn]] void mco_asc_throw_range(const char*, ...)                               \
      __asm__("_ZSt24__throw_out_of_range_fmtPKcz");                                               \
  extern "C" void mco_asc_throw_range(const char* format, ...) {                                   \
    char text[256];                                                                                \
    va_list values;                                                                                \
    va_start(values, format);                                                                      \
    std::vsnprintf(text, sizeof text, format, values);                                             \
    va_end(values);                                                                                \
    mco_asc::throw_from<std::out_of_range>(__builtin_return_address(0), text);                     \
  }                                                                                                \
  MCO_ASC_THROWING(out_of_range, "_ZSt20__throw_out_of_rangePKc")                                  \
  MCO_ASC_THROWING(length_error, "_ZSt20__throw_length_errorPKc")                                  \
  MCO_ASC_THROWING(logic_error, "_ZSt19__throw_logic_errorPKc")                                    \
  MCO_ASC_THROWING(invalid_argument, "_ZSt24__throw_invalid_argumentPKc")                          \
  MCO_ASC_THROWING(runtime_error, "_ZSt21__throw_runtime_errorPKc")                                \
  extern "C" [[noreturn]] void mco_asc_throw_bad_alloc() __asm__("_ZSt17__throw_bad_allocv");      \
  extern "C" void mco_asc_throw_bad_alloc() {                                                      \
    mco_asc::throw_from<std::bad_alloc>(__builtin_return_address(0));                              \
  }
#define MCO_ASC_ENDINGS                                                                            \
  extern "C" void mco_asc_assert(const char* what, const char* file, unsigned line,                \
                                 const char*) __asm__("__assert_fail");                            \
  extern "C" void mco_asc_assert(const char* what, const char* file, unsigned line, const char*) { \
    const mco_asc_where where = {"assert", file, line};                                            \
    mco_asc_fault(&where, "%s does not hold", what);                                               \
  }                                                                                                \
  extern "C" void mco_asc_thrown(void*, void*, void (*)(void*)) __asm__("__cxa_throw");            \
  extern "C" void mco_asc_thrown(void* thrown, void* type, void (*destroy)(void*)) {               \
    mco_asc_throw(thrown, type, destroy, __builtin_return_address(0));                             \
  }                                                                                                \
  MCO_ASC_ENDING(abort, "abort", ())                                                               \
  MCO_ASC_ENDING(terminate, "_ZSt9terminatev", ())                                                 \
  MCO_ASC_ENDING(exit, "exit", (int))                                                              \
  MCO_ASC_ENDING(_exit, "_exit", (int))                                                            \
  MCO_ASC_ENDING(_Exit, "_Exit", (int))                                                            \
  MCO_ASC_ENDING(quick_exit, "quick_exit", (int))

#define MCO_ASC_ENTRY(...)                                                                       \
  static void mco_asc_call_entry(const void* const* args) { mco_asc::call(&__VA_ARGS__, args); } \
  extern "C" MCO_ASC_API const mco_asc_entry_info* mco_asc_entry() {                             \
    return mco_asc::info_of(&__VA_ARGS__, mco_asc_call_entry);                                   \
  }                                                                                              \
  MCO_ASC_ENDINGS                                                                                \
  MCO_ASC_THROWINGS
